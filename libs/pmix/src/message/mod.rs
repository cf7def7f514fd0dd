//! Requests and replies: the table of commands, and typed forms of both.
//!
//! A message is a run of packs. The table lists the packs of each request and its reply, and `pack` reads and writes
//! them by the table. [`Request`] and [`Reply`] give them names and types.

mod pack;
#[cfg(test)]
mod protocol_table;
mod reply;
mod request;
pub(crate) mod table;

pub use self::reply::{GroupForm, Reply};
pub use self::request::{Put, Request, Scope};

use self::pack::{Packing, Packs};
use crate::encoding::{Data, Encoding, Reader, Writer};
use crate::error::DecodeError;
use crate::session::{Event, Range};
use crate::view::{Pair, View};

/// Whether a command has a reply. An unknown command has a reply.
pub(crate) fn has_reply(command: u8) -> bool {
    table::row(command).is_none_or(|row| row.reply.is_some())
}

pub(crate) fn name_of(command: u8) -> &'static str {
    table::row(command).map_or("unknown", |row| row.name)
}

/// The payload of an event for a client. Infos of a type that the encoding does not have are left out.
pub(crate) fn write_event(encoding: Encoding, event: &Event) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    let info = event.info.iter().filter(|info| encoding.has(info.value.kind()));
    Packing::default()
        .data(Data::Unsigned(NOTIFY.into()))
        .status(event.status)
        .one(&event.source)
        .many(&info.cloned().collect::<Vec<_>>())
        .number(event.range.number())
        .write(table::EVENT, &mut writer);
    writer.into_bytes()
}

/// An event for another manager: status, source, range, targets and infos, in the flexible encoding.
pub fn write_relayed(event: &Event) -> Vec<u8> {
    let mut writer = Writer::new(Encoding::Flexible);
    Packing::default()
        .status(event.status)
        .one(&event.source)
        .number(event.range.number())
        .many(&event.targets)
        .many(&event.info)
        .write(table::RELAYED, &mut writer);
    writer.into_bytes()
}

/// Reads an event of another manager.
///
/// # Errors
///
/// The bytes are not such an event.
pub fn read_relayed(bytes: &[u8]) -> Result<Event, DecodeError> {
    let mut reader = Reader::new(Encoding::Flexible, bytes);
    let mut packs = Packs::read(table::RELAYED, &mut reader).map_err(|(_, error)| error)?;
    reader.finish()?;
    Ok(Event {
        status: packs.status()?,
        source: packs.one()?,
        range: Range::numbered(packs.number()?).ok_or(DecodeError::Form("a range"))?,
        targets: packs.many()?,
        info: packs.many()?,
    })
}

/// The command before an event.
const NOTIFY: u8 = 12;

/// The pairs of a blob: a run of packs of one pair each.
///
/// # Errors
///
/// The bytes are not such a blob.
pub fn read_pairs(encoding: Encoding, blob: &[u8]) -> Result<Vec<Pair>, DecodeError> {
    let mut reader = Reader::new(encoding, blob);
    let mut pairs = Vec::new();
    while !reader.is_empty() {
        pairs.push(Pair::view(reader.one(Pair::KIND)?)?);
    }
    Ok(pairs)
}

/// The blob of these pairs. Pairs of a type that the encoding does not have are left out.
pub fn write_pairs<'a>(encoding: Encoding, pairs: impl IntoIterator<Item = &'a Pair>) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    for pair in pairs {
        if encoding.has(pair.value.kind()) {
            writer.one(Pair::KIND, &pair.data());
        }
    }
    writer.into_bytes()
}
