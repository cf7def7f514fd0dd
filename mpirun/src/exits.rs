//! The reports about the ends of ranks, as text. Pure; the session writes and prints them.
//!
//! `ends` has one entry per rank of the first world, in rank order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mpd_wire::job::{RankEnd, exit};

use crate::ends::{Ended, Ends};

/// The `-status-file`.
///
/// Line 1 names the format. Line 2 has the job and the number of ranks of its first world. Then
/// each of these ranks has a line of `name=value` fields: `rank host pid code`. For a signal,
/// `signal` replaces `code`, and `core=1` reports a core dump. A rank that never ran has only
/// `state=not-started` after its host. A rank that was lost with its host has only `state=lost`.
///
/// Lines of spawned ranks follow. They begin with `world`, so that lines that begin with `rank` are
/// those of the first world. If some spawned ranks are left out, a last line `left-out` has their
/// number.
pub fn render_status_file(job: &str, ends: &Ends) -> String {
    let mut text = format!("mpd-status 1\njob={job} ranks={}\n", ends.first().len());
    // Writing to a String cannot fail.
    for ended in ends.first() {
        render_end(&mut text, ended);
    }
    for ended in ends.spawned() {
        let _ = write!(text, "world={} ", ended.world);
        render_end(&mut text, ended);
    }
    if ends.left_out() > 0 {
        let _ = writeln!(text, "left-out={}", ends.left_out());
    }
    text
}

fn render_end(text: &mut String, Ended { rank, host, pid, end, .. }: &Ended) {
    let _ = write!(text, "rank={rank} host={host} ");
    let _ = match *end {
        RankEnd::Exited(code) => writeln!(text, "pid={pid} code={code}"),
        RankEnd::Signaled { signal, core } => {
            let core = if core { " core=1" } else { "" };
            writeln!(text, "pid={pid} signal={signal}{core}")
        }
        RankEnd::NotStarted => writeln!(text, "state=not-started"),
        RankEnd::Lost => writeln!(text, "state=lost"),
    };
}

/// The `-ecfn` file in MPD's format, with the raw status of `wait`. MPD wrote the ranks in the
/// order of their ends; this file has rank order.
pub fn render_ecfn(job: &str, ends: &[Ended]) -> String {
    let mut text = format!("exit-codes\njobid={job}\n");
    for Ended { rank, host, pid, end, .. } in ends {
        let status = wait_status(*end);
        let _ = writeln!(text, "rank={rank} status={status} pid={pid} host={host}");
    }
    text
}

/// The output of `-print-all-exitcodes`, in Hydra's form: one line per host, with the exit codes
/// that a shell would show.
pub fn render_all_exitcodes(ends: &[Ended]) -> String {
    let mut hosts: Vec<(&str, Vec<String>)> = Vec::new();
    let mut known = BTreeMap::new();
    for ended in ends {
        let at = *known.entry(ended.host.as_str()).or_insert_with(|| {
            hosts.push((&ended.host, Vec::new()));
            hosts.len() - 1
        });
        hosts[at].1.push(ended.end.code().to_string());
    }
    let lines = hosts.iter().map(|(host, codes)| format!("[{host}] {}\n", codes.join(",")));
    format!("Exit codes: {}", lines.collect::<String>())
}

/// The status of `wait` for the end of a process.
fn wait_status(end: RankEnd) -> u32 {
    match end {
        RankEnd::Exited(code) => u32::from(code) << 8,
        RankEnd::Signaled { signal, core } => u32::from(signal) | if core { 0x80 } else { 0 },
        RankEnd::NotStarted | RankEnd::Lost => u32::from(exit::SUITE) << 8,
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::job::World;
    use mpd_wire::{Rank, RankSet};

    use super::*;

    /// The ends of five ranks, the last two on another host, and of two spawned ranks.
    fn ends() -> Ends {
        let mut ends = Ends::default();
        let here = [
            (100, RankEnd::Exited(0)),
            (101, RankEnd::Exited(7)),
            (102, RankEnd::Signaled { signal: 11, core: true }),
        ];
        let there = [(103, RankEnd::Signaled { signal: 9, core: false }), (0, RankEnd::NotStarted)];
        let ranks = |ranks: &str| ranks.parse::<RankSet>().expect("ranks");
        ends.add("h", None, &ranks("0-2"), here.into());
        ends.add("h2", None, &ranks("3-4"), there.into());
        let world = World { number: 3, first: Rank(9), size: 2 };
        ends.add("h2", Some(world), &ranks("9-10"), here[..2].to_vec());
        ends
    }

    #[test]
    fn the_status_file_has_a_line_per_rank_followed_by_those_of_other_worlds() {
        assert_eq!(
            render_status_file("3@h", &ends()),
            "mpd-status 1\n\
             job=3@h ranks=5\n\
             rank=0 host=h pid=100 code=0\n\
             rank=1 host=h pid=101 code=7\n\
             rank=2 host=h pid=102 signal=11 core=1\n\
             rank=3 host=h2 pid=103 signal=9\n\
             rank=4 host=h2 state=not-started\n\
             world=3 rank=0 host=h2 pid=100 code=0\n\
             world=3 rank=1 host=h2 pid=101 code=7\n"
        );
        let mut ends = ends();
        ends.leave_out(4);
        assert!(render_status_file("3@h", &ends).ends_with("code=7\nleft-out=4\n"));
    }

    #[test]
    fn mpds_file_has_the_raw_status() {
        assert_eq!(
            render_ecfn("3@h", ends().first()),
            "exit-codes\n\
             jobid=3@h\n\
             rank=0 status=0 pid=100 host=h\n\
             rank=1 status=1792 pid=101 host=h\n\
             rank=2 status=139 pid=102 host=h\n\
             rank=3 status=9 pid=103 host=h2\n\
             rank=4 status=32000 pid=0 host=h2\n"
        );
    }

    #[test]
    fn the_printed_codes_are_those_of_a_shell() {
        let ends = ends();
        let all = render_all_exitcodes(ends.first());
        assert_eq!(all, "Exit codes: [h] 0,7,139\n[h2] 137,125\n");
        assert_eq!(render_all_exitcodes(&ends.first()[..1]), "Exit codes: [h] 0\n");
    }
}
