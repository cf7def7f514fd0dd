//! How links come up: by connecting to the parent's daemon, or through this host's daemon.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Result;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_channel::handshake::{Opening, PATIENCE, Reception};
use mpd_channel::{HandshakeError, Instance, Purpose, Responder};
use mpd_io::host::random;
use mpd_io::network::link::{CHUNK, Link, LinkError};
use mpd_joblink::{Input, Seconds, Seek};
use mpd_sansio::Time;
use mpd_wire::job::FAN_OUT;

use super::{Branches, Line, LinkEnd, News, Stage, Standing};

/// Most handshakes of children under way: two for each child. A daemon passes on only connections that prove the
/// job's key, or repeat an earlier hello.
const MAX_ACCEPTING: usize = 2 * FAN_OUT;

impl Branches {
    /// Begins to look for the parent, if there is one, and to wait for the children.
    pub(crate) fn begin(&mut self, registry: &Registry, now: Time) {
        let until = now + self.timing.start;
        self.now = now;
        self.start_by = Some(until);
        if self.index_of(LinkEnd::Parent).is_some() {
            self.seek = Some(Seek::new(now, self.parent.clone(), until));
            self.reach_parent(registry, now);
        }
    }

    /// Connects to the addresses that are due, or gives up.
    pub(super) fn reach_parent(&mut self, registry: &Registry, now: Time) {
        let Some(parent) = self.index_of(LinkEnd::Parent) else { return };
        let expected = self.branches[parent].instance;
        while let Some(address) = self.seek.as_mut().and_then(|seek| seek.next_due(now)) {
            if let Err(e) = self.dial(registry, now, address, expected) {
                self.attempt_failed(now, address, &e);
            }
        }
        if let Some(problem) = self.seek.as_ref().and_then(|seek| seek.given_up(now)) {
            let patience = Seconds(self.timing.start);
            let problem = format!("no link to its manager within {patience}; at last: {problem}");
            self.lose_branch(parent, problem, false);
        }
    }

    fn dial(
        &mut self,
        registry: &Registry,
        now: Time,
        to: SocketAddr,
        expected: Instance,
    ) -> Result<(), LinkError> {
        let opening = Opening {
            key: self.key.clone(),
            me: self.me,
            peer: Some(expected),
            purpose: Purpose::JobLink,
            nonce: random::bytes().map_err(LinkError::Connect)?,
            deadline: now + PATIENCE,
        };
        let link = Link::dial(to, None, opening)?;
        self.insert(registry, link, Stage::Dialing).map_err(LinkError::Connect)
    }

    /// Notes that an attempt to reach the parent has failed.
    pub(super) fn attempt_failed(&mut self, now: Time, address: SocketAddr, error: &LinkError) {
        let problem = match error {
            LinkError::Handshake(HandshakeError::Silence(_)) => {
                format!("{address}: the daemon there does not know the job")
            }
            other => format!("{address}: {other}"),
        };
        log::debug!("{problem}");
        if let Some(seek) = &mut self.seek {
            seek.missed(now, &address, problem);
        }
    }

    /// Takes a connection that the daemon accepted, with the bytes that the daemon has read.
    pub(crate) fn adopt(
        &mut self,
        registry: &Registry,
        now: Time,
        connection: OwnedFd,
        hello: &[u8],
    ) {
        let adopted = self.try_adopt(registry, now, TcpStream::from(connection), hello);
        if let Err(e) = adopted {
            log::debug!("a link that the daemon passed on: {e:#}");
        }
    }

    fn try_adopt(
        &mut self,
        registry: &Registry,
        now: Time,
        stream: TcpStream,
        hello: &[u8],
    ) -> Result<()> {
        let accepting = self.lines.iter().filter(|(_, line)| line.stage == Stage::Accepting);
        let oldest = accepting.clone().next().map(|(token, _)| *token);
        if let Some(oldest) = oldest.filter(|_| accepting.count() >= MAX_ACCEPTING) {
            self.lines.remove(&oldest);
        }
        let reception =
            Reception { me: self.me, nonce: random::bytes()?, deadline: now + PATIENCE };
        let responder = Responder::for_manager(self.key.clone(), reception);
        let link = Link::take_over(stream, responder, hello)?;
        Ok(self.insert(registry, link, Stage::Accepting)?)
    }

    fn insert(&mut self, registry: &Registry, link: Link, stage: Stage) -> io::Result<()> {
        let token = self.next_token;
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&link.as_raw_fd()), Token(token), both)?;
        self.next_token += 1;
        self.buffer.resize(CHUNK, 0);
        self.lines.insert(token, Line { link, stage, full: false });
        self.make_ready(token, true);
        Ok(())
    }

    /// Gives the connection to its branch. Its other end has proved the key and is the manager `peer`.
    pub(super) fn settle(&mut self, token: usize, now: Time, peer: Instance) {
        let Some(line) = self.lines.get_mut(&token) else { return };
        let from_parent = line.stage == Stage::Dialing;
        let is_it = |end: LinkEnd| (end == LinkEnd::Parent) == from_parent;
        let found =
            self.branches.iter().position(|branch| is_it(branch.end) && branch.instance == peer);
        let Some(index) = found.filter(|i| self.branches[*i].standing == Standing::Awaited) else {
            let remote = line.link.remote();
            log::warn!("{remote}: manager {peer} has no branch here, or a link already");
            self.lines.remove(&token);
            return;
        };
        if let Err(e) = line.link.set_user_timeout(self.timing.host_lost) {
            return self.lose_line(token, now, &e);
        }
        line.stage = Stage::Open(index);
        let branch = &mut self.branches[index];
        log::debug!("host {}: linked", branch.host);
        branch.standing = Standing::Open(token);
        branch.machine.handle(now, Input::Opened);
        self.news.push_back(News::Up(branch.end));
        if from_parent {
            self.seek = None;
            self.lines.retain(|_, line| line.stage != Stage::Dialing);
        }
        // The peer learns our versions even if we refuse its own.
        if let Err(e) = self.write(index, token) {
            self.lose_line(token, now, &e);
        }
    }
}
