//! Answers of all members in pages, and their division into replies to a console.

use std::collections::BTreeMap;

use mpd_ring::Ring;
use mpd_wire::DaemonName;
use mpd_wire::message::{Answer, ConsoleReply, OrderAnswer};

use crate::request::read_payload;

/// Hosts, or names, in one reply to a console. A reply fits one frame with names of any length.
const PER_REPLY: usize = 32;

/// Most pages of one host; the rest is cut.
const MAX_PAGES: u32 = 1024;

/// A part of the items for a console, for example one page of every host.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// In the order of the reply.
    pub(crate) items: Vec<T>,
    /// Whether another page follows.
    pub(crate) more: bool,
}

/// Makes page `number` of the answers. `take` returns the content of an answer and whether its host has another
/// page.
pub(crate) fn page<T>(
    ring: &Ring,
    number: u32,
    answers: &[Answer],
    take: impl Fn(&DaemonName, OrderAnswer) -> Option<(T, bool)>,
) -> Page<T> {
    let mut page = Page { items: Vec::new(), more: false };
    for answer in in_ring_order(ring, answers.iter().collect(), |answer| &answer.name) {
        let decoded = read_payload(&answer.answer).ok();
        if let Some((host, more)) = decoded.and_then(|decoded| take(&answer.name, decoded)) {
            page.more |= more && number < MAX_PAGES;
            page.items.push(host);
        }
    }
    page
}

/// Divides a page into replies, each with the flag whether it is the last of all. `reply` makes a reply of some
/// items, the missing members (all in the last reply), and the flag whether another reply follows.
pub(crate) fn replies<T>(
    page: Page<T>,
    missing: &[DaemonName],
    reply: impl Fn(Vec<T>, Vec<DaemonName>, bool) -> ConsoleReply,
) -> Vec<(ConsoleReply, bool)> {
    let parts = page.items.len().div_ceil(PER_REPLY).max(1);
    let mut items = page.items.into_iter();
    let part = |part| {
        let last = part == parts && !page.more;
        let some = items.by_ref().take(PER_REPLY).collect();
        let missing = if last { missing.to_vec() } else { Vec::new() };
        (reply(some, missing, !last), last)
    };
    (1..=parts).map(part).collect()
}

/// Most members in one reply: a reply fits one frame with names and addresses of any length.
const PER_PART: usize = 128;

/// Takes items away in parts until the rest fits one reply.
pub(crate) fn parts<T>(items: &mut Vec<T>) -> Vec<Vec<T>> {
    let mut parts = Vec::new();
    while items.len() > PER_PART {
        let rest = items.split_off(PER_PART);
        parts.push(std::mem::replace(items, rest));
    }
    parts
}

/// Sorts items by the position of their members in the ring.
pub(crate) fn in_ring_order<T>(
    ring: &Ring,
    mut items: Vec<T>,
    by: impl Fn(&T) -> &DaemonName,
) -> Vec<T> {
    let order = ring.members();
    let places: BTreeMap<&DaemonName, usize> = order.iter().zip(0..).collect();
    items.sort_by_cached_key(|one| places.get(by(one)).copied());
    items
}
