//! Routes outputs of the machine of the end.

use mpd_clients::FromJob;
use mpd_ending::{Output as EndingOutput, names_of};
use mpd_job::manager::Input;
use mpd_ranks::Input as RanksInput;
use mpd_wire::Pid;

use crate::event::{Event, Mark};
use crate::node::Node;
use crate::output::Output;
use crate::turn::Moment;

impl Node {
    /// Reports go behind earlier events. Returns what is to be performed before the machine's next output.
    pub(crate) fn route_ending(&mut self, at: Moment<'_>, output: EndingOutput) -> Option<Output> {
        let names = |pids: &[Pid]| names_of(pids, |pid| at.facts.describe(pid));
        let event = match output {
            EndingOutput::Ask(question) => return Some(Output::AskEnding(question)),
            EndingOutput::Act(action) => return Some(Output::Ending(action)),
            EndingOutput::KillAdopted => {
                self.give_ranks(at.now, at.facts, RanksInput::KillAdopted);
                return None;
            }
            EndingOutput::PauseSearch => {
                self.give_ranks(at.now, at.facts, RanksInput::PauseSearch);
                return None;
            }
            EndingOutput::Reap => Output::Reap.into(),

            EndingOutput::Begin(phase) => Event::Span(Mark::Begin, at.now, phase, None),
            EndingOutput::End(phase) => Event::Span(Mark::End, at.now, phase, None),
            EndingOutput::TraceEnds => Event::TraceEnds,
            EndingOutput::Killing => Event::Killing,
            EndingOutput::TreeStopped => Event::Input(Input::TreeStopped),
            EndingOutput::TreeGone => Event::Input(Input::TreeGone),
            EndingOutput::LeftRunning(pids) => Event::Input(Input::LeftRunning(names(&pids))),
            EndingOutput::Unkillable(pid) => RanksInput::Unkillable(pid).into(),
            EndingOutput::SignalRefused(signal, pids) => {
                let signal = at.facts.name_of(signal);
                let problem = format!("cannot send {signal} to {}", names(&pids));
                Event::Input(Input::SignalRefused(problem))
            }
            EndingOutput::ReleaseFence(first) => FromJob::ReleaseFence(first).into(),
            EndingOutput::CleanedUp => Event::Input(Input::CleanedUp),
        };
        self.queue.report(event);
        None
    }
}
