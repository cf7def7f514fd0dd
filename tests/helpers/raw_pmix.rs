//! A client of PMIx that writes given bytes, and prints what its manager does.
//!
//!     t-raw-pmix RANK STEP...     that rank performs these steps; the others connect, pass a fence and finalize
//!     t-raw-pmix waits            each rank connects; rank 0 waits for the end of its input; then the same
//!
//!     connect[=NAMESPACE,RANK]    connects as this process, where `own` stands for its own namespace or rank
//!     again                       connects once more; the following steps use the first connection
//!     garbage=COUNT               so many bytes 0xff on a connection of their own
//!     request=HEX                 one message
//!     announce=LENGTH             the header of a message of this length, without the message
//!     silent                      a connection that sends nothing
//!     many=COUNT                  so many connections that send nothing and stay open
//!     flood=MEGABYTES             requests whose replies are not read
//!     construct=COUNT             so many groups with rank 1, to each of which it contributes 8 MiB; no reply is read
//!     log=COUNT                   so many texts of 4 KiB for the user; no reply is read
//!     fence, finalize             as a correct client
//!     stay                        waits to be killed
//!
//! Each step prints one line: its name and its result, as in `connect accepted` or `garbage closed`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mpd_tests::{argument, rank, say};
use pmix_proto::connect::Introduction;
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::Request;
use pmix_proto::transport::Header;
use pmix_proto::view::{Info, Proc};

const BOUND_S: u32 = 60;
/// How long a client waits for room in its socket.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packs in the encoding of PMIx 4.1: the number of the elements, and the element.
const REQUEST_FENCE: u8 = 3;
const REQUEST_FINALIZE: u8 = 5;
const JOB_INFORMATION: [u8; 2] = [2, 0];

fn main() {
    mpd_tests::bound(BOUND_S);
    let waits = std::env::args().nth(1).as_deref() == Some("waits");
    let mut client = Client::default();
    if !waits && argument(0, 0) == rank() {
        for step in std::env::args().skip(2) {
            let result = client.take(&step);
            let name = step.split('=').next().unwrap_or_default();
            say(&format!("{name} {result}")).expect("stdout");
        }
        return;
    }
    assert_eq!(client.connect("own", "own"), "accepted");
    if waits && rank() == 0 {
        std::io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
    }
    assert_eq!(client.fence(), "done");
    assert_eq!(client.request(&[2, REQUEST_FINALIZE]), "done");
}

/// The connection that is spoken on, and others that stay open.
#[derive(Default)]
struct Client {
    stream: Option<TcpStream>,
    index: u32,
    others: Vec<TcpStream>,
}

impl Client {
    fn take(&mut self, step: &str) -> String {
        let (what, text) = step.split_once('=').unwrap_or((step, "own,own"));
        let number = || text.parse::<usize>().expect("a number");
        match what {
            "connect" => {
                let (namespace, rank) = text.split_once(',').expect("a namespace and a rank");
                self.connect(namespace, rank)
            }
            "again" => {
                let first = self.stream.take();
                let result = self.connect("own", "own");
                self.stream = first;
                result
            }
            "garbage" => ends(open(), &vec![0xff; number()]),
            "request" => self.request(&bytes_of(text)),
            "announce" => self.announce(number()),
            "silent" => ends(open(), b""),
            "many" => {
                self.others.extend((0..number()).map(|_| open()));
                "opened".to_owned()
            }
            "flood" => self.flood(number()),
            "construct" => self.pour((0..number()).map(construct)),
            "log" => self.pour((0..number()).map(|_| log())),
            "fence" => self.fence(),
            "finalize" => self.request(&[2, REQUEST_FINALIZE]),
            "stay" => {
                std::thread::sleep(Duration::from_secs(BOUND_S.into()));
                String::new()
            }
            other => panic!("unknown step '{other}'"),
        }
    }

    fn connect(&mut self, namespace: &str, rank: &str) -> String {
        let namespace =
            if namespace == "own" { variable("PMIX_NAMESPACE") } else { namespace.into() };
        let rank = if rank == "own" { variable("PMIX_RANK") } else { rank.to_owned() };
        let user = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let introduction = Introduction {
            security: b"native".to_vec(),
            user: Some(user),
            role: 0,
            namespace: namespace.into_bytes(),
            rank: rank.parse().expect("a rank"),
            version: b"4.2.2".to_vec(),
            encoding: b"v41".to_vec(),
            buffers: 1,
            store: b"hash".to_vec(),
        };
        let payload = introduction.write();
        let length = u32::try_from(payload.len()).expect("a length");
        // This header alone is in the order of the host.
        let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
        let mut stream = open();
        if stream.write_all(&[header, payload].concat()).is_err() {
            return "closed".to_owned();
        }
        let mut answer = [0; 8];
        if stream.read_exact(&mut answer).is_err() {
            return "closed".to_owned();
        }
        let [status, index] = [0, 4].map(|at| word(&answer, at));
        if status != 0 {
            return ends(stream, b"").replace("closed", "refused");
        }
        self.index = index;
        self.stream = Some(stream);
        "accepted".to_owned()
    }

    fn header(&self, length: usize) -> Vec<u8> {
        let length = u32::try_from(length).expect("a length");
        [self.index, 101, length, 0].map(u32::to_be_bytes).concat()
    }

    /// Sends a request and reads its reply, of which only the status is looked at.
    fn request(&mut self, payload: &[u8]) -> String {
        let header = self.header(payload.len());
        let stream = self.stream.as_mut().expect("a connection");
        let mut answer = [0; 16];
        let sent = stream.write_all(&[header.as_slice(), payload].concat());
        if sent.and_then(|()| stream.read_exact(&mut answer)).is_err() {
            return "closed".to_owned();
        }
        let mut reply = vec![0; usize::try_from(word(&answer, 8)).expect("a length")];
        match stream.read_exact(&mut reply) {
            Err(_) => "closed".to_owned(),
            Ok(()) if reply == [2, 0] => "done".to_owned(),
            Ok(()) => "answered".to_owned(),
        }
    }

    fn fence(&mut self) -> String {
        let namespace = variable("PMIX_NAMESPACE");
        let length = u8::try_from(2 * (namespace.len() + 1)).expect("a short namespace");
        // Packs: the command, the number of members, one member, which is the namespace with any rank; no information.
        let mut payload = vec![2, REQUEST_FENCE, 2, 1, 2];
        payload.extend(length_of(length));
        payload.extend_from_slice(namespace.as_bytes());
        payload.extend_from_slice(&[0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 2, 0]);
        self.request(&payload)
    }

    fn announce(&mut self, length: usize) -> String {
        let header = self.header(length);
        ends(self.stream.take().expect("a connection"), &header)
    }

    fn flood(&mut self, megabytes: usize) -> String {
        let request = [self.header(JOB_INFORMATION.len()), JOB_INFORMATION.to_vec()].concat();
        let many = request.repeat(1_000_000 / request.len());
        self.write_each(std::iter::repeat_n(many, megabytes))
    }

    /// Sends requests without reading replies.
    fn pour(&mut self, requests: impl Iterator<Item = Request>) -> String {
        let index = self.index;
        let message = |request: Request| {
            let payload = request.write(Encoding::Flexible);
            let length = u32::try_from(payload.len()).expect("a length");
            [Header { index, tag: 101, length }.write().to_vec(), payload].concat()
        };
        self.write_each(requests.map(message))
    }

    fn write_each(&mut self, messages: impl Iterator<Item = Vec<u8>>) -> String {
        let stream = self.stream.as_mut().expect("a connection");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
        for message in messages {
            match stream.write_all(&message) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return "stuck".to_owned(),
                Err(_) => return "closed".to_owned(),
            }
        }
        "sent".to_owned()
    }
}

fn construct(number: usize) -> Request {
    const GIVEN: usize = 8 * 1024 * 1024;
    let namespace = variable("PMIX_NAMESPACE");
    let given = Info::new("given", Value::bytes(vec![7; GIVEN]));
    Request::GroupConstruct {
        group: format!("group {number}").into_bytes(),
        procs: vec![Proc::new(namespace.as_str(), 0), Proc::new(namespace, 1)],
        info: vec![Info::new("pmix.grp.info", Value::of_infos(&[given]))],
    }
}

fn log() -> Request {
    let text = Value::text("x".repeat(4096));
    Request::Log { time: 0, info: vec![Info::new("pmix.log.stderr", text)], directives: vec![] }
}

/// The varint of a number below 256.
fn length_of(number: u8) -> Vec<u8> {
    if number < 128 { vec![number] } else { vec![number, 1] }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} in the environment"))
}

/// A connection to the server.
fn open() -> TcpStream {
    let uri = variable("PMIX_SERVER_URI41");
    let (_, address) = uri.split_once("tcp4://").expect("an address");
    let address: SocketAddr = address.parse().expect("an address");
    TcpStream::connect(address).expect("a connection")
}

/// Sends bytes and waits for the end of the connection.
fn ends(mut stream: TcpStream, bytes: &[u8]) -> String {
    let _ = stream.write_all(bytes);
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) if !rest.is_empty() => format!("{} bytes", rest.len()),
        _ => "closed".to_owned(),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("text"), 16).expect("digits");
    digits.map(byte).collect()
}
