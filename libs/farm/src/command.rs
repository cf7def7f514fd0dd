//! Command lines: made from a template and an input, and taken apart if no shell is needed.

use std::borrow::Cow;

/// Words that a shell understands as a first word, and not as a program. Left out are those whose programs do the same.
const BUILTINS: [&str; 55] = [
    ".", ":", "[", "alias", "bg", "break", "builtin", "case", "cd", "chdir", "command", "continue",
    "declare", "do", "done", "echo", "elif", "else", "esac", "eval", "exec", "exit", "export",
    "fc", "fg", "fi", "for", "function", "getopts", "hash", "if", "in", "jobs", "kill", "local",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "source", "test", "then",
    "time", "times", "trap", "type", "ulimit", "umask", "unset", "until", "wait", "while",
];

/// Whether a byte has no meaning for a shell, wherever it stands.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(byte, b'_' | b'.' | b'/' | b':' | b',' | b'+' | b'@' | b'%' | b'-')
}

/// The words of a command line that a shell would only split. `None` if a shell must run it. Parts in single quotes are
/// understood.
pub fn words(line: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut words: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut rest = after_spaces(line);
    while !rest.is_empty() {
        let (word, behind) = word(rest, words.is_empty())?;
        words.push(word);
        rest = after_spaces(behind);
    }
    let first = std::str::from_utf8(words.first()?).unwrap_or_default();
    (!first.starts_with('-') && BUILTINS.binary_search(&first).is_err()).then_some(words)
}

fn after_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[spaces..]
}

/// The first word, and what follows it.
fn word(text: &[u8], first: bool) -> Option<(Cow<'_, [u8]>, &[u8])> {
    // An equals sign in the first word makes it an assignment.
    let plain = |byte: u8| is_plain(byte) || (byte == b'=' && !first);
    let length = text.iter().position(|byte| !plain(*byte)).unwrap_or(text.len());
    match text.get(length) {
        None | Some(b' ' | b'\t') => {
            return Some((Cow::Borrowed(&text[..length]), &text[length..]));
        }
        Some(b'\'') => {}
        Some(_) => return None,
    }
    let (mut made, mut rest) = (text[..length].to_vec(), &text[length..]);
    loop {
        match rest {
            [] | [b' ' | b'\t', ..] => return Some((Cow::Owned(made), rest)),
            [b'\'', quoted @ ..] => {
                let end = quoted.iter().position(|byte| *byte == b'\'')?;
                made.extend_from_slice(&quoted[..end]);
                rest = &quoted[end + 1..];
            }
            [byte, behind @ ..] if plain(*byte) => {
                made.push(*byte);
                rest = behind;
            }
            _ => return None,
        }
    }
}

/// Appends a text so that a shell takes it as one word, as it is.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() && text.iter().all(|byte| is_plain(*byte)) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'\'');
    for byte in text {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// `{}`
    Input,
    /// `{#}`
    Number,
}

/// A command with places for an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    /// Whether the command is for a shell. Otherwise each word is a list of parts up to the next space.
    words: Vec<Vec<Part>>,
}

impl Template {
    /// A template. One argument is a line for a shell. Several arguments are the words of a command, which no shell
    /// changes. `{}` is the input and `{#}` the number of the task. Without `{}` the input is the last word.
    pub fn new(arguments: &[Vec<u8>]) -> Self {
        let mut split: Vec<Vec<Part>> = arguments.iter().map(|argument| parts(argument)).collect();
        let has_input = split.iter().flatten().any(|part| *part == Part::Input);
        if let [line] = &mut split[..] {
            if !has_input {
                line.extend([Part::Text(b" ".to_vec()), Part::Input]);
            }
            return Self { parts: std::mem::take(line), words: Vec::new() };
        }
        if !has_input {
            split.push(vec![Part::Input]);
        }
        Self { parts: Vec::new(), words: split }
    }

    /// The command line for an input.
    pub fn line(&self, number: u64, input: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => line.extend_from_slice(text),
                Part::Input => quote(input, &mut line),
                Part::Number => line.extend_from_slice(number.to_string().as_bytes()),
            }
        }
        for word in &self.words {
            let mut made = Vec::new();
            for part in word {
                match part {
                    Part::Text(text) => made.extend_from_slice(text),
                    Part::Input => made.extend_from_slice(input),
                    Part::Number => made.extend_from_slice(number.to_string().as_bytes()),
                }
            }
            if !line.is_empty() {
                line.push(b' ');
            }
            quote(&made, &mut line);
        }
        line
    }
}

fn parts(mut text: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = Vec::new();
    while let [first, behind @ ..] = text {
        let (part, rest) = if let Some(rest) = text.strip_prefix(b"{}") {
            (Part::Input, rest)
        } else if let Some(rest) = text.strip_prefix(b"{#}") {
            (Part::Number, rest)
        } else {
            plain.push(*first);
            text = behind;
            continue;
        };
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(part);
        text = rest;
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    parts
}
