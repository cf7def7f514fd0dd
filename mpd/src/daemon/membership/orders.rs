//! Orders of other members: what they do here, and their answers.

use mpd_io::usage;
use mpd_machine::Time;
use mpd_ring::{Input, Sender};
use mpd_wire::JobId;
use mpd_wire::frame;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{
    HostUse, JobOrder, JobRef, Launch, ManagerOrder, OrderAnswer, Payload, RingOrder, ScatterId,
};

use crate::daemon::jobs::Jobs;
use crate::daemon::manager_message::ManagerMessage;
use crate::daemon::membership::effect::Farewell;
use crate::daemon::membership::{Membership, Turn, launch, meetings, names};

impl Membership {
    /// Carries out an order that arrived by scatter. Returns the answer; `None`: it follows.
    pub(super) fn delivered(
        &mut self,
        turn: &mut Turn<'_>,
        (id, payload): (ScatterId, &Payload),
        hops: u32,
        sender: Option<&Sender>,
    ) -> Option<OrderAnswer> {
        Some(match frame::decode_message(payload.as_bytes()) {
            Ok(order) => {
                // Messages about slots and orders for events are many, and the log has the requests.
                if let Some(sender) = sender
                    && !matches!(order, RingOrder::Slots(_) | RingOrder::JobEvents { .. })
                {
                    self.journal.ordered(turn.now, sender, &order);
                }
                match order {
                    RingOrder::JobEvents { job, from } => {
                        return self.kept_events.ordered(turn.now, turn.jobs, id, (&job, from));
                    }
                    RingOrder::FindJob { .. } | RingOrder::PassToJob { .. } => {
                        self.meet(turn, sender, order)
                    }
                    RingOrder::ManagerEnded { job, end } => {
                        self.manager_ended(turn.jobs, sender, job, end)
                    }
                    RingOrder::Slots(payload) => {
                        let own = self.pump.machine().name();
                        let from = sender.map_or(own, |sender| &sender.origin);
                        let ranks = turn.jobs.ranks_without_allocation();
                        self.allocations.ordered((turn.now, ranks), (own, from), &payload)
                    }
                    _ => self.execute(turn, order, hops),
                }
            }
            Err(e) => {
                let from = sender.map_or(self.ring().name().to_string(), |sender| {
                    format!("{} ({})", sender.name, sender.at)
                });
                let why = format_args!("refused an order from {from}: it cannot be decoded: {e}");
                self.journal.refused(turn.now, why);
                OrderAnswer::Unknown
            }
        })
    }

    /// Performs an order for a root manager here, from a job whose ranks meet those of its job.
    fn meet(&mut self, turn: &Turn<'_>, sender: Option<&Sender>, order: RingOrder) -> OrderAnswer {
        let origin = sender.map_or_else(|| self.ring().name(), |sender| &sender.origin);
        match meetings::carry_out(turn.jobs, origin, order) {
            Ok((answer, manager_message)) => {
                self.manager_messages.extend(manager_message);
                answer
            }
            Err(why) => {
                self.journal.refused(turn.now, format_args!("refused an order: {why}"));
                OrderAnswer::NoSuchJob
            }
        }
    }

    /// Sends the root manager of a job here how the manager on the sender's host ended. A member speaks for its own host
    /// alone.
    fn manager_ended(
        &mut self,
        jobs: &Jobs,
        sender: Option<&Sender>,
        job: JobId,
        end: ManagerEnd,
    ) -> OrderAnswer {
        let Some(sender) = sender.filter(|_| jobs.has_root(&job)) else {
            return OrderAnswer::NoSuchJob;
        };
        let order = ManagerOrder::ManagerEnded { member: sender.origin.clone(), end };
        self.manager_messages.push_back(ManagerMessage::new(job, order));
        OrderAnswer::Done
    }

    fn execute(&mut self, turn: &mut Turn<'_>, order: RingOrder, hops: u32) -> OrderAnswer {
        match order {
            RingOrder::Speak => {
                return OrderAnswer::MemberDescription {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    pid: std::process::id(),
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
                    log::info!("draining: {draining}, by request");
                    self.pump.post(Input::Drain(draining));
                }
            }
            RingOrder::ListJobs { page } => {
                let (jobs, more) = turn.jobs.listing(page);
                return OrderAnswer::Jobs { jobs, more };
            }
            RingOrder::Top { page } => return self.usage(turn.jobs, page),
            RingOrder::Load => {
                return OrderAnswer::Load { machine: self.measured(usage::of_host()) };
            }
            RingOrder::Job { job, order } => return self.order_roots(turn.jobs, &job, &order),
            // `delivered` has these.
            RingOrder::FindJob { .. }
            | RingOrder::PassToJob { .. }
            | RingOrder::JobEvents { .. }
            | RingOrder::ManagerEnded { .. }
            | RingOrder::Slots(_) => {
                return OrderAnswer::Unknown;
            }
            RingOrder::TakeBack { name, job, value } => self.take_back(turn, name, job, &value),
            RingOrder::NameRefused(refusal) => {
                let effect = names::inform(self.pump.machine(), refusal);
                self.route_all(turn.registry, turn.now, effect);
            }
            RingOrder::Launch(launch) => return self.launch(turn.jobs, &launch, turn.now),
            RingOrder::Cancel { job } => {
                self.launches.cancelled(turn.now, job.clone());
                if turn.jobs.has_branch(&job) {
                    self.manager_messages.push_back(ManagerMessage::new(job, ManagerOrder::Kill));
                }
            }
        }
        OrderAnswer::Done
    }

    /// A job of another member takes a name back that a job here has published.
    fn take_back(&mut self, turn: &Turn<'_>, name: String, job: JobId, value: &str) {
        let effect = self.naming.take_back(self.pump.machine(), (&name, &job, value));
        if effect.is_some() {
            let order = ManagerOrder::NameLost { name, to: None };
            self.manager_messages.push_back(ManagerMessage::new(job, order));
        }
        self.route_all(turn.registry, turn.now, effect);
    }

    /// Returns the usage of this host and its ranks. The managers count output for the next request.
    fn usage(&mut self, jobs: &mut Jobs, page: u32) -> OrderAnswer {
        if page == 0 {
            let manager_message = |job| ManagerMessage::new(job, ManagerOrder::CountOutput);
            self.manager_messages.extend(jobs.jobs_to_count().into_iter().map(manager_message));
        }
        let (machine, runs, more) = jobs.usage(page);
        OrderAnswer::Top { machine: self.measured(machine), runs, more }
    }

    /// The use of this host with its speed.
    fn measured(&self, machine: HostUse) -> HostUse {
        HostUse { speed_hundredths: self.speed.unwrap_or(machine.speed_hundredths), ..machine }
    }

    /// Sends an order to the root managers of a job here.
    fn order_roots(&mut self, jobs: &Jobs, job: &JobRef, order: &JobOrder) -> OrderAnswer {
        match jobs.manager_messages(job, order) {
            Ok(manager_messages) => {
                self.manager_messages.extend(manager_messages);
                OrderAnswer::Done
            }
            Err(answer) => answer,
        }
    }

    /// Starts the manager of our host slice in another daemon's job, if there is one.
    fn launch(&self, jobs: &mut Jobs, launch: &Launch, now: Time) -> OrderAnswer {
        let Some(tree_index) = self.launches.own_tree_index(launch, self.ring().name()) else {
            return OrderAnswer::Done;
        };
        match jobs.start_branch(launch, tree_index, now) {
            Ok(()) => OrderAnswer::Done,
            Err(e) => {
                log::error!("job {}: {e:#}", launch.job);
                OrderAnswer::Failed { problem: launch::shortened(&format!("{e:#}")) }
            }
        }
    }
}
