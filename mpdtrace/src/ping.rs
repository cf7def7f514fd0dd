//! Whom a ping is for: a member by its name, or any host as the numeric addresses to try.

use std::net::IpAddr;

use mpd_wire::message::RingView;

use crate::{lookup, member};

/// What to ask the daemon for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Targets, one after the other until one answers.
    pub targets: Vec<String>,
    /// What was guessed, for people.
    pub guess: Option<String>,
}

/// Most addresses of one host that are tried.
const MAX_TARGETS: usize = 8;

/// The plan for `text`; `resolve` turns a host into addresses.
///
/// # Errors
/// In words for people.
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
    fn members_go_by_their_names() {
        assert_eq!(planned("a").unwrap().targets, ["a.x.org"]);
        assert_eq!(planned("b_5001"), Ok(Plan { targets: vec!["b".into()], guess: None }));
    }

    #[test]
    fn others_go_by_their_addresses_and_a_guessed_port_is_told() {
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
    fn without_any_port_there_is_advice() {
        let mut view = samples::ring(&["a"]);
        view.members[0].addresses.clear();
        let refused = plan(&view, "far", |_| Ok(Vec::new()));
        assert!(refused.is_err_and(|text| text.contains("write HOST:PORT")));
    }
}
