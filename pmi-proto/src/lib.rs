//! PMI, the protocol by which the processes of an MPI job find each other, in both its dialects: the
//! lines of PMI-1.1 and the messages of PMI-2. The server side for a process manager, and the client
//! side for libraries and tests.
//!
//! The crate contains pure state machines. Inputs are bytes and answers, outputs are bytes and operations. It has no
//! I/O, no clock and no threads. The owner of the descriptors drives the machines.
//!
//! # The server side
//!
//! There is one [`Session`] per client. It answers requests that concern only its client. Other requests go to its
//! manager as [`Operation`]s:
//!
//! ```
//! use pmi_proto::{Answer, Facts, Kvs, Operation, Session};
//!
//! let facts = Facts {
//!     kvsname: "kvs_7_0".into(),
//!     rank: 0,
//!     size: 1,
//!     appnum: 0,
//!     spawner: None,
//! };
//! let mut session = Session::new(facts);
//! let mut kvs = Kvs::new();
//!
//! session.receive(b"cmd=init pmi_version=1 pmi_subversion=1\n");
//! session.receive(b"cmd=put kvsname=kvs_7_0 key=addr value=10.0.0.1 port=99\n");
//! while let Some((ticket, operation)) = session.poll_operation() {
//!     match operation {
//!         Operation::Put { key, value } => {
//!             session.answer(ticket, Answer::Put(kvs.put(&key, &value)));
//!         }
//!         Operation::Get { key } => session.answer(ticket, Answer::Get(kvs.get(&key))),
//!         // Once all ranks have arrived.
//!         Operation::Fence => session.answer(ticket, Answer::Fence),
//!         Operation::Spawn(_) => session.answer(ticket, Answer::Spawned(Err("not_here"))),
//!         other => println!("{other:?}"), // and so on
//!     }
//! }
//! let replies = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=put_result rc=0\n";
//! assert_eq!(session.output(), replies);
//! let written = session.output().len(); // or less, after a partial write
//! session.consume(written);
//! ```
//!
//! The manager polls operations until `None` and writes the output. It does so after each call that may produce them:
//! `receive`, `answer`, `consume`, `end_of_stream`. A client of PMI-1 has at most one open request. A client of PMI-2
//! has up to [`MAX_OPEN`](limits::MAX_OPEN), one per thread. Tickets match answers with requests, and answers may come
//! in any order.
//!
//! # The client side
//!
//! [`Client`] is for PMI-1, [`pmi2::Client`] for PMI-2.
//!
//! # Supported requests
//!
//! * All of PMI-1.1 on an inherited descriptor (`PMI_FD`), and the first lines of a connection to `PMI_PORT`. The table
//!   is `protocol.txt`, and a test compares it with the code. A client that asks for 1.1 gets 1.1.
//! * All of PMI-2 after an `init` that asks for it, with Slurm's `ring`. The table is `protocol2.txt`. A client may
//!   change its dialect by another `init`, while no request is open.
//! * A repeated `init`, with or without a finalize before it, and a repeated `finalize`. After a finalize, any bytes:
//!   other processes may have inherited the descriptor by then.
//! * A process that was started without a manager and has started one itself: [`singleton`].
//! * An abort is served while an answer is outstanding, if it is the next line.
//!
//! # Refusals
//!
//! | input | answer |
//! | --- | --- |
//! | another version than 1 and 2 | `response_to_init … rc=-1` |
//! | a KVS other than the job's; an empty or long key; a long value; a put of `PMI_…` | rc=-1 and a msg |
//! | a port beyond [`MAX_PORT`](limits::MAX_PORT), published or found | rc=-1 or 1 and a msg |
//! | a spawn of nothing, of no processes, or beyond [`MAX_SPAWN_BYTES`](limits::MAX_SPAWN_BYTES) | rc=-1 and a msg, once a call |
//! | an unknown command | `NAME_result rc=-1 msg=unknown_command` |
//! | in PMI-2 a second fence while in one; more open requests than the limit | rc=-1 and an errmsg |
//! | a barrier of an invalid group, without PMI-1.2, or in more barriers than the limit | `barrier_in_result rc=-1` and a msg |
//! | a line or message without `cmd=` | nothing |
//! | a value that no client can put, in a reply beyond [`MAX_REPLY`](limits::MAX_REPLY) bytes | the answer "not found" |
//! | a command in a line beyond [`MAX_LINE`](limits::MAX_LINE) | rc=-1 and a msg |
//! | another line beyond it, one of a block or of an abort, or endless sending without reading | fatal |
//! | an invalid length where a message should begin, or one beyond [`MAX_FRAME`](limits::MAX_FRAME) | fatal |
//!
//! A refusal in PMI-2 is `NAME-response;rc=-1;errmsg=…`. The manager gets each refusal as [`Operation::Misbehaved`],
//! except that of a value that does not fit. No refusal closes the connection: libraries crash when their descriptor is
//! closed, so a manager that wants to end a rank kills it.
//!
//! # Tasks of the manager
//!
//! The manager starts processes, collects fences, exchanges the KVS between hosts, and detects the end of a rank.
//! [`Kvs`] and [`NodeAttributes`] store its data. PMIx is another protocol, in the crate `pmix-proto`.

#![warn(clippy::wildcard_enum_match_arm)]

mod attributes;
mod environment;
mod error;
mod input;
mod keyval;
mod kvs;
mod pmi1;
mod service;
mod session;
mod spawn;

pub mod client;
pub mod limits;
pub mod pairs;
pub mod pmi2;
pub mod process_mapping;
pub mod signal;
pub mod singleton;

pub use attributes::NodeAttributes;
pub use client::{Client, IndexedEntry, Refusal, Reply, Setting};
pub use environment::is_launcher_variable;
pub use error::{ProtocolError, PutError};
pub use kvs::Kvs;
pub use pmi1::group::{BarrierGroup, GroupMembers};
pub use service::{NameAndKey, Service};
pub use session::{Answer, Dialect, Facts, Operation, Phase, Session, Ticket};
pub use spawn::{SpawnCommand, SpawnRequest, Spawned};
