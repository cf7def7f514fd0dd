//! A rank that waits for an answer by PMI.

use mpd_wire::Rank;
use pmi_proto::Ticket;

/// A rank that waits for an answer, and the number of its request.
pub(super) type Caller = (Rank, Ticket);
