//! Splits a `-configfile` into lines of arguments. As in the MPI standard, a line holds one program
//! with its options, like a section between colons of the command line. Quotes and backslashes work
//! as in a shell. `#` at the start of an argument begins a comment. Nothing is expanded or
//! executed.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use mpd_placement::hosts::BOM;
use mpd_wire::job::MAX_SPEC;

/// The arguments of one line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line's first physical line, from 1.
    pub number: u32,
    /// Its arguments, at least one.
    pub words: Vec<OsString>,
}

/// Why the bytes are no configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    /// A quote is not closed.
    #[error("line {0}: the quote {1} is not closed")]
    OpenQuote(u32, char),
    /// An argument of a command line cannot hold a NUL byte.
    #[error("line {0}: there is a NUL byte")]
    Nul(u32),
}

/// The position of arguments, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The file as the user named it.
    pub file: &'a Path,
    /// The line in the file.
    pub line: u32,
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file.display(), self.line)
    }
}

/// The contents of `file`, which may be a pipe, without the mark of a text in UTF-8.
///
/// # Errors
/// The file cannot be read, or is larger than any job can be.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    read_open(&File::open(file)?)
}

/// The same for an open file.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read_open(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_SPEC as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_SPEC {
        let text = format!("it is larger than the {} MiB that a job may have", MAX_SPEC >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    if bytes.starts_with(BOM) {
        bytes.drain(..BOM.len());
    }
    Ok(bytes)
}

/// Splits the contents of a file into lines of arguments. Empty lines are left out.
///
/// # Errors
/// The first error in the file.
pub fn lines(bytes: &[u8]) -> Result<Vec<Line>, InvalidConfig> {
    let mut lines = Vec::new();
    let mut reader = Reader { bytes, at: 0, number: 1 };
    while reader.at < bytes.len() {
        let number = reader.number;
        let words = reader.line()?;
        if !words.is_empty() {
            lines.push(Line { number, words });
        }
    }
    Ok(lines)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u32,
}

impl Reader<'_> {
    /// The arguments up to the next newline without a backslash.
    fn line(&mut self) -> Result<Vec<OsString>, InvalidConfig> {
        let mut words = Vec::new();
        // An argument can be empty, as in '', so `None` means that no argument has begun.
        let mut word: Option<Vec<u8>> = None;
        let mut finish = |word: &mut Option<Vec<u8>>| {
            words.extend(word.take().map(OsString::from_vec));
        };
        while let Some(byte) = self.next()? {
            match byte {
                b'\n' => break,
                b' ' | b'\t' => finish(&mut word),
                // Files of other systems end lines with two bytes.
                b'\r' if matches!(self.bytes.get(self.at), None | Some(b'\n')) => {}
                b'#' if word.is_none() => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                b'\\' => {
                    if let Some(escaped) = self.escaped()? {
                        word.get_or_insert_default().push(escaped);
                    }
                }
                b'\'' | b'"' => self.quoted(byte, word.get_or_insert_default())?,
                other => word.get_or_insert_default().push(other),
            }
        }
        finish(&mut word);
        Ok(words)
    }

    /// The byte after a backslash; `None` at the end of a line.
    fn escaped(&mut self) -> Result<Option<u8>, InvalidConfig> {
        if self.bytes[self.at..].starts_with(b"\r\n") {
            self.at += 1;
        }
        Ok(self.next()?.filter(|&b| b != b'\n'))
    }

    /// Adds the bytes up to the next `quote` to `word`.
    fn quoted(&mut self, quote: u8, word: &mut Vec<u8>) -> Result<(), InvalidConfig> {
        let opened = self.number;
        loop {
            let byte = self.next()?;
            match byte {
                None => return Err(InvalidConfig::OpenQuote(opened, char::from(quote))),
                Some(b) if b == quote => return Ok(()),
                Some(b'\\') if quote == b'"' => match self.bytes.get(self.at) {
                    Some(b'"' | b'\\' | b'\n' | b'$' | b'`') => word.extend(self.escaped()?),
                    _ => word.push(b'\\'),
                },
                // A newline in quotes is almost always a missing quote, and would hide programs.
                Some(b'\n') => return Err(InvalidConfig::OpenQuote(opened, char::from(quote))),
                Some(b) => word.push(b),
            }
        }
    }

    fn next(&mut self) -> Result<Option<u8>, InvalidConfig> {
        let Some(&byte) = self.bytes.get(self.at) else { return Ok(None) };
        self.at += 1;
        match byte {
            0 => return Err(InvalidConfig::Nul(self.number)),
            b'\n' => self.number += 1,
            _ => {}
        }
        Ok(Some(byte))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<(u32, Vec<String>)> {
        let strings =
            |l: Line| (l.number, l.words.into_iter().map(|w| w.into_string().unwrap()).collect());
        lines(text.as_bytes()).unwrap().into_iter().map(strings).collect()
    }

    fn one(text: &str) -> Vec<String> {
        let mut all = words(text);
        assert_eq!(all.len(), 1, "{text:?}");
        all.remove(0).1
    }

    #[test]
    fn each_line_is_a_program() {
        let all = words("-n 2 a x\n\n  \t-n 3\tb  \n");
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], (1, vec!["-n".into(), "2".into(), "a".into(), "x".into()]));
        assert_eq!(all[1], (3, vec!["-n".into(), "3".into(), "b".into()]));
    }

    #[test]
    fn a_comment_starts_only_where_an_argument_could() {
        assert_eq!(
            one("# all of it 'here\n-n 2 a#b '#' \\# # the rest \\\n"),
            ["-n", "2", "a#b", "#", "#"]
        );
    }

    #[test]
    fn a_backslash_continues_the_line_and_physical_lines_are_counted() {
        assert_eq!(one("a \\\n  b\\\nc"), ["a", "bc"]);
        assert_eq!(words("a \\\n b\nc\n")[1].0, 3);
        assert_eq!(one("a \\\r\n b\r\n"), ["a", "b"]);
    }

    #[test]
    fn quotes_work_as_in_a_shell() {
        assert_eq!(
            one(r#"'a b' "c d" e'f 'g "" '' "q\"\\\n\$" '\' \' x\ y"#),
            ["a b", "c d", "ef g", "", "", "q\"\\\\n$", "\\", "'", "x y"]
        );
    }

    #[test]
    fn nothing_is_expanded() {
        assert_eq!(
            one("$HOME $(id) `id` * ~ a;b |"),
            ["$HOME", "$(id)", "`id`", "*", "~", "a;b", "|"]
        );
    }

    #[test]
    fn an_open_quote_is_reported_with_its_line() {
        assert_eq!(lines(b"a\nb 'c\nd"), Err(InvalidConfig::OpenQuote(2, '\'')));
        assert_eq!(lines(b"a \"b"), Err(InvalidConfig::OpenQuote(1, '"')));
        assert_eq!(lines(b"a\nb\0c"), Err(InvalidConfig::Nul(2)));
    }

    #[test]
    fn bytes_need_not_be_text() {
        let all = lines(b"prog '\xff'\xfe").unwrap();
        assert_eq!(all[0].words[1], OsString::from_vec(vec![0xff, 0xfe]));
    }

    #[test]
    fn a_backslash_at_the_end_of_the_file_is_no_argument() {
        assert_eq!(one("a \\"), ["a"]);
        assert!(words("\\\n").is_empty());
    }

    #[test]
    fn unreadable_and_endless_files_are_errors() {
        assert_eq!(read(Path::new("/no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let endless = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }

    proptest! {
        #[test]
        fn any_text_in_single_quotes_is_unchanged(word in "[^\0\n']{0,20}") {
            prop_assert_eq!(one(&format!("x '{word}'")), ["x".to_owned(), word]);
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = lines(&bytes);
        }
    }
}
