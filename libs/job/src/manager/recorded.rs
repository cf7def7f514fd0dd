//! Recordings of a manager's machine. They have no keys and no output of programs, since the machine gets none of these.
//! Lines that users type for debuggers, and the variables and arguments of spawned programs, are recorded by their lengths.

use std::fmt;

use mpd_recording::Recorded;
use mpd_sansio::Time;
use mpd_wire::job::MAX_RANKS;
use mpd_wire::message::Down;

use crate::manager::spawns::Announced;
use crate::manager::spawns::recorded::text_of;
use crate::manager::{Config, Input, Manager, Output};

impl Recorded for Manager {
    const NAME: &'static str = "job";
    type Start = Config;
    type Entry = Input;

    fn begin(_: Time, config: Config) -> Result<Self, String> {
        if config.size > MAX_RANKS {
            return Err(format!("{} ranks are too many", config.size));
        }
        config.host_slices.check(config.size).map_err(|e| e.to_string())?;
        if config.tree_index >= config.host_slices.len() {
            return Err("there is no such manager".to_owned());
        }
        Ok(Self::new(&config))
    }

    fn entry(&self, input: &Input) -> Input {
        match input {
            Input::Debug(ranks, line) => Input::Debug(ranks.clone(), blank(line)),
            Input::FromParent(down) => Input::FromParent(blanked(down.clone())),
            Input::Spawn(spawn) => Input::Spawn(self.spawns.blanked(spawn)),
            input => input.clone(),
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
            Output::Spawn(output) => to.write_str(&text_of(&output)),
            Output::Prepare(announced) => {
                let Announced { world, parts, order } = *announced;
                write!(to, "Prepare({world:?}, {parts:?}, known: {})", order.is_some())
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
