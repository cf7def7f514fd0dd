//! The job links between hosts: how they are established, what they carry, how they end. The cuts are those of the ring's
//! network.

use std::collections::VecDeque;

use mpd_wire::Instance;

use super::links::Packet;
use super::manager::ForManager;
use super::suite::{Event, Suite};

/// A connection of a manager to its parent. Side 0 is the child.
#[derive(Debug)]
pub(super) struct Connection {
    /// The host and the process of each side. That of the parent is 0 until it has the connection.
    pub(super) ends: [(usize, i32); 2],
    parent: Instance,
    child: Instance,
    queues: [VecDeque<(u64, Packet)>; 2],
    last: [u64; 2],
    /// The side receives nothing more.
    closed: [bool; 2],
    /// The side is gone without notice.
    vanished: [bool; 2],
}

impl Suite {
    pub(super) fn dial(&mut self, from: (usize, i32), to: usize, parent: Instance) {
        let child = self.hosts[from.0].managers[&from.1].instance();
        self.last_connection += 1;
        let id = self.last_connection;
        self.connections.insert(
            id,
            Connection {
                ends: [from, (to, 0)],
                parent,
                child,
                queues: [VecDeque::new(), VecDeque::new()],
                last: [0; 2],
                closed: [false; 2],
                vanished: [false; 2],
            },
        );
        let after = self.delay(from.0, to);
        if self.reaches(from.0, to) {
            self.push(after, Event::Dialed(id));
        }
    }

    fn delay(&mut self, from: usize, to: usize) -> u64 {
        if from == to { super::suite::LOCAL } else { self.world.delay(from) }
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        self.world.reach[from][to] && self.world.hosts[to].powered
    }

    /// A connection arrives at the daemon of the parent's host, which passes it to the manager.
    pub(super) fn dialed(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let ([from, (to, _)], parent, child) =
            (connection.ends, connection.parent, connection.child);
        if !self.reaches(from.0, to) {
            return drop(self.connections.remove(&id));
        }
        let has_daemon = self.world.hosts[to].ring.is_some();
        let is_it = |manager: &super::manager::Manager| {
            manager.common.is_registered && manager.instance() == parent
        };
        let found = self.hosts[to].managers.iter().find(|(_, manager)| is_it(manager));
        match found.map(|(pid, _)| *pid).filter(|_| has_daemon) {
            Some(pid) => {
                self.connections.get_mut(&id).expect("a connection").ends[1] = (to, pid);
                self.give(to, pid, ForManager::Linked(child, id));
            }
            None => {
                let after = self.delay(to, from.0);
                self.push(after, Event::Refused(id));
            }
        }
    }

    pub(super) fn refused(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let [from, (to, _)] = connection.ends;
        if self.reaches(to, from.0) {
            self.give(from.0, from.1, ForManager::Missed(to));
        }
    }

    pub(super) fn send(&mut self, id: u64, from: (usize, i32), packet: Packet) {
        let Some(connection) = self.connections.get(&id) else { return };
        let Some(side) = connection.ends.iter().position(|end| *end == from) else { return };
        let [at, to] = [connection.ends[side].0, connection.ends[1 - side].0];
        let after = self.delay(at, to);
        let connection = self.connections.get_mut(&id).expect("a connection");
        let due = (self.world.now + after).max(connection.last[side]);
        connection.last[side] = due;
        connection.closed[side] |= matches!(packet, Packet::End);
        connection.queues[side].push_back((due, packet));
        self.push_at(due, Event::Arrival(id, side));
    }

    pub(super) fn arrive(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get(&id) else { return };
        let [(from, _), to] = [connection.ends[side], connection.ends[1 - side]];
        let is_due = connection.queues[side].front().is_some_and(|(at, _)| *at <= self.world.now);
        if !is_due || !self.reaches(from, to.0) {
            return;
        }
        let connection = self.connections.get_mut(&id).expect("a connection");
        let (_, packet) = connection.queues[side].pop_front().expect("a packet");
        if connection.vanished[1 - side] {
            // The host is up again and does not know this connection.
            connection.queues[side].clear();
            let sender = connection.ends[side];
            return self.give(sender.0, sender.1, ForManager::Packet(id, Packet::End));
        }
        if !connection.closed[1 - side] {
            self.give(to.0, to.1, ForManager::Packet(id, packet));
        }
        self.arrive(id, side);
    }

    /// The process of this end has ended.
    pub(super) fn close_links(&mut self, end: (usize, i32)) {
        for id in self.links_of(end) {
            let side = self.connections[&id].ends.iter().position(|it| *it == end);
            if side.is_some_and(|side| !self.connections[&id].closed[side]) {
                self.send(id, end, Packet::End);
            }
        }
    }

    /// The host of this end is gone.
    pub(super) fn drop_links(&mut self, end: (usize, i32)) {
        for id in self.links_of(end) {
            let connection = self.connections.get_mut(&id).expect("a connection");
            for side in 0..2 {
                if connection.ends[side] == end {
                    connection.vanished[side] = true;
                    connection.queues[side].clear();
                }
            }
        }
    }

    fn links_of(&self, end: (usize, i32)) -> Vec<u64> {
        let is_its = |connection: &Connection| connection.ends.contains(&end);
        self.connections.iter().filter(|(_, it)| is_its(it)).map(|(id, _)| *id).collect()
    }

    /// After a change of the network, what waits is sent again.
    pub(super) fn send_again(&mut self) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            for side in 0..2 {
                let after = self.dice.below(400_000) as u64;
                self.push(after, Event::Arrival(id, side));
            }
        }
    }
}
