//! Consoles that follow the events of jobs.
//!
//! This daemon asks the daemon of the job's root manager for the next events, again and again. The first order goes to
//! all members, since any of them may have the root manager; later ones go to the member that has answered. An order
//! that gets lost is repeated with the same number, so each event reaches the console once. The next order waits until
//! the console has read the events before.

use std::collections::VecDeque;
use std::time::Duration;

use mpd_ring::{Input, RequestId, Ring};
use mpd_sansio::Time;
use mpd_wire::message::{ConsoleReply, EventPage, JobRef, OrderAnswer, RingOrder};
use mpd_wire::{ConsoleId, DaemonName, Standing};

use crate::effect::Effect;
use crate::request::{Gathered, Numbers, Requester, payload_of, read_payload};

/// Most consoles that follow events.
const MAX_FOLLOWERS: usize = 256;
/// Most orders under way, so that other requests have room in the ring.
const MAX_UNDER_WAY: usize = 16;
/// The time between two attempts to reach the daemon of a job.
const AGAIN: Duration = Duration::from_millis(300);
/// How long the daemon of a followed job may be away. A new daemon there continues.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next order is due at this time.
    Waiting(Time),
    /// This order is under way.
    Asking(RequestId),
    /// The console must read before the next order.
    Full,
}

/// A console that follows the events of a job.
#[derive(Debug)]
struct Follower {
    console: ConsoleId,
    job: JobRef,
    /// The number of the next event; `None`: the oldest one that is kept.
    next: Option<u64>,
    /// The member that has the job's root manager, as far as it is known.
    at: Option<DaemonName>,
    state: State,
    /// When the job's daemon answered last; `None`: never.
    answered: Option<Time>,
    since: Time,
}

/// The consoles, in the order of their last orders.
#[derive(Debug)]
pub(crate) struct Followers {
    numbers: Numbers,
    followers: VecDeque<Follower>,
}

impl Followers {
    pub(crate) const fn new() -> Self {
        Self { numbers: Numbers::new(Requester::Followers), followers: VecDeque::new() }
    }

    /// A console asks for the events of a job.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        ring: &Ring,
        console: ConsoleId,
        job: JobRef,
        from: Option<u64>,
    ) -> Option<Effect> {
        if self.followers.len() >= MAX_FOLLOWERS {
            let problem = format!(
                "{MAX_FOLLOWERS} programs follow events of jobs through this daemon already; \
                 try again when some have ended"
            );
            return Some(refusal(console, problem));
        }
        self.followers.push_back(Follower {
            console,
            job: job.as_asked_of(ring.name()),
            next: from,
            at: None,
            state: State::Waiting(now),
            answered: None,
            since: now,
        });
        None
    }

    /// Forgets a console that is gone.
    pub(crate) fn forget_console(&mut self, console: ConsoleId) {
        self.followers.retain(|follower| follower.console != console);
    }

    /// The consoles that must read before the next order.
    pub(crate) fn full(&self) -> Vec<ConsoleId> {
        let full = self.followers.iter().filter(|follower| follower.state == State::Full);
        full.map(|follower| follower.console).collect()
    }

    /// A console has read all events that were sent to it.
    pub(crate) fn has_read(&mut self, now: Time, console: ConsoleId) {
        if let Some(follower) =
            self.followers.iter_mut().find(|follower| follower.console == console)
            && follower.state == State::Full
        {
            follower.state = State::Waiting(now);
        }
    }

    fn under_way(&self) -> usize {
        let asks = |follower: &&Follower| matches!(follower.state, State::Asking(_));
        self.followers.iter().filter(asks).count()
    }

    /// Sends the orders that are due, the longest waiting console first, if this daemon has `entered` the ring.
    pub(crate) fn serve(&mut self, now: Time, entered: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut room = if entered { MAX_UNDER_WAY.saturating_sub(self.under_way()) } else { 0 };
        for _ in 0..self.followers.len() {
            let Some(mut follower) = self.followers.pop_front() else { break };
            let is_due = matches!(follower.state, State::Waiting(at) if at <= now);
            if is_due && room > 0 {
                room -= 1;
                let id = self.numbers.next();
                effects.push(Effect::Post(follower.order(id)));
                follower.state = State::Asking(id);
            }
            self.followers.push_back(follower);
        }
        // Consoles that have to wait for room are first in the next turn.
        self.followers.make_contiguous().sort_by_key(|follower| match follower.state {
            State::Waiting(at) => (0, at),
            State::Asking(_) | State::Full => (1, Time::ZERO),
        });
        effects
    }

    pub(crate) fn next_deadline(&self, entered: bool) -> Option<Time> {
        if !entered || self.under_way() >= MAX_UNDER_WAY {
            return None;
        }
        let due = self.followers.iter().filter_map(|follower| match follower.state {
            State::Waiting(at) => Some(at),
            State::Asking(_) | State::Full => None,
        });
        due.min()
    }

    fn position(&self, request: RequestId) -> Option<usize> {
        self.followers.iter().position(|follower| follower.state == State::Asking(request))
    }

    /// Handles the answers to an order.
    pub(crate) fn gathered(
        &mut self,
        now: Time,
        ring: &Ring,
        gathered: &Gathered,
    ) -> Option<Effect> {
        let position = self.position(gathered.request)?;
        let follower = self.followers.get_mut(position)?;
        let console = follower.console;
        match follower.learn(now, ring, gathered) {
            Ok(None) => None,
            Ok(Some(page)) => {
                let is_over = page.is_over;
                if is_over {
                    self.followers.remove(position);
                }
                Some(Effect::Answer(console, ConsoleReply::JobEvents(page), is_over))
            }
            Err(problem) => {
                self.followers.remove(position);
                Some(refusal(console, problem))
            }
        }
    }

    /// The ring refuses an order.
    pub(crate) fn refused(&mut self, now: Time, request: RequestId) {
        if let Some(position) = self.position(request)
            && let Some(follower) = self.followers.get_mut(position)
        {
            follower.state = State::Waiting(now + AGAIN);
        }
    }
}

impl Follower {
    fn order(&self, id: RequestId) -> Input {
        let order = RingOrder::JobEvents { job: self.job.clone(), from: self.next };
        match &self.at {
            Some(member) => Input::Send(id, member.clone(), payload_of(&order)),
            None => Input::Scatter(id, payload_of(&order)),
        }
    }

    /// Learns from the answers to an order. Returns the events for the console, if there are any.
    ///
    /// # Errors
    /// Why no events follow; a text for people.
    fn learn(
        &mut self,
        now: Time,
        ring: &Ring,
        gathered: &Gathered,
    ) -> Result<Option<EventPage>, String> {
        let mut pages = Vec::new();
        let mut failed = None;
        for answer in &gathered.answers {
            match read_payload(&answer.answer) {
                Ok(OrderAnswer::Events(page)) => pages.push((answer.name.clone(), page)),
                Ok(OrderAnswer::Failed { problem }) => failed = Some(problem),
                Ok(
                    OrderAnswer::Done
                    | OrderAnswer::NoSuchJob
                    | OrderAnswer::MemberDescription { .. }
                    | OrderAnswer::Jobs { .. }
                    | OrderAnswer::Top { .. }
                    | OrderAnswer::Load { .. }
                    | OrderAnswer::Slots(_)
                    | OrderAnswer::Unknown
                    | OrderAnswer::Found { .. },
                )
                | Err(_) => {}
            }
        }
        match (pages.len(), failed) {
            (1, _) => {}
            (0, None) => return self.missed(now, ring, &gathered.missing).map(|()| None),
            (0, Some(problem)) => return Err(problem),
            _ => return Err(format!("{} means several jobs; name one by its id", self.job)),
        }
        let Some((member, page)) = pages.pop() else { return Ok(None) };
        self.at = Some(member);
        self.answered = Some(now);
        self.job = JobRef::Id(page.job.clone());
        self.take(now, page)
    }

    /// Takes a page of the job's daemon.
    fn take(&mut self, now: Time, mut page: EventPage) -> Result<Option<EventPage>, String> {
        if let Some(gap) = page.gap {
            self.next = Some(gap.next);
        }
        // Events that the console has. There are none, unless the daemon there is in error.
        page.events.retain(|event| self.next.is_none_or(|next| event.number >= next));
        if let Some(last) = page.events.last() {
            self.next = Some(last.number + 1);
        }
        if page.events.is_empty() && page.gap.is_none() && !page.is_over {
            self.state = State::Waiting(now);
            return Ok(None);
        }
        self.state = State::Full;
        Ok(Some(page))
    }

    /// No member has the job, or its daemon is away.
    fn missed(&mut self, now: Time, ring: &Ring, missing: &[DaemonName]) -> Result<(), String> {
        self.state = State::Waiting(now + AGAIN);
        let away_since = match self.answered {
            Some(answered) => answered,
            None if missing.is_empty() && !is_away(ring, &self.job) => {
                return Err(mpd_jobtable::no_such_job(&self.job));
            }
            None => self.since,
        };
        self.at = None;
        if now.since(away_since) < PATIENCE {
            return Ok(());
        }
        let events = match self.next {
            Some(next) => format!("; its events from {next} on are not known"),
            None => String::new(),
        };
        let silent: Vec<&str> = missing.iter().map(DaemonName::as_str).collect();
        let silent = match &silent[..] {
            [] => String::new(),
            silent => format!("; no answer from {}", silent.join(", ")),
        };
        Err(format!("{} has ended, or its first host is lost{events}{silent}", self.job))
    }
}

/// Whether the daemon that accepted the job is no live member now. It may come back.
fn is_away(ring: &Ring, job: &JobRef) -> bool {
    let JobRef::Id(id) = job else { return false };
    let record = DaemonName::new(id.daemon()).ok().and_then(|name| ring.record(&name).cloned());
    record.is_some_and(|record| record.standing != Standing::Live)
}

fn refusal(console: ConsoleId, problem: String) -> Effect {
    Effect::Answer(console, ConsoleReply::Refused { problem }, true)
}

#[cfg(test)]
mod tests {
    use mpd_wire::message::{Answer, EventGap, JobChange, JobEvent};

    use super::*;
    use crate::tests::{name, ring};

    const NOW: Time = Time::ZERO;
    const CONSOLE: ConsoleId = ConsoleId(20);

    fn page(numbers: std::ops::Range<u64>, is_over: bool) -> OrderAnswer {
        let event = |number| JobEvent { number, at_us: 1, change: JobChange::JobEnded { code: 0 } };
        let events = numbers.map(event).collect();
        OrderAnswer::Events(EventPage { job: "1@h2".parse().unwrap(), gap: None, events, is_over })
    }

    fn gathered(request: RequestId, answers: &[(&str, OrderAnswer)], missing: &[&str]) -> Gathered {
        let answer = |(of, answer): &(&str, OrderAnswer)| Answer {
            name: name(of),
            answer: payload_of(answer),
        };
        Gathered {
            request,
            answers: answers.iter().map(answer).collect(),
            missing: missing.iter().map(|of| name(of)).collect(),
            depth: 1,
        }
    }

    fn following(from: Option<u64>) -> Followers {
        let mut followers = Followers::new();
        let job = JobRef::Alias("x".to_owned());
        assert!(followers.ask(NOW, &ring(), CONSOLE, job, from).is_none());
        followers
    }

    /// The one order that is due: its member, its job, and the number of the first event.
    fn order(
        followers: &mut Followers,
        now: Time,
    ) -> (RequestId, Option<DaemonName>, JobRef, Option<u64>) {
        let mut effects = followers.serve(now, true);
        let (id, member, payload) = match (effects.pop(), effects.pop()) {
            (Some(Effect::Post(Input::Scatter(id, payload))), None) => (id, None, payload),
            (Some(Effect::Post(Input::Send(id, to, payload))), None) => (id, Some(to), payload),
            other => panic!("{other:?}"),
        };
        match read_payload(&payload).unwrap() {
            RingOrder::JobEvents { job, from } => (id, member, job, from),
            other => panic!("{other:?}"),
        }
    }

    fn numbers(effect: Option<Effect>) -> (Vec<u64>, bool) {
        match effect {
            Some(Effect::Answer(CONSOLE, ConsoleReply::JobEvents(page), is_last)) => {
                assert_eq!(page.is_over, is_last);
                (page.events.iter().map(|event| event.number).collect(), is_last)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The console has read the first three events.
    fn after_three() -> Followers {
        let mut followers = following(Some(1));
        let (id, ..) = order(&mut followers, NOW);
        numbers(followers.gathered(NOW, &ring(), &gathered(id, &[("h2", page(1..4, false))], &[])));
        followers.has_read(NOW, CONSOLE);
        followers
    }

    fn refused(effect: Option<Effect>) -> String {
        match effect {
            Some(Effect::Answer(CONSOLE, ConsoleReply::Refused { problem }, true)) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_member_that_has_the_job_is_asked_for_the_next_events_when_the_console_has_read() {
        let mut followers = following(None);
        let (id, to, job, from) = order(&mut followers, NOW);
        assert_eq!((to, job, from), (None, JobRef::Alias("x".to_owned()), None));
        let answers = [("h1", OrderAnswer::NoSuchJob), ("h2", page(5..8, false))];
        let effect = followers.gathered(NOW, &ring(), &gathered(id, &answers, &[]));
        assert_eq!(numbers(effect), (vec![5, 6, 7], false));
        assert!(followers.serve(NOW, true).is_empty(), "the console has not read");
        assert_eq!(followers.full(), [CONSOLE]);
        followers.has_read(NOW, CONSOLE);
        let (id, to, job, from) = order(&mut followers, NOW);
        let at = JobRef::Id("1@h2".parse().unwrap());
        assert_eq!((to, job, from), (Some(name("h2")), at, Some(8)));
        // An answer without events, then the rest.
        let effect =
            followers.gathered(NOW, &ring(), &gathered(id, &[("h2", page(0..0, false))], &[]));
        assert!(effect.is_none());
        let (id, ..) = order(&mut followers, NOW);
        let effect =
            followers.gathered(NOW, &ring(), &gathered(id, &[("h2", page(8..9, true))], &[]));
        assert_eq!(numbers(effect), (vec![8], true));
        assert!(followers.serve(NOW, true).is_empty());
    }

    #[test]
    fn a_lost_order_is_repeated_with_its_number_until_the_patience_is_over() {
        let mut followers = after_three();
        let mut now = NOW;
        let problem = loop {
            let (id, _, _, from) = order(&mut followers, now);
            assert_eq!(from, Some(4));
            match followers.gathered(now, &ring(), &gathered(id, &[], &[])) {
                None => now = now + AGAIN,
                effect => break refused(effect),
            }
        };
        assert!(now.since(NOW) >= PATIENCE && problem.contains("events from 4 on"), "{problem}");
    }

    #[test]
    fn a_daemon_that_is_back_continues_with_the_next_number_and_repeats_nothing() {
        let mut followers = after_three();
        let (id, ..) = order(&mut followers, NOW);
        assert!(followers.gathered(NOW, &ring(), &gathered(id, &[], &["h2"])).is_none());
        let later = NOW + PATIENCE / 2;
        let (id, to, ..) = order(&mut followers, later);
        assert_eq!(to, None, "its member is looked for again");
        let effect =
            followers.gathered(later, &ring(), &gathered(id, &[("h2", page(3..6, false))], &[]));
        assert_eq!(numbers(effect), (vec![4, 5], false));
    }

    #[test]
    fn an_unknown_job_is_refused_at_once_and_one_on_a_silent_host_later() {
        let nowhere = [("h1", OrderAnswer::NoSuchJob)];
        let mut followers = following(None);
        let (id, ..) = order(&mut followers, NOW);
        let problem = refused(followers.gathered(NOW, &ring(), &gathered(id, &nowhere, &[])));
        assert!(problem.contains("no job called 'x'"), "{problem}");
        let mut followers = following(None);
        let (id, ..) = order(&mut followers, NOW);
        assert!(followers.gathered(NOW, &ring(), &gathered(id, &nowhere, &["h2"])).is_none());
        let (id, ..) = order(&mut followers, NOW + PATIENCE);
        let effect = followers.gathered(NOW + PATIENCE, &ring(), &gathered(id, &nowhere, &["h2"]));
        assert!(refused(effect).contains("no answer from h2"));
    }

    #[test]
    fn several_jobs_of_one_name_are_refused_and_a_gap_is_passed_on() {
        let mut followers = following(None);
        let (id, ..) = order(&mut followers, NOW);
        let both = [("h1", page(1..2, false)), ("h2", page(1..2, false))];
        let problem = refused(followers.gathered(NOW, &ring(), &gathered(id, &both, &[])));
        assert!(problem.contains("several jobs"), "{problem}");
        let mut followers = following(Some(1));
        let (id, ..) = order(&mut followers, NOW);
        let OrderAnswer::Events(mut some) = page(9..10, false) else { unreachable!() };
        some.gap = Some(EventGap { from: 1, next: 9 });
        let answers = [("h2", OrderAnswer::Events(some))];
        assert_eq!(numbers(followers.gathered(NOW, &ring(), &gathered(id, &answers, &[]))).0, [9]);
        followers.has_read(NOW, CONSOLE);
        assert_eq!(order(&mut followers, NOW).3, Some(10));
    }
}
