//! Recordings of a manager's machine. They have no keys, environments or output of programs, since
//! the machine gets none of these. Lines that users type for debuggers are recorded by their length.

use std::fmt;
use std::time::Duration;

use mpd_machine::Time;
use mpd_recording::Recorded;
use mpd_wire::job::{AbortScope, HostSlices, MAX_RANKS, OnFailure};
use mpd_wire::message::Down;
use serde::{Deserialize, Serialize};

use crate::manager::{Config, Input, Manager, Output};

/// The recorded form of a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// [`Config::host_slices`].
    pub host_slices: HostSlices,
    /// [`Config::tree_index`].
    pub tree_index: usize,
    /// [`Config::size`].
    pub size: u32,
    /// [`Config::on_failure`].
    pub on_failure: OnFailure,
    /// [`Config::abort_scope`].
    #[serde(default)]
    pub abort_scope: AbortScope,
    /// [`Config::limit`].
    pub limit: Option<Duration>,
    /// [`Config::debugged`].
    pub debugged: bool,
    /// [`Config::elastic`].
    #[serde(default)]
    pub elastic: bool,
}

impl Start {
    /// The same as a [`Config`].
    pub const fn config(&self) -> Config<'_> {
        let Self {
            host_slices,
            tree_index,
            size,
            on_failure,
            abort_scope,
            limit,
            debugged,
            elastic,
        } = self;
        Config {
            host_slices,
            tree_index: *tree_index,
            size: *size,
            on_failure: *on_failure,
            abort_scope: *abort_scope,
            limit: *limit,
            debugged: *debugged,
            elastic: *elastic,
        }
    }
}

impl Recorded for Manager {
    const NAME: &'static str = "job";
    type Start = Start;
    type Entry = Input;

    fn begin(_: Time, start: Start) -> Result<Self, String> {
        if start.size > MAX_RANKS {
            return Err(format!("{} ranks are too many", start.size));
        }
        start.host_slices.check(start.size).map_err(|e| e.to_string())?;
        if start.tree_index >= start.host_slices.len() {
            return Err("there is no such manager".to_owned());
        }
        Ok(Self::new(start.config()))
    }

    fn entry(&self, input: &Input) -> Input {
        match input.clone() {
            Input::Debug(ranks, line) => Input::Debug(ranks, blank(&line)),
            Input::FromParent(down) => Input::FromParent(blanked(down)),
            input => input,
        }
    }

    fn input(entry: Input) -> Input {
        entry
    }

    fn next_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }

    fn write_output(output: &Output, to: &mut impl fmt::Write) -> fmt::Result {
        match output.clone() {
            Output::Debug(ranks, line) => write!(to, "{:?}", Output::Debug(ranks, blank(&line))),
            Output::ToSome(tree_indices, down) => {
                write!(to, "{:?}", Output::ToSome(tree_indices, blanked(down)))
            }
            Output::ToChildren(down) => write!(to, "{:?}", Output::ToChildren(blanked(down))),
            output => write!(to, "{output:?}"),
        }
    }
}

/// A command without the line of a user.
fn blanked(down: Down) -> Down {
    match down {
        Down::Debug { ranks, line } => Down::Debug { ranks, line: blank(&line) },
        down => down,
    }
}

/// A line of the same length.
fn blank(line: &str) -> String {
    "x".repeat(line.len())
}
