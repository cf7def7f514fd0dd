//! Consoles that wait for the state of a manager of this host.

use std::collections::BTreeMap;

use mpd_wire::message::ManagerOrder;
use mpd_wire::{ConsoleId, JobId};

use crate::manager_message::ManagerMessage;

/// Most consoles that wait at one time.
const MAX_ASKS: usize = 64;

#[derive(Debug)]
struct Ask {
    console: ConsoleId,
    job: JobId,
}

/// The consoles that wait for a state, by the number of the request to the manager.
#[derive(Debug, Default)]
pub(crate) struct States {
    asks: BTreeMap<u32, Ask>,
    last: u32,
}

impl States {
    /// Notes that a console waits for the state of the manager of `job`. Returns the message to the manager; `None`
    /// if too many consoles wait.
    pub(crate) fn ask(&mut self, console: ConsoleId, job: JobId) -> Option<ManagerMessage> {
        if self.asks.len() >= MAX_ASKS {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let request = self.last;
        self.asks.insert(request, Ask { console, job: job.clone() });
        Some(ManagerMessage::new(job, ManagerOrder::State { request }))
    }

    /// The console that waits for this piece of the state of the manager of `job`. The last piece ends the wait.
    pub(crate) fn take(&mut self, job: &JobId, request: u32, more: bool) -> Option<ConsoleId> {
        let console = self.asks.get(&request).filter(|ask| ask.job == *job)?.console;
        if !more {
            self.asks.remove(&request);
        }
        Some(console)
    }

    /// Handles the closed connection of the manager of `job`. Returns the consoles that wait for it.
    pub(crate) fn lose_manager(&mut self, job: &JobId) -> Vec<ConsoleId> {
        let lost = self.asks.extract_if(.., |_, ask| ask.job == *job);
        lost.map(|(_, ask)| ask.console).collect()
    }

    /// Forgets a console that is gone.
    pub(crate) fn forget_console(&mut self, console: ConsoleId) {
        self.asks.retain(|_, ask| ask.console != console);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> JobId {
        JobId::new(number, "h1").unwrap()
    }

    fn request(manager_message: Option<ManagerMessage>) -> u32 {
        match manager_message.map(|manager_message| manager_message.order) {
            Some(ManagerOrder::State { request }) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_console_gets_the_pieces_of_its_own_manager_until_the_last() {
        let mut states = States::default();
        let [one, two] =
            [(20, 1), (21, 2)].map(|(c, number)| request(states.ask(ConsoleId(c), job(number))));
        assert_eq!(states.take(&job(2), one, false), None, "another job's manager answers");
        assert_eq!(states.take(&job(1), one, true), Some(ConsoleId(20)));
        assert_eq!(states.take(&job(1), one, false), Some(ConsoleId(20)));
        assert_eq!(states.take(&job(1), one, false), None);
        assert_eq!(states.lose_manager(&job(2)), [ConsoleId(21)]);
        assert_eq!(states.take(&job(2), two, false), None);
    }

    #[test]
    fn consoles_that_are_gone_make_room() {
        let mut states = States::default();
        assert!((0..MAX_ASKS).all(|console| states.ask(ConsoleId(console), job(1)).is_some()));
        assert!(states.ask(ConsoleId(99), job(1)).is_none());
        states.forget_console(ConsoleId(3));
        assert!(states.ask(ConsoleId(99), job(1)).is_some());
    }
}
