//! Command lines: made from a template and an input, and taken apart if no shell is needed.

use std::borrow::Cow;

use crate::shell::{self, Stand};

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
    quote_always(text, out);
}

fn quote_always(text: &[u8], out: &mut Vec<u8>) {
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

/// Why an input cannot stand where a template has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{{}} stands where a shell would execute $(...) and backquotes of an input. {}",
    advice(.0)
)]
pub struct UnsafePlace(
    /// The command line that does the same and is safe.
    pub Option<Vec<u8>>,
);

fn advice(works: &Option<Vec<u8>>) -> String {
    works.as_ref().map_or_else(
        || "This gives a script the input as $1: mpdfarm sh -c 'SCRIPT' sh {}".to_owned(),
        |works| format!("This works: mpdfarm {}", String::from_utf8_lossy(works)),
    )
}

/// Names of shells, whose `-c` is followed by a script.
const SHELLS: [&[u8]; 10] =
    [b"ash", b"bash", b"csh", b"dash", b"fish", b"ksh", b"mksh", b"sh", b"tcsh", b"zsh"];

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
    ///
    /// # Errors
    /// [`UnsafePlace`]: an input would be executed.
    pub fn new(arguments: &[Vec<u8>]) -> Result<Self, UnsafePlace> {
        let mut split: Vec<Vec<Part>> = arguments.iter().map(|argument| parts(argument)).collect();
        let has_input = split.iter().flatten().any(|part| *part == Part::Input);
        if let [argument] = arguments {
            let line = if has_input { argument.clone() } else { [&argument[..], b" {}"].concat() };
            check_line(&line)?;
            return Ok(Self { parts: parts(&line), words: Vec::new() });
        }
        check_scripts(arguments)?;
        if !has_input {
            split.push(vec![Part::Input]);
        }
        Ok(Self { parts: Vec::new(), words: split })
    }

    /// The command line for an input.
    pub fn line(&self, number: u64, input: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let number = number.to_string();
            let text = match part {
                Part::Text(text) => {
                    line.extend_from_slice(text);
                    continue;
                }
                Part::Input => input,
                Part::Number => number.as_bytes(),
            };
            let behind = self.parts.get(at + 1);
            let redirects = |it: &Part| matches!(it, Part::Text(text) if text.starts_with(b">") || text.starts_with(b"<"));
            if behind.is_some_and(redirects) {
                // Digits alone would be the number of a descriptor.
                quote_always(text, &mut line);
            } else {
                quote(text, &mut line);
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

/// Checks the places of inputs in a line for a shell.
fn check_line(line: &[u8]) -> Result<(), UnsafePlace> {
    if shell::stands(line).iter().all(|(_, stand)| *stand == Stand::Free) {
        return Ok(());
    }
    let works = shell::outside_of_quotes(line).filter(|line| check_line(line).is_ok());
    Err(UnsafePlace(works.map(|line| shown(&[line]))))
}

/// Checks the scripts that shells get as arguments. An input that is a whole script was meant so.
fn check_scripts(arguments: &[Vec<u8>]) -> Result<(), UnsafePlace> {
    let is_shell = |word: &Vec<u8>| {
        word.rsplit(|byte| *byte == b'/').next().is_some_and(|name| SHELLS.contains(&name))
    };
    let takes_script = |word: &Vec<u8>| matches!(&word[..], [b'-', letters @ .., b'c'] if letters.iter().all(u8::is_ascii_alphabetic));
    let Some(shell) = arguments.iter().position(is_shell) else { return Ok(()) };
    let Some(option) = arguments[shell..].iter().position(takes_script) else { return Ok(()) };
    let at = shell + option + 1;
    let Some(script) = arguments.get(at) else { return Ok(()) };
    if script == b"{}" || !script.windows(2).any(|two| two == b"{}") {
        return Ok(());
    }
    // With further arguments, $1 is one of the user's.
    let works = shell::with_argument(script).filter(|_| arguments.len() == at + 1);
    Err(UnsafePlace(works.map(|script| {
        let mut words = arguments[..at].to_vec();
        words.extend([script, b"sh".to_vec(), b"{}".to_vec()]);
        shown(&words)
    })))
}

/// The words as a user types them. Braces do not need quotes.
fn shown(words: &[Vec<u8>]) -> Vec<u8> {
    let mut line = Vec::new();
    for word in words {
        if !line.is_empty() {
            line.push(b' ');
        }
        if word == b"{}" { line.extend_from_slice(word) } else { quote(word, &mut line) }
    }
    line
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
