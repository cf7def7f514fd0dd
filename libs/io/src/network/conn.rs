//! A connection of frames over a Unix stream: bounded reads, a write queue, passed descriptors.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::host::scarce::persist;
use crate::network::outgoing::Outgoing;
use crate::network::watch::StreamWatch;
use crate::raw::adopt_received;
use crate::wait::until_ready;
use mio::{Registry, Token};
use mpd_wire::frame;
use mpd_wire::frame::{Decoder, InvalidFrame, Kind, Skipped};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, UnixCredentials, getsockopt, recvmsg, send,
    sendmsg, sockopt,
};

/// Most bytes read per turn, so that one busy peer cannot starve the others.
const READ_PER_TURN: usize = 1 << 20;

/// The first read of a turn. Most messages fit, and a small buffer touches few pages of a young process.
const FIRST_READ: usize = 8 << 10;

/// The further reads of a turn.
const NEXT_READS: usize = 64 << 10;

/// Most descriptors with one message, and most that may wait until their message is decoded.
const MAX_DESCRIPTORS: usize = 8;

/// Most messages with descriptors that may wait to be sent.
const MAX_PASSING: usize = 64;

/// How a turn of reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Nothing more is there now; the poll reports when more arrives.
    Empty,
    /// More may be there; call again.
    More,
    /// The peer closed its side.
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Conn {
    stream: UnixStream,
    decoder: Decoder,
    out: Outgoing,
    /// Descriptors to send, and the number of bytes that precede them, counted from the entry before.
    passing: VecDeque<(usize, Vec<OwnedFd>)>,
    descriptors: VecDeque<OwnedFd>,
    /// The number of those that belong to the last frame.
    passed: usize,
    skipped: Skipped,
    watch: StreamWatch,
    is_reset: bool,
}

impl Conn {
    /// Takes over a connected stream. No call on it waits, whatever its mode, unless the method says so.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            out: Outgoing::default(),
            passing: VecDeque::new(),
            descriptors: VecDeque::new(),
            passed: 0,
            skipped: Skipped::default(),
            watch: StreamWatch::default(),
            is_reset: false,
        }
    }

    /// Has the queue report what arrives.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self, registry: &Registry, token: Token) -> io::Result<()> {
        self.watch.begin(registry, self.as_raw_fd(), token)
    }

    /// If bytes are queued, has the queue also report that the socket accepts more. To be called before each wait.
    ///
    /// # Errors
    /// The system's.
    pub fn watch_writing(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.watch.add_writing(registry, self.stream.as_raw_fd(), token)
    }

    /// The credentials of the process at the other end, as the kernel knows them.
    ///
    /// # Errors
    /// The kernel does not know them.
    pub fn peer(&self) -> io::Result<UnixCredentials> {
        Ok(getsockopt(&self.stream, sockopt::PeerCredentials)?)
    }

    /// Reads the bytes that have arrived. A descriptor arrives no later than the first byte of its message.
    ///
    /// # Errors
    /// Those of the socket, except a reset, which counts as closed. Also too many descriptors: more wait than the
    /// bound, or this process has no free number for them. Then descriptors cannot be matched with messages.
    pub fn fill(&mut self) -> io::Result<Filled> {
        if self.descriptors.len() >= MAX_DESCRIPTORS {
            return Err(io::Error::other("descriptors that are not expected here"));
        }
        let mut first = [0_u8; FIRST_READ];
        let mut next = Vec::new();
        let mut total = 0;
        while total < READ_PER_TURN && self.descriptors.len() < MAX_DESCRIPTORS {
            let buffer = if next.is_empty() { &mut first[..] } else { &mut next[..] };
            match persist(|| self.receive(buffer)) {
                Ok(0) => return Ok(Filled::Closed),
                Ok(n) => {
                    self.decoder.push(&buffer[..n]);
                    total += n;
                    if n == FIRST_READ && next.is_empty() {
                        next = vec![0; NEXT_READS];
                    }
                }
                Err(Errno::EAGAIN) => return Ok(Filled::Empty),
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNRESET) => {
                    self.is_reset = true;
                    return Ok(Filled::Closed);
                }
                Err(Errno::EPIPE) => return Ok(Filled::Closed),
                Err(Errno::EMFILE) => return Err(io::Error::other("a descriptor got lost")),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Filled::More)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> nix::Result<usize> {
        let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.stream.as_raw_fd();
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(fd, &mut slices, Some(&mut space), flags)?;
        // nix reports a truncation by ENOBUFS, which is no lack of memory here.
        for control in message.cmsgs().map_err(|_| Errno::EMFILE)? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                self.descriptors.extend(numbers.into_iter().map(adopt_received));
            }
        }
        if message.flags.contains(MsgFlags::MSG_CTRUNC) {
            return Err(Errno::EMFILE);
        }
        Ok(message.bytes)
    }

    /// Waits without a limit until something can be read, and reads it. Only for programs that have nothing else to do.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn wait_without_limit(&mut self) -> io::Result<Filled> {
        while !until_ready(&self.stream, PollFlags::POLLIN, None)? {}
        self.fill()
    }

    /// Waits until something can be read, at most `patience_ms` milliseconds, and reads it; `None` after that time.
    /// Only for programs that have nothing else to do.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn wait(&mut self, patience_ms: u16) -> io::Result<Option<Filled>> {
        let deadline = Instant::now() + Duration::from_millis(patience_ms.into());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if until_ready(&self.stream, PollFlags::POLLIN, Some(left))? {
                return self.fill().map(Some);
            }
            // A signal may have interrupted the wait.
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub fn next_frame(&mut self) -> Result<Option<(Kind, &[u8])>, InvalidFrame> {
        // What was not taken came with a message that was skipped.
        let left = std::mem::take(&mut self.passed).min(self.descriptors.len());
        self.descriptors.drain(..left);
        let Some(frame) = self.decoder.next_frame()? else { return Ok(None) };
        self.passed = frame.descriptors;
        Ok(Some((frame.kind, frame.payload)))
    }

    /// Notes that a message of an unknown kind was skipped. Only the first ones of a connection are logged.
    pub fn skip(&mut self, kind: &str) {
        if let Some(line) = self.skipped.count(kind) {
            log::warn!("{line}");
        }
    }

    /// Does the same for a frame of an unknown kind.
    pub fn skip_frame(&mut self, code: u8) {
        self.skip(&format!("frame {code}"));
    }

    /// Whether the peer is known to have closed the connection before it had read the whole data.
    pub const fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Whether bytes of an unfinished frame are waiting.
    pub fn is_partial(&self) -> bool {
        self.decoder.is_partial()
    }

    /// The next descriptor of the last frame. The next call of [`Conn::next_frame`] closes the rest.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.passed = self.passed.checked_sub(1)?;
        self.descriptors.pop_front()
    }

    /// Queues a message. [`Conn::flush`] writes it.
    pub fn send(&mut self, message: &impl serde::Serialize) {
        frame::encode_message(message, self.out.buffer());
    }

    /// Queues a message with its `descriptors`, if any. They are closed here when they have been sent.
    ///
    /// # Errors
    /// Too many descriptors wait already; nothing is queued.
    pub fn send_with(
        &mut self,
        message: &impl serde::Serialize,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let (before, count) = (self.out.len(), descriptors.len());
        if count > 0 {
            self.pass(before, descriptors)?;
        }
        self.send(message);
        self.announce(before, count);
        Ok(())
    }

    /// Queues a message of unbounded size.
    ///
    /// # Errors
    /// The message is longer than a frame; nothing is queued.
    pub fn try_send(&mut self, message: &impl serde::Serialize) -> Result<(), InvalidFrame> {
        frame::try_encode_message(message, self.out.buffer())
    }

    /// Queues bulk bytes as frames of `kind`.
    pub fn send_bulk(&mut self, kind: Kind, bytes: &[u8]) {
        frame::encode_bulk(kind, bytes, self.out.buffer());
    }

    /// Queues one frame.
    pub fn send_frame(&mut self, kind: Kind, payload: &[u8]) {
        frame::encode(kind, payload, self.out.buffer());
    }

    /// Bytes queued and not yet written.
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// Writes as much as the socket accepts. Call again at a writable event while bytes are queued.
    ///
    /// # Errors
    /// Those of the socket: the peer has closed it, or the system fails for longer than a moment. No event reports that
    /// a later call would succeed, so the connection is of no further use for sending.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.passing.is_empty() {
            match self.flush_passing() {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        self.out.flush(&mut Unwaiting(&self.stream))
    }

    /// Writes like [`Conn::flush`]. The message that begins after `before` queued bytes has these descriptors, which stay
    /// open here. If the socket does not accept its first byte now, copies of them wait.
    ///
    /// # Errors
    /// As for [`Conn::flush`]. Also: too many descriptors wait already, or no number is free for a copy.
    pub fn flush_lending(
        &mut self,
        before: usize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.announce(before, descriptors.len());
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut is_to_be_sent = !numbers.is_empty();
        while before == 0 && is_to_be_sent && self.passing.is_empty() {
            match self.send_some(self.out.len(), &[ControlMessage::ScmRights(&numbers)]) {
                Ok(_) => is_to_be_sent = false,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        if is_to_be_sent {
            let copies = descriptors.iter().map(BorrowedFd::try_clone_to_owned);
            self.pass(before, copies.collect::<Result<_, _>>()?)?;
        }
        self.flush()
    }

    /// Writes the number of its descriptors into the frame behind the first `before` queued bytes.
    fn announce(&mut self, before: usize, count: usize) {
        let waiting = self.out.len();
        let buffer = self.out.buffer();
        let begin = buffer.len() - waiting + before;
        frame::announce(&mut buffer[begin..], count);
    }

    /// Has descriptors sent with the byte behind the first `position` queued ones.
    fn pass(&mut self, position: usize, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if self.passing.len() >= MAX_PASSING {
            return Err(io::Error::other("too many descriptors wait to be passed"));
        }
        let before: usize = self.passing.iter().map(|(bytes, _)| bytes).sum();
        self.passing.push_back((position - before, descriptors));
        Ok(())
    }

    /// Writes the first of the next `end` queued bytes that the socket accepts, with `control`. Returns their number.
    fn send_some(&mut self, end: usize, control: &[ControlMessage<'_>]) -> nix::Result<usize> {
        let slices = [IoSlice::new(&self.out.waiting()[..end])];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let fd = self.stream.as_raw_fd();
        let sent = persist(|| sendmsg::<()>(fd, &slices, control, flags, None))?;
        self.out.advance(sent);
        Ok(sent)
    }

    /// Writes once: either up to the next message with descriptors, or that message's first bytes with them.
    fn flush_passing(&mut self) -> nix::Result<()> {
        let Some((before, descriptors)) = self.passing.front() else { return Ok(()) };
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let (end, control) = match *before {
            0 => (self.passing.get(1).map_or(self.out.len(), |(bytes, _)| *bytes), &rights[..]),
            before => (before, &[][..]),
        };
        let is_first = *before == 0;
        let sent = self.send_some(end, control)?;
        if is_first {
            self.passing.pop_front();
        }
        if let Some((before, _)) = self.passing.front_mut() {
            *before -= sent;
        }
        Ok(())
    }

    /// Writes all queued bytes and waits if necessary. Only for programs that have nothing else to do.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn flush_blocking(&mut self) -> io::Result<()> {
        loop {
            self.flush()?;
            if self.out.is_empty() {
                return Ok(());
            }
            until_ready(&self.stream, PollFlags::POLLOUT, None)?;
        }
    }

    /// Ends the sending direction, and drops what is queued. What the peer still sends can be read.
    pub fn finish(&mut self) {
        self.out.advance(self.out.len());
        self.passing.clear();
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// Writes to a stream without waiting.
struct Unwaiting<'a>(&'a UnixStream);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        Ok(send(self.0.as_raw_fd(), bytes, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Conn {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_peer_that_closes_without_reading_all_resets_the_connection() {
        let (mut ours, mut theirs) = pair();
        ours.send(&"job");
        ours.flush().unwrap();
        assert_eq!((theirs.fill().unwrap(), ours.is_reset()), (Filled::Empty, false));
        ours.send(&"more");
        ours.flush().unwrap();
        drop(theirs);
        assert_eq!((ours.fill().unwrap(), ours.is_reset()), (Filled::Closed, true));
        let (mut ours, theirs) = pair();
        drop(theirs);
        assert_eq!((ours.fill().unwrap(), ours.is_reset()), (Filled::Closed, false));
    }

    fn pair() -> (Conn, Conn) {
        let (one, other) = UnixStream::pair().unwrap();
        (Conn::new(one), Conn::new(other))
    }

    /// A file that contains its number.
    fn numbered(number: usize) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "{number}").unwrap();
        file.rewind().unwrap();
        file.into()
    }

    fn number_of(descriptor: OwnedFd) -> usize {
        let mut text = String::new();
        File::from(descriptor).read_to_string(&mut text).unwrap();
        text.parse().unwrap()
    }

    /// Takes messages up to the message `last`. Messages with a number below 100 come with their descriptor.
    fn take_until(conn: &mut Conn, last: usize, flush: &mut Conn) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.last() != Some(&last) {
            flush.flush().unwrap();
            assert_ne!(conn.fill().unwrap(), Filled::Closed);
            while let Some((kind, payload)) = conn.next_frame().unwrap() {
                if kind != Kind::Control {
                    continue;
                }
                let number: usize = frame::decode_message(payload).unwrap();
                if number < 100 {
                    assert_eq!(number_of(conn.take_descriptor().unwrap()), number);
                }
                taken.push(number);
            }
        }
        taken
    }

    #[test]
    fn each_descriptor_comes_with_its_message_at_any_size_of_reads() {
        let (mut ours, mut theirs) = pair();
        for number in 0..50 {
            ours.send_with(&number, vec![numbered(number)]).unwrap();
            ours.send(&(100 + number));
        }
        let wanted: Vec<usize> = (0..50).flat_map(|n| [n, 100 + n]).collect();
        assert_eq!(take_until(&mut theirs, 149, &mut ours), wanted);
        assert!(theirs.take_descriptor().is_none());
    }

    #[test]
    fn descriptors_of_a_skipped_message_are_closed_and_the_next_message_has_its_own() {
        let (mut ours, mut theirs) = pair();
        let (skipped, mut other) = UnixStream::pair().unwrap();
        ours.send_with(&"later", vec![skipped.into()]).unwrap();
        ours.send(&100);
        ours.send_with(&7, vec![numbered(7)]).unwrap();
        ours.flush().unwrap();
        while theirs.fill().unwrap() != Filled::Empty {}
        let mut kinds = Vec::new();
        while let Some((kind, payload)) = theirs.next_frame().unwrap() {
            kinds.push(kind);
            if payload == b"7" {
                assert_eq!(number_of(theirs.take_descriptor().unwrap()), 7);
            }
        }
        assert_eq!(kinds, [Kind::Control; 3]);
        assert!(theirs.take_descriptor().is_none());
        assert_eq!(other.read(&mut [0; 1]).unwrap(), 0, "nobody has its other end");
    }

    #[test]
    fn descriptors_keep_their_order_when_the_socket_is_full() {
        let (mut ours, mut theirs) = pair();
        for number in 0..5 {
            ours.send_bulk(Kind::Spec, &vec![7; 300_000]);
            ours.send_with(&number, vec![numbered(number)]).unwrap();
        }
        ours.flush().unwrap();
        assert!(ours.queued() > 0);
        assert_eq!(take_until(&mut theirs, 4, &mut ours), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn lent_descriptors_stay_open_and_come_with_their_message_also_when_the_socket_is_full() {
        let (mut ours, mut theirs) = pair();
        let lent: Vec<OwnedFd> = (0..5).map(numbered).collect();
        let send = |conn: &mut Conn, number: usize| {
            let before = conn.queued();
            conn.send(&number);
            conn.send_bulk(Kind::Spec, &vec![7; 300_000]);
            conn.flush_lending(before, &[lent[number].as_fd()]).unwrap();
        };
        (0..5).for_each(|number| send(&mut ours, number));
        assert!(ours.queued() > 0);
        let taken = take_until(&mut theirs, 4, &mut ours);
        assert_eq!(taken, [0, 1, 2, 3, 4]);
        assert!(lent.iter().all(|fd| fd.try_clone().is_ok()));
    }

    #[test]
    fn the_queue_reports_room_in_the_socket_only_while_bytes_wait() {
        let (mut ours, mut theirs) = pair();
        let mut poll = mio::Poll::new().unwrap();
        let mut events = mio::Events::with_capacity(4);
        let mut look = |poll: &mut mio::Poll| {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            events.iter().any(mio::event::Event::is_writable)
        };
        ours.watch(poll.registry(), Token(1)).unwrap();
        ours.watch_writing(poll.registry(), Token(1)).unwrap();
        assert!(!look(&mut poll), "nothing is queued");
        ours.send_bulk(Kind::Spec, &vec![7; 3_000_000]);
        ours.flush().unwrap();
        assert!(ours.queued() > 0);
        ours.watch_writing(poll.registry(), Token(1)).unwrap();
        assert!(!look(&mut poll), "the socket is full");
        while theirs.fill().unwrap() == Filled::More {}
        assert!(look(&mut poll));
    }

    #[test]
    fn a_connection_that_is_finished_drops_its_queue_and_can_still_be_read() {
        let (mut ours, mut theirs) = pair();
        let (end, _) = UnixStream::pair().unwrap();
        ours.send_bulk(Kind::Spec, &vec![7; 3_000_000]);
        ours.send_with(&1, vec![end.into()]).unwrap();
        ours.flush().unwrap();
        assert!(ours.queued() > 0);
        ours.finish();
        assert_eq!(ours.queued(), 0);
        ours.flush().unwrap();
        theirs.send(&2);
        theirs.flush().unwrap();
        assert_eq!(ours.fill().unwrap(), Filled::Empty);
    }

    #[test]
    fn at_most_the_bounded_number_of_descriptors_waits() {
        let (mut ours, mut theirs) = pair();
        for number in 0..MAX_PASSING {
            ours.send_with(&number, vec![numbered(number)]).unwrap();
        }
        assert!(ours.send_with(&99, vec![numbered(99)]).is_err());
        // A reader that takes no descriptors stops after a few.
        ours.flush().unwrap();
        assert_eq!(theirs.fill().unwrap(), Filled::More);
        assert!(theirs.descriptors.len() < 2 * MAX_DESCRIPTORS);
        assert!(theirs.fill().is_err());
    }

    #[test]
    fn too_many_descriptors_with_one_message_are_an_error() {
        let (mut ours, mut theirs) = pair();
        ours.send_with(&0, (0..=MAX_DESCRIPTORS).map(numbered).collect()).unwrap();
        ours.flush().unwrap();
        assert!(theirs.fill().is_err());
    }
}
