//! The options that name hosts: `-hosts`, `-host`, `-f` and `-exclude`. They are only parsed here;
//! the daemon knows which of the hosts are in the ring. Options of hosts in a file apply to the
//! start of daemons.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_io::files::logging::plain;
use mpd_io::files::trust;
use mpd_io::process::identity;
use mpd_placement::hosts::accounts::{self, Permitted};
use mpd_placement::hosts::{HostEntry, parse_file, parse_list};
use mpd_wire::job::HostChoice;

use crate::configfile;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The hosts of a list like `a:4,b[1-9]`; empty for `all`, which stands for every member.
pub(crate) fn list(setting: &Setting) -> Result<Vec<HostEntry>, Usage> {
    match entries(setting, setting.text()?)? {
        entries if entries.len() == 1 && setting.value() == "all" => Ok(Vec::new()),
        entries => Ok(entries),
    }
}

/// Whether an option for hosts names the unwanted hosts: `^h1`.
pub(crate) fn is_complement(setting: &Setting) -> bool {
    matches!(setting.opt.key, Key::Host | Key::Hosts)
        && setting.value().as_bytes().starts_with(b"^")
}

/// The names of a list of excluded hosts, which other launchers begin with `^`.
pub(crate) fn excluded(setting: &Setting) -> Result<Vec<String>, Usage> {
    let text = setting.text()?;
    let entries = entries(setting, text.strip_prefix('^').unwrap_or(text))?;
    Ok(entries.into_iter().map(|entry| entry.host).collect())
}

/// The hosts of a file, in its order, and why another user may have named accounts in it.
pub(crate) fn file(
    setting: &Setting,
    directory: &Path,
) -> Result<(Vec<HostEntry>, Option<String>), Usage> {
    let path = directory.join(setting.nonempty()?);
    let failed =
        |e: io::Error| Usage::new(format!("{setting}: cannot read the file: {}", plain(&e)));
    let file = File::open(&path).map_err(failed)?;
    let bytes = configfile::read_open(&file).map_err(failed)?;
    let entries = parse_file(&bytes).map_err(|e| Usage::new(format!("{setting}: {e}")))?;
    let has_accounts = entries.iter().any(|entry| entry.user.is_some());
    let doubt = has_accounts.then(|| trust::doubt_place(&file, &path)).transpose();
    let doubt = doubt.map_err(failed)?.flatten();
    Ok((entries, doubt.map(|doubt| format!("{} {doubt}", path.display()))))
}

/// The accounts that daemons of a private ring may have.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// `-allow-user`.
    permitted: Vec<Permitted>,
    /// Why another user may have named accounts in the host file.
    doubt: Option<String>,
}

impl Accounts {
    pub(crate) fn permit(&mut self, setting: &Setting) -> Result<(), Usage> {
        self.permitted.push(setting.text()?.parse().map_err(|text| setting.error(text))?);
        Ok(())
    }

    pub(crate) fn note(&mut self, doubt: Option<String>) {
        self.doubt = doubt;
    }

    /// Why no private ring may have these hosts.
    pub(crate) fn refusal(&self, hosts: &[HostEntry]) -> Option<String> {
        let doubt = self.doubt.as_ref()?;
        let own = identity::own_account();
        let (host, user) = accounts::first_foreign(hosts, &own, &self.permitted)?;
        Some(format!("{doubt}. {}", accounts::advice(host, user)))
    }
}

fn entries(setting: &Setting, text: &str) -> Result<Vec<HostEntry>, Usage> {
    setting.nonempty()?;
    parse_list(text).map_err(|e| setting.error(e))
}

/// The number of processes on the hosts of a list without the excluded hosts: `each` on every host,
/// otherwise the slots of each host, or one without a number. At least one: a job without hosts is
/// refused later.
pub(crate) fn room(hosts: &[HostEntry], excluded: &[String], each: Option<u32>) -> u32 {
    let listed = hosts.iter().filter(|entry| !excluded.contains(&entry.host));
    let room = match each {
        Some(each) => {
            let names: BTreeSet<&str> = listed.map(|entry| entry.host.as_str()).collect();
            each.saturating_mul(u32::try_from(names.len()).unwrap_or(u32::MAX))
        }
        None => listed.fold(0, |sum: u32, entry| sum.saturating_add(entry.ncpus.unwrap_or(1))),
    };
    room.max(1)
}

/// The hosts as choices for the placement. Neighbours become one choice: the list of a large job has a line for each
/// slot. An entry without a number is then one slot.
pub(crate) fn choices(entries: &[HostEntry]) -> Vec<HostChoice> {
    let repeats = entries.windows(2).any(|pair| pair[0].host == pair[1].host);
    let mut choices: Vec<HostChoice> = Vec::new();
    for entry in entries {
        let slots = if repeats { Some(entry.ncpus.unwrap_or(1)) } else { entry.ncpus };
        match choices.last_mut().filter(|last| last.name == entry.host) {
            Some(last) => {
                last.slots = last.slots.zip(slots).map(|(sum, slots)| sum.saturating_add(slots));
            }
            None => choices.push(HostChoice {
                name: entry.host.clone(),
                slots,
                max: entry.max,
                gpus: entry.gpus,
                speed: entry.speed,
            }),
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_slot_becomes_one_choice_of_neighbours() {
        let text = |list: &str| {
            let choices = choices(&parse_list(list).unwrap());
            let word = |choice: &HostChoice| match choice.slots {
                Some(slots) => format!("{}:{slots}", choice.name),
                None => choice.name.clone(),
            };
            choices.iter().map(word).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("a,b:2,a"), "a b:2 a", "the placement knows what it means");
        assert_eq!(text("a,a,b,a:3,a"), "a:2 b:1 a:4");
    }
}
