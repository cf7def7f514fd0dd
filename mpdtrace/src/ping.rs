//! Targets of a ping: a member by its name, or a host by its addresses.

use std::net::IpAddr;

use mpd_wire::message::RingView;

use crate::{lookup, member};

/// The request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Targets to try in this order, until one answers.
    pub targets: Vec<String>,
    /// A note for people if the port was guessed.
    pub guess: Option<String>,
}

/// Most addresses of one host to try.
const MAX_TARGETS: usize = 8;

/// The plan for `text`; `resolve` returns the addresses of a host.
///
/// # Errors
/// A text for people.
pub fn plan(
    view: &RingView,
    text: &str,
    resolve: impl Fn(&str) -> Result<Vec<IpAddr>, String>,
) -> Result<Plan, String> {
    if let Some(member) = member::find(view, text) {
        return Ok(Plan { targets: vec![member.name.to_string()], guess: None });
    }
    let (host, port) = lookup::split_port(text);
    let own = || {
        let me = view.members.iter().find(|m| m.name == view.me)?;
        me.addresses.iter().find_map(member::port)?.parse::<u16>().ok()
    };
    let Some(used) = port.or_else(own) else {
        return Err(format!(
            "'{text}' is no member of this ring, and the daemon of this host has no port to guess \
             from; write HOST:PORT"
        ));
    };
    let addresses = resolve(host).map_err(|problem| {
        format!("'{host}' is no member of this ring and no known host: {problem}")
    })?;
    let target = |address: &IpAddr| match address {
        IpAddr::V4(four) => format!("{four}:{used}"),
        IpAddr::V6(six) => format!("[{six}]:{used}"),
    };
    let guess = port.is_none().then(|| {
        format!("{host} is no member of this ring; trying port {used}, that of the daemon here")
    });
    Ok(Plan { targets: addresses.iter().take(MAX_TARGETS).map(target).collect(), guess })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn planned(text: &str) -> Result<Plan, String> {
        plan(&samples::ring(&["a.x.org", "b"]), text, |host| match host {
            "far" => Ok(vec!["10.1.1.1".parse().unwrap(), "fd00::1".parse().unwrap()]),
            _ => Err("not known".to_owned()),
        })
    }

    #[test]
    fn a_member_is_pinged_by_its_name() {
        assert_eq!(planned("a").unwrap().targets, ["a.x.org"]);
        assert_eq!(planned("b_5001"), Ok(Plan { targets: vec!["b".into()], guess: None }));
    }

    #[test]
    fn other_hosts_are_pinged_by_address_and_a_guessed_port_is_reported() {
        let plan = planned("far:7").unwrap();
        assert_eq!(
            (plan.targets, plan.guess),
            (vec!["10.1.1.1:7".into(), "[fd00::1]:7".into()], None)
        );
        let plan = planned("far").unwrap();
        assert_eq!(plan.targets[0], "10.1.1.1:5000");
        assert!(plan.guess.unwrap().contains("port 5000"));
        assert!(planned("nowhere").unwrap_err().contains("no known host: not known"));
    }

    #[test]
    fn a_missing_port_is_an_error_with_advice() {
        let mut view = samples::ring(&["a"]);
        view.members[0].addresses.clear();
        let refused = plan(&view, "far", |_| Ok(Vec::new()));
        assert!(refused.is_err_and(|text| text.contains("write HOST:PORT")));
    }
}
