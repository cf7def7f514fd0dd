//! The typed messages, one enum per channel and direction. docs/PROTOCOL.md describes the exchanges.
//!
//! All enums are externally tagged. The names of variants are the names on the wire. Messages change from release to
//! release: unknown fields are ignored, and a message of an unknown kind is refused or skipped
//! ([`InvalidFrame::Unknown`](crate::frame::InvalidFrame::Unknown)).

mod boot;
mod console;
mod events;
mod greeting;
mod group;
mod job_order;
mod jobs;
mod manager;
mod meeting;
mod order;
mod ring;
mod shim;
mod top;
mod trace;
mod tree;
mod world;

use crate::frame::Versions;

pub use boot::{
    DaemonReport, Introduction, IntroductionReader, MAX_INTRODUCTION, NoIntroduction, OfDaemon,
    report_line,
};
pub use console::{
    ConsoleReply, Happening, JobInput, JobNews, JobSummary, MAX_DEBUG_LINE, MemberDescription,
    MemberView, Published, RingRequest, RingView,
};
pub use events::{
    EventGap, EventPage, HostChange, HostTurn, JobChange, JobEvent, MAX_EVENTS, MAX_HOST_CHANGES,
};
pub use greeting::{Greeting, MAX_GREETING, RING_VERSIONS};
pub use group::{FenceGroup, FenceMembers};
pub use job_order::JobOrder;
pub use jobs::{
    HostedPart, InvalidJobRef, JobPart, JobRef, MAX_LISTED_RANKS, MAX_READY, MAX_RUN, MAX_RUNS,
    RankRun, ReadySpawn, SpawnState,
};
pub use manager::{
    HostLimits, ManagerOrder, ManagerReport, NameAnswer, NameOperation, Opening, Placing, StartJob,
};
pub use meeting::{MAX_PASSED, MeetingAnswer, MeetingOperation};
pub use order::{InvalidTmpdir, Launch, OrderAnswer, RingOrder, launch_tmpdir};
pub use ring::{
    Answer, Gathered, InvalidPayload, LIST_CHUNK, Lap, Naming, Payload, RingMessage, Scatter,
    ScatterId,
};
pub use shim::{
    COMMAND_CREDIT, EXEC, InvalidShimMessage, MARK_CREDIT, MAX_SHIM_MESSAGE, MAX_SHIM_TEXT,
    ProgramEnd, ShimOrder, ShimReport, decode_for_shim, encode_for_shim, pieces_of_command,
    shim_text,
};
pub use top::{HostTop, HostUse, RankUse, RunUse};
pub use trace::{Exchange, MAX_SPANS, Phase, Span};
pub use tree::{
    Class, Down, LINK_VERSIONS, LinkHello, MAX_LISTED, MAX_PRELOADS, MAX_TEXT, MAX_TREE_FRAME,
    Preload, TREE_WINDOW, TreeKind, Up,
};
pub use world::{Gathering, MAX_GATHERED, TooMuch, WorldPiece, pieces};

/// The versions of all messages between programs of one host. A daemon refuses a console or manager without a common
/// version, with a text.
pub const VERSION: Versions = Versions::only(11);
