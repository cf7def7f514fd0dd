//! The key of the ring: that of all rings of this user, or one of this ring alone if accounts of other users get it.

use anyhow::{Result, bail};
use mpd_boot::wire::Manner;
use mpd_channel::KeyText;
use mpd_io::files::key_file::{self, KeyFile};
use mpd_io::process::identity;
use mpd_placement::hosts::accounts;

use crate::roster::Roster;

/// The key, and whether it is that of this ring alone. A new ring with accounts of other users has a new key: accounts
/// of an earlier ring may know the former one.
///
/// # Errors
/// The key file cannot be used; or the ring exists and has the key of all rings, which another user would get.
pub(super) fn of_ring(manner: &Manner, roster: &Roster, is_new: bool) -> Result<(KeyText, bool)> {
    let file = KeyFile::resolve(manner.key_file.as_ref().map(Into::into))?;
    let name = key_file::name_of(&manner.ring);
    let alone = file.of_ring_alone(name);
    let own = identity::own_account();
    let others = roster.others.iter().map(|other| (other.host.as_str(), other.user.as_deref()));
    let foreign = accounts::foreign(others, &own).next();
    match (is_new, foreign) {
        (true, Some(_)) => {
            let key = key_file::generate(name)?;
            alone.replace(&key)?;
            Ok((key, true))
        }
        (true, None) => {
            alone.remove()?;
            Ok((file.load_or_create(name)?.0, false))
        }
        (false, foreign) => match (alone.load()?, foreign) {
            (Some(key), _) => Ok((key, true)),
            (None, Some((host, user))) => bail!(
                "host {host}: {user} would get the key of all your rings; end this ring with mpdallexit, and boot it \
                 again with this host"
            ),
            (None, None) => Ok((file.load_or_create(name)?.0, false)),
        },
    }
}
