//! Routes messages of the job tree, and the ends of links.

use mpd_clients::{self as clients, Level};
use mpd_job::manager::spawns::SpawnInput;
use mpd_job::manager::{Input, LinkEnd};
use mpd_stdio::machine::{Answer, Input as Stdio};
use mpd_wire::message::{Class, Down, Up, WorldPiece};

use crate::news::News;
use crate::node::Node;
use crate::output::{ForLinks, Output};
use crate::turn::Moment;

/// Most bytes that wait for the parent before unimportant messages are left out.
const MAX_WAITING: usize = 512 * 1024;

impl Node {
    pub(super) fn take_news(&mut self, at: Moment<'_>, news: News) {
        match news {
            News::Up(_) | News::Spec(_) | News::Down(Down::Spec { .. }) => {}
            News::Down(Down::Preloads { files, more }) => {
                self.perform(ForLinks::Listed(files, more));
            }
            News::Down(Down::OutputCredit { stream, bytes }) => {
                self.perform(Stdio::OutputCredit(stream, bytes));
            }
            News::Down(Down::LookAt { stream, ranks }) => {
                self.perform(Stdio::LookAt(stream, ranks));
            }
            News::Down(command) => self.machine.post(Input::FromParent(command)),
            News::Report(tree_index, message) => self.take_up(at, tree_index, message),
            News::Output(tree_index, stream, bytes) => {
                self.perform(Stdio::Output(tree_index, stream, bytes));
            }
            News::File(bytes) => self.perform(ForLinks::File(bytes)),
            News::Stdin(bytes) => self.perform(Stdio::StdinPiece(bytes)),
            News::Keys(from, bytes) => self.perform(clients::Input::Keys(from, bytes)),
            News::World(_, bytes) if WorldPiece::read(&bytes).is_none() => {
                let text = "received a malformed piece of a world".to_owned();
                self.perform(Output::Log(Level::Warning, text));
            }
            News::World(from, bytes) => {
                self.machine.post(Input::Spawn(SpawnInput::Piece(from, bytes)));
            }
            News::Pmix(from, bytes) => self.perform(clients::Input::Piece(from, bytes)),
            News::Lost { end, problem, closed: false, .. } => self.lose(end, problem),
            News::Lost { end: LinkEnd::Parent, problem, .. } => {
                self.machine.post(Input::ParentLost(problem));
            }
            News::Lost { end: LinkEnd::Child(tree_index), problem, .. } => {
                self.forget_child(tree_index);
                self.machine.post(Input::ChildClosed(tree_index, problem));
            }
        }
    }

    fn take_up(&mut self, at: Moment<'_>, child: usize, message: Up) {
        match message {
            Up::StdinCredit { bytes } => self.perform(Stdio::StdinCredit(child, bytes)),
            Up::StdinUnwanted { switches } => {
                self.perform(Stdio::StdinUnwanted(child, switches));
            }
            Up::Looked { stream, behind, others } => {
                let child = Some(child);
                self.perform(Stdio::Looked(Answer { child, stream, behind, others }));
            }
            Up::Lacks { files } => self.perform(ForLinks::Lacks(child, files)),
            Up::Trace { tree_index, received_us, reported_us, spans } => {
                let (origin, times) = ((child, tree_index), (received_us, reported_us));
                self.report_to(at, |it, turn| it.take_spans(turn, origin, times, spans));
            }
            Up::Drained => {
                self.perform(Stdio::FlowDrained(child));
                self.machine.post(Input::FromChild(child, Up::Drained));
            }
            message => self.machine.post(Input::FromChild(child, message)),
        }
    }

    /// Sends a message unless too much waits already.
    pub(super) fn send_up_if_room(&mut self, at: Moment<'_>, message: Up) {
        let has_room = |class| at.facts.queued(LinkEnd::Parent, class) < MAX_WAITING;
        if has_room(Class::Control) && has_room(Class::Out) {
            self.perform(ForLinks::Up(message));
        } else {
            let text = format!("{message:?} is left out: too much waits for the parent");
            self.perform(Output::Log(Level::Debug, text));
        }
    }

    /// Sends a command to all children.
    pub(super) fn send_down_all(&mut self, at: Moment<'_>, command: Down) {
        if command == Down::Go {
            self.upstream.go_passed_on(at.now);
        }
        let is_kill = command == Down::Kill;
        self.perform(ForLinks::DownAll(command));
        if is_kill {
            self.give_up_unlinked(at);
        }
    }

    /// Ends the wait for children that have not connected, since the job ends. They have started nothing. They end
    /// when they find no manager here.
    fn give_up_unlinked(&mut self, at: Moment<'_>) {
        for tree_index in self.children().filter(|&tree_index| at.facts.awaits(tree_index)) {
            self.unlinked = true;
            let problem = "its manager had not connected when the job was ended".to_owned();
            self.break_off(LinkEnd::Child(tree_index), problem);
        }
    }

    /// Closes the link of a manager that broke the protocol.
    pub(super) fn break_off(&mut self, end: LinkEnd, problem: String) {
        self.perform(ForLinks::Close(end));
        self.lose(end, problem);
    }

    fn lose(&mut self, end: LinkEnd, problem: String) {
        match end {
            LinkEnd::Parent => self.machine.post(Input::ParentLost(problem)),
            LinkEnd::Child(tree_index) => {
                self.forget_child(tree_index);
                self.machine.post(Input::ChildLost(tree_index, problem));
            }
        }
    }

    /// Gives up a child that did not get the job, and its subtree.
    pub(super) fn give_up(&mut self, tree_index: usize) {
        self.perform(ForLinks::Close(LinkEnd::Child(tree_index)));
        self.forget_child(tree_index);
    }

    fn forget_child(&mut self, tree_index: usize) {
        self.perform(ForLinks::StopSending(tree_index));
        self.perform(Stdio::ChildrenGone(tree_index));
    }
}
