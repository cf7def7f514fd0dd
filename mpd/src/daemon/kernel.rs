//! What the node asks of the kernel when it needs it.

use mpd_daemon::{At, Kernel};
use mpd_io::clock::wall;
use mpd_io::host::cpus;
use mpd_io::host::random;
use mpd_io::process::identity::user_name;
use mpd_jobtable::Secrets;
use mpd_jobtable::listing::shortened;
use mpd_sansio::Time;
use nix::unistd::geteuid;

#[derive(Debug)]
struct System;

/// The circumstances of a call of the node.
pub(crate) fn at(now: Time) -> At<'static> {
    At { now, kernel: &System }
}

/// The user of this process, as listings show it. A directory service may take long to answer.
pub(crate) fn own_user() -> String {
    shortened(&user_name(geteuid().as_raw()))
}

impl Kernel for System {
    fn random(&self) -> Result<[u8; 16], String> {
        random::bytes().map_err(|error| error.to_string())
    }

    fn secrets(&self) -> Result<Secrets, String> {
        let (key, cookie, kvsname) = random::three().map_err(|error| error.to_string())?;
        Ok(Secrets { key, cookie, kvsname })
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn cpus(&self) -> u32 {
        cpus::count()
    }

    fn user(&self) -> String {
        own_user()
    }

    fn wall_us(&self) -> u64 {
        wall()
    }
}
