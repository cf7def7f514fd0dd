//! Recordings of simulated machines: their replays have the same outputs.

use std::cell::RefCell;
use std::rc::Rc;

use mpd_machine::{Pump, Time};
use mpd_recording::{
    End, Header, Lines, MAX_RECORDING, Options, Origin, Recorded, Recorder, Sink, replay,
};

/// A recording in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Rc<RefCell<Vec<u8>>>);

impl Memory {
    /// The recorded bytes so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

impl Sink for Memory {
    fn append(&mut self, line: &[u8]) -> bool {
        self.0.borrow_mut().extend_from_slice(line);
        true
    }

    fn stopped(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// The pump of a new machine whose steps are recorded in `memory`.
pub(crate) fn recorded<M: Recorded + 'static>(
    now: Time,
    start: M::Start,
    memory: &Memory,
) -> Pump<M> {
    let text = String::new;
    let origin = Origin { program: text(), version: text(), host: text(), pid: 0, began: text() };
    let header = Header::new::<M>(origin, now, &start);
    let machine = M::begin(now, start).expect("a sound configuration");
    Pump::new(machine).observed(Recorder::new(memory.clone(), MAX_RECORDING, &header))
}

/// Replays a recording. Returns the number of its steps.
pub(crate) fn replays<M: Recorded>(recording: &[u8]) -> u64 {
    let (header, lines) = Lines::begin(recording).expect("a header");
    let mut last = String::new();
    let replayed =
        replay::<M>(header, lines, Options::default(), &mut |line| line.clone_into(&mut last));
    let replayed = replayed.expect("a sound recording");
    assert!(matches!(replayed.end, End::Program | End::Abrupt), "{replayed:?}, last {last}");
    replayed.steps
}
