//! Routes outputs of the machine of the clients.

use mpd_clients::{Action, LinkOutput, Output as ClientsOutput};
use mpd_ending::Input as Ending;
use mpd_ranks::Input as Ranks;
use mpd_sansio::Time;
use mpd_wire::message::Phase;

use crate::event::{Event, Mark};
use crate::lending::Lending;
use crate::output::{ForLinks, Work};

impl Lending<'_> {
    /// Reports go behind earlier events. Returns what the owner of the connections performs.
    pub(crate) fn route_clients(&mut self, now: Time, output: ClientsOutput) -> Option<Action> {
        let event = match output {
            ClientsOutput::Act(action) => return Some(action),
            ClientsOutput::Job(input) => Event::Input(input),
            ClientsOutput::Daemon(report) => report.into(),
            ClientsOutput::Links(LinkOutput::Up(message)) => ForLinks::Up(message).into(),
            ClientsOutput::Links(LinkOutput::DownNow(tree_indices, command)) => {
                ForLinks::DownNow(tree_indices, command).into()
            }
            ClientsOutput::Links(LinkOutput::Bytes(to, kind, bytes)) => {
                ForLinks::Bytes(to, kind, bytes).into()
            }
            ClientsOutput::Links(LinkOutput::Broken(end, problem)) => Event::Broken(end, problem),
            ClientsOutput::Spawn(caller, spawn) => Event::Spawn(caller, spawn),
            ClientsOutput::Signal(rank, signal) => Work::Signal(rank, signal).into(),
            ClientsOutput::Speaks => Ranks::UsesPmi.into(),
            ClientsOutput::Aborts(rank) => Ranks::Aborts(rank).into(),
            ClientsOutput::Leaves => Ranks::AdoptedLeft.into(),
            ClientsOutput::ToRemove(registered) => Ending::Register(registered).into(),
            ClientsOutput::FenceBegins => Event::Span(Mark::Begin, now, Phase::Fence, None),
            ClientsOutput::FenceEnds => Event::Span(Mark::End, now, Phase::Fence, None),
        };
        self.report(event);
        None
    }
}
