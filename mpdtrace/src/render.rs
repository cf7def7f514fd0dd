//! Turns replies into text and JSON. Pure; text from other hosts is escaped.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use mpd_io::files::logging::{is_plain, one_line};
use mpd_wire::message::{ConsoleReply, Happening, MemberView, RingView};
use serde::{Serialize, Serializer};

use crate::ask::Census;
use crate::checked::Checked;
use crate::member;

/// One line per live member: its name, without the domain where the short name is unique.
pub fn names(view: &RingView) -> String {
    lines(member::live(view).map(|m| one_line(member::short_name(view, m.name.as_str()))))
}

/// One line per live member: `NAME_PORT (ADDRESS)`, its slots, and ` draining` for a draining member.
pub fn long(view: &RingView) -> String {
    lines(member::live(view).map(long_line))
}

fn long_line(m: &MemberView) -> String {
    let host = m.addresses.first().map_or("no address", member::host);
    let draining = if m.draining { " draining" } else { "" };
    let slots = if m.ncpus == 1 { "1 slot".to_owned() } else { format!("{} slots", m.ncpus) };
    one_line(&format!("{} ({host}) {slots}{draining}", member::id(m)))
}

/// A checked ring as one line of JSON, including dead and departed members.
pub fn ring_json(checked: &Checked) -> String {
    #[derive(Serialize)]
    struct Out<'a> {
        verified: bool,
        doubt: Option<&'a str>,
        ring: &'a RingView,
    }
    let doubt = checked.doubt.as_deref();
    json(&Out { verified: doubt.is_none(), doubt, ring: &checked.view })
}

/// The members that answered a census, the steps to each, and the largest number of steps.
pub fn census(census: &Census) -> String {
    let width = census.members.iter().map(|w| w.name.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for word in &census.members {
        let steps = if word.hops == 1 { "step" } else { "steps" };
        put(&mut text, format_args!("{:width$}  {} {steps}", word.name.as_str(), word.hops));
    }
    let members = census.members.len() + census.missing.len();
    put(&mut text, format_args!("depth {} of {members} members", census.depth));
    text
}

/// A census as one line of JSON.
pub fn census_json(census: &Census) -> String {
    let Census { members, missing, depth } = census.clone();
    json(&ConsoleReply::Census { members, missing, depth })
}

/// The time of laps, in the format of the original MPD.
pub fn laps(laps: u32, took: Duration) -> String {
    format!("time for {laps} loops = {:.6} seconds\n", took.as_secs_f64())
}

/// The time from one member to the next.
pub fn per_hop(laps: u32, hops: u32, took: Duration) -> String {
    match per_hop_us(laps, hops, took) {
        None => "one member, no hops\n".to_owned(),
        Some(us) => format!("{hops} hops a loop, {us:.1} us a hop\n"),
    }
}

/// Laps as one line of JSON.
pub fn laps_json(laps: u32, hops: u32, took: Duration) -> String {
    #[derive(Serialize)]
    struct Out {
        loops: u32,
        hops: u32,
        took_us: u128,
        per_hop_us: Option<f64>,
    }
    let per_hop_us = per_hop_us(laps, hops, took);
    json(&Out { loops: laps, hops, took_us: took.as_micros(), per_hop_us })
}

fn per_hop_us(laps: u32, hops: u32, took: Duration) -> Option<f64> {
    let all = f64::from(laps) * f64::from(hops);
    (hops > 0).then(|| took.as_secs_f64() * 1e6 / all)
}

/// One event of the ring.
pub fn event(happening: &Happening) -> String {
    let Happening { time, seen_by, event, text, .. } = happening;
    one_line(&format!("{time} {seen_by} {event}: {text}")) + "\n"
}

/// The answer to a ping; empty for any other reply.
pub fn pong(reply: &ConsoleReply) -> String {
    let ConsoleReply::Pong { name, address, connect_us, total_us, .. } = reply else {
        return String::new();
    };
    let ms = |us: &u64| Duration::from_micros(*us).as_secs_f64() * 1e3;
    let (connect, total) = (ms(connect_us), ms(total_us));
    let line = format!("{name} answers at {address}: connect {connect:.3} ms, total {total:.3} ms");
    one_line(&line) + "\n"
}

/// Serialises a value as people read it: an id without the instance.
///
/// # Errors
/// Those of the serializer.
pub fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// A value as one line of JSON that contains only printable characters.
pub fn json(value: &impl Serialize) -> String {
    // The suite's own values have string keys and cannot fail to serialise.
    let text = serde_json::to_string(value).expect("an output serialises");
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // serde_json does not escape DEL, C1 and format characters. They occur only inside strings.
        if is_plain(c) {
            line.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        }
    }
    line.push('\n');
    line
}

/// `a, b, c`.
pub fn enumerate(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    items.join(", ")
}

/// An error text that names the members that did not answer; `None` if all answered.
pub fn missing(names: &[impl Display]) -> Option<String> {
    (!names.is_empty()).then(|| format!("no answer from {}", enumerate(names)))
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| line + "\n").collect()
}

/// Appends one line.
fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.push_str(&one_line(&line.to_string()));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use mpd_wire::Standing;
    use mpd_wire::message::MemberDescription;

    use super::*;
    use crate::samples::{self, name};

    fn view() -> RingView {
        let mut view = samples::ring(&["h1.x.org", "h2", "h3", "h4"]);
        view.members[1].addresses.clear();
        view.members[2].draining = true;
        view.members[3].standing = Standing::Dead;
        view
    }

    #[test]
    fn short_lines_are_the_names_of_live_members() {
        assert_eq!(names(&view()), "h1\nh2\nh3\n");
    }

    #[test]
    fn long_lines_have_port_and_address() {
        let expected = "h1.x.org_5000 (10.0.0.1) 4 slots\nh2 (no address) 4 slots\n\
                        h3_5002 (10.0.0.3) 4 slots draining\n";
        assert_eq!(long(&view()), expected);
    }

    #[test]
    fn json_has_all_members_in_one_line() {
        let checked = Checked { view: samples::ring(&["a"]), doubt: Some("x".into()) };
        assert_eq!(
            ring_json(&checked),
            "{\"verified\":false,\"doubt\":\"x\",\"ring\":{\"ring\":\"\",\"me\":\"a\",\
             \"key\":\"ab12cd34\",\"whole\":true,\"rhs\":null,\"lhs\":null,\"members\":[{\
             \"name\":\"a\",\"standing\":\"live\",\
             \"instance\":\"00000000000000000000000000000000\",\"ordinal\":0,\"ncpus\":4,\
             \"addresses\":[\"10.0.0.1:5000\"],\"suspect\":false,\"draining\":false,\"by\":null}]}}\n"
        );
        assert!(ring_json(&Checked { view: view(), doubt: None }).contains("\"dead\""));
    }

    #[test]
    fn json_holds_no_raw_control_character() {
        assert_eq!(json(&"a\n\u{1b}\u{7f}\u{9b}"), "\"a\\n\\u001b\\u007f\\u009b\"\n");
        let (turned, tag) = ("\u{202e}\u{2028}", "\u{e0041}");
        assert_eq!(json(&turned), "\"\\u202e\\u2028\"\n");
        assert_eq!(json(&tag), "\"\\udb40\\udc41\"\n");
    }

    #[test]
    fn a_census_counts_the_missing_as_members() {
        let word = |n: &str, hops| MemberDescription {
            name: name(n),
            version: "1".into(),
            pid: 7,
            jobs: 0,
            hops,
        };
        let census = Census {
            members: vec![word("a", 0), word("long", 1), word("c", 2)],
            missing: vec![name("d")],
            depth: 2,
        };
        assert_eq!(
            super::census(&census),
            "a     0 steps\nlong  1 step\nc     2 steps\ndepth 2 of 4 members\n"
        );
        assert_eq!(missing(&census.missing).unwrap(), "no answer from d");
    }

    #[test]
    fn laps_are_printed_in_the_format_of_the_original() {
        let took = Duration::from_micros(1500);
        assert_eq!(laps(10, took), "time for 10 loops = 0.001500 seconds\n");
        assert_eq!(per_hop(10, 5, took), "5 hops a loop, 30.0 us a hop\n");
        assert_eq!(per_hop(10, 0, took), "one member, no hops\n");
        assert_eq!(
            laps_json(10, 5, took),
            "{\"loops\":10,\"hops\":5,\"took_us\":1500,\"per_hop_us\":30.0}\n"
        );
    }

    #[test]
    fn a_pong_names_the_member_its_address_and_the_times() {
        let reply = ConsoleReply::Pong {
            name: name("b"),
            instance: samples::member("b", 1).instance,
            address: samples::member("b", 1).addresses[0].clone(),
            connect_us: 120,
            total_us: 1850,
        };
        let expected = "b answers at 10.0.0.2:5001: connect 0.120 ms, total 1.850 ms\n";
        assert_eq!(pong(&reply), expected);
    }

    #[test]
    fn an_event_is_one_line_for_any_text() {
        let happening = Happening {
            time: "2026-11-21T00:00:00.000000Z".into(),
            seen_by: name("a"),
            event: "member_died".into(),
            member: Some(name("b")),
            live: 3,
            text: "b died\nFAKE \u{1b}]0;x".into(),
        };
        assert_eq!(
            event(&happening),
            "2026-11-21T00:00:00.000000Z a member_died: b died\\nFAKE \\u{1b}]0;x\n"
        );
    }
}
