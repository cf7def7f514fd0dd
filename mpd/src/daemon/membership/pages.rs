//! What all members have to say page by page, and how a console gets what is too much for one reply.

use mpd_ring::Ring;
use mpd_wire::message::{Answer, ConsoleReply, OrderAnswer};
use mpd_wire::{DaemonName, frame};

/// Hosts, or names, in one reply to a console: so many answers fit a frame, whatever they are called.
const PER_REPLY: usize = 32;

/// A host that has more to say than so many pages is cut short.
const MAX_PAGES: u32 = 1024;

/// What goes to a console in parts: one page of every host, say.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// In the order in which they are told.
    pub(super) items: Vec<T>,
    /// There is more to come.
    pub(super) more: bool,
}

/// What `take` finds in the answers that make page `number`: what there is, and whether that host has more.
pub(super) fn page<T>(
    ring: &Ring,
    number: u32,
    answers: &[Answer],
    take: impl Fn(&DaemonName, OrderAnswer) -> Option<(T, bool)>,
) -> Page<T> {
    let mut page = Page { items: Vec::new(), more: false };
    for answer in in_ring_order(ring, answers.iter().collect(), |answer| &answer.name) {
        let decoded = frame::decode_message(answer.answer.as_bytes()).ok();
        if let Some((host, more)) = decoded.and_then(|decoded| take(&answer.name, decoded)) {
            page.more |= more && number < MAX_PAGES;
            page.items.push(host);
        }
    }
    page
}

/// A page in replies that `reply` makes of some of it, of the members that did not answer (all in the last one),
/// and of whether another follows; and whether a reply is the last one of all.
pub(super) fn replies<T>(
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

/// What members said, in the order in which they sit in the ring.
pub(super) fn in_ring_order<T>(
    ring: &Ring,
    mut said: Vec<T>,
    by: impl Fn(&T) -> &DaemonName,
) -> Vec<T> {
    let order = ring.members();
    said.sort_by_cached_key(|one| order.iter().position(|name| name == by(one)));
    said
}
