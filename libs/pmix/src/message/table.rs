//! The table of commands.

use super::pack::Pack::{self, Counted, Each, Encoded, Maybe, One, Rest};
use crate::encoding::DataType as T;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    /// The packs of the request after the command; `None`: they are not decoded.
    pub(crate) request: Option<&'static [Pack]>,
    /// The packs of a successful reply. If the first is a status, a reply with an error has no other pack.
    pub(crate) reply: Option<&'static [Pack]>,
}

pub(crate) fn row(number: u8) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.number == number)
}

const STATUS: Pack = One(T::STATUS, "status");
const PROCS: Pack = Counted(T::PROC, "procs");
const INFO: Pack = Counted(T::INFO, "info");
const DONE: Option<&[Pack]> = Some(&[STATUS]);

const fn known(
    number: u8,
    name: &'static str,
    request: &'static [Pack],
    reply: Option<&'static [Pack]>,
) -> Row {
    Row { number, name, request: Some(request), reply }
}

/// A command with the answer that it is not supported.
const fn unsupported(number: u8, name: &'static str) -> Row {
    Row { number, name, request: None, reply: DONE }
}

pub(crate) const COMMANDS: &[Row] = &[
    known(0, "job-info", &[], Some(&[One(T::STRING, "namespace"), Encoded("info")])),
    known(1, "abort", &[STATUS, One(T::STRING, "message"), PROCS], DONE),
    known(2, "commit", &[Rest(&[(T::SCOPE, "scope"), (T::BUFFER, "data")])], DONE),
    known(3, "fence", &[PROCS, INFO], DONE),
    known(
        4,
        "get",
        &[One(T::STRING, "namespace"), One(T::RANK, "rank"), INFO, Maybe(T::STRING, "key")],
        Some(&[STATUS, Rest(&[(T::BYTE_OBJECT, "data")])]),
    ),
    known(5, "finalize", &[], DONE),
    known(6, "publish", &[One(T::U32, "uid"), INFO], DONE),
    known(
        7,
        "lookup",
        &[One(T::U32, "uid"), Each(T::STRING, "keys"), INFO],
        Some(&[STATUS, Counted(T::PDATA, "found")]),
    ),
    known(8, "unpublish", &[One(T::U32, "uid"), Each(T::STRING, "keys"), INFO], DONE),
    known(
        9,
        "spawn",
        &[INFO, Counted(T::APP, "apps")],
        Some(&[STATUS, One(T::STRING, "namespace"), Encoded("info")]),
    ),
    known(10, "connect", &[PROCS, INFO], Some(&[STATUS, Rest(&[(T::BYTE_OBJECT, "job")])])),
    known(11, "disconnect", &[PROCS, INFO], DONE),
    known(12, "notify", &[STATUS, One(T::RANGE, "range"), INFO], DONE),
    known(13, "register-events", &[Counted(T::STATUS, "codes"), INFO], DONE),
    known(14, "deregister-events", &[Rest(&[(T::STATUS, "code")])], None),
    known(15, "query", &[Counted(T::QUERY, "queries")], Some(&[STATUS, INFO])),
    known(16, "log", &[One(T::TIME, "time"), INFO, Counted(T::INFO, "directives")], DONE),
    unsupported(17, "allocate"),
    known(18, "job-control", &[Counted(T::PROC, "targets"), INFO], DONE),
    unsupported(19, "monitor"),
    unsupported(20, "get-credential"),
    unsupported(21, "validate-credential"),
    unsupported(22, "iof-pull"),
    unsupported(23, "iof-push"),
    known(24, "group-construct", &[One(T::STRING, "group"), PROCS, INFO], Some(GROUP)),
    unsupported(25, "group-join"),
    unsupported(26, "group-invite"),
    known(27, "group-leave", &[One(T::STRING, "group"), INFO], DONE),
    known(28, "group-destruct", &[One(T::STRING, "group"), PROCS, INFO], DONE),
    unsupported(29, "iof-deregister"),
    unsupported(30, "fabric-register"),
    unsupported(31, "fabric-update"),
    unsupported(32, "device-distances"),
    unsupported(33, "refresh-cache"),
    unsupported(34, "resource-block"),
    unsupported(35, "session-control"),
    unsupported(36, "system-info"),
    unsupported(37, "resolve-peers"),
    unsupported(38, "resolve-node"),
];

/// The reply to a group's construction for PMIx 4.2.4 to 5.
pub(crate) const GROUP: &[Pack] = &[STATUS, PROCS, One(T::SIZE, "context")];
/// The reply to a group's construction for PMIx up to 4.2.3.
pub(crate) const GROUP_EARLY: &[Pack] = &[STATUS, One(T::SIZE, "context")];
/// The reply to a group's construction for PMIx 6.0.
pub(crate) const GROUP_60: &[Pack] =
    &[STATUS, PROCS, One(T::BOOL, "has-context"), Maybe(T::SIZE, "context")];
/// The reply to a group's construction for PMIx 6.1.
pub(crate) const GROUP_61: &[Pack] =
    &[STATUS, PROCS, One(T::BOOL, "has-context"), Maybe(T::SIZE, "context"), INFO];
/// The request for the destruction of a group by PMIx up to 4.2.3.
pub(crate) const DESTRUCT_EARLY: &[Pack] = &[One(T::STRING, "group"), INFO];

/// The packs of an event between managers.
pub(crate) const RELAYED: &[Pack] =
    &[STATUS, One(T::PROC, "source"), One(T::RANGE, "range"), Counted(T::PROC, "targets"), INFO];

/// The packs of an event for a client, after the command `notify`.
pub(crate) const EVENT: &[Pack] =
    &[One(T::COMMAND, "command"), STATUS, One(T::PROC, "source"), INFO, One(T::RANGE, "range")];
