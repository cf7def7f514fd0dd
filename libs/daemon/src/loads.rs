//! The loads of the hosts of the ring, for spawned processes that are placed by load. They are asked for by a scatter, and
//! kept for [`FRESH`].

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_placement::HostLoad;
use mpd_ring::{Input, RequestId};
use mpd_sansio::Time;
use mpd_wire::DaemonName;
use mpd_wire::message::{OrderAnswer, RingOrder};

use crate::effect::Effect;
use crate::request::{Gathered, Numbers, payload_of, read_payload};

/// How long loads count.
const FRESH: Duration = Duration::from_secs(1);

/// The loads as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    known: BTreeMap<DaemonName, HostLoad>,
    until: Option<Time>,
    asked: Option<RequestId>,
}

impl Loads {
    pub(crate) fn are_fresh(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Asks all members, unless an answer is missing already.
    pub(crate) fn ask(&mut self, numbers: &mut Numbers) -> Option<Effect> {
        if self.asked.is_some() {
            return None;
        }
        let request = numbers.next();
        self.asked = Some(request);
        Some(Effect::Post(Input::Scatter(request, payload_of(&RingOrder::Load))))
    }

    /// Takes the answers if they are to this question. Returns whether that is so.
    pub(crate) fn gathered(&mut self, now: Time, gathered: &Gathered) -> bool {
        if !self.end(now, gathered.request) {
            return false;
        }
        self.known.clear();
        for answer in &gathered.answers {
            if let Ok(OrderAnswer::Load { machine }) = read_payload(&answer.answer) {
                let (running, speed) = (machine.load_hundredths, machine.speed_hundredths);
                self.known.insert(answer.name.clone(), HostLoad { running, speed });
            }
        }
        true
    }

    /// The question was not sent. The loads known before count further. Returns whether it was this question.
    pub(crate) fn failed(&mut self, now: Time, request: RequestId) -> bool {
        self.end(now, request)
    }

    fn end(&mut self, now: Time, request: RequestId) -> bool {
        let is_it = self.asked == Some(request);
        if is_it {
            (self.asked, self.until) = (None, Some(now + FRESH));
        }
        is_it
    }

    /// The load of a member. A member that did not answer counts as idle.
    pub(crate) fn of(&self, member: &DaemonName) -> HostLoad {
        self.known.get(member).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Requester;

    #[test]
    fn loads_are_asked_for_once_and_again_when_they_are_old() {
        let (mut loads, mut numbers) = (Loads::default(), Numbers::new(Requester::Launches));
        let now = Time::ZERO;
        assert!(!loads.are_fresh(now));
        let Some(Effect::Post(Input::Scatter(request, _))) = loads.ask(&mut numbers) else {
            panic!("no question");
        };
        assert!(loads.ask(&mut numbers).is_none() && !loads.failed(now, numbers.next()));
        assert!(loads.failed(now, request) && loads.are_fresh(now));
        assert!(!loads.are_fresh(now + FRESH));
        assert!(loads.ask(&mut numbers).is_some());
        assert_eq!(loads.of(&DaemonName::new("h1").unwrap()), HostLoad::default());
    }
}
