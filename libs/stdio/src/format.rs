//! Labels and timestamps in front of lines.

use crate::line_splitter::Record;
use mpd_wire::RankSet;

/// Puts a prefix before each line of one output. It keeps track of the start of lines, so that a
/// label never follows another rank's unfinished line.
#[derive(Debug, Default)]
pub struct Formatter {
    /// The rank index that wrote the last byte, if that byte was not a newline.
    unfinished: Option<u32>,
}

impl Formatter {
    /// Appends `record` of rank `rank` to `out`, each line with `prefix` before it.
    ///
    /// A record may begin a line while another rank's line is unfinished; then it begins on a new
    /// line. A record of the same rank after a silence continues its unfinished line.
    pub fn format(&mut self, rank: u32, prefix: &[u8], record: Record<'_>, out: &mut Vec<u8>) {
        let mut at_start = match self.unfinished {
            None => true,
            Some(owner) if owner == rank => false,
            Some(_) => {
                out.push(b'\n');
                true
            }
        };
        for mut bytes in [record.head, record.body] {
            while !bytes.is_empty() {
                if at_start {
                    out.extend_from_slice(prefix);
                }
                let newline = memchr::memchr(b'\n', bytes);
                at_start = newline.is_some();
                let (line, rest) = bytes.split_at(newline.map_or(bytes.len(), |i| i + 1));
                out.extend_from_slice(line);
                bytes = rest;
            }
        }
        self.unfinished = (!at_start).then_some(rank);
    }

    /// Notes a record of rank `rank` that was passed on as it is, without prefixes.
    pub fn passed(&mut self, rank: u32, record: Record<'_>) {
        let last = record.body.last().or(record.head.last());
        if let Some(last) = last {
            self.unfinished = (*last != b'\n').then_some(rank);
        }
    }
}

/// Appends a line that all of `ranks` wrote, given without its newline.
pub fn merged(ranks: &RankSet, line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(ranks.to_string().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(line);
    out.push(b'\n');
}

/// A time as RFC 3339 in UTC with microseconds: `2026-11-21T02:31:36.123456Z`.
///
/// Days to civil date after Hinnant's public algorithm (proleptic Gregorian calendar).
pub fn utc(micros_since_1970: u64) -> String {
    let seconds = micros_since_1970 / 1_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = micros_since_1970 % 1_000_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds: u64, micros| utc(seconds * 1_000_000 + micros);
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400, 1), "2000-02-29T00:00:00.000001Z");
        assert_eq!(at(1_795_228_296, 123_456), "2026-11-21T02:31:36.123456Z");
    }

    const fn whole(body: &[u8]) -> Record<'_> {
        Record { begin: true, end: true, head: b"", body }
    }

    #[test]
    fn each_line_gets_one_label_wherever_it_was_cut() {
        let mut f = Formatter::default();
        let mut out = Vec::new();
        f.format(
            0,
            b"0: ",
            Record { begin: true, end: true, head: b"a", body: b"b\nc\n" },
            &mut out,
        );
        f.format(1, b"1: ", Record { begin: true, end: false, head: b"", body: b"lo" }, &mut out);
        f.format(
            1,
            b"1: ",
            Record { begin: false, end: true, head: b"", body: b"ng\n\n" },
            &mut out,
        );
        assert_eq!(out, b"0: ab\n0: c\n1: long\n1: \n");
    }

    #[test]
    fn the_first_label_does_not_follow_an_unfinished_line_that_was_passed_on_as_it_is() {
        let (mut formatter, mut out) = (Formatter::default(), b"half".to_vec());
        formatter.passed(0, whole(b"half"));
        formatter.format(1, b"1: ", whole(b"one\n"), &mut out);
        formatter.passed(0, whole(b"end\n"));
        formatter.format(1, b"1: ", whole(b"two\n"), &mut out);
        assert_eq!(out, b"half\n1: one\n1: two\n");
    }

    #[test]
    fn a_label_never_follows_the_unfinished_line_of_another_rank() {
        let mut f = Formatter::default();
        let mut out = Vec::new();
        f.format(0, b"0: ", whole(b"prompt> "), &mut out);
        f.format(1, b"1: ", whole(b"hello\n"), &mut out);
        f.format(0, b"0: ", whole(b"again\n"), &mut out);
        assert_eq!(out, b"0: prompt> \n1: hello\n0: again\n");
    }

    #[test]
    fn a_rank_continues_after_its_own_prompt() {
        let mut f = Formatter::default();
        let mut out = Vec::new();
        f.format(0, b"0: ", whole(b"prompt> "), &mut out);
        f.format(0, b"0: ", whole(b"answer\n"), &mut out);
        assert_eq!(out, b"0: prompt> answer\n");
    }
}
