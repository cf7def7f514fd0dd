//! The numbers of requests that wait for their answers.

use std::collections::BTreeMap;

use pmix_proto::Ticket;

use crate::caller::Caller;

/// A request that waits for its answer: the number of its connection, and its own number there.
pub(super) type Waiter = (usize, Ticket);

/// The spawns of clients here that are not answered.
pub(super) type Spawning = BTreeMap<Caller, Waiter>;

/// The number of a request about a name.
pub(crate) type NameTicket = u64;
