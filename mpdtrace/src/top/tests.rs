//! Tests of the tables and rates.

use super::*;
use crate::samples::name;

fn machine(at_us: u64, busy_ms: u64) -> HostUse {
    let (memory_kib, available_kib) = (8 << 20, 6 << 20);
    HostUse {
        at_us,
        cpus: 4,
        load_hundredths: 150,
        speed_hundredths: 100,
        busy_ms,
        memory_kib,
        available_kib,
    }
}

fn run(job: &str, at_us: u64, ranks: &[(u32, u64, u64)]) -> RunUse {
    let one = |&(rank, cpu_ms, written): &(u32, u64, u64)| RankUse {
        rank: Rank(rank),
        pid: 100 + rank,
        state: 'R',
        cpu_ms,
        memory_kib: 2048,
        processes: 1,
        written,
    };
    RunUse {
        world: None,
        job: job.parse().unwrap(),
        alias: None,
        user: "ada".into(),
        program: "a.out\u{1b}".into(),
        at_us,
        counted_us: (at_us > 1_000_000).then(|| at_us - 1_000_000),
        ranks: ranks.iter().map(one).collect(),
    }
}

/// Each second: 1.5 s of CPU time on the host, 1 s for each of two ranks, and 4 KiB of output
/// of the first rank.
fn sample(second: u64) -> Sample {
    let at = second * 1_000_000;
    let host = |host: &str, runs| ConsoleReply::Top {
        hosts: vec![HostTop { host: name(host), machine: machine(at, second * 1500), runs }],
        missing: vec![],
        more: true,
    };
    let written = second.saturating_sub(1) * 4096;
    let mut sample = Sample::default();
    assert_eq!(sample.take(host("h1", vec![run("2@h1", at, &[(1, 7, 0)])])), Some(false));
    sample.take(host("h1", vec![run("1@h1", at, &[(0, second * 1000, written)])]));
    sample.take(host("h2", vec![run("1@h1", at, &[(1, second * 500, 0)])]));
    let last = ConsoleReply::Top { hosts: vec![], missing: vec![name("h3")], more: false };
    assert_eq!(sample.take(last), Some(true));
    sample
}

#[test]
fn usage_is_the_difference_of_samples() {
    let samples = [sample(1), sample(2), sample(3)];
    let view = View::of(&samples).unwrap();
    assert_eq!(view.hosts.iter().map(|h| h.cpu_percent).collect::<Vec<_>>(), [Some(150.0); 2]);
    let row = |row: &RankRow<'_>| (row.job.number(), row.rank, row.cpu_percent.unwrap());
    let rows: Vec<_> = view.ranks.iter().map(row).collect();
    assert_eq!(rows, [(1, 0, 100.0), (1, 1, 50.0), (2, 1, 0.0)]);
    assert_eq!(view.ranks[0].written_per_second, Some(4096.0));
    let first = View::of(&samples[..1]).unwrap();
    assert_eq!((first.ranks[0].cpu_percent, first.ranks[0].written), (None, None));
    assert_eq!(View::of(&[]), None);
}

#[test]
fn the_tables_fit_their_window() {
    let samples = [sample(1), sample(2), sample(3)];
    let view = View::of(&samples).unwrap();
    let expected = [
        "2 hosts, 2 jobs, 3 ranks",
        "no answer from h3",
        "HOST CPUS LOAD  CPU% USED MEMORY",
        "h1      4 1.50 150.0 2.0G   8.0G",
        "h2      4 1.50 150.0 2.0G   8.0G",
        "",
        "JOB  RANK HOST PID S  CPU% MEMORY OUT/s PROGRAM",
        "1@h1    0 h1   100 R 100.0   2.0M  4.0K a.out\\u{1b}",
        "1@h1    1 h2   101 R  50.0   2.0M     0 a.out\\u{1b}",
        "2@h1    1 h1   101 R   0.0   2.0M     0 a.out\\u{1b}",
    ];
    assert_eq!(view.lines(80, 40), expected);
    for lines in 0..12 {
        let text = view.lines(30, lines);
        assert!(text.len() <= lines && text.iter().all(|line| line.chars().count() <= 30));
    }
    assert_eq!(view.lines(80, 9).last().unwrap(), "and 2 ranks more");
}

#[test]
fn jobs_are_selected_by_number_id_or_alias() {
    let chosen = |job: JobRef| {
        let mut one = sample(2);
        one.choose(Some(&job));
        one.ranks().count()
    };
    assert_eq!(chosen(JobRef::Number(1)), 2);
    assert_eq!(chosen(JobRef::Id("2@h1".parse().unwrap())), 1);
    assert_eq!(chosen(JobRef::Alias("x".into())), 0);
}

#[test]
fn sizes_have_few_digits() {
    let texts = [0, 999, 1000, 10 << 10, 1 << 20, 3 << 40].map(size);
    assert_eq!(texts, ["0", "999", "1.0K", "10K", "1.0M", "3.0T"]);
}

/// Hosts and jobs with long names, as in a large cluster.
fn large_cluster() -> [Sample; 3] {
    [1, 2, 3].map(|second: u64| {
        let at = second * 1_000_000;
        let host = |number: u32, load: u64| {
            let full = format!("compute-{number:04}.rack07.cluster.example.org");
            let job = "12345@login-2.cluster.example.org";
            let ranks: Vec<_> = (0..2)
                .map(|i| (number * 2 + i, second * (990 + u64::from(i)), second << 21))
                .collect();
            let mut run = run(job, at, &ranks);
            run.alias = Some("wind-tunnel".into());
            run.program = "/home/ada/solver-2026.11/build/bin/simulate-flow".into();
            let mut machine = machine(at, second * load);
            machine.cpus = 128;
            machine.memory_kib = 512 << 20;
            machine.available_kib = 100 << 20;
            HostTop { host: name(&full), machine, runs: vec![run] }
        };
        let hosts = vec![host(1, 63_000), host(2, 127_990)];
        let mut sample = Sample::default();
        sample.take(ConsoleReply::Top { hosts, missing: vec![], more: false });
        sample
    })
}

fn golden(columns: usize, expected: &str) {
    let samples = large_cluster();
    let text = View::of(&samples).unwrap().lines(columns, 24).join("\n") + "\n";
    assert!(text.lines().all(|line| line.chars().count() <= columns));
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn the_tables_at_80_columns() {
    golden(80, include_str!("../../tests/golden/mpdtop-80.txt"));
}

#[test]
fn the_tables_at_200_columns() {
    golden(200, include_str!("../../tests/golden/mpdtop-200.txt"));
}
