//! Hosts of a list whose daemons would run in another user's account. That user gets the key of the ring.

use std::str::FromStr;

use super::{HostEntry, is_host_name, is_user_name};

/// A host, and the account that the caller permits there: `HOST=USER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    host: String,
    user: String,
}

impl FromStr for Permitted {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, user) = text.split_once('=').unwrap_or_default();
        if !is_host_name(host) || !is_user_name(user) {
            return Err("it must be HOST=USER");
        }
        Ok(Self { host: host.to_owned(), user: user.to_owned() })
    }
}

/// The first host with an account that is neither the caller's `own` nor permitted.
pub fn first_foreign<'a>(
    entries: &'a [HostEntry],
    own: &str,
    permitted: &[Permitted],
) -> Option<(&'a str, &'a str)> {
    let accounts = entries.iter().map(|entry| (entry.host.as_str(), entry.user.as_deref()));
    let is_permitted = |&(host, user): &(&str, &str)| {
        permitted.iter().any(|one| one.host.eq_ignore_ascii_case(host) && one.user == user)
    };
    foreign(accounts, own).find(|pair| !is_permitted(pair))
}

/// Of these hosts, each with the account that was named for it, those with another one than `own`.
pub fn foreign<'a>(
    accounts: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    own: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    accounts.filter_map(move |(host, user)| Some((host, user.filter(|user| *user != own)?)))
}

/// The advice for such a host.
pub fn advice(host: &str, user: &str) -> String {
    format!(
        "host {host}: {user} would get the key of the ring, and could start programs as you; if you want that, \
         give --allow-user {host}={user}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse_file;

    #[test]
    fn an_account_of_another_name_is_foreign_unless_it_is_permitted_for_its_host() {
        let entries = parse_file(b"h1\nh2 user=ann\nH3 user=bob\n").unwrap();
        let permitted = |text: &str| vec![text.parse::<Permitted>().unwrap()];
        assert_eq!(first_foreign(&entries, "ann", &[]), Some(("H3", "bob")));
        assert_eq!(first_foreign(&entries, "bob", &[]), Some(("h2", "ann")));
        assert_eq!(first_foreign(&entries, "ann", &permitted("h3=bob")), None);
        assert_eq!(first_foreign(&entries, "ann", &permitted("h2=bob")), Some(("H3", "bob")));
        assert_eq!(first_foreign(&entries, "ann", &permitted("h3=bo")), Some(("H3", "bob")));
    }

    #[test]
    fn a_permission_names_a_host_and_an_account() {
        for bad in ["", "h3", "h3=", "=bob", "h3=-x", "h 3=bob"] {
            assert!(bad.parse::<Permitted>().is_err(), "{bad}");
        }
    }
}
