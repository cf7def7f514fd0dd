//! What all members have to say page by page, and how a console gets what is too much for one reply.

use mpd_wire::message::{Answer, ConsoleReply, OrderAnswer};
use mpd_wire::{DaemonName, frame};

use crate::daemon::membership::Membership;

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

impl Membership {
    /// What `take` finds in the answers that make page `number`: what there is, and whether that host has more.
    pub(super) fn page<T>(
        &self,
        number: u32,
        answers: &[Answer],
        take: impl Fn(&DaemonName, OrderAnswer) -> Option<(T, bool)>,
    ) -> Page<T> {
        let mut page = Page { items: Vec::new(), more: false };
        for answer in self.in_ring_order(answers.iter().collect(), |answer| &answer.name) {
            let decoded = frame::decode_message(answer.answer.as_bytes()).ok();
            if let Some((host, more)) = decoded.and_then(|decoded| take(&answer.name, decoded)) {
                page.more |= more && number < MAX_PAGES;
                page.items.push(host);
            }
        }
        page
    }

    /// Gives a page to a console, in replies that `reply` makes of some of it, of the members that did not answer (all
    /// in the last one), and of whether another follows.
    pub(super) fn post_page<T>(
        &mut self,
        console: usize,
        page: Page<T>,
        missing: &[DaemonName],
        reply: impl Fn(Vec<T>, Vec<DaemonName>, bool) -> ConsoleReply,
    ) {
        let parts = page.items.len().div_ceil(PER_REPLY).max(1);
        let mut items = page.items.into_iter();
        for part in 1..=parts {
            let last = part == parts && !page.more;
            let some = items.by_ref().take(PER_REPLY).collect();
            let missing = if last { missing.to_vec() } else { Vec::new() };
            self.asks.post(console, reply(some, missing, !last), last);
        }
    }
}
