//! Hosts on which the job's directory is not where the user wants it. The user gets one line for each reason, and not
//! one for each host.

use std::collections::BTreeMap;

use crate::DaemonName;

/// Most hosts that a line names.
const MAX_NAMED: usize = 4;

/// The hosts by the directory that is used and the reason. There are never more than hosts of the job.
#[derive(Debug, Default)]
pub struct Places(BTreeMap<(String, String), Vec<DaemonName>>);

impl Places {
    /// Adds a host. Returns the line about it if its reason is new.
    pub fn add(&mut self, member: DaemonName, place: (String, String)) -> Option<String> {
        let hosts = self.0.entry(place.clone()).or_default();
        hosts.push(member);
        (hosts.len() == 1).then(|| line(&place, hosts))
    }

    /// A line for each reason.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(place, hosts)| line(place, hosts)).collect()
    }
}

fn line((place, problem): &(String, String), hosts: &[DaemonName]) -> String {
    let noun = if hosts.len() == 1 { "host" } else { "hosts" };
    let named: Vec<&str> = hosts.iter().take(MAX_NAMED).map(DaemonName::as_str).collect();
    let more = match hosts.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    format!("TMPDIR={problem}; the job's directory on {noun} {named}{more} is in {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_for_each_reason_with_some_of_the_hosts() {
        let mut places = Places::default();
        let mut add = |host: u32, problem: &str| {
            let place = ("/tmp".to_owned(), format!("/scratch: {problem}"));
            places.add(DaemonName::new(&format!("h{host}")).unwrap(), place)
        };
        assert!(add(1, "No such file or directory").is_some());
        for host in 2..=6 {
            assert_eq!(add(host, "No such file or directory"), None);
        }
        let other = "TMPDIR=/scratch: Permission denied; the job's directory on host h0 is in /tmp";
        assert_eq!(add(0, "Permission denied").as_deref(), Some(other));
        let first = "TMPDIR=/scratch: No such file or directory; the job's directory on hosts h1, h2, h3, h4 and 2 \
                     more is in /tmp";
        assert_eq!(places.lines(), [first, other]);
    }
}
