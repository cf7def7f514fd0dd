//! Ends the users' rings that have a host which the site no longer has.

use std::collections::BTreeSet;

use crate::all_users::{self, UsersDaemon};

/// Ends these rings and the jobs that use such a host, as far as they have a daemon here. A line for each, for people.
pub fn end_rings_with(removed: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for daemon in all_users::daemons(None) {
        // The output of mpdtrace is one name per line.
        let ring = daemon.run("mpdtrace", &[]).ok().filter(|ring| ring.status.success());
        let Some(ring) = ring else {
            // Its successor must not accept a key that a removed host may know.
            if daemon.is_of_site() {
                let is_done = daemon.forget_key();
                lines.push(format!(
                    "a ring of {} does not answer; its key: {}",
                    daemon.user,
                    result(is_done)
                ));
            }
            continue;
        };
        let members: BTreeSet<&str> = ring.out.lines().map(str::trim).collect();
        let Some(host) = removed.iter().find(|host| members.contains(host.as_str())) else {
            continue;
        };
        for job in jobs_on(&daemon, removed) {
            let ended = daemon.run("mpdkilljob", std::slice::from_ref(&job));
            let is_done = ended.is_ok_and(|ended| ended.status.success());
            lines.push(format!("job {job} of {} used {host}: {}", daemon.user, result(is_done)));
        }
        // A host that was cut off does not confirm.
        let answers = |tool: &str| daemon.run(tool, &[]).is_ok_and(|ended| ended.status.success());
        let is_gone = answers("mpdallexit") || !answers("mpdtrace");
        lines.push(format!("the ring of {} had {host}: {}", daemon.user, result(is_gone)));
    }
    lines
}

const fn result(is_done: bool) -> &'static str {
    if is_done { "ended" } else { "cannot be ended" }
}

/// The jobs of this user that run on such a host.
fn jobs_on(daemon: &UsersDaemon, removed: &[String]) -> Vec<String> {
    let Ok(listing) = daemon.run("mpdlistjobs", &["--json".to_owned()]) else { return Vec::new() };
    let jobs = all_users::merge::jobs(&listing.out).unwrap_or_default();
    let uses =
        |job: &all_users::merge::Found| job.hosts.iter().any(|it| removed.contains(&it.host));
    jobs.into_iter().filter(uses).map(|job| job.job).collect()
}
