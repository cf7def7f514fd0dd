//! Checks how the resolver of this host resolves the names of other hosts.

use std::net::IpAddr;

use super::Report;
use crate::{lookup, render};
use mpd_io::parallel;

/// Most names resolved at a time.
const WIDTH: usize = 16;

const WHY: &str = "Hosts of a ring reach each other by these addresses.";

/// The addresses of a name, and of its first label.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub host: String,
    /// Its addresses.
    pub full: Result<Vec<IpAddr>, String>,
    /// Addresses of the first label, if the name has a domain and the label resolves.
    pub short: Option<Vec<IpAddr>>,
}

/// Resolves all hosts.
pub fn resolve(hosts: &[String]) -> Vec<Resolved> {
    parallel::each(hosts, WIDTH, |host| {
        let label = host.split_once('.').map(|(label, _)| label);
        let label = label.filter(|_| host.parse::<IpAddr>().is_err());
        Resolved {
            host: host.clone(),
            full: lookup::addresses(host),
            short: label.and_then(|label| lookup::addresses(label).ok()),
        }
    })
}

/// The problems of these results. `here` is the name of this host; the module `judge` checks its
/// addresses. Pure.
pub fn judge(hosts: &[Resolved], here: &str) -> Report {
    let mut report = Report::new("");
    for host in hosts {
        one(host, here, &mut report);
    }
    for (i, host) in hosts.iter().enumerate() {
        for other in &hosts[i + 1..] {
            let (Ok(a), Ok(b)) = (&host.full, &other.full) else { continue };
            let shared: Vec<_> =
                a.iter().filter(|ip| b.contains(ip) && !ip.is_loopback()).collect();
            if !shared.is_empty() {
                report.problem(
                    format!(
                        "{} and {} are the same host ({})",
                        host.host,
                        other.host,
                        render::enumerate(shared)
                    ),
                    "name it once, or correct /etc/hosts or the name server",
                    "A second daemon on one host needs another run directory.",
                );
            }
        }
    }
    report
}

fn one(host: &Resolved, here: &str, report: &mut Report) {
    let name = &host.host;
    let addresses = match &host.full {
        Ok(addresses) => addresses,
        Err(error) => {
            let mend = format!("correct the name, or add a line 'ADDRESS {name}' to /etc/hosts");
            report.problem(format!("{name} does not resolve ({error})"), mend, WHY);
            return;
        }
    };
    report.note(format!("{name} resolves to {}", render::enumerate(addresses)));
    let first_label = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_here = name == here || first_label(name) == first_label(here);
    if !is_here && addresses.iter().all(IpAddr::is_loopback) {
        report.problem(
            format!("{name} resolves to {}, which is this host", render::enumerate(addresses)),
            "name it by the address at which it is reached, or correct /etc/hosts",
            WHY,
        );
    }
    let Some(short) = &host.short else { return };
    if !short.iter().any(|ip| addresses.contains(ip)) {
        let label = first_label(name);
        report.problem(
            format!(
                "{name} resolves to {}, but {label} to {}",
                render::enumerate(addresses),
                render::enumerate(short)
            ),
            "let /etc/hosts and the name server give both names the same addresses",
            "MPD would treat the two names as two hosts.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    fn at(host: &str, list: &[&str]) -> Resolved {
        Resolved { host: host.into(), full: Ok(ips(list)), short: None }
    }

    fn whats(hosts: &[Resolved]) -> Vec<String> {
        judge(hosts, "h1.x.org").problems.into_iter().map(|p| p.what).collect()
    }

    #[test]
    fn hosts_that_resolve_to_addresses_of_their_own_are_fine() {
        let mut whole = at("h2.x.org", &["10.0.0.2", "fd00::2"]);
        whole.short = Some(ips(&["10.0.0.2"]));
        assert!(whats(&[at("h1", &["127.0.1.1"]), whole, at("h3", &["10.0.0.3"])]).is_empty());
    }

    #[test]
    fn hosts_that_are_unknown_doubled_on_loopback_or_split_are_named() {
        let unknown = Resolved { host: "h9".into(), full: Err("not known".into()), short: None };
        let mut split = at("h4.x.org", &["10.0.0.4"]);
        split.short = Some(ips(&["10.0.9.4"]));
        let hosts =
            [unknown, at("h2", &["10.0.0.2"]), at("h3", &["10.0.0.2"]), at("h5", &["::1"]), split];
        assert_eq!(
            whats(&hosts),
            [
                "h9 does not resolve (not known)",
                "h5 resolves to ::1, which is this host",
                "h4.x.org resolves to 10.0.0.4, but h4 to 10.0.9.4",
                "h2 and h3 are the same host (10.0.0.2)",
            ]
        );
    }
}
