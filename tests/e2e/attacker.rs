//! Connections to a daemon's port by a second implementation of the channel, with or without the key; and
//! relays between two daemons.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mpd_wire::DaemonName;
use mpd_wire::frame::compact;
use mpd_wire::message::{Greeting, RING_VERSIONS, RingMessage};

use crate::naive::{self, Bytes32, Secrets};

/// Lengths in bytes of the three messages of a handshake.
pub(crate) const M1: usize = 136;
pub(crate) const M2: usize = 112;
pub(crate) const M3: usize = 32;

/// The purposes that a hello can state.
pub(crate) const RING: u8 = 1;
pub(crate) const JOIN: u8 = 2;
pub(crate) const CHORD: u8 = 3;
pub(crate) const JOB_LINK: u8 = 4;
pub(crate) const PROBE: u8 = 5;

/// Longer than every deadline of the suite.
const PATIENCE: Duration = Duration::from_secs(30);

/// The secret in a key file.
pub(crate) fn key_in(file: &Path) -> Bytes32 {
    let text = std::fs::read_to_string(file).expect("a key file");
    let digits = text.lines().nth(1).expect("a key").trim().to_owned();
    let byte = |i: usize| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("digits");
    std::array::from_fn(byte)
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap_or_else(|error| panic!("{to}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// All bytes until the peer closes. Fails if it does not close.
pub(crate) fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}

/// Sends these bytes to a new connection and returns the whole answer.
pub(crate) fn answer_to(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(to);
    // The daemon may close before it has read all bytes.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    rest(&mut stream)
}

/// The name and purpose that a peer claims.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) key: Bytes32,
    pub(crate) private: Bytes32,
    pub(crate) hello: naive::Hello,
}

impl Claim {
    /// A valid claim, of the instance with this number.
    pub(crate) fn new(key: Bytes32, purpose: u8, seed: u8) -> Self {
        let private = [seed.wrapping_add(7); 32];
        let hello = naive::Hello {
            magic: *b"MPDr",
            version: 1,
            purpose,
            reserved: [0; 2],
            from: [seed | 1; 16],
            to: [0; 16],
            nonce: [seed ^ 0x55; 32],
            ephemeral: naive::public(&private),
        };
        Self { key, private, hello }
    }

    pub(crate) fn m1(&self) -> Vec<u8> {
        self.hello.m1(&self.key)
    }
}

/// A peer with the key: an open channel to a daemon.
pub(crate) struct Guest {
    pub(crate) stream: TcpStream,
    secrets: Secrets,
    sent: u64,
    received: u64,
    /// All bytes sent and received on the wire.
    pub(crate) wire: Vec<u8>,
}

impl Guest {
    /// Proves the key; `None` if the daemon does not prove it, or closes.
    pub(crate) fn open(mut stream: TcpStream, claim: &Claim) -> Option<Self> {
        let m1 = claim.m1();
        stream.write_all(&m1).ok()?;
        let mut m2 = [0; M2];
        stream.read_exact(&mut m2).ok()?;
        let secrets = naive::received_answer(&claim.key, &m1, &m2, &claim.private)?;
        stream.write_all(&secrets.mac_i).ok()?;
        let wire = [&m1[..], &m2, &secrets.mac_i].concat();
        Some(Self { stream, secrets, sent: 0, received: 0, wire })
    }

    /// Opens a channel and exchanges greetings.
    pub(crate) fn enter(to: SocketAddr, claim: &Claim, name: &str, ring: &str) -> Self {
        let mut guest = Self::open(connect(to), claim).expect("the daemon proves the key");
        guest.send(&greeting(name, ring));
        let received = guest.receive().expect("a greeting");
        let received: Greeting = serde_json::from_slice(&received).expect("a greeting");
        assert_eq!(received.ring, ring);
        guest
    }

    /// The next frame that holds this text, sealed.
    pub(crate) fn seal(&mut self, text: &[u8]) -> Vec<u8> {
        let frame = naive::seal(&self.secrets.key_i, self.sent, text);
        self.sent += 1;
        frame
    }

    pub(crate) fn send(&mut self, text: &[u8]) {
        let frame = self.seal(text);
        self.send_raw(&frame);
    }

    /// The daemon may have closed already. The test checks the daemon's behaviour, not this write.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
        let _ = self.stream.write_all(bytes);
    }

    /// Ends the channel properly.
    pub(crate) fn bye(&mut self) {
        self.send(b"");
    }

    /// The text of the next frame; `None` when the daemon has closed.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 4];
        self.stream.read_exact(&mut frame).ok()?;
        let length = u32::from_be_bytes(frame[..4].try_into().expect("four")) as usize;
        frame.resize(4 + length + 16, 0);
        self.stream.read_exact(&mut frame[4..]).ok()?;
        self.wire.extend_from_slice(&frame);
        let (text, _) = naive::open(&self.secrets.key_r, self.received, &frame);
        self.received += 1;
        (length > 0).then_some(text)
    }

    /// Receives until the daemon closes.
    pub(crate) fn is_closed(&mut self) -> bool {
        let _ = rest(&mut self.stream);
        true
    }
}

pub(crate) fn greeting(name: &str, ring: &str) -> Vec<u8> {
    let name = DaemonName::new(name).expect("a name");
    let (release, seen) = ("0".to_owned(), "127.0.0.1".to_owned());
    serde_json::to_vec(&Greeting {
        versions: RING_VERSIONS,
        ring: ring.to_owned(),
        name,
        release,
        seen,
    })
    .expect("JSON")
}

pub(crate) fn encoded(message: &RingMessage) -> Vec<u8> {
    compact::to_vec(message)
}

/// The direction of bytes through a [`Relay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the side that connected.
    There,
    Back,
}

type Change = dyn Fn(Way, usize, &mut [u8]) + Send + Sync;

/// Forwards and records the bytes that arrive at its port, changed or unchanged.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    received: Arc<Mutex<[Vec<u8>; 2]>>,
}

impl Relay {
    pub(crate) fn honest(to: SocketAddr) -> Self {
        Self::new(to, |_, _, _| {})
    }

    /// `change` gets a piece of the bytes of a direction, and the number of bytes before it.
    pub(crate) fn new(
        to: SocketAddr,
        change: impl Fn(Way, usize, &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        let change: Arc<Change> = Arc::new(change);
        let received = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
        let sink = Arc::clone(&received);
        Self::serving(received, move |stream| {
            let Ok(onward) = TcpStream::connect(to) else { return };
            for (from, to, way) in [(&stream, &onward, Way::There), (&onward, &stream, Way::Back)] {
                let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
                let (change, sink) = (Arc::clone(&change), Arc::clone(&sink));
                std::thread::spawn(move || carry(from, to, way, &*change, &sink));
            }
        })
    }

    /// Answers each connection with this function.
    pub(crate) fn answering(serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        Self::serving(Arc::default(), serve)
    }

    fn serving(
        received: Arc<Mutex<[Vec<u8>; 2]>>,
        serve: impl Fn(TcpStream) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let acceptor = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(PATIENCE));
                serve(stream);
            }
        });
        Self { address, over, acceptor: Some(acceptor), received }
    }

    /// The bytes of this direction so far.
    pub(crate) fn received(&self, way: Way) -> Vec<u8> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)[way as usize].clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    way: Way,
    change: &Change,
    received: &Mutex<[Vec<u8>; 2]>,
) {
    let mut before = 0;
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let piece = &mut buffer[..count];
        received.lock().unwrap_or_else(PoisonError::into_inner)[way as usize]
            .extend_from_slice(piece);
        change(way, before, piece);
        before += count;
        if to.write_all(piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Silent connections, each from the next of these addresses of this machine.
pub(crate) fn idle(to: SocketAddr, count: usize, addresses: usize) -> Vec<TcpStream> {
    (0..count).map(|number| one_idle(to, number % addresses)).collect()
}

/// One such connection, from the address of this number.
pub(crate) fn one_idle(to: SocketAddr, number: usize) -> TcpStream {
    let low = u8::try_from(number % 250 + 1).expect("a byte");
    let high = u8::try_from(number / 250 % 250).expect("a byte");
    let ip = IpAddr::from([127, 255, high, low]);
    let stream = mpd_io::network::tcp::begin_connect(to, Some(ip)).expect("a connection");
    stream.set_nonblocking(true).expect("non-blocking");
    stream
}
