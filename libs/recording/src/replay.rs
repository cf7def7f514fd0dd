//! The replay of a recording: the same machine gets the same inputs.

use std::fmt::Write as _;
use std::io::BufRead;
use std::time::Duration;

use mpd_sansio::Time;

use crate::Recorded;
use crate::format::{Header, Line, Outputs, Step};
use crate::read::{InvalidRecording, Lines, Next};

/// The options of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The number of the last step; `None`: all steps.
    pub until: Option<u64>,
    /// Whether the state of the machine is shown at the end.
    pub state: bool,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The number of steps that were replayed.
    pub steps: u64,
    /// The reason why there was no further step.
    pub end: End,
}

/// The reason why a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program ended here.
    Program,
    /// The recording ended before the program, for this reason.
    Stopped(String),
    /// The program was killed here, or it crashed in this step. The outputs of the last step are
    /// not in the recording.
    Abrupt,
    /// The user asked for no further step.
    Asked,
    /// The outputs of the last step differ from the recorded ones. The text names both.
    Differs(String),
}

/// Replays a recording of `M` and shows each step and its outputs, line by line.
///
/// # Errors
/// [`InvalidRecording`].
pub fn replay<M: Recorded>(
    header: Header,
    mut lines: Lines<impl BufRead>,
    options: Options,
    show: &mut dyn FnMut(&str),
) -> Result<Replayed, InvalidRecording> {
    let start = serde_json::from_value(header.start);
    let start: M::Start = start.map_err(|e| InvalidRecording::Start(e.to_string()))?;
    let mut at = header.at;
    let mut machine = M::begin(Time::from_micros(at), start).map_err(InvalidRecording::Start)?;
    let mut steps = 0;
    let end = loop {
        let outputs = drain(&mut machine, show);
        if options.until.is_some_and(|until| steps >= until) {
            break End::Asked;
        }
        let line: Line<M::Entry> = match lines.next()? {
            Next::Line(line) => line,
            Next::Torn | Next::Nothing => break End::Abrupt,
        };
        if line.at < at {
            return Err(lines.invalid("the time goes back".to_owned()));
        }
        at = line.at;
        if let Step::Stopped(why) = line.step {
            break End::Stopped(why);
        }
        if line.outputs != outputs {
            let (was, is) = (line.outputs.count, outputs.count);
            break End::Differs(if was == is {
                format!("the {was} outputs are not the recorded ones")
            } else {
                format!("{was} outputs were recorded, and the replay has {is}")
            });
        }
        if matches!(line.step, Step::End) {
            break End::Program;
        }
        steps += 1;
        let after = Duration::from_micros(at - header.at).as_secs_f64();
        take(&mut machine, Time::from_micros(at), line.step, &mut |step| {
            show(&format!("{steps} +{after:.6} {step}"));
        });
    };
    if options.state {
        show(&format!("{machine:#?}"));
    }
    Ok(Replayed { steps, end })
}

/// Shows a step, then takes it: a step that crashes the program is shown as well.
fn take<M: Recorded>(machine: &mut M, now: Time, step: Step<M::Entry>, show: &mut dyn FnMut(&str)) {
    match step {
        Step::Input(entry) => {
            let input = M::input(entry);
            show(&format!("{input:?}"));
            machine.handle(now, input);
        }
        Step::Timeout => {
            show("timeout");
            machine.handle_timeout(now);
        }
        Step::EndOfTurn => {
            show("end of turn");
            machine.end_turn(now);
        }
        // The caller ends at these.
        Step::End | Step::Stopped(_) => {}
    }
}

fn drain<M: Recorded>(machine: &mut M, show: &mut dyn FnMut(&str)) -> Outputs {
    let mut outputs = Outputs::default();
    let mut text = String::new();
    while let Some(output) = machine.poll_output() {
        text.clear();
        if M::write_output(&output, &mut text).is_err() {
            let _ = text.write_str("(no text)");
        }
        outputs.add(&text);
        show(&format!("    -> {text}"));
    }
    outputs
}
