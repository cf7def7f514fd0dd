//! The requests of one call, as the helper knows them.

use std::collections::BTreeMap;

use crate::{End, RequestId};

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Granted,
    Running,
    /// Its process is being ended; this is reported then.
    Ending(End),
    Over,
}

/// A request and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its host; empty until it is granted.
    pub host: String,
    stage: Stage,
}

/// The requests of one call. They share an allocation.
#[derive(Clone, Debug)]
pub struct Call {
    first: RequestId,
    slots: Vec<Slot>,
    is_granted: bool,
}

impl Call {
    /// `count` requests that wait.
    pub fn new(first: RequestId, count: usize) -> Self {
        let slot = Slot { host: String::new(), stage: Stage::Waiting };
        Self { first, slots: vec![slot; count], is_granted: false }
    }

    pub const fn first(&self) -> RequestId {
        self.first
    }

    /// The place of a request in this call.
    pub fn index_of(&self, id: RequestId) -> Option<usize> {
        let index = usize::try_from(id.0.checked_sub(self.first.0)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }

    /// Whether the slots were granted.
    pub const fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Whether all requests are over.
    pub fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| slot.stage == Stage::Over)
    }

    /// The slots are granted, each on its host. Returns the requests that are cancelled, because there is no slot for them.
    pub fn grant(&mut self, hosts: &[String]) -> Vec<RequestId> {
        self.is_granted = true;
        let mut without = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.stage != Stage::Waiting {
                continue;
            }
            if let Some(host) = hosts.get(index) {
                (slot.stage, slot.host) = (Stage::Granted, host.clone());
            } else {
                slot.stage = Stage::Over;
                without.push(self.first.plus(index));
            }
        }
        without
    }

    /// The process of a request starts. Returns its host; `None` if the request is not granted.
    pub fn start(&mut self, id: RequestId) -> Option<&str> {
        let index = self.index_of(id)?;
        let slot = &mut self.slots[index];
        if slot.stage != Stage::Granted {
            return None;
        }
        slot.stage = Stage::Running;
        Some(&slot.host)
    }

    /// Cancels a request. Returns whether it is over now; a process that runs must be ended first.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(index) = self.index_of(id) else { return false };
        let slot = &mut self.slots[index];
        match slot.stage {
            Stage::Waiting | Stage::Granted => {
                slot.stage = Stage::Over;
                true
            }
            Stage::Running => {
                slot.stage = Stage::Ending(End::Cancelled);
                false
            }
            Stage::Ending(_) | Stage::Over => false,
        }
    }

    /// The process of a request has ended. Returns what to report; `None` if nothing.
    pub fn ended(&mut self, id: RequestId, end: End) -> Option<End> {
        let index = self.index_of(id)?;
        let slot = &mut self.slots[index];
        match std::mem::replace(&mut slot.stage, Stage::Over) {
            Stage::Over => None,
            Stage::Ending(end) => Some(end),
            _ => Some(end),
        }
    }

    /// The slots of a host are lost. Returns the requests that are over; those with a process are over when it has ended.
    pub fn lose(&mut self, host: &str) -> Vec<RequestId> {
        let first = self.first;
        let there = self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.host == host);
        let lost = there.filter_map(|(index, slot)| {
            (slot.stage == Stage::Granted).then(|| {
                slot.stage = Stage::Over;
                first.plus(index)
            })
        });
        lost.collect()
    }

    /// All slots are lost. Returns the requests that are over, and those whose process must be ended, which then end in
    /// this way.
    pub fn lose_all(&mut self, end: End) -> (Vec<RequestId>, Vec<RequestId>) {
        let (mut over, mut running) = (Vec::new(), Vec::new());
        for (index, slot) in self.slots.iter_mut().enumerate() {
            match slot.stage {
                Stage::Waiting | Stage::Granted => {
                    slot.stage = Stage::Over;
                    over.push(self.first.plus(index));
                }
                Stage::Running => {
                    slot.stage = Stage::Ending(end);
                    running.push(self.first.plus(index));
                }
                Stage::Ending(_) | Stage::Over => {}
            }
        }
        (over, running)
    }

    /// The slots that the call still needs: each host with its number.
    pub fn needs(&self) -> BTreeMap<&str, u32> {
        let mut hosts = BTreeMap::new();
        for slot in self.slots.iter().filter(|slot| slot.stage != Stage::Over) {
            *hosts.entry(slot.host.as_str()).or_insert(0) += 1;
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> RequestId {
        RequestId(number)
    }

    fn granted(hosts: &[&str], count: usize) -> (Call, Vec<RequestId>) {
        let mut call = Call::new(id(5), count);
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let without = call.grant(&hosts);
        (call, without)
    }

    #[test]
    fn a_soft_call_cancels_the_requests_without_a_slot() {
        let (call, without) = granted(&["a", "b"], 4);
        assert_eq!(without, [id(7), id(8)]);
        assert_eq!(call.needs(), [("a", 1), ("b", 1)].into());
        assert!(!call.is_over());
    }

    #[test]
    fn a_request_that_is_over_needs_no_slot_and_reports_once() {
        let (mut call, _) = granted(&["a", "a", "b"], 3);
        assert_eq!(call.start(id(5)), Some("a"));
        assert_eq!(call.start(id(5)), None);
        assert_eq!(call.ended(id(5), End::Exited(3)), Some(End::Exited(3)));
        assert_eq!(call.ended(id(5), End::Exited(3)), None);
        assert_eq!(call.needs(), [("a", 1), ("b", 1)].into());
        assert!(call.cancel(id(6)) && !call.cancel(id(6)));
        assert_eq!(call.needs(), [("b", 1)].into());
        assert_eq!(call.start(id(6)), None);
        assert!(call.cancel(id(7)) && call.is_over());
    }

    #[test]
    fn a_running_process_is_cancelled_when_it_has_ended() {
        let (mut call, _) = granted(&["a"], 1);
        call.start(id(5));
        assert!(!call.cancel(id(5)));
        assert_eq!(call.needs(), [("a", 1)].into());
        assert_eq!(call.ended(id(5), End::Signaled(15)), Some(End::Cancelled));
        assert!(call.is_over());
    }

    #[test]
    fn a_request_that_is_cancelled_before_the_grant_gets_no_slot() {
        let mut call = Call::new(id(1), 2);
        assert!(call.cancel(id(1)));
        call.grant(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(call.needs(), [("b", 1)].into());
    }

    #[test]
    fn processes_of_a_lost_allocation_are_lost_when_they_have_ended() {
        let (mut call, _) = granted(&["a", "b"], 2);
        call.start(id(5));
        assert_eq!(call.lose_all(End::Lost(0)), (vec![id(6)], vec![id(5)]));
        assert!(!call.is_over());
        assert_eq!(call.ended(id(5), End::Signaled(15)), Some(End::Lost(0)));
    }

    #[test]
    fn a_lost_host_takes_its_requests_except_those_with_a_process() {
        let (mut call, _) = granted(&["a", "a", "b"], 3);
        call.start(id(5));
        assert_eq!(call.lose("a"), [id(6)]);
        assert_eq!(call.ended(id(5), End::Lost(1)), Some(End::Lost(1)));
        assert_eq!(call.lose_all(End::Lost(0)), (vec![id(7)], vec![]));
        assert!(call.is_over() && call.index_of(id(4)).is_none() && call.index_of(id(8)).is_none());
    }
}
