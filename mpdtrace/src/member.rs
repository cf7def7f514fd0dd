//! Members in command lines and output: short names, `NAME_PORT`, and hosts of addresses.

use anyhow::{Result, bail};
use mpd_wire::message::{MemberView, RingView};
use mpd_wire::{Address, DaemonName, Standing};

/// Name of the local daemon on command lines.
pub const LOCAL: &str = "localmpd";

/// The live members in the order of the ring, the local one first.
pub fn live(view: &RingView) -> impl Iterator<Item = &MemberView> {
    view.members.iter().filter(|m| m.standing == Standing::Live)
}

/// The first label of the name if no other member has it, else the whole name.
pub fn short_name<'a>(view: &RingView, name: &'a str) -> &'a str {
    let short = first_label(name);
    let same = view.members.iter().filter(|m| first_label(m.name.as_str()) == short).count();
    if same == 1 { short } else { name }
}

/// `h1` of `h1.example.org`. An address has no first label.
fn first_label(name: &str) -> &str {
    match name.split_once('.') {
        Some((label, _)) if label.bytes().any(|b| b.is_ascii_alphabetic()) => label,
        _ => name,
    }
}

/// Finds a member by its name, by `NAME_PORT`, or by a short name. Live members are preferred.
pub fn find<'a>(view: &'a RingView, text: &str) -> Option<&'a MemberView> {
    let first = |fits: &dyn Fn(&MemberView) -> bool| {
        live(view).find(|m| fits(m)).or_else(|| view.members.iter().find(|m| fits(m)))
    };
    let by_port = |m: &MemberView| {
        let rest = text
            .strip_prefix(m.name.as_str())
            .or_else(|| text.strip_prefix(short_name(view, m.name.as_str())));
        let port = rest.and_then(|r| r.strip_prefix('_'));
        port.is_some_and(|p| m.addresses.iter().any(|a| self::port(a) == Some(p)))
    };
    first(&|m| m.name.as_str() == text)
        .or_else(|| first(&by_port))
        .or_else(|| first(&|m| short_name(view, m.name.as_str()) == text))
}

/// Finds a live member; [`LOCAL`] is the daemon that made the view.
///
/// # Errors
/// No member has this name, or the member is dead or has left.
pub fn resolve(view: &RingView, text: &str) -> Result<DaemonName> {
    if text == LOCAL {
        return Ok(view.me.clone());
    }
    let Some(member) = find(view, text) else {
        bail!("no member '{text}' in this ring; 'mpdtrace -l' lists them");
    };
    match member.standing {
        Standing::Live => Ok(member.name.clone()),
        Standing::Dead => bail!("{} is dead already; nothing to do", member.name),
        Standing::Departed => bail!("{} has left already; nothing to do", member.name),
    }
}

/// `NAME_PORT`, or the name alone if the member has no address.
pub fn id(view: &MemberView) -> String {
    match view.addresses.first().and_then(port) {
        Some(port) => format!("{}_{port}", view.name),
        None => view.name.to_string(),
    }
}

pub fn port(address: &Address) -> Option<&str> {
    let (_, port) = address.as_str().rsplit_once(':')?;
    (!port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())).then_some(port)
}

/// The host in an address, without brackets.
pub fn host(address: &Address) -> &str {
    let text = address.as_str();
    let host = match port(address) {
        Some(port) => &text[..text.len() - port.len() - 1],
        None => text,
    };
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, name};

    #[test]
    fn an_address_is_split_into_host_and_port() {
        let parts = |text| {
            let address = Address::new(text).unwrap();
            (host(&address).to_owned(), port(&address).map(str::to_owned))
        };
        assert_eq!(parts("10.0.0.1:77"), ("10.0.0.1".into(), Some("77".into())));
        assert_eq!(parts("[fe80::1%eth0]:77"), ("fe80::1%eth0".into(), Some("77".into())));
        assert_eq!(parts("host"), ("host".into(), None));
        assert_eq!(parts("host:"), ("host:".into(), None));
    }

    #[test]
    fn a_domain_is_left_out_where_the_short_name_is_unique() {
        let mut view = samples::ring(&["a.x.org", "b.x.org", "b.y.org", "10.0.0.7"]);
        let short = |view: &RingView| -> Vec<String> {
            view.members.iter().map(|m| short_name(view, m.name.as_str()).to_owned()).collect()
        };
        assert_eq!(short(&view), ["a", "b.x.org", "b.y.org", "10.0.0.7"]);
        view.members[3].name = name("a");
        assert_eq!(short(&view)[0], "a.x.org");
    }

    #[test]
    fn members_are_found_by_name_by_port_and_by_short_name() {
        let view = samples::ring(&["a.x.org", "b", "b_5001"]);
        let found = |text| find(&view, text).map(|m| m.name.as_str());
        assert_eq!(found("b"), Some("b"));
        assert_eq!(found("b_5001"), Some("b_5001"), "a name wins over a port");
        assert_eq!(found("b_5002"), None);
        assert_eq!(found("a"), Some("a.x.org"));
        assert_eq!(found("a.x.org_5000"), Some("a.x.org"));
        assert_eq!(found("a_5000"), Some("a.x.org"));
        assert_eq!(found("a_"), None);
        assert_eq!(found(""), None);
    }
}
