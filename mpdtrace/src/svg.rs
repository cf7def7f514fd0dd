//! An SVG picture of the ring in one file. Live members form a circle, clockwise from the top, the
//! local daemon first. Dead and departed members are in a column beside the circle.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use mpd_io::files::logging::one_line;
use mpd_wire::Standing;
use mpd_wire::message::{MemberView, RingView};

use crate::checked::Checked;
use crate::member;

/// Room for one member on the circle or in the column, in pixels.
const PITCH: f64 = 22.0;
/// Smallest radius of the circle, in pixels.
const MIN_RADIUS: f64 = 110.0;
/// Approximate width of a letter, in pixels.
const LETTER: f64 = 7.4;
/// Most members whose names are drawn horizontally.
const MAX_LEVEL: usize = 24;
/// Longest name that is drawn in full. The tooltip has the whole name.
const MAX_LETTERS: usize = 32;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 56.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}\
.head{font-size:16px;font-weight:600}.sub,.off{fill:#6e7781}\
line,path{stroke:#8c959f;stroke-width:1.5;fill:none}.arrow{fill:#1a7f37;stroke:none}\
line.mine{stroke:#1a7f37;stroke-width:2.5}\
circle{fill:#0969da;stroke:#fff;stroke-width:1.5}circle.me{fill:#1a7f37}circle.suspect{fill:#d4a72c}\
circle.dead{fill:#afb8c1}circle.departed{fill:#fff;stroke:#afb8c1}.me{font-weight:600}\
rect{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#0d1117}\
circle{stroke:#0d1117}circle.departed{fill:#0d1117;stroke:#6e7681}circle.dead{fill:#6e7681}\
.sub,.off{fill:#8d96a0}}";

/// The picture as SVG text.
pub fn ring(checked: &Checked) -> String {
    let view = &checked.view;
    let plan = Plan::new(view);
    let mut out = String::new();
    let (w, h) = (plan.width, plan.height);
    let title = title(view);
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" \
         viewBox=\"0 0 {w:.0} {h:.0}\" role=\"img\">"
        ),
    );
    put(&mut out, format_args!("<title>{}</title>", escape(&title)));
    put(&mut out, format_args!("<style>{STYLE}</style>"));
    put(&mut out, format_args!("<rect width=\"{w:.0}\" height=\"{h:.0}\"/>"));
    text(&mut out, MARGIN, MARGIN + 8.0, "head", &title);
    let doubt = checked.doubt.as_deref();
    text(
        &mut out,
        MARGIN,
        MARGIN + 28.0,
        "sub",
        doubt.unwrap_or("a message went round in this order"),
    );
    links(&mut out, view, &plan);
    for (i, m) in plan.live.iter().enumerate() {
        live_member(&mut out, view, m, plan.spot(i));
    }
    for (i, m) in plan.gone.iter().enumerate() {
        gone_member(&mut out, m, plan.column, HEAD + PITCH * (i as f64 + 1.0));
    }
    out.push_str("</svg>\n");
    out
}

/// Positions in the picture.
struct Plan<'a> {
    live: Vec<&'a MemberView>,
    gone: Vec<&'a MemberView>,
    radius: f64,
    center: (f64, f64),
    /// Left edge of the column of dead and departed members.
    column: f64,
    width: f64,
    height: f64,
}

/// A position on the circle and its direction from the centre, clockwise from the top.
#[derive(Clone, Copy)]
struct Spot {
    x: f64,
    y: f64,
    angle: f64,
    crowded: bool,
}

impl Spot {
    /// The SVG attributes of the name. Few names are horizontal; many names point away from the
    /// centre, never upside down.
    fn label(self) -> String {
        let (sin, cos) = self.angle.sin_cos();
        if !self.crowded {
            let anchor = match sin {
                s if s > 0.3 => "start",
                s if s < -0.3 => "end",
                _ => "middle",
            };
            let (x, y) = (15.0 * sin, 4.0 - 16.0 * cos);
            return format!("x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"");
        }
        let degrees = self.angle.to_degrees() - 90.0;
        let (turn, anchor, x) =
            if sin < 0.0 { (degrees + 180.0, "end", -14) } else { (degrees, "start", 14) };
        format!("transform=\"rotate({turn:.1})\" x=\"{x}\" y=\"4\" text-anchor=\"{anchor}\"")
    }
}

impl<'a> Plan<'a> {
    fn new(view: &'a RingView) -> Self {
        let live: Vec<_> = member::live(view).collect();
        let gone: Vec<_> = view.members.iter().filter(|m| m.standing != Standing::Live).collect();
        let radius = (live.len() as f64 * PITCH / TAU).max(MIN_RADIUS);
        let label = |m: &MemberView| shown(m.name.as_str()).chars().count() as f64 * LETTER;
        let longest = live.iter().map(|m| label(m)).fold(0.0, f64::max) + 20.0;
        let half = radius + longest + MARGIN;
        let column = 2.0 * half + MARGIN;
        let beside = gone.iter().map(|m| label(m) + 190.0).fold(0.0, f64::max);
        let width = if gone.is_empty() { 2.0 * half } else { column + beside };
        let list = HEAD + PITCH * (gone.len() as f64 + 2.0);
        Self {
            live,
            gone,
            radius,
            center: (half, HEAD + half),
            column,
            width: width.max(title(view).chars().count() as f64 * 9.5 + 2.0 * MARGIN),
            height: (HEAD + 2.0 * half).max(list),
        }
    }

    /// Position of the `i`-th live member.
    fn spot(&self, i: usize) -> Spot {
        let angle = TAU * i as f64 / self.live.len().max(1) as f64;
        let (x, y) = self.center;
        Spot {
            x: x + self.radius * angle.sin(),
            y: y - self.radius * angle.cos(),
            angle,
            crowded: self.live.len() > MAX_LEVEL,
        }
    }
}

fn title(view: &RingView) -> String {
    let live = member::live(view).count();
    let members = if live == 1 { "member" } else { "members" };
    let name = if view.ring.is_empty() { String::new() } else { format!(" '{}'", view.ring) };
    let state = if view.whole { "" } else { ", healing" };
    format!("Ring{name} of {live} {members}, seen by {}{state}", view.me)
}

/// Draws a line from each member to its rhs. The open links of the local daemon are highlighted.
fn links(out: &mut String, view: &RingView, plan: &Plan<'_>) {
    let n = plan.live.len();
    if n < 2 {
        return;
    }
    for (i, from) in plan.live.iter().enumerate() {
        let to = plan.live[(i + 1) % n];
        let mine = (from.name == view.me && view.rhs.as_ref() == Some(&to.name))
            || (to.name == view.me && view.lhs.as_ref() == Some(&from.name));
        let class = if mine { " class=\"mine\"" } else { "" };
        let (a, b) = (plan.spot(i), plan.spot((i + 1) % n));
        put(
            out,
            format_args!(
                "<line{class} x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
                a.x, a.y, b.x, b.y
            ),
        );
    }
    // An arrow shows the direction of messages.
    let (a, b) = (plan.spot(0), plan.spot(1));
    let turn = (b.y - a.y).atan2(b.x - a.x).to_degrees();
    put(
        out,
        format_args!(
            "<path class=\"arrow\" d=\"M6 0L-4 -5L-4 5Z\" \
         transform=\"translate({:.1} {:.1}) rotate({turn:.1})\"/>",
            f64::midpoint(a.x, b.x),
            f64::midpoint(a.y, b.y)
        ),
    );
}

/// Draws a dot on the circle with its name.
fn live_member(out: &mut String, view: &RingView, m: &MemberView, spot: Spot) {
    let me = m.name == view.me;
    let class = match (me, m.suspect) {
        (true, _) => " class=\"me\"",
        (false, true) => " class=\"suspect\"",
        (false, false) => "",
    };
    let radius = if me { 8 } else { 6 };
    let ring_options = spot.label();
    put(
        out,
        format_args!(
            "<g transform=\"translate({:.1} {:.1})\"><title>{}</title>\
         <circle{class} r=\"{radius}\"/>\
         <text{class} {ring_options}>{}</text></g>",
            spot.x,
            spot.y,
            escape(&tip(m)),
            escape(&shown(m.name.as_str()))
        ),
    );
}

fn gone_member(out: &mut String, m: &MemberView, x: f64, y: f64) {
    let (class, word) = match (&m.by, m.standing) {
        (_, Standing::Departed) => ("departed", "left".to_owned()),
        (Some(by), _) => ("dead", format!("dead, says {}", shown(by.as_str()))),
        (None, _) => ("dead", "dead".to_owned()),
    };
    put(
        out,
        format_args!(
            "<g transform=\"translate({x:.1} {y:.1})\"><title>{}</title>\
         <circle class=\"{class}\" r=\"6\"/>\
         <text class=\"off\" x=\"14\" y=\"4\">{} ({})</text></g>",
            escape(&tip(m)),
            escape(&shown(m.name.as_str())),
            escape(&word)
        ),
    );
}

fn tip(m: &MemberView) -> String {
    let addresses = crate::render::enumerate(&m.addresses);
    let suspect = if m.suspect { ", silent for a while" } else { "" };
    format!("{} ({addresses}), {} CPUs{suspect}", m.name, m.ncpus)
}

fn shown(name: &str) -> String {
    let mut letters = name.chars();
    let head: String = letters.by_ref().take(MAX_LETTERS).collect();
    if letters.next().is_some() { head + "…" } else { head }
}

fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = escape(text);
    put(out, format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{line}");
}

/// Escapes text for XML elements and attributes.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, name};

    fn picture(n: usize) -> String {
        let names: Vec<String> = (1..=n).map(|i| format!("h{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        ring(&Checked { view: samples::ring(&names), doubt: None })
    }

    fn count(text: &str, piece: &str) -> usize {
        text.matches(piece).count()
    }

    #[test]
    fn each_member_is_a_dot_with_a_link_to_the_next() {
        for (n, lines) in [(1, 0), (2, 2), (3, 3), (64, 64), (1024, 1024)] {
            let picture = picture(n);
            assert_eq!(count(&picture, "<circle"), n);
            assert_eq!(count(&picture, "<line"), lines);
            assert_eq!(count(&picture, "<circle class=\"me\""), 1);
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{n}");
        }
    }

    #[test]
    fn dead_members_are_grey_beside_the_circle_and_local_links_are_highlighted() {
        let mut view = samples::ring(&["a", "b", "c", "d", "e"]);
        view.members[3].standing = Standing::Dead;
        view.members[3].by = Some(name("b"));
        view.members[4].standing = Standing::Departed;
        view.lhs = Some(name("c"));
        let picture = ring(&Checked { view, doubt: None });
        assert_eq!(count(&picture, "<circle class=\"dead\""), 1);
        assert!(picture.contains(">d (dead, says b)<") && picture.contains(">e (left)<"));
        assert_eq!(count(&picture, "<line"), 3);
        assert_eq!(count(&picture, "<line class=\"mine\""), 2);
    }

    #[test]
    fn text_from_other_hosts_cannot_leave_its_element() {
        let mut view = samples::ring(&["a"]);
        view.ring = "<script>&\"'\u{1b}".into();
        let picture = ring(&Checked { view, doubt: Some("</text><x>".into()) });
        assert!(!picture.contains("<script") && !picture.contains("<x>"));
        assert!(picture.contains("&lt;script&gt;&amp;&quot;&#39;\\u{1b}"));
    }
}
