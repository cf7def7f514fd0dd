//! Ranks whose crash is caught: what their watcher has found is told before their end is.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use mpd_proto::Rank;
use mpd_proto::job::Crash;
use mpd_proto::manager::Input;

use super::Process;

/// Most bytes that a watcher may say.
const MAX_SAID: u64 = 1 << 20;

/// Most crashes of one rank, and of all ranks of a host, that are told: each is some kilobytes.
const MAX_CRASHES: usize = 4;
const MAX_TOLD: u32 = 64;

impl Process {
    /// The rank's watcher has ended: what had it found?
    pub(super) fn hear_watcher(&mut self, rank: Rank) {
        let watcher = self.clients.get_mut(rank).and_then(|client| client.watcher.take());
        for mut crash in watcher.iter().flat_map(crashes) {
            if self.crashes < MAX_TOLD {
                self.crashes += 1;
                crash.shorten();
                self.tell(Input::Crashed(rank, crash));
            }
        }
    }
}

/// What was said before the end.
fn crashes(watcher: &UnixStream) -> Vec<Crash> {
    let mut said = Vec::new();
    let _ = watcher.set_nonblocking(true);
    // What there is, up to the end or not.
    let _ = watcher.take(MAX_SAID).read_to_end(&mut said);
    let crashes = serde_json::Deserializer::from_slice(&said).into_iter();
    crashes.map_while(Result::ok).take(MAX_CRASHES).collect()
}
