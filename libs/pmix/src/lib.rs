//! PMIx, the protocol between the processes of Open MPI and their process manager: the server side.
//!
//! The crate has pure state machines and functions. Their inputs are bytes and answers, their outputs bytes and
//! operations. They use no I/O, no clock, no environment and no random numbers.
//!
//! | module | subject |
//! |---|---|
//! | [`connect`] | the connect message of a client, and its checks |
//! | [`transport`] | the headers of messages |
//! | [`encoding`] | data and their bytes, in both encodings |
//! | [`view`] | typed forms of the structures that the server itself reads and writes |
//! | [`message`] | requests and replies, encoded by a table of commands |
//! | [`Session`] | one connection: it decodes [`Operation`]s and encodes [`Answer`]s |
//! | [`job_info`] | the facts about the job that each rank gets at its start |
//! | [`modex`] | the data that ranks have committed |
//! | [`collective`] | fences, connects and groups of the processes on one host |
//! | [`event_log`] | the order of events, and those that are kept for late registrations |
//! | [`environment`] | the variables by which a client finds its server |
//! | [`Status`] | status codes |
//! | [`DecodeError`], [`ProtocolError`] | errors in the bytes of a client |
//! | [`limits`] | the limits of this crate, with their reasons |
//!
//! The tables of types and commands are in `pmix.txt`. A test compares them with the code.
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
//! # Refusals
//!
//! | message of the client | answer |
//! |---|---|
//! | a connect of a tool or singleton | the connection is closed |
//! | a connect of another namespace, rank or user, for a connected rank, or with described data | a status, then the connection is closed |
//! | a connect that cannot be decoded or is too long | the connection is closed |
//! | a message longer than [`MAX_MESSAGE`](limits::MAX_MESSAGE), or replies that the client does not read | the connection is closed |
//! | a request that cannot be decoded, or an unknown command | a status |
//! | a request that the server does not support | the status `NOT_SUPPORTED` |
//!
//! In all cases except the last, the session reports [`Operation::Misbehaved`] to the manager.

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
