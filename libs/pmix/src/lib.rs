//! PMIx, the protocol between the processes of Open MPI and their process manager: the server side.
//!
//! Pure state machines and functions: bytes and answers go in, bytes and operations come out. There is no I/O, no
//! clock, no environment and no random number here.
//!
//! | module | has |
//! |---|---|
//! | [`connect`] | the connect message of a client, and the checks of it |
//! | [`transport`] | the headers of messages |
//! | [`encoding`] | data and their bytes, in the two encodings that libraries use |
//! | [`view`] | the structures that the server itself reads and writes |
//! | [`message`] | requests and replies, by a table of commands |
//! | [`Session`] | one connection: bytes to [`Operation`]s, [`Answer`]s to bytes |
//! | [`job_info`] | the facts that each rank gets at its start, as a function of the job |
//! | [`modex`] | what ranks have committed |
//! | [`collective`] | fences, connects and groups of the processes on one host |
//! | [`event_log`] | events that are kept for late registrations |
//! | [`environment`] | the variables that lead a client to its server |
//!
//! The tables of types and commands stand in `pmix.txt`; a test compares them with the code.
//!
//! ```
//! use pmix_proto::connect::{Expectation, Introduction};
//! use pmix_proto::{Answer, Operation, Session, Status};
//!
//! # let introduction = Introduction {
//! #     security: b"native".into(),
//! #     user: Some((1000, 1000)),
//! #     role: 0,
//! #     namespace: b"secret".into(),
//! #     rank: 0,
//! #     version: b"5.0.11".into(),
//! #     encoding: b"v41".into(),
//! #     buffers: 1,
//! #     store: b"hash".into(),
//! # };
//! # let payload = introduction.write();
//! # let length = u32::try_from(payload.len()).unwrap();
//! # let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
//! # let bytes_of_the_client = [header, payload].concat();
//! let mut session = Session::new();
//! session.receive(&bytes_of_the_client);
//! while let Some((ticket, operation)) = session.poll_operation() {
//!     match operation {
//!         Operation::Connecting(introduction) => {
//!             let expected = Expectation {
//!                 namespace: b"secret",
//!                 uid: 1000,
//!                 peer_uid: None,
//!                 is_running: introduction.rank < 4,
//!                 is_connected: false,
//!             };
//!             match introduction.check(&expected) {
//!                 Ok(encoding) => session.admit(&introduction, encoding, introduction.rank),
//!                 Err(refusal) => session.refuse(refusal),
//!             }
//!         }
//!         Operation::Fence { .. } => session.answer(ticket, Answer::Done(Status::SUCCESS)),
//!         other => println!("{other:?}"), // and so on
//!     }
//! }
//! assert_eq!(session.output(), [0; 8]); // the client is admitted
//! let written = session.output().len(); // or less, after a partial write
//! session.consume(written);
//! ```
//!
//! # What is refused, and how
//!
//! | what | answer |
//! |---|---|
//! | a tool, a singleton, another namespace, rank or user, a second connection, described data | a status, and the end |
//! | a connect message that cannot be read, or is too long | the end |
//! | a message beyond [`MAX_MESSAGE`](limits::MAX_MESSAGE), replies that are not read | the end |
//! | a request that cannot be decoded, or an unknown command | a status |
//! | a request that is not offered | the status that it is not supported |
//!
//! Except for the last, the manager is informed by [`Operation::Misbehaved`].

pub mod collective;
pub mod connect;
pub mod encoding;
pub mod environment;
mod error;
pub mod event_log;
pub mod job_info;
pub mod limits;
pub mod message;
pub mod modex;
mod session;
mod status;
pub mod transport;
pub mod view;

pub use error::{DecodeError, ProtocolError};
pub use pmi_proto::{SpawnCommand, SpawnRequest, Ticket};
pub use session::{Answer, CleanUp, Event, Operation, Persistence, Phase, Range, Session, Spawn};
pub use status::Status;
