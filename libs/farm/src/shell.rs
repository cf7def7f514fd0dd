//! The places of inputs in a line for a shell. An input is put there in single quotes. That protects it only where the
//! quotes begin: inside the user's own quotes they would be text, and the shell would execute `$(…)` of the input.
//!
//! A place that is not understood for certain is refused. Bash and dash differ in some places; then the worse one counts.

/// How `{}` stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Outside of quotes: the input arrives as it is.
    Free,
    /// Inside double quotes, and in nothing else.
    Double,
    /// Inside single quotes.
    Single,
    /// At a place where the shell evaluates more than words, or that is not understood.
    Unclear,
}

/// What encloses a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// `"…"`
    Double,
    /// `$(…)`, with the open parentheses in it.
    Command(usize),
    /// `${…}`
    Parameter,
    /// `$((…))` or `((…))`, with the open parentheses in it.
    Arithmetic(usize),
    Backquotes,
}

/// See the module.
#[derive(Debug)]
struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
    around: Vec<Around>,
    /// A here-document follows after the next newline.
    here: bool,
    /// The rest is not understood.
    unclear: bool,
    found: Vec<(usize, Stand)>,
}

/// The places of `{}` in a line, in their order, and how each of them stands.
pub(crate) fn stands(line: &[u8]) -> Vec<(usize, Stand)> {
    let mut scanner =
        Scanner { line, at: 0, around: Vec::new(), here: false, unclear: false, found: Vec::new() };
    while scanner.at < line.len() {
        scanner.step();
    }
    scanner.found
}

impl Scanner<'_> {
    fn follows(&self, text: &[u8]) -> bool {
        self.line[self.at..].starts_with(text)
    }

    fn before(&self) -> Option<u8> {
        self.at.checked_sub(1).map(|at| self.line[at])
    }

    fn enter(&mut self, around: Around, length: usize) {
        self.around.push(around);
        self.at += length;
    }

    fn leave(&mut self, length: usize) {
        self.around.pop();
        self.at += length;
    }

    fn step(&mut self) {
        if self.follows(b"{}") {
            return self.input();
        }
        let around = self.around.last().copied();
        match (around, self.line[self.at]) {
            (_, b'\\') => {
                // The opening quote of an input would be the escaped character.
                self.unclear |= self.line[self.at + 1..].starts_with(b"{}");
                self.at += if self.unclear { 1 } else { 2 };
            }
            (Some(Around::Backquotes), b'`') => self.leave(1),
            (Some(Around::Backquotes), _) => self.at += 1,
            (_, b'`') => self.enter(Around::Backquotes, 1),
            (_, b'$') => self.dollar(around),
            (Some(Around::Double), b'"') => self.leave(1),
            (Some(Around::Double), _) => self.at += 1,
            (Some(Around::Parameter), b'}') => self.leave(1),
            // Quotes mean different things there.
            (Some(Around::Parameter | Around::Arithmetic(_)), b'\'' | b'"') => {
                self.unclear = true;
                self.at += 1;
            }
            (Some(Around::Arithmetic(open)), b'(' | b')') => self.parenthesis(open, true),
            (Some(Around::Parameter | Around::Arithmetic(_)), _) => self.at += 1,
            (Some(Around::Command(open)), b')') => self.parenthesis(open, false),
            _ => self.plain(around),
        }
    }

    fn input(&mut self) {
        let stand = match self.around.last() {
            _ if self.unclear || self.before() == Some(b'$') => Stand::Unclear,
            None | Some(Around::Command(_)) => Stand::Free,
            Some(Around::Double) => match self.around.iter().rev().nth(1) {
                None | Some(Around::Command(_)) => Stand::Double,
                Some(_) => Stand::Unclear,
            },
            Some(_) => Stand::Unclear,
        };
        self.found.push((self.at, stand));
        self.at += 2;
    }

    fn dollar(&mut self, around: Option<Around>) {
        let is_free = matches!(around, None | Some(Around::Command(_)));
        if self.follows(b"$((") {
            self.enter(Around::Arithmetic(0), 3);
        } else if self.follows(b"$(") {
            self.enter(Around::Command(0), 2);
        } else if self.follows(b"${}") {
            self.at += 1;
        } else if self.follows(b"${") {
            self.enter(Around::Parameter, 2);
        } else if self.follows(b"$[") || (is_free && self.follows(b"$'")) {
            self.unclear = true;
            self.at += 1;
        } else {
            self.at += 1;
        }
    }

    /// A parenthesis in a command or in arithmetic that has so many open ones.
    fn parenthesis(&mut self, open: usize, arithmetic: bool) {
        let opens = self.line[self.at] == b'(';
        let open = match (opens, open) {
            (true, open) => open + 1,
            (false, 0) if arithmetic && self.follows(b"))") => return self.leave(2),
            (false, 0) => {
                // These were two commands in parentheses.
                self.unclear |= arithmetic;
                return self.leave(1);
            }
            (false, open) => open - 1,
        };
        let around = if arithmetic { Around::Arithmetic(open) } else { Around::Command(open) };
        if let Some(last) = self.around.last_mut() {
            *last = around;
        }
        self.at += 1;
    }

    /// A byte of a command, outside of quotes.
    fn plain(&mut self, around: Option<Around>) {
        let starts_word = self.before().is_none_or(|byte| b" \t\n;&|()".contains(&byte));
        match self.line[self.at] {
            b'\'' => self.single(),
            b'"' => self.enter(Around::Double, 1),
            b'#' if starts_word => {
                let rest = &self.line[self.at..];
                let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                // An input is one line, so it stays in the comment.
                let inputs = rest[..end].windows(2).enumerate();
                let inputs = inputs.filter(|(_, two)| two == b"{}").map(|(at, _)| self.at + at);
                self.found.extend(inputs.map(|at| (at, Stand::Free)));
                self.at += end;
            }
            b'\n' => {
                self.unclear |= self.here;
                self.at += 1;
            }
            b'<' if self.follows(b"<<<") => self.at += 3,
            b'<' if self.follows(b"<<") => {
                self.here = true;
                self.at += 2;
            }
            b'(' if self.follows(b"((") => self.enter(Around::Arithmetic(0), 2),
            b'(' => match around {
                Some(Around::Command(open)) => self.parenthesis(open, false),
                _ => self.at += 1,
            },
            // Its patterns have parentheses without a partner.
            b'c' if around.is_some() && starts_word && self.follows(b"case") => {
                self.unclear = true;
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    fn single(&mut self) {
        let begin = self.at + 1;
        let rest = &self.line[begin..];
        let end = rest.iter().position(|byte| *byte == b'\'');
        // A quote that is not closed makes the line an error, but the quote of an input would close it.
        let length = end.unwrap_or(rest.len());
        let stand = if end.is_some() && !self.unclear { Stand::Single } else { Stand::Unclear };
        let inputs = rest[..length].windows(2).enumerate().filter(|(_, two)| two == b"{}");
        self.found.extend(inputs.map(|(at, _)| (begin + at, stand)));
        self.at = begin + length + 1;
    }
}

/// Where quotes stood around an input, the line without them there. `None` if the place of an input is unclear.
pub(crate) fn outside_of_quotes(line: &[u8]) -> Option<Vec<u8>> {
    rewritten(line, |stand, out, behind| match stand {
        Stand::Free => {
            out.extend_from_slice(b"{}");
            Some(0)
        }
        Stand::Double => Some(reopened(b'"', out, behind)),
        Stand::Single => Some(reopened(b'\'', out, behind)),
        Stand::Unclear => None,
    })
}

/// The line with the first argument of a script in the places of the input.
pub(crate) fn with_argument(line: &[u8]) -> Option<Vec<u8>> {
    rewritten(line, |stand, out, _| {
        let text: &[u8] = match stand {
            Stand::Free => b"\"$1\"",
            Stand::Double => b"$1",
            Stand::Single => b"'\"$1\"'",
            Stand::Unclear => return None,
        };
        out.extend_from_slice(text);
        Some(0)
    })
}

/// Each `{}` is replaced by a function, which appends to what is before and returns how many bytes behind it are left out.
fn rewritten(
    line: &[u8],
    put: impl Fn(Stand, &mut Vec<u8>, &[u8]) -> Option<usize>,
) -> Option<Vec<u8>> {
    let (mut out, mut done) = (Vec::new(), 0);
    for (at, stand) in stands(line) {
        out.extend_from_slice(&line[done..at]);
        done = at + 2 + put(stand, &mut out, &line[at + 2..])?;
    }
    out.extend_from_slice(&line[done..]);
    Some(out)
}

/// Closes the quotes before an input and opens them behind it; empty quotes are left out.
fn reopened(quote: u8, out: &mut Vec<u8>, behind: &[u8]) -> usize {
    if out.ends_with(&[quote]) && !out.ends_with(&[b'\\', quote]) {
        out.pop();
    } else {
        out.push(quote);
    }
    out.extend_from_slice(b"{}");
    if behind.first() == Some(&quote) {
        return 1;
    }
    out.push(quote);
    0
}
