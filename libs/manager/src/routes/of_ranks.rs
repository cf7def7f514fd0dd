//! Routes outputs of the machine of the ranks.

use mpd_clients::FromJob;
use mpd_ending::Input as Ending;
use mpd_ranks::{Action, Output as RanksOutput};
use mpd_sansio::Time;
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::Rank;

use crate::event::{Event, Mark};
use crate::node::Node;
use crate::output::Output;

impl Node {
    /// Reports go behind earlier events. Returns what is to be performed before the machine's next output.
    pub(crate) fn route_ranks(&mut self, now: Time, output: RanksOutput) -> Option<Output> {
        let event = match output {
            RanksOutput::Ask(question) => return Some(Output::AskRanks(question)),
            RanksOutput::Act(action) => {
                if action == Action::ReleaseAdopted {
                    self.queue.report(FromJob::Ended(Rank(0)));
                }
                return Some(Output::Ranks(action));
            }

            RanksOutput::Bound(first, bindings) => Event::Bound(first, bindings),
            RanksOutput::Signal(signal, target) => Ending::Signal(signal, target).into(),
            RanksOutput::Begin(phase, rank) => Event::Span(Mark::Begin, now, phase, rank),
            RanksOutput::End(phase, rank) => Event::Span(Mark::End, now, phase, rank),
            RanksOutput::Going => Event::Going,
            RanksOutput::Started(pid, begin) => Ending::Started(pid, begin).into(),
            RanksOutput::OutputBegun(ranks) => Stdio::Begun(ranks).into(),
            RanksOutput::Asked(ranks) => Stdio::Asked(ranks).into(),
            RanksOutput::Mark(rank, after, text) => Stdio::Mark(rank, after, text).into(),
            RanksOutput::Ended(rank) => Event::Ended(rank),
            RanksOutput::Retired(rank) => Event::Retired(rank),
            RanksOutput::Job(input) => Event::Input(input),
            RanksOutput::ToDaemon(report) => report.into(),
        };
        self.queue.report(event);
        None
    }
}
