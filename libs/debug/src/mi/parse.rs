//! The grammar of gdb's lines. A function returns `None` for text that does not follow it.

use super::{Async, Fields, MAX_DEPTH, MAX_VALUES, Record, Stream, Value};

pub(super) fn record(line: &[u8]) -> Option<Record> {
    let mut reader = Reader { rest: line, values: 0 };
    let token = reader.token()?;
    let sign = reader.next()?;
    let record = match sign {
        b'~' => Record::Stream(Stream::Console, reader.untokened(token)?),
        b'@' => Record::Stream(Stream::Target, reader.untokened(token)?),
        b'&' => Record::Stream(Stream::Log, reader.untokened(token)?),
        b'^' => Record::Result { token, class: reader.name()?, fields: reader.fields()? },
        b'*' | b'+' | b'=' => {
            let kind = match sign {
                b'*' => Async::Exec,
                b'+' => Async::Status,
                _ => Async::Notify,
            };
            Record::Async { kind, class: reader.name()?, fields: reader.fields()? }
        }
        _ => return None,
    };
    reader.rest.is_empty().then_some(record)
}

/// The beginning of a record that cannot be read as a whole, if a driver waits for it. Programs
/// that gdb runs must not write such a text by chance.
pub(super) fn torn(line: &[u8]) -> Option<Record> {
    let mut reader = Reader { rest: line, values: 0 };
    let token = reader.token()?;
    let sign = reader.next()?;
    let class = reader.name()?;
    let known = match sign {
        b'^' => token.is_some() && CLASSES.contains(&&class[..]),
        b'*' => class == "stopped",
        _ => false,
    };
    if !known || reader.peek() != Some(b',') {
        return None;
    }
    let mut fields = Fields::default();
    reader.tail(&mut fields);
    Some(match sign {
        b'^' => Record::Result { token, class, fields },
        _ => Record::Async { kind: Async::Exec, class, fields },
    })
}

/// The classes of answers.
const CLASSES: [&str; 5] = ["done", "running", "connected", "error", "exit"];

struct Reader<'a> {
    rest: &'a [u8],
    values: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// Digits. No digits are no token; too many digits are no token of the driver.
    #[expect(clippy::option_option, reason = "no token is no mistake")]
    fn token(&mut self) -> Option<Option<u32>> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (token, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if token.is_empty() {
            return Some(None);
        }
        std::str::from_utf8(token).ok()?.parse().ok().map(Some)
    }

    /// Text of a stream, which has no token.
    fn untokened(&mut self, token: Option<u32>) -> Option<Vec<u8>> {
        if token.is_some() {
            return None;
        }
        self.string()
    }

    /// A class or the name of a value.
    fn name(&mut self) -> Option<String> {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let length = self.rest.iter().take_while(|byte| part(byte)).count();
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        (length > 0).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// `,NAME=VALUE` up to the end.
    fn fields(&mut self) -> Option<Fields> {
        let mut fields = Fields::default();
        self.tail(&mut fields)?;
        Some(fields)
    }

    /// The same, but keeps the fields before an error.
    fn tail(&mut self, fields: &mut Fields) -> Option<()> {
        while self.peek() == Some(b',') {
            self.next();
            fields.0.push(self.item(0)?);
        }
        Some(())
    }

    /// `NAME=VALUE` or a value alone.
    fn item(&mut self, depth: usize) -> Option<(String, Value)> {
        if matches!(self.peek()?, b'"' | b'{' | b'[') {
            return Some((String::new(), self.value(depth)?));
        }
        let name = self.name()?;
        self.take(b'=')?;
        Some((name, self.value(depth)?))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return None;
        }
        match self.peek()? {
            b'"' => Some(Value::Text(self.string()?)),
            b'{' => Some(Value::Tuple(self.enclosed(b'}', depth)?)),
            b'[' => Some(Value::List(self.enclosed(b']', depth)?)),
            _ => None,
        }
    }

    fn enclosed(&mut self, end: u8, depth: usize) -> Option<Fields> {
        self.next();
        let mut fields = Fields::default();
        if self.peek()? == end {
            self.next();
            return Some(fields);
        }
        loop {
            fields.0.push(self.item(depth + 1)?);
            match self.next()? {
                b',' => {}
                byte if byte == end => return Some(fields),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        self.take(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => text.push(self.escaped()?),
                byte => text.push(byte),
            }
        }
    }

    /// The byte that an escape after a backslash gives, as in C.
    fn escaped(&mut self) -> Option<u8> {
        Some(match self.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'e' => 27,
            digit @ b'0'..=b'7' => self.octal(digit),
            other => other,
        })
    }

    /// Up to three digits. Of a number that is too large for a byte, the lower part counts.
    fn octal(&mut self, first: u8) -> u8 {
        let mut byte = first - b'0';
        for _ in 0..2 {
            let Some(digit @ b'0'..=b'7') = self.peek() else { break };
            self.next();
            byte = byte.wrapping_mul(8).wrapping_add(digit - b'0');
        }
        byte
    }
}
