//! The typed messages, one enum per channel and direction. PROTOCOL.md tells who says what when.
//!
//! All are externally tagged and refuse unknown fields. Names of variants are what stands on the wire.

mod console;
mod manager;
mod ring;

pub use console::{
    ConsoleReply, Happening, JobInput, JobNews, JobSummary, MemberView, RingRequest, RingView, Word,
};
pub use manager::{JobRecord, ManagerOrder, ManagerReport, Opening, StartJob};
pub use ring::{
    Answer, Gathered, InvalidPayload, Lap, Naming, Payload, RingMessage, Scatter, ScatterId,
};

/// Version of all messages between programs of one host. A console and a daemon of different
/// versions refuse each other with a text.
pub const VERSION: u32 = 2;
