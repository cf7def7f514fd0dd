//! The reports of how every rank ended, as text. Pure; the session writes and prints them.
//!
//! `ends` has one entry per rank, in rank order: the process id and the end.

use std::fmt::Write as _;

use mpd_proto::job::{RankEnd, exit};

/// The `-status-file`. Line 1 names the format, line 2 the job; then one line per rank of
/// `name=value` fields: `rank host pid code`, or `signal` (and `core=1` if it left a core dump)
/// instead of `code`; a rank that never ran has only `state=not-started` after its host, one
/// that was lost with its host only `state=lost`.
pub fn render_status_file(job: &str, host: &str, ends: &[(u32, RankEnd)]) -> String {
    let mut text = format!("mpd-status 1\njob={job} ranks={}\n", ends.len());
    for (rank, &(pid, end)) in ends.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = write!(text, "rank={rank} host={host} ");
        let _ = match end {
            RankEnd::Exited(code) => writeln!(text, "pid={pid} code={code}"),
            RankEnd::Signaled { signal, core } => {
                let core = if core { " core=1" } else { "" };
                writeln!(text, "pid={pid} signal={signal}{core}")
            }
            RankEnd::NotStarted => writeln!(text, "state=not-started"),
            RankEnd::Lost => writeln!(text, "state=lost"),
        };
    }
    text
}

/// The `-ecfn` file in MPD's format: the raw status that `wait` gives. MPD wrote the ranks in the
/// order in which they ended, this is in rank order.
pub fn render_ecfn(job: &str, host: &str, ends: &[(u32, RankEnd)]) -> String {
    let mut text = format!("exit-codes\njobid={job}\n");
    for (rank, &(pid, end)) in ends.iter().enumerate() {
        let status = wait_status(end);
        let _ = writeln!(text, "rank={rank} status={status} pid={pid} host={host}");
    }
    text
}

/// What `-print-all-exitcodes` prints, in Hydra's form, with the codes that a shell would show.
pub fn render_all_exitcodes(host: &str, ends: &[(u32, RankEnd)]) -> String {
    let codes: Vec<String> = ends.iter().map(|(_, end)| end.code().to_string()).collect();
    format!("Exit codes: [{host}] {}\n", codes.join(","))
}

/// The number in which Unix packs the end of a process.
fn wait_status(end: RankEnd) -> u32 {
    match end {
        RankEnd::Exited(code) => u32::from(code) << 8,
        RankEnd::Signaled { signal, core } => u32::from(signal) | if core { 0x80 } else { 0 },
        RankEnd::NotStarted | RankEnd::Lost => u32::from(exit::SUITE) << 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [(u32, RankEnd); 5] = [
        (100, RankEnd::Exited(0)),
        (101, RankEnd::Exited(7)),
        (102, RankEnd::Signaled { signal: 11, core: true }),
        (103, RankEnd::Signaled { signal: 9, core: false }),
        (0, RankEnd::NotStarted),
    ];

    #[test]
    fn the_status_file_has_a_line_per_rank() {
        assert_eq!(
            render_status_file("3@h", "h", &ENDS),
            "mpd-status 1\n\
             job=3@h ranks=5\n\
             rank=0 host=h pid=100 code=0\n\
             rank=1 host=h pid=101 code=7\n\
             rank=2 host=h pid=102 signal=11 core=1\n\
             rank=3 host=h pid=103 signal=9\n\
             rank=4 host=h state=not-started\n"
        );
    }

    #[test]
    fn mpds_file_has_the_raw_status() {
        assert_eq!(
            render_ecfn("3@h", "h", &ENDS),
            "exit-codes\n\
             jobid=3@h\n\
             rank=0 status=0 pid=100 host=h\n\
             rank=1 status=1792 pid=101 host=h\n\
             rank=2 status=139 pid=102 host=h\n\
             rank=3 status=9 pid=103 host=h\n\
             rank=4 status=32000 pid=0 host=h\n"
        );
    }

    #[test]
    fn the_printed_codes_are_those_of_a_shell() {
        assert_eq!(render_all_exitcodes("h", &ENDS), "Exit codes: [h] 0,7,139,137,125\n");
        assert_eq!(render_all_exitcodes("h", &ENDS[..1]), "Exit codes: [h] 0\n");
    }
}
