//! Events of a job as text and JSON. Pure.

use mpd_io::clock::utc_of;
use mpd_io::files::logging::one_line;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;
use mpd_wire::message::{EventGap, HostTurn, JobChange, JobEvent};
use serde::Serialize;

use crate::job_events::News;
use crate::render;

/// One line for people.
pub fn text(news: &News) -> String {
    let line = match news {
        News::Gap(EventGap { from, next }) => {
            format!("gap: the events from {from} to {} are no longer kept", next - 1)
        }
        News::Event(JobEvent { number, at_us, change }) => {
            format!("{number} {} {}", utc_of(*at_us), described(change))
        }
    };
    one_line(&line) + "\n"
}

fn described(change: &JobChange) -> String {
    match change {
        JobChange::Started { rank, pid, host } => {
            format!("rank {rank} started on {host}, process {pid}")
        }
        JobChange::Exited { rank, host, end } => format!("rank {rank} on {host} {end}"),
        JobChange::Host(change) => {
            let host = &change.host;
            match change.to {
                HostTurn::Added => format!("host {host} was added"),
                HostTurn::Draining => format!("host {host} is draining"),
                HostTurn::Undrained => format!("host {host} is no longer draining"),
                HostTurn::Lost => format!("host {host} is lost"),
                HostTurn::Left => format!("host {host} left"),
            }
        }
        JobChange::JobEnded { code } => format!("the job ended with exit code {code}"),
    }
}

/// A line of JSON. A field that does not belong to the event is left out.
#[derive(Default, Serialize)]
struct Line<'a> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<Rank>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// One line of JSON.
pub fn json(news: &News) -> String {
    let line = match news {
        News::Gap(EventGap { from, next }) => {
            Line { event: "gap", from: Some(*from), next: Some(*next), ..Line::default() }
        }
        News::Event(JobEvent { number, at_us, change }) => {
            Line { number: Some(*number), time: Some(utc_of(*at_us)), ..line_of(change) }
        }
    };
    render::json(&line)
}

fn line_of(change: &JobChange) -> Line<'_> {
    match change {
        JobChange::Started { rank, pid, host } => Line {
            event: "started",
            rank: Some(*rank),
            pid: Some(*pid),
            host: Some(host.as_str()),
            ..Line::default()
        },
        JobChange::Exited { rank, host, end } => {
            let (code, signal) = match *end {
                RankEnd::Exited(code) => (Some(code), None),
                RankEnd::Signaled { signal, .. } => (None, Some(signal)),
                // It is not known how it ended.
                RankEnd::NotStarted | RankEnd::Lost => (None, None),
            };
            let (rank, host) = (Some(*rank), Some(host.as_str()));
            Line { event: "exited", rank, host, code, signal, ..Line::default() }
        }
        JobChange::Host(change) => {
            let event = match change.to {
                HostTurn::Added => "host_added",
                HostTurn::Draining => "host_draining",
                HostTurn::Undrained => "host_undrained",
                HostTurn::Lost => "host_lost",
                HostTurn::Left => "host_left",
            };
            Line { event, host: Some(change.host.as_str()), ..Line::default() }
        }
        JobChange::JobEnded { code } => {
            Line { event: "job_ended", code: Some(*code), ..Line::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::DaemonName;
    use mpd_wire::message::HostChange;

    use super::*;

    fn lines(change: JobChange) -> (String, String) {
        let news = News::Event(JobEvent { number: 7, at_us: 1_500_000, change });
        (text(&news), json(&news))
    }

    #[test]
    fn each_event_is_a_line_of_text_and_a_line_of_json() {
        let (rank, host) = (Rank(3), DaemonName::new("h1").unwrap());
        let time = "1970-01-01T00:00:01.500000Z";
        let (text, json) = lines(JobChange::Started { rank, pid: 9, host: host.clone() });
        assert_eq!(text, format!("7 {time} rank 3 started on h1, process 9\n"));
        assert_eq!(
            json,
            format!(
                r#"{{"event":"started","number":7,"time":"{time}","rank":3,"pid":9,"host":"h1"}}"#
            ) + "\n"
        );
        let ends = [
            (RankEnd::Exited(255), "exited with code 255", r#","code":255"#),
            (RankEnd::Signaled { signal: 9, core: false }, "signal 9", r#","signal":9"#),
            (RankEnd::Lost, "lost", ""),
        ];
        for (end, told, field) in ends {
            let (text, json) = lines(JobChange::Exited { rank, host: host.clone(), end });
            assert!(text.contains("rank 3 on h1") && text.contains(told), "{text}");
            assert!(json.ends_with(&format!(r#""rank":3,"host":"h1"{field}}}{}"#, "\n")), "{json}");
        }
        let (text, json) = lines(JobChange::Host(HostChange { host, to: HostTurn::Draining }));
        assert!(text.ends_with("host h1 is draining\n"), "{text}");
        assert!(json.contains(r#""event":"host_draining""#) && json.contains(r#""host":"h1""#));
        let (text, json) = lines(JobChange::JobEnded { code: 3 });
        assert!(text.ends_with("the job ended with exit code 3\n"), "{text}");
        assert!(json.contains(r#""event":"job_ended""#) && json.contains(r#""code":3"#), "{json}");
    }

    #[test]
    fn a_gap_is_a_line_of_its_own() {
        let gap = News::Gap(EventGap { from: 2, next: 9 });
        assert_eq!(text(&gap), "gap: the events from 2 to 8 are no longer kept\n");
        assert_eq!(json(&gap), "{\"event\":\"gap\",\"from\":2,\"next\":9}\n");
    }
}
