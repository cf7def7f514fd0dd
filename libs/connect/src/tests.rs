use mpd_wire::job::namespace_mark;

use super::*;
use crate::frame::Frame;

/// Jobs with their machines, and the daemons between them.
struct Ring {
    now: Time,
    jobs: BTreeMap<JobId, Meetings>,
    secrets: BTreeMap<String, JobId>,
    /// Frames that are not delivered yet.
    waiting: VecDeque<(JobId, JobId, Payload)>,
    /// What each job has done.
    done: Vec<(u64, Output)>,
    /// Jobs of other users: they are not found, and nothing is passed to them.
    strangers: BTreeSet<u64>,
    /// Whether daemons answer at all.
    is_broken: bool,
    largest: usize,
}

fn id(number: u64) -> JobId {
    JobId::new(number, "h1").unwrap()
}

/// Their order is that of the numbers.
fn secret(number: u64) -> String {
    format!("s{number}")
}

fn assembly(own: u64, jobs: &[u64], effect: Effect) -> Assembly {
    Assembly {
        key: "k".into(),
        secrets: jobs.iter().map(|job| secret(*job)).collect(),
        timeout: None,
        is_whole: true,
        info: format!("about {own}").into_bytes(),
        effect,
    }
}

fn cause() -> Cause {
    Cause { code: 7, text: "rank 1: aborted".to_owned() }
}

/// The end of a job that has not reported it.
fn unreported(job: u64, why: &str, was_connected: bool) -> Output {
    Output::Gone(id(job), Ended { failure: Some(Cause::unreported(why)), was_connected })
}

impl Ring {
    fn of(jobs: &[u64]) -> Self {
        let machines = jobs.iter().map(|job| (id(*job), Meetings::new(secret(*job))));
        Self {
            now: Time::from_micros(1),
            jobs: machines.collect(),
            secrets: jobs.iter().map(|job| (secret(*job), id(*job))).collect(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            strangers: BTreeSet::new(),
            is_broken: false,
            largest: 0,
        }
    }

    fn input(&mut self, job: u64, input: Input) {
        let now = self.now;
        if let Some(machine) = self.jobs.get_mut(&id(job)) {
            machine.handle(now, input);
        }
        self.drain(job);
    }

    fn drain(&mut self, job: u64) {
        loop {
            let output = self.jobs.get_mut(&id(job)).and_then(Meetings::poll_output);
            match output {
                None => return,
                Some(Output::Ask(request, operation)) => {
                    self.waiting_answer(job, request, operation)
                }
                Some(other) => self.done.push((job, other)),
            }
        }
    }

    /// Daemons answer after the outputs were taken.
    fn waiting_answer(&mut self, job: u64, request: u32, operation: MeetingOperation) {
        if self.is_broken {
            return;
        }
        let is_reachable =
            |to: &JobId| self.jobs.contains_key(to) && !self.strangers.contains(&to.number());
        let answer = match operation {
            MeetingOperation::Find { mark } => {
                let found = self.secrets.iter().find(|(secret, _)| namespace_mark(secret) == mark);
                match found.filter(|(_, job)| is_reachable(job)) {
                    Some((_, job)) => MeetingAnswer::Found(job.clone()),
                    None => MeetingAnswer::Gone,
                }
            }
            MeetingOperation::Pass { to, payload } if is_reachable(&to) => {
                self.largest = self.largest.max(payload.as_bytes().len());
                self.waiting.push_back((id(job), to, payload));
                MeetingAnswer::Passed
            }
            MeetingOperation::Pass { .. } => MeetingAnswer::Gone,
        };
        let mut rest = Vec::new();
        let machine = self.jobs.get_mut(&id(job)).expect("the job");
        while let Some(output) = machine.poll_output() {
            rest.push(output);
        }
        machine.handle(self.now, Input::Answer(request, answer));
        for output in rest {
            match output {
                Output::Ask(request, operation) => self.waiting_answer(job, request, operation),
                other => self.done.push((job, other)),
            }
        }
    }

    /// Delivers all frames.
    fn run(&mut self) {
        for number in self.jobs.keys().map(JobId::number).collect::<Vec<_>>() {
            self.drain(number);
        }
        while let Some((from, to, payload)) = self.waiting.pop_front() {
            self.input(to.number(), Input::Passed(from, payload));
        }
    }

    fn arrive(&mut self, job: u64, jobs: &[u64]) {
        self.input(job, Input::Assembled(assembly(job, jobs, Effect::Connect)));
        self.run();
    }

    fn connected(jobs: &[u64]) -> Self {
        let mut ring = Self::of(jobs);
        jobs.iter().for_each(|job| ring.arrive(*job, jobs));
        ring.done.clear();
        ring
    }

    /// Lets time pass, in steps at which the machines want to act.
    fn pass_time(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        for _ in 0..10_000 {
            let due = self.jobs.values().filter_map(Meetings::poll_timeout).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            for number in self.jobs.keys().map(JobId::number).collect::<Vec<_>>() {
                let now = self.now;
                if let Some(machine) = self.jobs.get_mut(&id(number)) {
                    machine.handle_timeout(now);
                }
                self.drain(number);
            }
            self.run();
        }
        self.now = end;
    }

    /// Whether a meeting of a job has succeeded with these jobs.
    fn has_met(&self, job: u64, others: &[u64]) -> bool {
        self.done.iter().any(|(of, output)| match output {
            Output::Met(_, Ok(parties)) if *of == job => {
                let about = |(job, party): &(JobId, Party)| {
                    assert_eq!(party.info.as_bytes(), format!("about {}", job.number()).as_bytes());
                    job.number()
                };
                parties.iter().map(about).collect::<Vec<_>>() == others
            }
            _ => false,
        })
    }

    fn failure_of(&self, job: u64) -> Option<Failure> {
        self.done.iter().find_map(|(of, output)| match output {
            Output::Met(_, Err(failure)) if *of == job => Some(*failure),
            _ => None,
        })
    }

    fn has_done(&self, job: u64, output: &Output) -> bool {
        self.done.contains(&(job, output.clone()))
    }

    /// The job ends without a report, as by the death of its manager.
    fn kill(&mut self, job: u64) {
        self.jobs.remove(&id(job));
    }
}

#[test]
fn two_jobs_meet_in_both_orders_of_arrival() {
    for order in [[1, 2], [2, 1]] {
        let mut ring = Ring::of(&[1, 2]);
        ring.arrive(order[0], &[1, 2]);
        assert!(ring.done.is_empty(), "{:?}", ring.done);
        ring.arrive(order[1], &[1, 2]);
        assert!(ring.has_met(1, &[2]) && ring.has_met(2, &[1]), "{:?}", ring.done);
    }
}

#[test]
fn three_jobs_meet_and_again_with_the_same_name() {
    let mut ring = Ring::of(&[1, 2, 3]);
    for _ in 0..3 {
        for job in [2, 3, 1] {
            ring.arrive(job, &[1, 2, 3]);
        }
        let met = [ring.has_met(1, &[2, 3]), ring.has_met(2, &[1, 3]), ring.has_met(3, &[1, 2])];
        assert_eq!(met, [true; 3], "{:?}", ring.done);
        ring.done.clear();
    }
}

#[test]
fn connected_jobs_send_bytes_of_any_size_in_order() {
    let mut ring = Ring::connected(&[1, 2]);
    let long: Vec<u8> = (0..300_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    for bytes in [&long[..], b"short", &long] {
        ring.input(2, Input::Tell(id(1), bytes.to_vec()));
    }
    ring.run();
    let told = |bytes: &[u8]| (1, Output::Told(id(2), bytes.to_vec()));
    assert_eq!(ring.done, [told(&long), told(b"short"), told(&long)]);
    assert!(ring.largest <= mpd_wire::message::MAX_PASSED);
}

#[test]
fn a_frame_that_was_lost_or_came_twice_does_no_harm() {
    let mut ring = Ring::connected(&[1, 2]);
    ring.input(1, Input::Tell(id(2), b"one".to_vec()));
    ring.waiting.clear();
    ring.pass_time(2);
    assert_eq!(ring.done, [(2, Output::Told(id(1), b"one".to_vec()))]);
    ring.input(1, Input::Tell(id(2), b"two".to_vec()));
    let frame = ring.waiting.front().cloned();
    ring.waiting.extend(frame);
    ring.run();
    assert_eq!(ring.done[1..], [(2, Output::Told(id(1), b"two".to_vec()))]);
}

#[test]
fn a_job_of_another_user_and_an_unknown_one_are_not_met() {
    let mut ring = Ring::of(&[1, 2]);
    ring.strangers.insert(2);
    ring.arrive(1, &[1, 2]);
    assert_eq!(ring.failure_of(1), Some(Failure::Unknown));
    ring.done.clear();
    ring.arrive(1, &[1, 9]);
    assert_eq!(ring.failure_of(1), Some(Failure::Unknown));
    assert_eq!(ring.jobs[&id(1)].found.len(), 0);
}

#[test]
fn a_job_that_ends_before_its_members_arrive_ends_the_wait_of_the_others() {
    for (waits, ends) in [(1, 2), (2, 1)] {
        for is_silent in [false, true] {
            let mut ring = Ring::of(&[1, 2]);
            ring.arrive(waits, &[1, 2]);
            if !is_silent {
                ring.input(ends, Input::End(None));
            }
            ring.run();
            ring.kill(ends);
            ring.pass_time(5);
            assert_eq!(ring.failure_of(waits), Some(Failure::Lost));
            let gone = match is_silent {
                true => unreported(ends, "it has ended without a report", false),
                false => Output::Gone(id(ends), Ended { failure: None, was_connected: false }),
            };
            assert!(ring.has_done(waits, &gone), "{:?}", ring.done);
        }
    }
}

#[test]
fn the_end_of_a_connected_job_is_noticed_and_how_it_ended() {
    for (ends, stays) in [(1, 2), (2, 1)] {
        for failure in [None, Some(cause())] {
            let mut ring = Ring::connected(&[1, 2]);
            ring.input(ends, Input::End(failure.clone()));
            ring.run();
            let ended = Ended { failure, was_connected: true };
            assert_eq!(ring.done, [(stays, Output::Gone(id(ends), ended))]);
        }
        let mut ring = Ring::connected(&[1, 2]);
        ring.kill(ends);
        ring.pass_time(5);
        assert_eq!(ring.done, [(stays, unreported(ends, "it has ended without a report", true))]);
    }
}

#[test]
fn a_job_that_fails_after_a_disconnect_was_not_connected_even_if_the_other_does_not_know_it_yet() {
    for (ends, stays) in [(1, 2), (2, 1)] {
        let mut ring = Ring::connected(&[1, 2]);
        for job in [stays, ends] {
            ring.input(job, Input::Assembled(assembly(job, &[1, 2], Effect::Disconnect)));
        }
        // The last message of the disconnect is overtaken by the report of the end.
        while !ring.has_met(ends, &[stays]) {
            let (from, to, payload) = ring.waiting.pop_front().expect("a frame");
            ring.input(to.number(), Input::Passed(from, payload));
        }
        ring.input(ends, Input::End(Some(cause())));
        while let Some((from, to, payload)) = ring.waiting.pop_back() {
            ring.input(to.number(), Input::Passed(from, payload));
        }
        let ended = Ended { failure: Some(cause()), was_connected: false };
        assert!(ring.has_done(stays, &Output::Gone(id(ends), ended)), "{:?}", ring.done);
    }
}

#[test]
fn a_third_job_that_ends_ends_the_meeting_for_both_others() {
    let mut ring = Ring::of(&[1, 2, 3]);
    ring.arrive(1, &[1, 2, 3]);
    ring.arrive(2, &[1, 2, 3]);
    ring.kill(3);
    ring.pass_time(5);
    assert_eq!(
        (ring.failure_of(1), ring.failure_of(2)),
        (Some(Failure::Lost), Some(Failure::Lost))
    );
    // The next meeting of the two has nothing to do with the failed one.
    ring.done.clear();
    ring.arrive(2, &[1, 2]);
    ring.arrive(1, &[1, 2]);
    assert!(ring.has_met(1, &[2]) && ring.has_met(2, &[1]), "{:?}", ring.done);
}

#[test]
fn a_timeout_ends_the_wait_and_a_later_arrival_does_not_meet_it() {
    for (waits, late) in [(1, 2), (2, 1)] {
        let mut ring = Ring::of(&[1, 2]);
        let timeout = Some(Duration::from_secs(3));
        let assembly = Assembly { timeout, ..assembly(waits, &[1, 2], Effect::Connect) };
        ring.input(waits, Input::Assembled(assembly));
        ring.run();
        ring.pass_time(4);
        assert_eq!(ring.failure_of(waits), Some(Failure::Timeout));
        ring.done.clear();
        ring.arrive(late, &[1, 2]);
        assert_eq!(ring.done, []);
        ring.arrive(waits, &[1, 2]);
        assert!(ring.has_met(1, &[2]) && ring.has_met(2, &[1]), "{:?}", ring.done);
    }
}

#[test]
fn a_disconnect_ends_the_connection_and_as_many_are_needed_as_connects() {
    let mut ring = Ring::connected(&[1, 2]);
    ring.arrive(1, &[1, 2]);
    ring.arrive(2, &[1, 2]);
    for round in 0..2 {
        ring.done.clear();
        for job in [1, 2] {
            ring.input(job, Input::Assembled(assembly(job, &[1, 2], Effect::Disconnect)));
            ring.run();
        }
        assert_eq!(ring.has_done(1, &Output::Disconnected(id(2))), round == 1);
        assert_eq!(ring.has_done(2, &Output::Disconnected(id(1))), round == 1);
    }
    ring.done.clear();
    ring.input(1, Input::Tell(id(2), b"x".to_vec()));
    ring.run();
    assert_eq!(ring.done, [], "nothing is told to a job that is not connected");
}

#[test]
fn a_message_that_is_too_long_or_makes_no_sense_costs_the_link() {
    let mut ring = Ring::connected(&[1, 2]);
    ring.input(1, Input::Tell(id(2), vec![0; frame::MAX_MESSAGE]));
    ring.run();
    assert!(ring.has_done(1, &Output::Gone(id(2), Ended::of_link())), "{:?}", ring.done);
    assert!(ring.has_done(2, &Output::Gone(id(1), Ended::of_link())), "{:?}", ring.done);

    for bytes in [&[0xff; 8][..], b"\0\0\0\x02{}"] {
        let mut ring = Ring::connected(&[1, 2]);
        let received = ring.jobs[&id(1)].peers[&id(2)].link.position();
        let forged = Frame { flags: 0, position: received, received: 0, bytes };
        ring.input(1, Input::Passed(id(2), forged.write()));
        ring.run();
        assert!(ring.has_done(1, &Output::Gone(id(2), Ended::of_link())), "{:?}", ring.done);
    }
    // Bytes that are no frame have no effect at all.
    let mut ring = Ring::connected(&[1, 2]);
    ring.input(1, Input::Passed(id(2), Payload::from(&b"garbage"[..])));
    assert_eq!(ring.done, []);
}

#[test]
fn an_arrival_in_the_name_of_another_job_does_not_complete_a_meeting() {
    let mut ring = Ring::of(&[1, 2, 3]);
    ring.arrive(1, &[1, 2]);
    let party = Party { secret: secret(2), is_whole: true, info: Payload::from(&b""[..]) };
    let forged = Message::Arrived { key: "k".into(), attempt: 1, party }.write();
    let forged = Frame { flags: 0, position: 0, received: 0, bytes: &forged }.write();
    ring.input(1, Input::Passed(id(3), forged));
    ring.run();
    assert!(!ring.has_met(1, &[2]) && ring.failure_of(1).is_none(), "{:?}", ring.done);
}

#[test]
fn a_job_has_a_bounded_number_of_links() {
    let mut ring = Ring::of(&[1]);
    for job in 2..2 + 2 * MAX_JOBS as u64 {
        ring.input(1, Input::Passed(id(job), Frame::bare(0).write()));
    }
    assert_eq!(ring.jobs[&id(1)].peers.len(), MAX_JOBS);
    ring.pass_time(40);
    assert_eq!(ring.jobs[&id(1)].peers.len(), 0, "no such job runs");
}

#[test]
fn a_daemon_that_was_replaced_does_not_end_a_connection_and_one_that_stays_away_does() {
    let mut ring = Ring::connected(&[1, 2]);
    ring.is_broken = true;
    ring.input(1, Input::DaemonLost);
    ring.input(2, Input::DaemonLost);
    ring.pass_time(60);
    ring.is_broken = false;
    ring.input(1, Input::DaemonReplaced);
    ring.input(2, Input::DaemonReplaced);
    ring.input(1, Input::Tell(id(2), b"x".to_vec()));
    ring.pass_time(5);
    assert_eq!(ring.done, [(2, Output::Told(id(1), b"x".to_vec()))]);
    ring.is_broken = true;
    ring.pass_time(60);
    let gone = unreported(2, "its daemon does not answer", true);
    assert!(ring.has_done(1, &gone), "{:?}", ring.done);
}

#[test]
fn a_search_that_has_no_answer_ends() {
    let mut ring = Ring::of(&[1, 2]);
    ring.is_broken = true;
    ring.arrive(1, &[1, 2]);
    ring.pass_time(30);
    assert_eq!(ring.failure_of(1), Some(Failure::Lost));
    assert_eq!(ring.jobs[&id(1)].poll_timeout(), None);
}
