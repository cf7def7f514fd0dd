//! The text against a strict reader of OpenMetrics.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::World;
use mpd_wire::message::{ConsoleReply, HostUse};

use super::*;
use crate::samples::{name, ring};

/// A metric family: its type, its unit, and its samples by name and labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: Option<String>,
    has_help: bool,
    samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

/// Reads the text by the rules of OpenMetrics 1.0. Panics at the first fault.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    for line in body.lines() {
        assert!(!line.is_empty() && line.trim() == line, "{line:?}");
        if let Some(comment) = line.strip_prefix("# ") {
            let (what, rest) = comment.split_once(' ').unwrap();
            let (family, value) = rest.split_once(' ').unwrap();
            if family != current {
                let old = families.insert(family.to_owned(), Family::default());
                assert!(old.is_none(), "{family} is in two places");
                family.clone_into(&mut current);
            }
            let known = families.get_mut(family).unwrap();
            assert!(known.samples.is_empty(), "{family}: metadata after a sample");
            match what {
                "TYPE" => {
                    assert!(["gauge", "counter"].contains(&value) && known.kind.is_empty());
                    value.clone_into(&mut known.kind);
                }
                "UNIT" => {
                    assert!(family.ends_with(&format!("_{value}")), "{family} {value}");
                    known.unit = Some(value.to_owned());
                }
                "HELP" => {
                    assert!(value.ends_with('.'), "{value}");
                    known.has_help = true;
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let known = families.get_mut(&current).expect("a sample has a family");
        let (name, labels, value) = sample_line(line);
        let suffix = if known.kind == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{current}{suffix}"), "{line}");
        let keys: BTreeSet<&String> = labels.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), labels.len(), "a label is twice in {line}");
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let old = known.samples.insert((name, labels), value);
        assert!(old.is_none(), "twice: {line}");
    }
    for (name, family) in &families {
        assert!(!family.kind.is_empty() && family.has_help, "{name}");
        assert!(!name.ends_with("_total") && is_name(name), "{name}");
    }
    families
}

fn is_name(text: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(rest)
}

/// Name, labels and value of a sample.
fn sample_line(line: &str) -> (String, Vec<(String, String)>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (key, after) = rest.split_once("=\"").unwrap();
            assert!(is_name(key), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        other => panic!("the escape {other:?} in {line}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            labels.push((key.to_owned(), value));
            rest = &after[end + 1..];
            if let Some(last) = rest.strip_prefix('}') {
                rest = last;
                break;
            }
            rest = rest.strip_prefix(',').expect(line);
        }
    }
    let value = rest.strip_prefix(' ').expect(line);
    assert!(!value.contains(' '), "a time, or two spaces: {line}");
    (name.to_owned(), labels, value.parse().unwrap())
}

fn rank(rank: u32, cpu_ms: u64) -> RankUse {
    let (pid, state, memory_kib, processes, written) = (100 + rank, 'R', 2048, 2, 512);
    RankUse { rank: Rank(rank), pid, state, cpu_ms, memory_kib, processes, written }
}

fn run(job: &str, alias: Option<&str>, world: Option<World>, ranks: Vec<RankUse>) -> RunUse {
    RunUse {
        job: job.parse().unwrap(),
        alias: alias.map(str::to_owned),
        user: "ada".into(),
        world,
        program: "a.out".into(),
        at_us: 0,
        counted_us: None,
        ranks,
    }
}

fn sample() -> Sample {
    let machine = HostUse {
        at_us: 0,
        cpus: 4,
        load_hundredths: 152,
        speed_hundredths: 100,
        busy_ms: 912_345,
        memory_kib: 8 << 20,
        available_kib: 6 << 20,
    };
    let naughty = "a\"b\\c\nd";
    let spawned = World { number: 1, first: Rank(2), size: 1 };
    let hosts = vec![
        HostTop {
            host: name("h1"),
            machine: machine.clone(),
            runs: vec![
                run("1@h1", Some(naughty), None, vec![rank(0, 1500), rank(1, 7)]),
                run("1@h1", Some(naughty), Some(spawned), vec![rank(2, 40)]),
            ],
        },
        HostTop {
            host: name("h2"),
            machine,
            runs: vec![run("2@h1", None, None, vec![rank(0, 5)])],
        },
    ];
    let missing = vec![name("h2"), name("h3")];
    let mut sample = Sample::default();
    assert_eq!(sample.take(ConsoleReply::Top { hosts, missing, more: false }), Some(true));
    sample
}

fn view() -> RingView {
    let mut view = ring(&["h1", "h2", "h3", "h4"]);
    view.members[2].draining = true;
    view.members[3].standing = Standing::Dead;
    view.events = [("member_died".to_owned(), 3), ("entered".to_owned(), 1)].into();
    view
}

fn value(families: &BTreeMap<String, Family>, sample: &str) -> f64 {
    let (name, labels, _) = sample_line(&format!("{sample} 0"));
    let family = name.strip_suffix("_total").unwrap_or(&name);
    let samples = &families[family].samples;
    *samples.get(&(name, labels)).unwrap_or_else(|| panic!("no {sample} in {samples:?}"))
}

#[test]
fn the_metrics_are_valid_openmetrics_text() {
    let families = parse(&text(Some((&view(), &sample())), true));
    let expected = [
        ("mpd_up", 1.0),
        ("mpd_ring_whole", 1.0),
        ("mpd_ring_members{standing=\"live\"}", 3.0),
        ("mpd_ring_members{standing=\"dead\"}", 1.0),
        ("mpd_ring_draining_members", 1.0),
        ("mpd_ring_events_total{event=\"member_died\"}", 3.0),
        ("mpd_host_up{host=\"h3\"}", 0.0),
        ("mpd_host_cpus{host=\"h1\"}", 4.0),
        ("mpd_host_load1{host=\"h1\"}", 1.52),
        ("mpd_host_cpu_seconds_total{host=\"h1\"}", 912.345),
        ("mpd_host_memory_available_bytes{host=\"h2\"}", 6_442_450_944.0),
        ("mpd_host_ranks{host=\"h1\"}", 3.0),
        ("mpd_jobs", 2.0),
        ("mpd_ranks", 4.0),
        (
            "mpd_rank_output_bytes_total{job=\"1@h1\",world=\"1\",rank=\"0\",host=\"h1\",pid=\"102\"}",
            512.0,
        ),
    ];
    for (sample, expected) in expected {
        assert!((value(&families, sample) - expected).abs() < 1e-9, "{sample}");
    }
    let job = "job=\"1@h1\",alias=\"a\\\"b\\\\c\\nd\",user=\"ada\",host=\"h1\"";
    assert!((value(&families, &format!("mpd_job_cpu_seconds{{{job}}}")) - 1.547).abs() < 1e-9);
    assert!((value(&families, &format!("mpd_job_processes{{{job}}}")) - 6.0).abs() < 1e-9);
}

#[test]
fn each_rank_has_metrics_only_on_request() {
    let families = parse(&text(Some((&view(), &sample())), false));
    assert!(!families.keys().any(|name| name.starts_with("mpd_rank_")));
}

#[test]
fn a_daemon_that_does_not_answer_is_down() {
    let families = parse(&text(None, true));
    assert!(value(&families, "mpd_up").abs() < 1e-9);
    assert_eq!(families.len(), 1);
}

#[test]
fn a_ring_without_jobs_and_events_is_valid() {
    let families = parse(&text(Some((&ring(&["h1"]), &Sample::default())), true));
    assert!(value(&families, "mpd_jobs").abs() < 1e-9);
}
