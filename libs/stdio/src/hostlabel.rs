//! Labels of lines that several ranks wrote, given by their hosts: `c[01-16],x: text`.

use std::fmt::Write as _;

use mpd_wire::RankSet;
use mpd_wire::job::{Bytes, LabelFormat};

/// The prefixes of merged lines where a label names hosts and not ranks.
#[derive(Debug)]
pub struct HostLabels {
    label: LabelFormat,
    job: Bytes,
    alias: Bytes,
    hosts: Vec<(RankSet, String)>,
}

impl HostLabels {
    /// Labels for the ranks of these hosts; `None` if the label distinguishes ranks or processes.
    pub fn new(
        label: Option<&LabelFormat>,
        (job, alias): (Bytes, Bytes),
        hosts: impl IntoIterator<Item = (RankSet, String)>,
    ) -> Option<Self> {
        let distinguishes =
            |l: &LabelFormat| l.names_rank() || b"npo".iter().any(|&field| l.names(field));
        let label = label.filter(|l| l.names(b'h') && !distinguishes(l))?.clone();
        Some(Self { label, job, alias, hosts: hosts.into_iter().collect() })
    }

    /// Appends a line that all of `ranks` wrote, given without its newline.
    pub fn append(&self, ranks: &RankSet, line: &[u8], out: &mut Vec<u8>) {
        let wrote = |of: &RankSet| of.ranks().any(|rank| ranks.contains(rank));
        let hosts = self.hosts.iter().filter(|(of, _)| wrote(of)).map(|(_, name)| name.as_str());
        let hosts = folded(hosts.collect());
        let label = self.label.fill(|field| match field {
            b'h' => hosts.clone().into_bytes(),
            b'j' => self.job.clone(),
            b'a' => self.alias.clone(),
            _ => b"%".to_vec(),
        });
        out.extend_from_slice(&label);
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

/// The names as in a list of hosts, in order: numbers at their ends become ranges.
fn folded(names: Vec<&str>) -> String {
    let mut parts: Vec<(&str, &str)> = names.into_iter().map(parted).collect();
    let number = |digits: &str| digits.parse::<u64>().unwrap_or(0);
    parts.sort_unstable_by_key(|&(stem, digits)| (stem, digits.len(), number(digits)));
    let mut text = String::new();
    for group in parts.chunk_by(|a, b| a.0 == b.0 && !a.1.is_empty() && !b.1.is_empty()) {
        let stem = group[0].0;
        let follows = |a: &(&str, &str), b: &(&str, &str)| {
            let fits = a.1.len() == b.1.len() || !b.1.starts_with('0') && !a.1.starts_with('0');
            fits && number(a.1).checked_add(1) == Some(number(b.1))
        };
        let ranges: Vec<String> = group
            .chunk_by(follows)
            .map(|run| match run {
                [(_, one)] => (*one).to_owned(),
                _ => format!("{}-{}", run[0].1, run[run.len() - 1].1),
            })
            .collect();
        let comma = if text.is_empty() { "" } else { "," };
        let list = ranges.join(",");
        // Writing to a String cannot fail.
        let _ = match group.len() {
            1 => write!(text, "{comma}{stem}{list}"),
            _ => write!(text, "{comma}{stem}[{list}]"),
        };
    }
    text
}

/// A name without the number at its end, and that number.
fn parted(name: &str) -> (&str, &str) {
    const MAX_DIGITS: usize = 18;
    let digits = name.bytes().rev().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
    name.split_at(name.len() - digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpd_wire::Rank;

    #[test]
    fn hosts_are_written_as_a_list_with_ranges() {
        for (names, expected) in [
            (&["h1"][..], "h1"),
            (&["h2", "h3", "h1"], "h[1-3]"),
            (&["c01", "c02", "c04", "x", "c03", "c10"], "c[01-04,10],x"),
            (&["n9", "n10", "n11"], "n[9-11]"),
            (&["a1", "a01"], "a[1,01]"),
            (&["b", "a"], "a,b"),
            (&["7"], "7"),
        ] {
            assert_eq!(folded(names.to_vec()), expected);
        }
    }

    #[test]
    fn a_label_names_the_hosts_of_the_ranks_that_wrote_the_line() {
        let hosts = [(0, "h1"), (1, "h2"), (2, "x")];
        let set = |ranks: &[u32]| ranks.iter().map(|r| Rank(*r)).collect::<RankSet>();
        let label = |pattern: &[u8]| {
            let label = LabelFormat::new(pattern).unwrap();
            let hosts = hosts.map(|(rank, name)| (set(&[rank]), name.to_owned()));
            HostLabels::new(Some(&label), (b"3@h1".to_vec(), b"up".to_vec()), hosts)
        };
        let mut out = Vec::new();
        let labels = label(b"%h (%j, %a, 100%%): ").unwrap();
        labels.append(&set(&[0, 1]), b"yes", &mut out);
        labels.append(&set(&[2]), b"", &mut out);
        let expected = "h[1-2] (3@h1, up, 100%): yes\nx (3@h1, up, 100%): \n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(label(b"%h/%r: ").is_none() && label(b"%r: ").is_none());
        assert!(HostLabels::new(None, (vec![], vec![]), []).is_none());
    }
}
