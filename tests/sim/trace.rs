//! The events, as lines for people and as a fingerprint for comparison.

use mpd_ring::{Event, Input, Output, Publication};
use mpd_wire::DaemonName;

use crate::recordings::Memory;

/// Collects lines if requested, and always the fingerprint.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Whether lines are kept.
    pub(crate) records: bool,
    pub(crate) lines: Vec<String>,
    pub(crate) fingerprint: u64,
    /// The recording of each started daemon, if lines are kept.
    pub(crate) recordings: Vec<Memory>,
}

impl Default for Trace {
    fn default() -> Self {
        let fingerprint = 0xcbf2_9ce4_8422_2325;
        Self { records: false, lines: Vec::new(), fingerprint, recordings: Vec::new() }
    }
}

impl Trace {
    /// Mixes numbers into the fingerprint.
    pub(crate) fn fold(&mut self, numbers: &[u64]) {
        for number in numbers {
            let sum = (self.fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3);
            self.fingerprint = sum ^ (sum >> 29);
        }
    }

    pub(crate) fn say(&mut self, now: u64, who: &DaemonName, what: &str) {
        if self.records {
            self.lines.push(format!("{:>10.3} {who}: {what}", now as f64 / 1e6));
        }
    }

    pub(crate) fn event(&mut self, now: u64, who: &DaemonName, event: &Event) {
        let text = event.to_string();
        for byte in text.bytes() {
            self.fold(&[byte.into()]);
        }
        self.say(now, who, &text);
    }

    /// A number for the kind of input.
    pub(crate) fn input(&mut self, now: u64, who: &DaemonName, input: &Input) -> u64 {
        match input {
            Input::LinkUp { link, .. } => link.0 << 4 | 1,
            Input::Received(link, _) => link.0 << 4 | 2,
            Input::LinkClosed(link) => link.0 << 4 | 3,
            Input::ConnectFailed(token, _) => token.0 << 4 | 4,
            Input::Introduce(records) => {
                let names: Vec<&str> = records.iter().map(|r| r.name.as_str()).collect();
                self.say(now, who, &format!("> introduce {}", names.join(" ")));
                14
            }
            Input::Seek(addresses) => {
                self.say(now, who, &format!("> seek {}", addresses[0]));
                15
            }
            Input::Leave => {
                self.say(now, who, "> leave");
                5
            }
            Input::Readdress(addresses) => {
                self.say(now, who, &format!("> readdress {}", addresses[0]));
                9
            }
            Input::Scatter(..) | Input::Send(..) => {
                self.say(now, who, "> scatter");
                6
            }
            Input::Answered(..) => 7,
            Input::Publish { claim, .. } => {
                self.say(now, who, &format!("> publish {} = {}", claim.name, claim.value));
                10
            }
            Input::Unpublish { name, .. } => {
                self.say(now, who, &format!("> unpublish {name}"));
                11
            }
            Input::JobOver(job) => {
                self.say(now, who, &format!("> job {job} over"));
                12
            }
            Input::Drain(draining) => {
                self.say(now, who, &format!("> drain {draining}"));
                13
            }
            Input::Lap { laps, .. } => {
                self.say(now, who, &format!("> lap {laps}"));
                8
            }
        }
    }

    pub(crate) fn output(&mut self, now: u64, who: &DaemonName, output: &Output) {
        let list = |names: &[DaemonName]| {
            names.iter().map(DaemonName::as_str).collect::<Vec<_>>().join(" ")
        };
        let text = match output {
            Output::Scattered { answers, missing, depth, .. } => {
                let missing = list(missing);
                format!("< scattered to {} in {depth} steps, missing: [{missing}]", answers.len())
            }
            Output::LapsHome { hops, names, .. } => {
                format!("< home after {hops} hops: [{}]", list(names))
            }
            Output::LapLost { home, .. } => format!("< lap lost after {home}"),
            Output::Refused(_) => "< refused".to_owned(),
            Output::Published { result, .. } => match result {
                Publication::Done => "< published".to_owned(),
                Publication::Taken => "< taken".to_owned(),
                Publication::Incomplete { missing } => {
                    format!("< not published, missing: [{}]", list(missing))
                }
                Publication::Refused(why) => format!("< not published: {why}"),
            },
            Output::Unpublished { found, .. } => format!("< unpublished: {found}"),
            Output::NameLost { name, job, to } => format!("< {job} lost {name} to {to}"),
            _ => return,
        };
        self.fold(&[text.len() as u64]);
        self.say(now, who, &text);
    }
}
