//! GDB/MI, as in gdb's manual ("GDB/MI Output Syntax"): lines of gdb become [`Record`]s, and
//! commands of its command line are quoted for it.
//!
//! gdb runs programs of users (`shell`, Python) that write to its standard output as well. A line
//! that follows no rule is therefore a [`Record::Other`], never an error. Of an answer or a stop
//! that the driver waits for, the beginning is enough.

mod parse;

#[cfg(test)]
mod tests;

/// Bytes of a line that are read. A longer line loses the bytes before its tail.
pub const MAX_LINE: usize = 1 << 20;

/// Bytes at the end of a longer line that are read as well. The answer to a command may be there,
/// after text of a program that does not end its lines.
pub const MAX_TAIL: usize = 4 << 10;

/// Levels of nested tuples and lists.
pub const MAX_DEPTH: usize = 32;

/// Values of one record, including nested ones.
pub const MAX_VALUES: usize = 65_536;

/// One line of gdb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// `TOKEN^CLASS,…`: the answer to a command.
    Result {
        /// The token of the command.
        token: Option<u32>,
        /// `done`, `running`, `error`, `exit`, `connected`.
        class: String,
        /// The further values.
        fields: Fields,
    },
    /// An event.
    Async {
        /// The kind of event.
        kind: Async,
        /// `stopped`, `running`, `thread-group-started` …
        class: String,
        /// The further values.
        fields: Fields,
    },
    /// Text, not necessarily whole lines.
    Stream(Stream, Vec<u8>),
    /// The readable part of an answer or of a stop that is too long or too deep: the fields that
    /// are complete before the unreadable part. So a driver that waits for such a record
    /// receives it.
    Torn(Box<Self>),
    /// gdb is ready for a command.
    Prompt,
    /// A line that is none of the above.
    Other(Vec<u8>),
}

/// Kinds of asynchronous records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Async {
    /// `*`: the program runs or stops.
    Exec,
    /// `+`: progress of an operation.
    Status,
    /// `=`: another change.
    Notify,
}

/// Kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// `~`: text that gdb's command line would show.
    Console,
    /// `@`: output of the program, for remote targets.
    Target,
    /// `&`: gdb's log, including errors of commands.
    Log,
}

/// A value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string without its escapes.
    Text(Vec<u8>),
    /// `{…}`
    Tuple(Fields),
    /// `[…]`; its values may have names.
    List(Fields),
}

impl Value {
    /// The values inside; empty for a text.
    pub fn fields(&self) -> &[(String, Self)] {
        match self {
            Self::Text(_) => &[],
            Self::Tuple(fields) | Self::List(fields) => &fields.0,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Tuple(_) | Self::List(_) => None,
        }
    }

    /// The value with this name inside.
    pub fn get(&self, name: &str) -> Option<&Self> {
        find(self.fields(), name)
    }
}

/// Values in their order, with their names. The names in plain lists are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, Value)>);

impl Fields {
    /// The first value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        find(&self.0, name)
    }

    /// The first value with this name, if it is a text.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        self.get(name)?.text()
    }
}

fn find<'a>(fields: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

impl Record {
    /// Reads a line without its newline.
    pub fn parse(line: &[u8]) -> Self {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii_end() == b"(gdb)" {
            return Self::Prompt;
        }
        parse::record(line).unwrap_or_else(|| Self::parse_torn(line))
    }

    /// Reads a line with missing parts.
    pub fn parse_torn(line: &[u8]) -> Self {
        match parse::torn(line) {
            Some(record) => Self::Torn(Box::new(record)),
            None => Self::Other(line.to_vec()),
        }
    }
}

/// `text` as a string of GDB/MI, with quotes. Newlines cannot be in a command and become blanks.
pub fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', byte]),
            b'\n' | b'\r' | 0 => quoted.push(b' '),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// The line that makes gdb execute a command of its command line.
pub fn console_command(token: u32, text: &[u8]) -> Vec<u8> {
    let mut line = format!("{token}-interpreter-exec console ").into_bytes();
    line.extend(quoted(text));
    line.push(b'\n');
    line
}
