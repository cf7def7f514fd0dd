//! Recordings of simulated machines: their replays have the same outputs.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use mpd_recording::{
    End, Header, Lines, MAX_RECORDING, Options, Origin, Recorded, Recorder, Sink, replay,
};
use mpd_sansio::{Pump, Time};

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

/// The recordings of the tree, with all outputs: the current code has the same ones for the same inputs.
/// `scripts/recordings --update` writes new ones.
pub(crate) fn are_as_in_the_tree<M: Recorded>(name: &str, record: impl FnOnce() -> Vec<Vec<u8>>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        let texts: String = record().iter().map(|one| with_outputs::<M>(one)).collect();
        return std::fs::write(&path, texts).expect("the recordings");
    }
    let text = std::fs::read_to_string(&path).expect("recordings");
    let (mut begin, mut count) = (0, 0);
    while begin < text.len() {
        let next = text[begin + 1..].find(HEADER).map_or(text.len(), |at| begin + 1 + at + 1);
        let expected = &text[begin..next];
        let steps = expected.lines().filter(|line| line.starts_with('{'));
        let recording: String = steps.flat_map(|line| [line, "\n"]).collect();
        let played = with_outputs::<M>(recording.as_bytes());
        let change = expected.lines().zip(played.lines()).find(|(old, new)| old != new);
        let advice = "if the change is intended: scripts/recordings --update";
        assert!(expected == played, "{name}, recording {count}: {change:#?}; {advice}");
        (begin, count) = (next, count + 1);
    }
    assert!(count > 1, "{count} recordings");
}

/// The beginning of a recording that is not the first one of a file.
const HEADER: &str = "\n{\"recording\"";

/// The lines of a recording, each with the outputs of its step behind it.
fn with_outputs<M: Recorded>(recording: &[u8]) -> String {
    let text = std::str::from_utf8(recording).expect("JSON");
    let mut steps = text.lines();
    let (header, lines) = Lines::begin(recording).expect("a header");
    let mut shown: Vec<&str> = steps.next().into_iter().collect();
    let mut outputs = Vec::new();
    let replayed = replay::<M>(header, lines, Options::default(), &mut |line| {
        let is_output = line.starts_with("    -> ");
        outputs.push(is_output.then(|| line.to_owned()));
    });
    let end = replayed.expect("a recording of this version; else scripts/recordings --update").end;
    shown.extend(outputs.iter().filter_map(|output| match output {
        Some(output) => Some(output.as_str()),
        None => steps.next(),
    }));
    // After a difference, the other steps have no outputs.
    if matches!(end, End::Program | End::Abrupt) {
        shown.extend(steps);
    }
    shown.join("\n") + "\n"
}
