//! Orders of other members: what they do here, and their answers.

use mpd_jobtable::{JobTable, Line, ManagerMessage};
use mpd_ring::{Input as RingInput, Sender};
use mpd_wire::JobId;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{
    HostUse, JobOrder, JobRef, Launch, ManagerOrder, OrderAnswer, Payload, RingOrder, RunUse,
    ScatterId,
};

use crate::draining::BY_ROOT;
use crate::effect::Farewell;
use crate::member::{Member, Step, Turn};
use crate::output::{Output, RingAction};
use crate::request::{payload_of, read_payload};
use crate::{launch, names};

impl Member {
    /// Carries out an order that arrived by scatter. Returns the answer; `None`: it follows.
    pub(crate) fn delivered(
        &mut self,
        turn: Turn<'_>,
        id: ScatterId,
        payload: &Payload,
        hops: u32,
        sender: Option<&Sender>,
    ) -> Option<OrderAnswer> {
        let order = match read_payload(payload) {
            Ok(order) => order,
            Err(e) => {
                let from = sender.map_or(self.ring().name().to_string(), |sender| {
                    format!("{} ({})", sender.name, sender.at)
                });
                let why = format_args!("refused an order from {from}: it cannot be decoded: {e}");
                let lines = self.journal.refused(turn.now, why);
                self.log_all(lines);
                return Some(OrderAnswer::Unknown);
            }
        };
        // Messages about slots and orders for events are many, and the log has the requests.
        if let Some(sender) = sender
            && !matches!(order, RingOrder::Slots(_) | RingOrder::JobEvents { .. })
        {
            let lines = self.journal.ordered(turn.now, sender, &order);
            self.log_all(lines);
        }
        match order {
            RingOrder::JobEvents { job, from } => {
                self.kept_events.ordered(turn.now, turn.jobs, id, &job, from)
            }
            RingOrder::FindJob { .. } | RingOrder::PassToJob { .. } => {
                Some(self.meet(turn, sender, order))
            }
            RingOrder::ManagerEnded { job, end } => {
                Some(self.manager_ended(turn.jobs, sender, job, end))
            }
            RingOrder::Slots(payload) => {
                let own = self.pump.machine().name();
                let from = sender.map_or(own, |sender| &sender.origin);
                let ranks = turn.jobs.ranks_without_allocation();
                let (answer, line) = self.allocations.ordered(turn.now, ranks, own, from, &payload);
                self.log_all(line);
                Some(answer)
            }
            RingOrder::Load => {
                self.act(RingAction::Measure { order: id, page: None });
                None
            }
            RingOrder::Top { page } => {
                // The managers count output for the next request.
                self.steps.extend((page == 0).then_some(Step::CountOutput));
                self.act(RingAction::Measure { order: id, page: Some(page) });
                None
            }
            RingOrder::Launch(launch) => self.launch(id, launch),
            _ => Some(self.execute(turn, order, hops)),
        }
    }

    /// Performs an order for a root manager here, from a job whose ranks meet those of its job.
    fn meet(&mut self, turn: Turn<'_>, sender: Option<&Sender>, order: RingOrder) -> OrderAnswer {
        let origin = sender.map_or_else(|| self.ring().name(), |sender| &sender.origin);
        match self.meetings.carry_out(turn.jobs, origin, order) {
            Ok((answer, manager_message)) => {
                manager_message.into_iter().for_each(|message| self.report(message));
                answer
            }
            Err(why) => {
                let lines = self.journal.refused(turn.now, format_args!("refused an order: {why}"));
                self.log_all(lines);
                OrderAnswer::NoSuchJob
            }
        }
    }

    /// Sends the root manager of a job here how the manager on the sender's host ended. A member speaks for its own host
    /// alone.
    fn manager_ended(
        &mut self,
        jobs: &JobTable,
        sender: Option<&Sender>,
        job: JobId,
        end: ManagerEnd,
    ) -> OrderAnswer {
        let Some(sender) = sender.filter(|_| jobs.root(&job).is_some()) else {
            return OrderAnswer::NoSuchJob;
        };
        let order = ManagerOrder::ManagerEnded { member: sender.origin.clone(), end };
        self.report(ManagerMessage::new(job, order));
        OrderAnswer::Done
    }

    fn execute(&mut self, turn: Turn<'_>, order: RingOrder, hops: u32) -> OrderAnswer {
        match order {
            RingOrder::Speak => {
                return OrderAnswer::MemberDescription {
                    version: self.facts.release.clone(),
                    pid: self.facts.pid,
                    jobs: turn.jobs.count(),
                    hops,
                };
            }
            RingOrder::Leave { member } if member == *self.ring().name() => {
                self.stay.leave(turn.now, Farewell::Depart);
            }
            RingOrder::Leave { .. } => {}
            RingOrder::LeaveAll => self.stay.dismiss(turn.now),
            RingOrder::Drain { members, draining } => {
                if members.contains(self.ring().name()) {
                    let (draining, by_root) = self.draining.asked(draining);
                    let kept = if by_root { format!("; {BY_ROOT}") } else { String::new() };
                    self.log_all([Line::info(format!("draining: {draining}, by request{kept}"))]);
                    self.pump.post(RingInput::Drain(draining));
                    if by_root {
                        return OrderAnswer::Failed { problem: BY_ROOT.to_owned() };
                    }
                }
            }
            RingOrder::ListJobs { page } => {
                let (jobs, more) = turn.jobs.listing(page);
                return OrderAnswer::Jobs { jobs, more };
            }
            RingOrder::Job { job, order } => return self.order_roots(turn.jobs, &job, &order),
            // `delivered` has these.
            RingOrder::FindJob { .. }
            | RingOrder::PassToJob { .. }
            | RingOrder::JobEvents { .. }
            | RingOrder::ManagerEnded { .. }
            | RingOrder::Load
            | RingOrder::Top { .. }
            | RingOrder::Launch(_)
            | RingOrder::Slots(_) => {
                return OrderAnswer::Unknown;
            }
            RingOrder::TakeBack { name, job, value } => self.take_back(turn, name, job, &value),
            RingOrder::NameRefused(refusal) => {
                let effect = names::inform(self.pump.machine(), refusal);
                self.route_all(turn, effect);
            }
            RingOrder::Cancel { job } => {
                self.launches.cancelled(turn.now, job.clone());
                if turn.jobs.has_branch(&job) {
                    self.report(ManagerMessage::new(job, ManagerOrder::Kill));
                }
            }
        }
        OrderAnswer::Done
    }

    /// A job of another member takes a name back that a job here has published.
    fn take_back(&mut self, turn: Turn<'_>, name: String, job: JobId, value: &str) {
        let effect = self.naming.take_back(self.pump.machine(), &name, &job, value);
        if effect.is_some() {
            let order = ManagerOrder::NameLost { name, to: None };
            self.report(ManagerMessage::new(job, order));
        }
        self.route_all(turn, effect);
    }

    /// Answers with the use of this host, and of ranks if a page of them was asked for.
    pub(crate) fn measured(
        &mut self,
        order: ScatterId,
        host: HostUse,
        ranks: Option<(Vec<RunUse>, bool)>,
    ) {
        let speed_hundredths = self.facts.speed_hundredths.unwrap_or(host.speed_hundredths);
        let machine = HostUse { speed_hundredths, ..host };
        let answer = match ranks {
            Some((runs, more)) => OrderAnswer::Top { machine, runs, more },
            None => OrderAnswer::Load { machine },
        };
        self.answer(order, &answer);
    }

    /// Sends an order to the root managers of a job here.
    fn order_roots(&mut self, jobs: &JobTable, job: &JobRef, order: &JobOrder) -> OrderAnswer {
        match mpd_jobtable::manager_messages(jobs, job, order) {
            Ok(manager_messages) => {
                for message in manager_messages {
                    self.log_all([mpd_jobtable::by_request(&message.job, order)]);
                    self.report(message);
                }
                OrderAnswer::Done
            }
            Err(no_root) => no_root.into(),
        }
    }

    /// Starts the manager of our host slice in another daemon's job, if there is one.
    fn launch(&mut self, order: ScatterId, launch: Launch) -> Option<OrderAnswer> {
        let Some(tree_index) = self.launches.own_tree_index(&launch, self.ring().name()) else {
            return Some(OrderAnswer::Done);
        };
        let launch = Box::new(launch);
        self.steps.push_back(Step::Start { order, launch, tree_index });
        None
    }

    /// Answers the order that launches a job.
    pub(crate) fn manager_started(
        &mut self,
        turn: Turn<'_>,
        order: ScatterId,
        job: &JobId,
        result: Result<(), String>,
    ) {
        let answer = match result {
            Ok(()) => OrderAnswer::Done,
            Err(problem) => {
                self.log_all([Line::error(format!("job {job}: {problem}"))]);
                OrderAnswer::Failed { problem: launch::shortened(&problem) }
            }
        };
        self.answer(order, &answer);
        self.settle(turn);
    }

    fn answer(&mut self, order: ScatterId, answer: &OrderAnswer) {
        self.pump.post(RingInput::Answered(order, payload_of(answer)));
    }

    fn report(&mut self, message: ManagerMessage) {
        self.perform(Output::ToManager(message));
    }
}
