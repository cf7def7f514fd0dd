//! What the machine reads of this host.

use std::time::Duration;

use mpd_ending::Pid;
use mpd_io::files::logging::plain;
use mpd_io::process::{oom, priority};
use mpd_ranks::{Host, Victims};

pub(super) struct ThisHost;

impl Host for ThisHost {
    fn kills(&self) -> Option<u64> {
        oom::kills()
    }

    fn victims(&self, since: Duration) -> Option<Victims> {
        let victims = oom::victims(since)?;
        Some(victims.into_iter().map(|victim| Pid(victim.pid)).collect())
    }

    fn niceness(&self) -> Option<i8> {
        priority::niceness()
    }

    fn may_have(&self, niceness: i8) -> bool {
        priority::may_have(niceness)
    }

    fn text_of(&self, errno: i32) -> String {
        plain(&std::io::Error::from_raw_os_error(errno))
    }
}
