//! The text of a key file.
//!
//! ```text
//! ring NAME
//! 64 hexadecimal digits: the key to connect with
//! 64 more: another key that is accepted too, while keys are being changed
//! ```
//!
//! Empty lines and lines that begin with `#` are ignored. Errors never repeat the text, since it
//! may be a key. This module does not read or write files.

use std::fmt::Write as _;

use zeroize::{Zeroize as _, Zeroizing};

use mpd_wire::job::KEY_LENGTH;

use super::key::{Key, Keys};
use super::schedule::Secret;
use mpd_wire::is_daemon_name;

/// The content of a key file.
#[derive(Clone, Debug)]
pub struct KeyText {
    ring: String,
    keys: Keys,
}

/// The text is not that of a key file. Lines are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeyText {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text is not UTF-8.
    #[error("it is not text")]
    NotText,
    /// The first line does not name the ring.
    #[error("line {line} is not 'ring NAME'")]
    Name { line: usize },
    /// No key follows the name.
    #[error("no key follows the name of the ring")]
    NoKey,
    /// More than two keys.
    #[error("line {line}: it holds more than two keys")]
    TooManyKeys {
        /// The line of the third key.
        line: usize,
    },
    /// A line has other characters than hexadecimal digits.
    #[error("line {line} is not a key of hexadecimal digits")]
    NotHex { line: usize },
    /// A key does not have 64 digits.
    #[error("the key in line {line} has {bits} bits, 256 are needed")]
    Length { line: usize, bits: usize },
    /// All bytes of a key are equal: a placeholder.
    #[error("the key in line {line} is not random")]
    Constant { line: usize },
}

impl KeyText {
    /// A file for the ring of this name; `None` if the name is invalid.
    pub fn new(ring: &str, keys: Keys) -> Option<Self> {
        is_daemon_name(ring).then(|| Self { ring: ring.to_owned(), keys })
    }

    /// Reads the text and wipes it.
    ///
    /// # Errors
    /// [`InvalidKeyText`].
    pub fn parse(mut text: Vec<u8>) -> Result<Self, InvalidKeyText> {
        let result = match str::from_utf8(&text) {
            Ok(text) => Self::parse_lines(text),
            Err(_) => Err(InvalidKeyText::NotText),
        };
        text.zeroize();
        result
    }

    fn parse_lines(text: &str) -> Result<Self, InvalidKeyText> {
        let mut lines = (1..)
            .zip(text.lines().map(str::trim))
            .filter(|(_, content)| !content.is_empty() && !content.starts_with('#'));
        let (line, first) = lines.next().ok_or(InvalidKeyText::Empty)?;
        let ring = first
            .strip_prefix("ring ")
            .map(str::trim_start)
            .filter(|name| is_daemon_name(name))
            .ok_or(InvalidKeyText::Name { line })?;
        let (line, digits) = lines.next().ok_or(InvalidKeyText::NoKey)?;
        let connect = parse_key(line, digits)?;
        let also = lines.next().map(|(line, digits)| parse_key(line, digits)).transpose()?;
        match lines.next() {
            Some((line, _)) => Err(InvalidKeyText::TooManyKeys { line }),
            None => Ok(Self { ring: ring.to_owned(), keys: Keys::new(connect, also) }),
        }
    }

    /// The text that [`KeyText::parse`] reads, wiped when dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Large enough from the start: a reallocation would leave a copy of the key in memory.
        let capacity = "ring \n".len() + self.ring.len() + 2 * (2 * KEY_LENGTH + 1);
        let mut text = Zeroizing::new(String::with_capacity(capacity));
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "ring {}", self.ring);
        for key in self.keys.accept() {
            for byte in key.expose() {
                let _ = write!(text, "{byte:02x}");
            }
            text.push('\n');
        }
        text
    }

    pub fn ring(&self) -> &str {
        &self.ring
    }

    pub const fn keys(&self) -> &Keys {
        &self.keys
    }
}

fn parse_key(line: usize, digits: &str) -> Result<Key, InvalidKeyText> {
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(InvalidKeyText::NotHex { line });
    }
    if digits.len() != 2 * KEY_LENGTH {
        return Err(InvalidKeyText::Length { line, bits: 4 * digits.len() });
    }
    let mut raw: Secret = Zeroizing::new([0; KEY_LENGTH]);
    for (byte, pair) in raw.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    if raw.iter().all(|&byte| byte == raw[0]) {
        return Err(InvalidKeyText::Constant { line });
    }
    Ok(Key::from_secret(raw))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const TWO: &str = "ff112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";

    fn parse(text: &str) -> Result<KeyText, InvalidKeyText> {
        KeyText::parse(text.as_bytes().to_vec())
    }

    #[test]
    fn the_first_key_connects_and_both_are_accepted() {
        let text = parse(&format!("# of h1\nring blue\r\n\n{ONE}\n  {TWO}\n")).unwrap();
        assert_eq!(text.ring(), "blue");
        assert_eq!(text.keys().connect().expose()[..3], [0x00, 0x11, 0x22]);
        assert_eq!(text.keys().accept().map(|k| k.expose()[0]).collect::<Vec<_>>(), [0, 0xff]);
        assert_eq!(*text.to_text(), format!("ring blue\n{ONE}\n{}\n", TWO.to_lowercase()));
    }

    #[test]
    fn an_error_names_the_line_and_does_not_repeat_its_text() {
        use InvalidKeyText as E;
        let cases = [
            (String::new(), E::Empty),
            ("# only\n\n".to_owned(), E::Empty),
            (format!("{ONE}\n"), E::Name { line: 1 }),
            (format!("ring ../x\n{ONE}\n"), E::Name { line: 1 }),
            ("\nring blue\n".to_owned(), E::NoKey),
            ("ring blue\npassword\n".to_owned(), E::NotHex { line: 2 }),
            (format!("ring blue\n{}\n", &ONE[2..]), E::Length { line: 2, bits: 248 }),
            (format!("ring blue\n{ONE}00\n"), E::Length { line: 2, bits: 264 }),
            (format!("ring blue\n{ONE}\nabcd\n"), E::Length { line: 3, bits: 16 }),
            (format!("ring blue\n{ONE}\n{TWO}\n{ONE}\n"), E::TooManyKeys { line: 4 }),
            (format!("ring blue\n{}\n", "00".repeat(32)), E::Constant { line: 2 }),
        ];
        for (text, error) in cases {
            assert_eq!(parse(&text).unwrap_err(), error, "{text}");
            assert!(!error.to_string().contains("password"));
        }
        assert_eq!(KeyText::parse(vec![0xff]).unwrap_err(), InvalidKeyText::NotText);
    }

    #[test]
    fn a_ring_with_a_name_that_could_be_a_path_cannot_be_written() {
        let keys = Keys::from(Key::from_bytes([1; 32]));
        assert!(KeyText::new("a/b", keys.clone()).is_none());
        assert!(KeyText::new("a\nb", keys).is_none());
    }

    proptest! {
        #[test]
        fn a_file_reads_back_what_was_written(one: [u8; 32], two: Option<[u8; 32]>) {
            let constant = |key: &[u8; 32]| key.iter().all(|&b| b == key[0]);
            prop_assume!(!constant(&one) && !two.as_ref().is_some_and(constant));
            let keys = Keys::new(Key::from_bytes(one), two.map(Key::from_bytes));
            let written = KeyText::new("blue", keys).unwrap();
            let read = parse(&written.to_text()).unwrap();
            prop_assert_eq!(read.ring(), "blue");
            let bytes = read.keys().accept().map(|k| *k.expose()).collect::<Vec<_>>();
            prop_assert_eq!(bytes, std::iter::once(one).chain(two).collect::<Vec<_>>());
        }

        #[test]
        fn garbage_never_panics(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = KeyText::parse(text);
        }
    }
}
