//! The bytes between standard input and output and a pseudo-terminal, in both directions, and the
//! conditions under which they move on.

/// Bytes that may wait in one direction.
pub const CAPACITY: usize = 64 << 10;

/// Bytes that the terminal gets at once where lines are read. A line may have 4095, and the kernel
/// drops further ones.
pub const CHUNK: usize = 4000;

/// Bytes that a terminal can hold for this end, with some more. What a program wrote before it ended is
/// among the first so many that are read then; what others write all the time must not keep us.
const HELD: usize = 256 << 10;

/// The meaning of keys on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Lines are read, and the end-of-file key is the end.
    pub lines: bool,
    /// Keys make signals.
    pub signals: bool,
    /// The end-of-file key, if there is one.
    pub end: Option<u8>,
    /// The key that stops, if there is one.
    pub suspend: Option<u8>,
}

impl Mode {
    /// Whether one of these bytes is the key that stops.
    pub fn presses_suspend(&self, bytes: &[u8]) -> bool {
        self.signals && self.suspend.is_some_and(|key| bytes.contains(&key))
    }
}

/// What the terminal gets next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed<'a> {
    /// Nothing at all is left to be given.
    Nothing,
    /// It has to have read all before; ask again when it may have.
    WhenRead,
    /// What it is in does not last: ask again a while later.
    Later,
    /// The beginning of what is there.
    Bytes(&'a [u8]),
    /// The end, in the form of a key.
    End(u8),
}

/// Both directions, from the start of a program to its end.
#[derive(Debug)]
pub struct Relay {
    /// Whether a user types. The user makes the end, and the terminal understands the keys.
    typed: bool,
    input: Buffer,
    input_ended: bool,
    last: u8,
    output: Buffer,
    has_reader: bool,
    hung_up: bool,
    /// Once the program has ended: how many bytes of it may still come.
    left: Option<usize>,
}

impl Relay {
    /// Nothing is under way.
    pub fn new(typed: bool) -> Self {
        Self {
            typed,
            input: Buffer::default(),
            input_ended: false,
            last: b'\n',
            output: Buffer::default(),
            has_reader: true,
            hung_up: false,
            left: None,
        }
    }

    /// How many bytes of input may be read now.
    pub fn room_for_input(&self) -> usize {
        if self.input_ended || self.is_closing() { 0 } else { self.input.room() }
    }

    /// These have been read; not more than there is room.
    pub fn input(&mut self, bytes: &[u8]) {
        if !self.is_closing() {
            self.input.push(bytes);
        }
    }

    /// There is no more input.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Whether the terminal is to get something, now or some time.
    pub fn has_feed(&self) -> bool {
        let ends = self.input_ended && !self.typed;
        !self.is_closing() && (!self.input.is_empty() || ends)
    }

    /// What the terminal is to get, which is in `mode`. Whether it has read all before is asked if it counts;
    /// `pressed` if its end-of-file key may be pressed where that is a key like others.
    pub fn feed(&self, mode: Mode, pressed: bool, is_read: impl FnOnce() -> bool) -> Feed<'_> {
        if !self.has_feed() {
            return Feed::Nothing;
        }
        let bytes = self.input.bytes();
        let is_raw = !mode.lines && !mode.signals;
        if self.typed || is_raw {
            // Every byte is data: no byte can mean the end.
            return if bytes.is_empty() { Feed::Later } else { Feed::Bytes(bytes) };
        }
        if !is_read() {
            return Feed::WhenRead;
        }
        match (bytes, mode.end) {
            ([_, ..], _) => Feed::Bytes(&bytes[..bytes.len().min(CHUNK)]),
            ([], Some(end)) if mode.lines => Feed::End(end),
            // Behind the beginning of a line the key would be one for editing it.
            ([], Some(_)) if pressed && self.last != b'\n' => Feed::End(b'\n'),
            ([], Some(end)) if pressed => Feed::End(end),
            ([], _) => Feed::Later,
        }
    }

    /// The terminal has taken the first `count` of the bytes that it got.
    pub fn fed(&mut self, count: usize) {
        if let Some(&last) = self.input.bytes().get(..count).and_then(<[u8]>::last) {
            self.last = last;
        }
        self.input.take(count);
    }

    /// The terminal has taken a key for the end.
    pub fn ended(&mut self) {
        self.last = b'\n';
    }

    /// How many bytes of output may be read now.
    pub fn room_for_output(&self) -> usize {
        if self.hung_up { 0 } else { self.output.room().min(self.left.unwrap_or(usize::MAX)) }
    }

    /// These have been read; not more than there is room.
    pub fn output(&mut self, bytes: &[u8]) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len());
        }
        if self.has_reader {
            self.output.push(bytes);
        }
    }

    /// The terminal has no more output now.
    pub fn no_output(&mut self) {
        if self.left.is_some() {
            self.left = Some(0);
        }
    }

    /// What standard output is to get.
    pub fn shown(&self) -> &[u8] {
        self.output.bytes()
    }

    /// It has taken so much.
    pub fn showed(&mut self, count: usize) {
        self.output.take(count);
    }

    /// Standard output has no reader any longer.
    pub fn lose_reader(&mut self) {
        self.has_reader = false;
        self.output = Buffer::default();
    }

    /// The terminal is gone.
    pub fn hang_up(&mut self) {
        self.hung_up = true;
        self.input = Buffer::default();
        if self.left.is_some() {
            self.left = Some(0);
        }
    }

    /// The program has ended.
    pub fn end_program(&mut self) {
        self.left = Some(if self.hung_up { 0 } else { HELD });
        self.input = Buffer::default();
    }

    /// Whether the program has ended and all its output was passed on.
    pub fn is_over(&self) -> bool {
        self.left == Some(0) && self.output.is_empty()
    }

    fn is_closing(&self) -> bool {
        self.hung_up || self.left.is_some()
    }
}

/// A queue of at most [`CAPACITY`] bytes.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    fn room(&self) -> usize {
        CAPACITY - self.bytes().len()
    }

    fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.begin >= CAPACITY {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self, count: usize) {
        self.begin = (self.begin + count).min(self.bytes.len());
        if self.begin == self.bytes.len() {
            self.bytes.clear();
            self.begin = 0;
        }
    }
}

#[cfg(test)]
mod tests;
