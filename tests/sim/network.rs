//! Connections: how they are established, what they carry, how they end.

use std::collections::VecDeque;

use mpd_ring::{DialFailure, Input, LinkId, Purpose, Token};
use mpd_wire::Instance;
use mpd_wire::message::RingMessage;

use crate::world::{Happening, SECOND, World};

/// `TCP_USER_TIMEOUT` of every connection.
pub(crate) const UNACKNOWLEDGED: u64 = 3 * SECOND;

/// Contents of packets.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// The third message of the handshake: the acceptor may send.
    Proved,
    Message(RingMessage),
    /// The sender closed, or its process has ended.
    End,
}

/// A connection between two hosts. Side 0 opened it.
#[derive(Debug)]
pub(crate) struct Connection {
    hosts: [usize; 2],
    incarnations: [u32; 2],
    token: Token,
    purpose: Purpose,
    /// The only accepted incarnation of the other side.
    wanted: Option<Instance>,
    links: [Option<LinkId>; 2],
    /// Messages of each side that the other has not received, with their times of arrival.
    queues: [VecDeque<(u64, Packet)>; 2],
    last: [u64; 2],
    /// The time since which a side's messages are not acknowledged.
    stuck: [Option<u64>; 2],
    /// The side has closed and receives nothing more.
    closed: [bool; 2],
    /// The side is gone without notice: its host answers with a reset.
    vanished: [bool; 2],
}

impl Connection {
    pub(crate) fn new(
        hosts: [usize; 2],
        incarnations: [u32; 2],
        token: Token,
        purpose: Purpose,
        wanted: Option<Instance>,
    ) -> Self {
        Self {
            hosts,
            incarnations,
            token,
            purpose,
            wanted,
            links: [None; 2],
            queues: [VecDeque::new(), VecDeque::new()],
            last: [0; 2],
            stuck: [None; 2],
            closed: [false; 2],
            vanished: [false; 2],
        }
    }

    pub(crate) fn vanish(&mut self, side: usize) {
        self.vanished[side] = true;
        self.queues[side].clear();
    }

    fn is_over(&self) -> bool {
        let done = |side: usize| self.closed[side] || self.vanished[side];
        done(0) && done(1) && self.queues.iter().all(VecDeque::is_empty)
    }
}

impl World {
    pub(crate) fn syn(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let ([from, to], wanted) = (connection.hosts, connection.wanted);
        connection.incarnations[1] = self.hosts[to].incarnation;
        let machine = &self.hosts[to];
        if !machine.powered || machine.frozen || !self.connected(from, to) {
            return;
        }
        let listens = machine.ring.is_some();
        let fits = wanted.is_none_or(|wanted| wanted == machine.instance);
        let at = self.now + self.delay(to);
        let answer = match (listens, fits) {
            (true, true) => Happening::Established(id),
            (true, false) => Happening::Refusal(id, DialFailure::NotProved),
            (false, _) => Happening::Refusal(id, DialFailure::Refused),
        };
        self.push(at, answer);
    }

    pub(crate) fn refused(&mut self, id: u64, failure: DialFailure) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let [from, to] = connection.hosts;
        let there =
            self.hosts[from].incarnation == connection.incarnations[0] && self.reach[to][from];
        if there && self.hosts[from].dials.remove(&connection.token).is_some() {
            self.input(from, Input::ConnectFailed(connection.token, failure));
        }
    }

    /// The second message of the handshake has arrived: the dialer has its link, the acceptor not yet.
    pub(crate) fn established(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let ([from, to], token, purpose) = (connection.hosts, connection.token, connection.purpose);
        let alive =
            self.hosts[from].incarnation == connection.incarnations[0] && self.hosts[from].powered;
        if !alive || !self.reach[to][from] || self.hosts[from].dials.remove(&token).is_none() {
            self.connections.remove(&id);
            return;
        }
        let peer = self.peer(to);
        let link = LinkId(self.next_id());
        let known = self.connections.get_mut(&id).map(|c| c.links[0] = Some(link));
        debug_assert!(known.is_some());
        self.hosts[from].ends.insert(link, (id, 0));
        self.send(id, 0, Packet::Proved);
        let there = self.hosts[to].address.clone();
        let up = Input::LinkUp { link, token: Some(token), peer, purpose, from: there };
        self.input(from, up);
    }

    /// Sends in order; messages that cannot pass now wait.
    pub(crate) fn send(&mut self, id: u64, side: usize, packet: Packet) {
        let Some(connection) = self.connections.get(&id) else { return };
        let from = connection.hosts[side];
        let delay = self.delay(from);
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at = (now + delay).max(connection.last[side]);
        connection.last[side] = at;
        connection.queues[side].push_back((at, packet));
        self.push(at, Happening::Arrival { connection: id, side });
    }

    /// A side closes: it receives nothing more. The other side detects this after all earlier messages.
    pub(crate) fn end(&mut self, id: u64, side: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closed[side] = true;
            self.send(id, side, Packet::End);
        }
    }

    pub(crate) fn arrive(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let [from, to] = [connection.hosts[side], connection.hosts[1 - side]];
        let Some(&(at, _)) = connection.queues[side].front() else { return };
        if at > self.now {
            return;
        }
        let passes = self.reach[from][to] && self.hosts[to].powered;
        let acknowledged = self.reach[to][from];
        let now = self.now;
        if passes && acknowledged {
            connection.stuck[side] = None;
        } else if connection.stuck[side].is_none() {
            connection.stuck[side] = Some(now);
            let timer = Happening::Unacknowledged { connection: id, side, since: now };
            self.push(now + UNACKNOWLEDGED, timer);
        }
        if !passes {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((_, packet)) = connection.queues[side].pop_front() else { return };
        if connection.vanished[1 - side] {
            // The host is up again and does not know this connection.
            connection.queues[side].clear();
            self.close_end(id, side);
        } else if !connection.closed[1 - side] {
            self.deliver(id, side, packet);
        }
        if self.connections.get(&id).is_some_and(Connection::is_over) {
            self.connections.remove(&id);
        }
        self.arrive(id, side);
    }

    fn deliver(&mut self, id: u64, side: usize, packet: Packet) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (hosts, purpose, incarnations) =
            (connection.hosts, connection.purpose, connection.incarnations);
        let to = hosts[1 - side];
        match (packet, connection.links[1 - side]) {
            (Packet::Proved, _) => {
                if self.hosts[to].incarnation != incarnations[1] || self.hosts[to].ring.is_none() {
                    connection.closed[1] = true;
                    self.close_end(id, 0);
                    return;
                }
                let link = LinkId(self.next_id());
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.links[1] = Some(link);
                }
                self.hosts[to].ends.insert(link, (id, 1));
                let peer = self.proved_peer(id, hosts[0]);
                let from = self.hosts[hosts[0]].address.clone();
                self.input(to, Input::LinkUp { link, token: None, peer, purpose, from });
            }
            (Packet::Message(message), Some(link)) => {
                self.input(to, Input::Received(link, message));
            }
            (Packet::End, Some(_)) => self.close_end(id, 1 - side),
            (Packet::Message(_) | Packet::End, None) => connection.closed[1 - side] = true,
        }
    }

    /// The identity of the dialer at the time of its proof; the host may run another daemon now.
    fn proved_peer(&self, id: u64, host: usize) -> mpd_ring::Peer {
        let mut peer = self.peer(host);
        let incarnation = self.connections.get(&id).map(|connection| connection.incarnations[0]);
        if incarnation != Some(self.hosts[host].incarnation) {
            peer.instance = Instance::from_bytes([0xff; 16]);
        }
        peer
    }

    /// A side learns that its connection is gone.
    fn close_end(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.closed[side] = true;
        connection.queues[side].clear();
        let host = connection.hosts[side];
        let Some(link) = connection.links[side] else { return };
        if self.hosts[host].ends.remove(&link).is_some() {
            self.input(host, Input::LinkClosed(link));
        }
    }

    pub(crate) fn unacknowledged(&mut self, id: u64, side: usize, since: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.stuck[side] == Some(since) {
            connection.stuck[side] = None;
            let gone = connection.closed[side];
            connection.queues[side].clear();
            if gone {
                // This side has ended; the other side detects the loss by itself.
                connection.vanished[side] = true;
            } else {
                self.close_end(id, side);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.vanished[side] = true;
                }
            }
        }
    }

    /// One side's address is gone: it is notified at once, the other side when it sends.
    pub(crate) fn tear(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.vanish(side);
        let host = connection.hosts[side];
        if let Some(link) = connection.links[side] {
            self.input(host, Input::LinkClosed(link));
        }
    }

    /// After a change of the network: kernels retransmit waiting messages.
    pub(crate) fn kick(&mut self) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            for side in 0..2 {
                let at = self.now + self.random.below(400_000) as u64;
                let waits = |c: &Connection| !c.queues[side].is_empty();
                if self.connections.get(&id).is_some_and(waits) {
                    self.push(at, Happening::Arrival { connection: id, side });
                }
            }
        }
    }

    /// A connection reset between the hosts: both sides are notified.
    pub(crate) fn reset(&mut self, id: u64) {
        for side in 0..2 {
            self.close_end(id, side);
        }
        self.connections.remove(&id);
    }
}
