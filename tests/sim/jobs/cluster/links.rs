//! The links between managers: what they carry, and how they end.

use mpd_job::manager::spawns::SpawnInput;
use mpd_job::manager::{Input, LinkEnd};
use mpd_joblink::Timing;
use mpd_wire::job::{Bytes, HostSlices, ManagerEnd, RankEnd};
use mpd_wire::message::{TreeKind, Up};

use super::super::name;
use super::Cluster;

/// A message on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message<T> {
    Control(T),
    /// A piece of a request or of an order of a spawn.
    Piece(Bytes),
    /// Keys and values of ranks, or data of PMIx clients.
    OfClients(TreeKind, Bytes),
}

impl Cluster {
    pub(super) fn receive_parent(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive {
            return false;
        }
        if let Some(message) = host.from_parent.pop_front() {
            let input = match message {
                Message::Control(down) => Input::FromParent(down),
                Message::Piece(piece) => Input::Spawn(SpawnInput::Piece(LinkEnd::Parent, piece)),
                Message::OfClients(kind, bytes) => {
                    self.give_bytes(tree_index, LinkEnd::Parent, (kind, bytes));
                    return true;
                }
            };
            self.post(tree_index, input);
            true
        } else if std::mem::take(&mut host.loses_parent) {
            self.post(tree_index, Input::ParentLost("closed".to_owned()));
            true
        } else {
            false
        }
    }

    /// The parent receives one report of this manager, or at last its loss.
    pub(super) fn send_up(&mut self, tree_index: usize) -> bool {
        let Some(parent) = HostSlices::parent(tree_index) else { return false };
        if let Some(message) = self.hosts[tree_index].to_parent.pop_front() {
            let input = match message {
                Message::Control(up) => {
                    self.hosts[tree_index].reported |= up == Up::Drained;
                    Input::FromChild(tree_index, up)
                }
                Message::Piece(piece) => {
                    Input::Spawn(SpawnInput::Piece(LinkEnd::Child(tree_index), piece))
                }
                Message::OfClients(kind, bytes) => {
                    self.give_bytes(parent, LinkEnd::Child(tree_index), (kind, bytes));
                    self.end_turn(parent);
                    return true;
                }
            };
            self.turn(parent, input);
            true
        } else if self.hosts[parent].loses_children.remove(&tree_index) {
            self.turn(parent, Input::ChildClosed(tree_index, "closed".to_owned()));
            // Not every daemon knows how its manager ended.
            if !self.hosts[tree_index].alive && tree_index % 2 == 1 && self.hosts[0].alive {
                self.turn(0, Input::ManagerEnded(name(tree_index), ManagerEnd::OutOfMemory));
            }
            true
        } else {
            false
        }
    }

    pub(super) fn crash(&mut self, tree_index: usize) {
        let host = &mut self.hosts[tree_index];
        if !std::mem::take(&mut host.alive) {
            return;
        }
        for process in host.processes.values_mut().filter(|process| process.end.is_none()) {
            process.end = Some(RankEnd::Lost);
            process.inside = false;
        }
        self.lose(tree_index);
        self.close_children(tree_index);
    }

    /// The link to the parent breaks. Some messages that are on the way may still arrive.
    pub(super) fn lose(&mut self, tree_index: usize) {
        let arriving = self.dice.below(4);
        let host = &mut self.hosts[tree_index];
        if std::mem::take(&mut host.linked) {
            host.lost = true;
            host.to_parent.truncate(arriving);
            host.from_parent.truncate(arriving);
            host.loses_parent = true;
            let parent = HostSlices::parent(tree_index).unwrap();
            self.hosts[parent].loses_children.insert(tree_index);
        }
    }

    /// The neighbours of an ended manager detect its end.
    pub(super) fn leave(&mut self, tree_index: usize) {
        let host = &mut self.hosts[tree_index];
        host.alive = false;
        if std::mem::take(&mut host.linked) {
            let parent = HostSlices::parent(tree_index).unwrap();
            self.hosts[parent].loses_children.insert(tree_index);
        }
        self.close_children(tree_index);
    }

    pub(super) fn close_children(&mut self, tree_index: usize) {
        for child in self.host_slices.children(tree_index) {
            let child = &mut self.hosts[child];
            child.loses_parent |= std::mem::take(&mut child.linked);
        }
    }

    /// A manager joins the job. Its parent may be gone already, which the root does not know yet.
    pub(super) fn link_newcomer(&mut self, tree_index: usize) {
        let parent = HostSlices::parent(tree_index).expect("not the root");
        if !self.hosts[parent].alive {
            let newcomer = &mut self.hosts[tree_index];
            newcomer.linked = false;
            newcomer.seeks_until = Some(self.now + Timing::default().start);
        }
    }

    /// A manager has sought its parent for too long.
    pub(super) fn give_up_parent(&mut self, tree_index: usize) {
        let now = self.now;
        let host = &mut self.hosts[tree_index];
        if host.seeks_until.take_if(|until| *until <= now).is_some() {
            self.post(tree_index, Input::ParentLost("no link to its manager".to_owned()));
        }
    }
}
