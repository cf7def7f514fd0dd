//! One TCP connection under the channel of [`mpd_channel`]: connecting, handshake, sealed
//! frames, a tidy end. Before the peer has proved the key, no more is read than the handshake wants.

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
use mpd_machine::Time;

use crate::outgoing::Outgoing;
use crate::tcp;

/// Bytes read in one turn at most, so that one busy peer cannot starve the others.
const READ_PER_TURN: usize = 1 << 20;

/// Good size of the buffer for [`Link::turn`].
pub const CHUNK: usize = 64 * 1024;

/// What a link has to say.
#[derive(Debug)]
pub enum Heard {
    /// The connection is up; nothing is proved yet.
    Connected,
    /// Both sides proved the key.
    Established {
        /// Who is there.
        peer: Instance,
        /// What the side that connected wants.
        purpose: Purpose,
        /// Under which key.
        key: KeyId,
    },
    /// A job link: the manager of this instance is wanted. Nothing more happens until
    /// [`Link::prove`], or the handshake's deadline.
    FindManager(Instance),
    /// A first message that was made with the key. Nothing more happens until [`Link::admit`].
    Hello(Mark),
    /// A frame of the peer.
    Frame(Vec<u8>),
}

/// Why a link is over.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There was never a connection.
    #[error("{0}")]
    Connect(io::Error),
    /// The connection broke.
    #[error("{0}")]
    Broken(io::Error),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The frames were not the peer's.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The peer said bye.
    #[error("the peer closed")]
    Bye,
}

enum Phase {
    Connecting(Initiator),
    Initiating(Initiator),
    Responding(Box<Responder>),
    Open(Box<Channel>),
    /// What comes is read and dropped, until the peer closes too: closing with bytes unread would
    /// tear what we sent last out of the peer's hands.
    Draining,
}

struct Channel {
    sealer: Sealer,
    opener: Opener,
}

/// One connection. See the module.
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
    /// [`LinkError::Connect`] when it is known at once, [`LinkError::Handshake`] without randomness.
    pub fn dial(to: SocketAddr, from: Option<IpAddr>, opening: Opening) -> Result<Self, LinkError> {
        let initiator =
            Initiator::new(opening, &SystemRandom::new()).map_err(HandshakeError::from)?;
        let stream = tcp::begin_connect(to, from).map_err(LinkError::Connect)?;
        let phase = Phase::Connecting(initiator);
        Ok(Self { stream, remote: to, out: Outgoing::default(), phase })
    }

    /// Takes an accepted connection.
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

    /// Takes a connection that a daemon accepted, and what it read from it.
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
        // A hello alone establishes nothing, so there is nothing to hear yet.
        link.take(read, &mut Vec::new())?;
        Ok(link)
    }

    /// How long the peer's host may leave data unacknowledged, instead of [`tcp::USER_TIMEOUT`].
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_user_timeout(&self, timeout: Duration) -> Result<(), LinkError> {
        tcp::set_user_timeout(&self.stream, timeout).map_err(LinkError::Broken)
    }

    /// Checks a job link with the key of the manager's job; gives the hello that the manager is to
    /// receive first, on [`Link::into_stream`].
    ///
    /// # Errors
    /// It was not made with that key, or this is no job link that waits.
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

    /// Goes on after [`Heard::Hello`], if that message is new.
    ///
    /// # Errors
    /// It is not.
    pub fn admit(&mut self, is_new: bool) -> Result<(), LinkError> {
        if let Phase::Responding(responder) = &mut self.phase {
            responder.admit(is_new, &SystemRandom::new());
        }
        self.advance(&mut Vec::new())
    }

    /// The bare connection, from which no byte was read but the hello, and on which none was written.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The other end.
    pub const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Our end, as soon as there is one.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Bytes that wait to be sent.
    pub const fn queued(&self) -> usize {
        self.out.len()
    }

    /// When [`Link::expire`] is due.
    pub const fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Connecting(initiator) | Phase::Initiating(initiator) => initiator.poll_timeout(),
            Phase::Responding(responder) => responder.poll_timeout(),
            Phase::Open(_) | Phase::Draining => None,
        }
    }

    /// Lets time pass.
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

    /// Seals and queues one frame. Nothing happens unless the channel is open.
    ///
    /// # Errors
    /// [`ChannelError::Exhausted`], after 2^63 frames.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        if let Phase::Open(channel) = &mut self.phase {
            channel.sealer.seal(&[frame], self.out.buffer()).map_err(ChannelError::from)?;
        }
        Ok(())
    }

    /// Queues the last word; what still comes is dropped. [`Link::is_drained`] tells when all is out.
    pub fn finish(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Draining);
        if let Phase::Open(channel) = phase {
            channel.sealer.bye(self.out.buffer());
        }
        if self.flush().is_ok() && self.out.is_empty() {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Whether everything was handed to the kernel.
    pub const fn is_drained(&self) -> bool {
        self.out.is_empty()
    }

    /// Writes what the socket takes.
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

    /// Writes what waits, then reads what is there, a bounded amount, by way of `buffer`, and appends what
    /// it says to `heard`. `true`: more may be there, call again. A read that does not fill the buffer is
    /// the last one (what comes later makes an event of its own) unless the peer `hung_up`: then the end
    /// is read, too.
    ///
    /// # Errors
    /// [`LinkError`]: the link is over. What was heard before counts.
    pub fn turn(
        &mut self,
        buffer: &mut [u8],
        hung_up: bool,
        heard: &mut Vec<Heard>,
    ) -> Result<bool, LinkError> {
        self.connected(heard)?;
        self.advance(heard)?;
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
                    self.take(&buffer[..n], heard)?;
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

    /// Whether the connection has come up meanwhile.
    fn connected(&mut self, heard: &mut Vec<Heard>) -> Result<(), LinkError> {
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
            heard.push(Heard::Connected);
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), LinkError> {
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
                        Opened::Frame(frame) => heard.push(Heard::Frame(frame.to_vec())),
                        Opened::Bye => return Err(LinkError::Bye),
                    }
                }
            }
        }
        self.advance(heard)
    }

    /// Does what the handshake says.
    fn advance(&mut self, heard: &mut Vec<Heard>) -> Result<(), LinkError> {
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
                        heard.push(Heard::Hello(mark));
                        continue;
                    }
                    Some(ResponderOutput::FindManager(manager)) => {
                        heard.push(Heard::FindManager(manager));
                        continue;
                    }
                    // Link::prove takes it.
                    Some(ResponderOutput::PassOn { .. }) => continue,
                    Some(ResponderOutput::Established(established)) => established,
                    Some(ResponderOutput::Close(error)) => {
                        // A refusal may be on its way.
                        let _ = self.flush();
                        return Err(error.into());
                    }
                    None => break,
                },
                Phase::Open(_) | Phase::Draining => break,
            };
            heard.push(Heard::Established {
                peer: established.peer,
                purpose: established.purpose,
                key: established.key,
            });
            let (sealer, opener) = (established.sealer, established.opener);
            self.phase = Phase::Open(Box::new(Channel { sealer, opener }));
        }
        self.flush()
    }

    /// The stream ended.
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

    /// A reset in the handshake is a close without a word.
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
