//! Routes outputs of the machine of output and input.

use mpd_job::manager::{Input, LinkEnd};
use mpd_ranks::Input as Ranks;
use mpd_stdio::machine::{Action, Output as StdioOutput};
use mpd_wire::message::TreeKind;

use crate::event::Event;
use crate::lending::Lending;
use crate::output::{ForLinks, Output};

impl Lending<'_> {
    /// Reports go behind earlier events. Returns what the owner of the pipes performs.
    pub(crate) fn route_stdio(&mut self, output: StdioOutput) -> Option<Action> {
        let event = match output {
            StdioOutput::Act(action) => return Some(action),

            StdioOutput::Records(stream, records) => {
                ForLinks::Bytes(LinkEnd::Parent, TreeKind::Output(stream), records).into()
            }
            StdioOutput::StdinPiece(child, piece) => {
                ForLinks::Bytes(LinkEnd::Child(child), TreeKind::Stdin, piece).into()
            }
            StdioOutput::ToParent(message) => ForLinks::Up(message).into(),
            StdioOutput::ToParentIfRoom(message) => Event::UpIfRoom(message),
            StdioOutput::ToChild(child, message) => ForLinks::Down(child, message).into(),
            StdioOutput::ToConsole(news) => news.into(),
            StdioOutput::ToDaemon(report) => report.into(),
            StdioOutput::Broken(child, problem) => Event::Broken(LinkEnd::Child(child), problem),

            StdioOutput::Ended(rank) => Ranks::OutputEnded(rank).into(),
            StdioOutput::ReadMarks(rank) => Output::ReadMarks(rank).into(),
            StdioOutput::MarkTaken(rank) => Ranks::MarkTaken(rank).into(),

            StdioOutput::OutputClosed => Event::Input(Input::OutputClosed),
            StdioOutput::OutputFailed(problem) => Event::Input(Input::OutputFailed(problem)),
            StdioOutput::Notice(text) => Event::Input(Input::Notice(text)),
            StdioOutput::DrainGoesOn => Event::Input(Input::DrainGoesOn),
            StdioOutput::Drained => Event::Input(Input::Drained),
        };
        self.report(event);
        None
    }
}
