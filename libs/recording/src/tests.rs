//! A small machine is recorded and replayed; files of any content are read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use mpd_sansio::Pump;

/// Sums numbers. Has an alarm one second after each input.
#[derive(Debug, Default)]
struct Adder {
    sum: u64,
    alarm: Option<Time>,
    news: bool,
    outputs: VecDeque<String>,
}

#[derive(Clone, Debug)]
struct Number {
    value: u64,
    secret: &'static str,
}

fn number(value: u64) -> Number {
    Number { value, secret: "hush" }
}

impl Machine for Adder {
    type Input = Number;
    type Output = String;

    fn handle(&mut self, now: Time, input: Number) {
        assert!(self.outputs.is_empty());
        assert!(input.secret.is_empty() || input.secret == "hush");
        self.sum = self.sum.wrapping_add(input.value);
        self.alarm = Some(now + Duration::from_secs(1));
        self.news = true;
        self.outputs.push_back(format!("sum {}", self.sum));
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.alarm.take_if(|at| *at <= now).is_some() {
            self.outputs.push_back("alarm".to_owned());
        }
    }

    fn end_turn(&mut self, _: Time) {
        if std::mem::take(&mut self.news) {
            self.outputs.push_back("news".to_owned());
        }
    }

    fn poll_output(&mut self) -> Option<String> {
        self.outputs.pop_front()
    }
}

impl Recorded for Adder {
    const NAME: &'static str = "adder";
    type Start = u64;
    type Entry = u64;

    fn begin(_: Time, start: u64) -> Result<Self, String> {
        if start == 13 {
            return Err("13 brings bad luck".to_owned());
        }
        Ok(Self { sum: start, outputs: VecDeque::from(["hello".to_owned()]), ..Self::default() })
    }

    fn entry(&self, input: &Number) -> u64 {
        input.value
    }

    fn input(entry: u64) -> Number {
        Number { value: entry, secret: "" }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.alarm
    }
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Written>>);

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    /// The disk is full when the file has this size.
    room: Option<usize>,
    stopped: Vec<String>,
}

impl Sink for Memory {
    fn append(&mut self, line: &[u8]) -> bool {
        let mut file = self.0.borrow_mut();
        let room = file.room.unwrap_or(usize::MAX) - file.bytes.len();
        let fits = line.len() <= room;
        file.bytes.extend_from_slice(&line[..line.len().min(room)]);
        fits
    }

    fn stopped(&mut self, why: &str) {
        self.0.borrow_mut().stopped.push(why.to_owned());
    }
}

fn origin() -> Origin {
    Origin {
        program: "test".to_owned(),
        version: "1".to_owned(),
        host: "h1".to_owned(),
        pid: 1,
        began: "2026-01-01T00:00:00Z".to_owned(),
    }
}

/// Runs the adder with a recorder for so many inputs, with idle turns between.
fn recorded(inputs: &[u64], most: u64, memory: &Memory) -> u64 {
    let mut now = Time::from_micros(5);
    let adder = Adder::begin(now, 100).unwrap();
    let header = Header::new::<Adder>(origin(), now, &100);
    let recorder = Recorder::<Adder, _>::new(memory.clone(), most, &header);
    let mut pump = Pump::new(adder).observed(recorder);
    while pump.next(now).is_some() {}
    for value in inputs {
        pump.post(number(*value));
        for _ in 0..3 {
            while pump.next(now).is_some() {}
            pump.handle_timeout(now);
            while pump.next(now).is_some() {}
            pump.end_turn(now);
            while pump.next(now).is_some() {}
            now = now + Duration::from_millis(600);
        }
    }
    pump.machine().sum
}

fn bytes_of(inputs: &[u64]) -> Vec<u8> {
    let memory = Memory::default();
    recorded(inputs, MAX_RECORDING, &memory);
    memory.0.take().bytes
}

fn replayed(bytes: &[u8], options: Options) -> Result<(Replayed, Vec<String>), InvalidRecording> {
    let (header, lines) = Lines::begin(bytes)?;
    let mut shown = Vec::new();
    let result = replay::<Adder>(header, lines, options, &mut |line| shown.push(line.to_owned()))?;
    Ok((result, shown))
}

#[test]
fn a_replay_has_the_recorded_outputs_and_shows_each_step() {
    let bytes = bytes_of(&[1, 2]);
    let (result, shown) = replayed(&bytes, Options { until: None, state: true }).unwrap();
    assert_eq!(result, Replayed { steps: 6, end: End::Program });
    let expected = [
        "    -> \"hello\"",
        "1 +0.000000 Number { value: 1, secret: \"\" }",
        "    -> \"sum 101\"",
        "2 +0.000000 end of turn",
        "    -> \"news\"",
    ];
    assert_eq!(shown[..5], expected);
    assert!(shown.last().unwrap().contains("sum: 103"), "{shown:?}");
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains("hush"), "{text}");
    assert_eq!(text.lines().count(), 1 + 6 + 1, "turns that change nothing are not recorded");
}

#[test]
fn a_replay_ends_at_the_wanted_step() {
    let (result, shown) =
        replayed(&bytes_of(&[1, 2]), Options { until: Some(1), state: false }).unwrap();
    assert_eq!(result, Replayed { steps: 1, end: End::Asked });
    assert_eq!(shown.last().unwrap(), "    -> \"sum 101\"");
}

#[test]
fn a_replay_names_the_first_step_whose_outputs_differ() {
    let text = String::from_utf8(bytes_of(&[1, 2, 3])).unwrap();
    let changed = text.replacen("\"input\":2", "\"input\":7", 1);
    assert_ne!(text, changed);
    let (result, _) = replayed(changed.as_bytes(), Options::default()).unwrap();
    let why = "the 1 outputs are not the recorded ones".to_owned();
    assert_eq!(result, Replayed { steps: 4, end: End::Differs(why) });
}

#[test]
fn a_full_file_ends_the_recording_and_says_so() {
    let memory = Memory::default();
    recorded(&[1; 100], 2048, &memory);
    let file = memory.0.take();
    assert!(file.bytes.len() <= 2048);
    assert_eq!(file.stopped, ["the file has its full size"]);
    let (result, _) = replayed(&file.bytes, Options::default()).unwrap();
    assert_eq!(result.end, End::Stopped("the file has its full size".to_owned()));
    assert!(result.steps > 5);
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let memory = Memory::default();
    memory.0.borrow_mut().room = Some(700);
    assert_eq!(recorded(&[1; 100], MAX_RECORDING, &memory), 200);
    let file = memory.0.take();
    assert_eq!((file.bytes.len(), file.stopped.len()), (700, 0));
    let (result, _) = replayed(&file.bytes, Options::default()).unwrap();
    assert_eq!(result.end, End::Abrupt);
}

#[test]
fn a_wrong_file_is_refused_with_the_reason() {
    let bytes = bytes_of(&[1]);
    let text = String::from_utf8(bytes).unwrap();
    let problem = |text: &str| match replayed(text.as_bytes(), Options::default()) {
        Ok(result) => panic!("{result:?}"),
        Err(problem) => problem.to_string(),
    };
    assert_eq!(problem(""), "the file is empty");
    assert!(problem("hello\n").starts_with("the file is no recording: "));
    let other = text.replacen("\"recording\":1", "\"recording\":2", 1);
    assert_eq!(problem(&other), "the recording has format 2 and this program reads format 1");
    let unlucky = text.replacen("\"start\":100", "\"start\":13", 1);
    assert!(problem(&unlucky).ends_with("13 brings bad luck"));
    let torn = text.replacen("\"input\":1", "\"input\":\"x\"", 1);
    assert!(problem(&torn).starts_with("line 2: invalid type"), "{}", problem(&torn));
    let back = text.replacen("{\"at\":5", "{\"at\":4", 1);
    assert_eq!(problem(&back), "line 2: the time goes back");
    let long = format!("{}\n{}\n", text.lines().next().unwrap(), " ".repeat(MAX_LINE));
    assert!(problem(&long).contains("more than"));
}

proptest! {
    #[test]
    fn every_recording_replays(inputs in prop::collection::vec(any::<u64>(), 0..20)) {
        let (result, _) = replayed(&bytes_of(&inputs), Options::default()).unwrap();
        prop_assert_eq!(result.end, End::Program);
    }

    #[test]
    fn a_recording_cut_anywhere_replays_up_to_the_cut(cut in 0usize..3000) {
        let bytes = bytes_of(&[1, 2, 3, 4]);
        let cut = cut.min(bytes.len());
        match replayed(&bytes[..cut], Options::default()) {
            Ok((result, _)) => {
                prop_assert!(matches!(result.end, End::Program | End::Abrupt), "{:?}", result);
            }
            Err(InvalidRecording::Empty | InvalidRecording::NoHeader(_)) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_file_with_changed_bytes_is_replayed_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = bytes_of(&[1, 2, 3]);
        for (index, byte) in changes {
            *index.get_mut(&mut bytes) = byte;
        }
        let _ = replayed(&bytes, Options::default());
    }

    #[test]
    fn any_bytes_are_refused_or_replayed(bytes: Vec<u8>) {
        prop_assert!(replayed(&bytes, Options::default()).is_err());
    }
}
