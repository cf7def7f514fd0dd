//! Labels and timestamps in front of lines.

use crate::stdio::leaf::Record;

/// Puts a prefix in front of each line of one output. Knows whether the output stands at the start of
/// a line, so that a label never lands behind another rank's unfinished one.
#[derive(Debug, Default)]
pub struct Formatter {
    /// The last byte written was not a newline; the rank index that wrote it.
    unfinished: Option<u32>,
}

impl Formatter {
    /// Appends `record` of rank `rank` to `out`, each line preceded by `prefix`.
    ///
    /// A record that begins a line while another rank's line stands unfinished is put on a line of
    /// its own. The same rank going on after a silence goes on behind what it wrote.
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_label_never_lands_behind_the_unfinished_line_of_another_rank() {
        let mut f = Formatter::default();
        let mut out = Vec::new();
        f.format(0, b"0: ", whole(b"prompt> "), &mut out);
        f.format(1, b"1: ", whole(b"hello\n"), &mut out);
        f.format(0, b"0: ", whole(b"again\n"), &mut out);
        assert_eq!(out, b"0: prompt> \n1: hello\n0: again\n");
    }

    #[test]
    fn the_same_rank_goes_on_behind_its_own_prompt() {
        let mut f = Formatter::default();
        let mut out = Vec::new();
        f.format(0, b"0: ", whole(b"prompt> "), &mut out);
        f.format(0, b"0: ", whole(b"answer\n"), &mut out);
        assert_eq!(out, b"0: prompt> answer\n");
    }
}
