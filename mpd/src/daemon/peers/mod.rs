//! Connections on the Unix socket: new ones, consoles and managers.
//!
//! A connection is served only if its peer has our user id. An unexpected frame closes the connection of its sender
//! and nothing else.

mod peer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Registry, Token};
use mpd_daemon::{Connection, Handed, Input, Way, most_consoles, most_unread};
use mpd_io::network::conn::Conn;
use mpd_jobtable::{Input as JobInput, ManagerMessage};
use mpd_sansio::Time;
use mpd_wire::message::ConsoleReply;
use mpd_wire::{ConsoleId, JobId};
use nix::unistd::geteuid;

use crate::daemon::peers::peer::{Peer, Verdict};

/// Smaller tokens are the daemon's own.
const FIRST_TOKEN: usize = 16;

/// All connections, by token. A token is never used twice, so a late event is ignored.
#[derive(Debug)]
pub(crate) struct Peers {
    max_consoles: usize,
    peers: BTreeMap<ConsoleId, Peer>,
    /// The mpirun of a private ring, until its job has its connection.
    owner: Option<ConsoleId>,
    /// Whether a debugger would find the job.
    findable: bool,
    next: usize,
    ready: BTreeSet<ConsoleId>,
    /// The jobs of managers whose connections closed before they had read all of it, and that were not reaped yet.
    unread: BTreeSet<JobId>,
}

/// Most of them. A manager that this daemon has not started is never reaped here.
const MAX_UNREAD_MANAGERS: usize = 256;

impl Peers {
    /// `descriptors`: the limit of descriptors of this process.
    pub(crate) fn new(descriptors: u64) -> Self {
        Self {
            max_consoles: most_consoles(descriptors),
            peers: BTreeMap::new(),
            owner: None,
            findable: true,
            next: 0,
            ready: BTreeSet::new(),
            unread: BTreeSet::new(),
        }
    }

    /// Adds a new connection; a `guest` came through the socket of a private ring.
    pub(crate) fn add(
        &mut self,
        registry: &Registry,
        conn: Conn,
        guest: bool,
        now: Time,
    ) -> io::Result<()> {
        let consoles = self.peers.values().filter(|p| p.connection.manager().is_none()).count();
        if consoles >= self.max_consoles {
            return Err(io::Error::other("too many connections"));
        }
        let peer = conn.peer()?;
        let uid = peer.uid();
        if uid != geteuid().as_raw() {
            return Err(io::Error::other(format!("uid {uid} is not ours")));
        }
        let way = if guest { Way::Guest(peer.pid().unsigned_abs()) } else { Way::Standing };
        self.insert(registry, conn, |token, findable| Connection::new(token, way, findable, now))?;
        Ok(())
    }

    /// Adds the connection of the mpirun of a private ring, the process `pid`. Consoles find the ring if it is
    /// `findable`.
    pub(crate) fn add_owner(
        &mut self,
        registry: &Registry,
        conn: Conn,
        (pid, findable): (u32, bool),
        now: Time,
    ) -> io::Result<()> {
        self.findable = findable;
        let way = Way::Owner(pid);
        self.owner = Some(self.insert(registry, conn, |token, findable| {
            Connection::new(token, way, findable, now)
        })?);
        Ok(())
    }

    fn insert(
        &mut self,
        registry: &Registry,
        conn: Conn,
        connection: impl FnOnce(ConsoleId, bool) -> Connection<OwnedFd>,
    ) -> io::Result<ConsoleId> {
        let token = ConsoleId(FIRST_TOKEN + self.next);
        conn.watch(registry, Token(token.0))?;
        self.next += 1;
        let connection = connection(token, self.findable);
        self.peers.insert(token, Peer { conn, connection, has_more: false });
        self.ready.insert(token);
        Ok(token)
    }

    /// An event of the connection `token`.
    pub(crate) fn mark_ready(&mut self, token: Token) {
        if self.peers.contains_key(&ConsoleId(token.0)) {
            self.ready.insert(ConsoleId(token.0));
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the mpirun of a private ring still has to submit its job, or to receive the reason of a refusal.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some_and(|token| self.peers.contains_key(&token))
    }

    /// Whether a console is connected.
    pub(crate) fn has_consoles(&self) -> bool {
        self.peers.values().any(|peer| peer.connection.manager().is_none())
    }

    /// The deadline of the next unfinished request.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.peers.values().filter_map(|peer| peer.connection.deadline()).min()
    }

    /// Adds the connection of the manager of `job`, which this daemon started.
    pub(crate) fn add_manager(
        &mut self,
        registry: &Registry,
        job: JobId,
        conn: Conn,
        now: Time,
    ) -> io::Result<()> {
        let of_manager = |token, _| Connection::of_manager(token, job, now);
        let token = self.insert(registry, conn, of_manager)?;
        // It has not sent anything yet, or an event reports it.
        self.ready.remove(&token);
        Ok(())
    }

    /// Has the queue report which sockets accept bytes again. To be called before each wait.
    pub(crate) fn watch_writing(&mut self, registry: &Registry) {
        for (&token, peer) in &mut self.peers {
            if peer.conn.watch_writing(registry, Token(token.0)).is_err() {
                self.ready.insert(token);
            }
        }
    }

    /// Answers a manager that registers: the job of that manager, or the reason of a refusal.
    pub(crate) fn registered(&mut self, manager: ConsoleId, result: Result<JobId, String>) {
        let Some(peer) = self.peers.get_mut(&manager) else { return };
        match result {
            Ok(job) => peer.connection.register(job),
            Err(problem) => peer.refuse(problem),
        }
        self.ready.insert(manager);
    }

    /// Reads the last reports of the manager of `job`, which has ended, and closes its connection. Also returns whether
    /// that manager has not read its whole job.
    pub(crate) fn last_reports(&mut self, job: &JobId) -> (Vec<Input>, bool) {
        let (mut events, mut is_unread) = (Vec::new(), self.unread.remove(job));
        if let Some((token, peer)) = self.peers.iter_mut().find(|(_, p)| p.is_manager_of(job)) {
            while matches!(peer.serve(*token, &mut events), (Verdict::Keep, true)) {}
            is_unread |= peer.is_unread();
        }
        self.peers.retain(|_, p| !p.is_manager_of(job));
        (events, is_unread)
    }

    /// Reads the reports of the manager of `job` that have arrived without an event.
    pub(crate) fn reports(&mut self, job: &JobId) -> Vec<Input> {
        let mut events = Vec::new();
        if let Some((token, peer)) = self.peers.iter_mut().find(|(_, p)| p.is_manager_of(job)) {
            let token = *token;
            if matches!(peer.serve(token, &mut events), (Verdict::Close, _)) {
                // It is closed in the next turn, with the other connections.
                self.ready.insert(token);
            }
        }
        events
    }

    /// Sends a message to the manager of its job, and with [`ManagerOrder::Link`] the connection.
    ///
    /// [`ManagerOrder::Link`]: mpd_wire::message::ManagerOrder::Link
    pub(crate) fn send_to_manager(
        &mut self,
        manager_message: ManagerMessage,
        link: Option<OwnedFd>,
    ) {
        let ManagerMessage { job, order } = manager_message;
        let Some(peer) = self.peers.values_mut().find(|p| p.is_manager_of(&job)) else {
            return log::warn!("job {job}: its manager is not connected");
        };
        peer.has_more = true;
        let sent = peer.conn.send_with(&order, link.into_iter().collect());
        if let Err(e) = sent {
            log::warn!("job {job}: cannot send to its manager: {e}");
        }
        if let Err(e) = peer.conn.flush() {
            log::warn!("job {job}: cannot send to its manager: {e}");
            // A manager that lives reads the end of the connection, and registers again.
            peer.conn.finish();
        }
    }

    /// Serves every ready connection once and closes those that exceeded their time. Returns their events in order.
    pub(crate) fn turn(&mut self, now: Time) -> Vec<Input> {
        let mut events = Vec::new();
        for token in std::mem::take(&mut self.ready) {
            let Some(peer) = self.peers.get_mut(&token) else { continue };
            match peer.serve(token, &mut events) {
                (Verdict::Keep, false) => {}
                (Verdict::Keep, true) => {
                    self.ready.insert(token);
                }
                (Verdict::Close, _) => events.extend(self.close(token)),
            }
        }
        let is_late = |peer: &Peer| peer.connection.deadline().is_some_and(|at| at <= now);
        let late = self.peers.iter().filter(|(_, peer)| is_late(peer)).map(|(token, _)| *token);
        for token in late.collect::<Vec<_>>() {
            events.extend(self.close(token));
        }
        events
    }

    fn close(&mut self, token: ConsoleId) -> Option<Input> {
        let peer = self.peers.remove(&token)?;
        let is_unread = peer.is_unread();
        Some(match peer.connection.manager() {
            Some(job) => {
                if is_unread && self.unread.len() < MAX_UNREAD_MANAGERS {
                    self.unread.insert(job.clone());
                }
                Input::Jobs(JobInput::ManagerClosed(job.clone()))
            }
            None => Input::ConsoleGone(token),
        })
    }

    /// The connection of a console that submits a job, and what it has handed in.
    pub(crate) fn handed(&self, token: ConsoleId) -> Option<(BorrowedFd<'_>, &Handed<OwnedFd>)> {
        let peer = self.peers.get(&token)?;
        Some((peer.conn.as_fd(), peer.connection.handed()?))
    }

    /// Closes our descriptor of a console that a manager has now.
    pub(crate) fn hand_over(&mut self, registry: &Registry, token: ConsoleId) {
        if let Some(peer) = self.peers.remove(&token) {
            let _ = registry.deregister(&mut SourceFd(&peer.conn.as_raw_fd()));
        }
    }

    /// Whether a console has read everything that was sent to it.
    pub(crate) fn has_read(&self, token: ConsoleId) -> bool {
        self.peers.get(&token).is_none_or(|peer| peer.conn.queued() == 0)
    }

    /// Sends an answer to a console; the last answer ends its connection. `false`: the console is gone, or does not
    /// read.
    pub(crate) fn answer(
        &mut self,
        token: ConsoleId,
        reply: &ConsoleReply,
        last: bool,
        now: Time,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&token) else { return false };
        if peer.conn.try_send(reply).is_err() {
            let problem = "the ring is too large for one answer".to_owned();
            peer.conn.send(&ConsoleReply::Refused { problem });
        }
        if last {
            peer.connection.leave(now);
        }
        if peer.conn.flush().is_err() || (!last && peer.conn.queued() > most_unread(reply)) {
            self.peers.remove(&token);
            return false;
        }
        if last {
            self.ready.insert(token);
        }
        true
    }
}
