//! What happens to the ring, told to the log and to those who watch.

use mpd_io::clock;
use mpd_proto::message::{ConsoleReply, Happening};
use mpd_proto::ring::{Event, Standing};

use crate::daemon::membership::Membership;

impl Membership {
    pub(super) fn note(&mut self, event: &Event) {
        log::info!("{event}");
        match event {
            Event::Entered { .. } => self.entered = true,
            Event::SteppedDown => self.doubled = true,
            _ => {}
        }
        let watchers = self.asks.watchers();
        if watchers.is_empty() {
            return;
        }
        let happening = self.happening(event.kind(), event.member().cloned(), event.to_string());
        for console in watchers {
            self.asks.post(console, ConsoleReply::Event(happening.clone()), false);
        }
    }

    pub(super) fn happening(
        &self,
        kind: &str,
        member: Option<mpd_proto::ring::DaemonName>,
        text: String,
    ) -> Happening {
        let live = self.ring.records().filter(|r| r.standing == Standing::Live).count();
        Happening {
            time: clock::timestamp(),
            seen_by: self.ring.name().clone(),
            event: kind.to_owned(),
            member,
            live: u32::try_from(live).unwrap_or(u32::MAX),
            text,
        }
    }
}
