//! One TCP connection under the channel of [`mpd_channel`]: connecting, handshake, sealed frames, and an orderly end.
//! Until the peer has proved the key, the link reads no more bytes than the handshake needs.

use std::fmt;
use std::io::{self, Read as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crypto::rand::SystemRandom;
use mpd_channel::handshake::{InitiatorOutput, Opening, ResponderOutput};
use mpd_channel::hello::{HELLO, Mark};
use mpd_channel::{
    ChannelError, HandshakeError, Initiator, Instance, Key, KeyId, Opened, Opener, Purpose,
    Responder, Sealer,
};
use mpd_sansio::Time;

use crate::network::outgoing::Outgoing;
use crate::network::tcp;

/// Most bytes read in one turn, so that one busy peer cannot starve the others.
const READ_PER_TURN: usize = 1 << 20;

/// A good size of the buffer for [`Link::turn`].
pub const CHUNK: usize = 64 * 1024;

/// An event of a link.
#[derive(Debug)]
pub enum LinkReport {
    /// The TCP connection exists; nothing is proved yet.
    Connected,
    /// Both sides proved the key.
    Established {
        peer: Instance,
        /// The purpose of the link, as the connecting side stated it.
        purpose: Purpose,
        /// The key that both sides proved.
        key: KeyId,
    },
    /// The peer asks for the manager of this instance (job links). The handshake continues at [`Link::prove`], or fails
    /// at its deadline.
    FindManager(Instance),
    /// A first message that was made with the key. The handshake continues at [`Link::admit`].
    Hello(Mark),
    /// A frame from the peer.
    Frame(Vec<u8>),
}

/// Why a link has ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No connection was established.
    #[error("{0}")]
    Connect(io::Error),
    /// The connection broke.
    #[error("{0}")]
    Broken(io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer's frames cannot be opened.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The peer closed the link in order.
    #[error("the peer closed")]
    Bye,
}

enum Phase {
    Connecting(Initiator),
    Initiating(Initiator),
    Responding(Box<Responder>),
    Open(Box<Channel>),
    /// Received bytes are dropped until the peer closes, too. Closing with unread bytes would reset the connection and
    /// could destroy the last bytes sent.
    Draining,
}

struct Channel {
    sealer: Sealer,
    opener: Opener,
}

/// One connection under a channel.
pub struct Link {
    stream: TcpStream,
    remote: SocketAddr,
    out: Outgoing,
    phase: Phase,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl Link {
    /// Begins to connect to `to`, from the address `from` of this host if one is given.
    ///
    /// # Errors
    /// [`LinkError::Connect`] if the system refuses at once, [`LinkError::Handshake`] without randomness.
    pub fn dial(to: SocketAddr, from: Option<IpAddr>, opening: Opening) -> Result<Self, LinkError> {
        let initiator =
            Initiator::new(opening, &SystemRandom::new()).map_err(HandshakeError::from)?;
        let stream = tcp::begin_connect(to, from).map_err(LinkError::Connect)?;
        let phase = Phase::Connecting(initiator);
        Ok(Self { stream, remote: to, out: Outgoing::default(), phase })
    }

    /// Makes a link from an accepted connection.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn accept(
        stream: TcpStream,
        remote: SocketAddr,
        responder: Responder,
    ) -> Result<Self, LinkError> {
        tcp::tune(&stream).map_err(LinkError::Broken)?;
        Ok(Self {
            stream,
            remote,
            out: Outgoing::default(),
            phase: Phase::Responding(Box::new(responder)),
        })
    }

    /// Makes a link from a connection that a daemon accepted, and the bytes that the daemon read from it.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn take_over(
        stream: TcpStream,
        responder: Responder,
        read: &[u8],
    ) -> Result<Self, LinkError> {
        let remote = stream.peer_addr().map_err(LinkError::Broken)?;
        let mut link = Self::accept(stream, remote, responder)?;
        // A hello alone establishes nothing, so there is no report yet.
        link.take(read, &mut Vec::new())?;
        Ok(link)
    }

    /// Replaces [`tcp::USER_TIMEOUT`], the time for which the peer's host may leave data unacknowledged.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_user_timeout(&self, timeout: Duration) -> Result<(), LinkError> {
        tcp::set_user_timeout(&self.stream, timeout).map_err(LinkError::Broken)
    }

    /// Checks a job link with the key of the manager's job. Returns the hello that goes to the manager with
    /// [`Link::into_stream`].
    ///
    /// # Errors
    /// The hello was not made with that key, or no job link waits here.
    pub fn prove(&mut self, key: &Key) -> Result<[u8; HELLO], LinkError> {
        let stranger = || LinkError::Handshake(HandshakeError::Stranger);
        let Phase::Responding(responder) = &mut self.phase else { return Err(stranger()) };
        responder.manager_key(Some(key));
        match responder.poll_output() {
            Some(ResponderOutput::PassOn { hello, .. }) => Ok(hello),
            Some(ResponderOutput::Close(error)) => Err(error.into()),
            _ => Err(stranger()),
        }
    }

    /// Continues after [`LinkReport::Hello`]. `is_new` says whether the message was not seen before.
    ///
    /// # Errors
    /// The message is not new.
    pub fn admit(&mut self, is_new: bool) -> Result<(), LinkError> {
        if let Phase::Responding(responder) = &mut self.phase {
            responder.admit(is_new, &SystemRandom::new());
        }
        self.advance(&mut Vec::new())
    }

    /// The bare connection. No byte was read from it except the hello, and none was written.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The address of the other end.
    pub const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The address of this end, once it is known.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Bytes that wait to be sent.
    pub const fn queued(&self) -> usize {
        self.out.len()
    }

    /// The time at which [`Link::expire`] is due.
    pub const fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Connecting(initiator) | Phase::Initiating(initiator) => initiator.poll_timeout(),
            Phase::Responding(responder) => responder.poll_timeout(),
            Phase::Open(_) | Phase::Draining => None,
        }
    }

    /// Handles the passing of time.
    ///
    /// # Errors
    /// The handshake took too long.
    pub fn expire(&mut self, now: Time) -> Result<(), LinkError> {
        match &mut self.phase {
            Phase::Connecting(initiator) | Phase::Initiating(initiator) => {
                initiator.handle_timeout(now);
            }
            Phase::Responding(responder) => responder.handle_timeout(now),
            Phase::Open(_) | Phase::Draining => {}
        }
        self.advance(&mut Vec::new())
    }

    /// Seals and queues one frame. Does nothing unless the channel is open.
    ///
    /// # Errors
    /// [`ChannelError::Exhausted`], after 2^63 frames.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        if let Phase::Open(channel) = &mut self.phase {
            channel.sealer.seal(&[frame], self.out.buffer()).map_err(ChannelError::from)?;
        }
        Ok(())
    }

    /// Queues the end of the channel. Bytes that arrive later are dropped. [`Link::is_drained`] reports when all bytes
    /// are sent.
    pub fn finish(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Draining);
        if let Phase::Open(channel) = phase {
            channel.sealer.bye(self.out.buffer());
        }
        if self.flush().is_ok() && self.out.is_empty() {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Whether all queued bytes were given to the kernel.
    pub const fn is_drained(&self) -> bool {
        self.out.is_empty()
    }

    /// Writes as much as the socket accepts.
    ///
    /// # Errors
    /// [`LinkError::Broken`].
    pub fn flush(&mut self) -> Result<(), LinkError> {
        if matches!(self.phase, Phase::Connecting(_)) || self.out.is_empty() {
            return Ok(());
        }
        self.out.flush(&mut self.stream).map_err(LinkError::Broken)?;
        if self.out.is_empty() && matches!(self.phase, Phase::Draining) {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Writes queued bytes, then reads a bounded number of bytes through `buffer`, and appends the resulting reports to
    /// `received`. `true`: more bytes may be there, call again.
    ///
    /// A read that does not fill the buffer is the last one, because later bytes cause an event of their own. If the
    /// peer `hung_up`, reading continues to the end of the stream.
    ///
    /// # Errors
    /// [`LinkError`]: the link has ended. The reports received before are valid.
    pub fn turn(
        &mut self,
        buffer: &mut [u8],
        hung_up: bool,
        received: &mut Vec<LinkReport>,
    ) -> Result<bool, LinkError> {
        self.connected(received)?;
        self.advance(received)?;
        let mut total = 0;
        while total < READ_PER_TURN {
            let wanted = self.wanted().min(buffer.len());
            if wanted == 0 {
                return Ok(false);
            }
            match self.stream.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(self.ended()),
                Ok(n) => {
                    total += n;
                    self.take(&buffer[..n], received)?;
                    if n < wanted && !hung_up {
                        return Ok(false);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(e)),
            }
        }
        Ok(true)
    }

    fn wanted(&self) -> usize {
        match &self.phase {
            Phase::Connecting(_) => 0,
            Phase::Initiating(initiator) => initiator.wanted(),
            Phase::Responding(responder) => responder.wanted(),
            Phase::Open(_) | Phase::Draining => usize::MAX,
        }
    }

    /// Checks whether the TCP connection is established now.
    fn connected(&mut self, received: &mut Vec<LinkReport>) -> Result<(), LinkError> {
        if !matches!(self.phase, Phase::Connecting(_)) {
            return Ok(());
        }
        if let Some(error) = self.stream.take_error().map_err(LinkError::Connect)? {
            return Err(LinkError::Connect(error));
        }
        if self.stream.peer_addr().is_ok()
            && let Phase::Connecting(initiator) =
                std::mem::replace(&mut self.phase, Phase::Draining)
        {
            self.phase = Phase::Initiating(initiator);
            received.push(LinkReport::Connected);
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], received: &mut Vec<LinkReport>) -> Result<(), LinkError> {
        match &mut self.phase {
            Phase::Connecting(_) | Phase::Draining => return Ok(()),
            Phase::Initiating(initiator) => {
                initiator.receive(bytes);
            }
            Phase::Responding(responder) => {
                responder.receive(bytes, &SystemRandom::new());
            }
            Phase::Open(channel) => {
                channel.opener.push(bytes);
                while let Some(opened) = channel.opener.next_frame()? {
                    match opened {
                        Opened::Frame(frame) => received.push(LinkReport::Frame(frame.to_vec())),
                        Opened::Bye => return Err(LinkError::Bye),
                    }
                }
            }
        }
        self.advance(received)
    }

    /// Performs the outputs of the handshake.
    fn advance(&mut self, received: &mut Vec<LinkReport>) -> Result<(), LinkError> {
        loop {
            let established = match &mut self.phase {
                Phase::Connecting(initiator) | Phase::Initiating(initiator) => {
                    match initiator.poll_output() {
                        Some(InitiatorOutput::Send(flight)) => {
                            self.out.buffer().extend_from_slice(&flight);
                            continue;
                        }
                        Some(InitiatorOutput::Established(established)) => established,
                        Some(InitiatorOutput::Close(error)) => return Err(error.into()),
                        None => break,
                    }
                }
                Phase::Responding(responder) => match responder.poll_output() {
                    Some(ResponderOutput::Send(flight)) => {
                        self.out.buffer().extend_from_slice(&flight);
                        continue;
                    }
                    Some(ResponderOutput::Admit(mark)) => {
                        received.push(LinkReport::Hello(mark));
                        continue;
                    }
                    Some(ResponderOutput::FindManager(manager)) => {
                        received.push(LinkReport::FindManager(manager));
                        continue;
                    }
                    // `Link::prove` handles this output.
                    Some(ResponderOutput::PassOn { .. }) => continue,
                    Some(ResponderOutput::Established(established)) => established,
                    Some(ResponderOutput::Close(error)) => {
                        // A refusal may still be queued.
                        let _ = self.flush();
                        return Err(error.into());
                    }
                    None => break,
                },
                Phase::Open(_) | Phase::Draining => break,
            };
            received.push(LinkReport::Established {
                peer: established.peer,
                purpose: established.purpose,
                key: established.key,
            });
            let (sealer, opener) = (established.sealer, established.opener);
            self.phase = Phase::Open(Box::new(Channel { sealer, opener }));
        }
        self.flush()
    }

    /// The error for the end of the stream in this phase.
    fn ended(&mut self) -> LinkError {
        match &mut self.phase {
            Phase::Connecting(initiator) | Phase::Initiating(initiator) => initiator.peer_closed(),
            Phase::Responding(responder) => responder.peer_closed(),
            Phase::Open(channel) => {
                return channel
                    .opener
                    .peer_closed()
                    .map_or_else(LinkError::Channel, |()| LinkError::Bye);
            }
            Phase::Draining => return LinkError::Bye,
        }
        let nothing = || LinkError::Handshake(HandshakeError::Closed);
        self.advance(&mut Vec::new()).err().unwrap_or_else(nothing)
    }

    /// The error for a broken connection. A reset during the handshake counts as a close.
    fn broken(&mut self, error: io::Error) -> LinkError {
        if error.kind() == io::ErrorKind::ConnectionReset
            && matches!(self.phase, Phase::Initiating(_) | Phase::Responding(_))
        {
            return self.ended();
        }
        LinkError::Broken(error)
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
