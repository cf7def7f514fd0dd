//! Writes a recording while the machine runs.

use std::fmt;
use std::marker::PhantomData;

use mpd_sansio::{Observer, Step as Taken, Time};
use serde::Serialize;

use crate::Recorded;
use crate::format::{Header, Line, MAX_LINE, Outputs, Step, micros};

/// Bytes that are kept free for the last line.
const LAST_LINE: u64 = 512;

/// The destination of the lines of a recording.
pub trait Sink {
    /// Appends a whole line. `false`: no further line can be written. The sink has reported the error.
    fn append(&mut self, line: &[u8]) -> bool;

    /// The recording ends before the program, for this reason.
    fn stopped(&mut self, why: &str);
}

/// Records the steps of a machine. If a line cannot be written, the recording ends and the machine
/// continues.
pub struct Recorder<M, S: Sink> {
    /// `None` after the end.
    sink: Option<S>,
    /// Bytes that may still be written.
    left: u64,
    /// The time of the last step.
    at: u64,
    /// The outputs of the last step that is in the recording.
    outputs: Outputs,
    /// A step that changes nothing unless it has outputs.
    idle: Option<Taken<'static, ()>>,
    /// A buffer for the text of outputs.
    text: String,
    machine: PhantomData<fn(M)>,
}

impl<M: Recorded, S: Sink> Recorder<M, S> {
    /// Begins a recording of at most `most` bytes.
    pub fn new(sink: S, most: u64, header: &Header) -> Self {
        let mut recorder = Self {
            sink: Some(sink),
            left: most,
            at: header.at,
            outputs: Outputs::default(),
            idle: None,
            text: String::new(),
            machine: PhantomData,
        };
        recorder.append(header);
        recorder
    }

    fn write(&mut self, step: Step<M::Entry>) {
        let outputs = std::mem::take(&mut self.outputs);
        self.append(&Line { at: self.at, outputs, step });
    }

    fn append(&mut self, value: &impl Serialize) {
        let Some(sink) = &mut self.sink else { return };
        // A value of our types always serialises; see frame::encode_message.
        let mut line = serde_json::to_vec(value).expect("a line of a recording serialises");
        line.push(b'\n');
        let length = line.len() as u64;
        let why = if line.len() > MAX_LINE {
            "one input is too large"
        } else if length + LAST_LINE > self.left {
            "the file has its full size"
        } else {
            self.left -= length;
            if !sink.append(&line) {
                self.sink = None;
            }
            return;
        };
        self.stop(why);
    }

    fn stop(&mut self, why: &str) {
        let Some(mut sink) = self.sink.take() else { return };
        let step: Step<M::Entry> = Step::Stopped(why.to_owned());
        let line = Line { at: self.at, outputs: Outputs::default(), step };
        let mut line = serde_json::to_vec(&line).expect("a line of a recording serialises");
        line.push(b'\n');
        if sink.append(&line) {
            sink.stopped(why);
        }
    }
}

impl<M: Recorded, S: Sink> Observer<M> for Recorder<M, S> {
    fn before(&mut self, machine: &M, now: Time, step: Taken<'_, M::Input>) {
        if self.sink.is_none() {
            return;
        }
        self.idle = None;
        self.at = micros(now);
        match step {
            Taken::Input(input) => self.write(Step::Input(machine.entry(input))),
            Taken::Timeout if machine.next_timeout().is_some_and(|at| at <= now) => {
                self.write(Step::Timeout);
            }
            Taken::Timeout => self.idle = Some(Taken::Timeout),
            Taken::EndOfTurn => self.idle = Some(Taken::EndOfTurn),
        }
    }

    fn output(&mut self, output: &M::Output) {
        if self.sink.is_none() {
            return;
        }
        match self.idle.take() {
            Some(Taken::EndOfTurn) => self.write(Step::EndOfTurn),
            Some(_) => self.write(Step::Timeout),
            None => {}
        }
        self.text.clear();
        if M::write_output(output, &mut self.text).is_ok() {
            self.outputs.add(&self.text);
        }
    }
}

impl<M, S: Sink> Drop for Recorder<M, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let Some(sink) = &mut self.sink else { return };
        let line = Line::<()> { at: self.at, outputs: self.outputs, step: Step::End };
        let mut line = serde_json::to_vec(&line).expect("a line of a recording serialises");
        line.push(b'\n');
        sink.append(&line);
    }
}

impl<M, S: Sink> fmt::Debug for Recorder<M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_open, left) = (self.sink.is_some(), self.left);
        write!(f, "Recorder {{ is_open: {is_open}, left: {left} }}")
    }
}
