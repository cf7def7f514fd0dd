//! gdb's texts without the differences between ranks that do the same.

/// The replacement of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Normal {
    Same,
    Instead(Vec<u8>),
    Nothing,
}

/// Beginnings of lines that contain only numbers of processes and threads.
const NUMBERS_ALONE: [&[u8]; 5] =
    [b"[Detaching ", b"[Attaching after ", b"[New Thread ", b"[New LWP ", b"[New inferior "];

/// Lines about gdb's own libraries, printed whenever a program with threads starts.
const NOISE: [&[u8]; 2] =
    [b"[Thread debugging using libthread_db enabled]", b"Using host libthread_db library "];

/// Beginnings of lines before which gdb prints an empty line, to separate them from the program's
/// output on the same terminal. Here each line has its label.
const PARTED: [&[u8]; 9] = [
    b"Breakpoint ",
    b"Catchpoint ",
    b"Hardware ",
    b"Old value = ",
    b"Program ",
    b"Temporary ",
    b"Thread ",
    b"Value = ",
    b"Watchpoint ",
];

/// Whether an empty line before this line is left out.
pub(super) fn is_parted(line: &[u8]) -> bool {
    PARTED.iter().any(|begin| line.starts_with(begin))
}

/// Whether gdb reports here that SIGKILL ended the program.
pub(super) fn is_of_a_kill(line: &[u8]) -> bool {
    line.is_empty()
        || line.starts_with(b"Program terminated with signal SIGKILL")
        || line == b"The program no longer exists."
}

pub(super) fn normal(line: &[u8]) -> Normal {
    if NUMBERS_ALONE.iter().chain(&NOISE).any(|begin| line.starts_with(begin))
        || is_end_of_thread(line)
    {
        return Normal::Nothing;
    }
    if let Some(text) = of_first_thread(line) {
        return Normal::Instead(text);
    }
    if line.starts_with(b"Starting program: ") {
        return Normal::Instead(line.trim_ascii_end().to_vec());
    }
    if let Some(text) = end_of_program(line) {
        return Normal::Instead(text);
    }
    if line.starts_with(b"Attaching to ") || line.starts_with(b"Detaching from ") {
        return Normal::Instead(without_process(line));
    }
    without_lwp(line).map_or(Normal::Same, Normal::Instead)
}

/// `[Thread 0x7ffff7d8d6c0 (LWP 12) exited]`
fn is_end_of_thread(line: &[u8]) -> bool {
    (line.starts_with(b"[Thread ") || line.starts_with(b"[LWP ")) && line.ends_with(b" exited]")
}

/// `Thread 1 "t" hit Breakpoint 1, …` and similar lines, written as for a program without other
/// threads. Libraries start threads that the user does not know.
fn of_first_thread(line: &[u8]) -> Option<Vec<u8>> {
    let named = line.strip_prefix(b"Thread 1 \"")?;
    let behind = |end: &[u8]| memchr::memmem::find(named, end).map(|at| &named[at + 2..]);
    if let Some(what) = behind(b"\" hit ") {
        return Some(what[b"hit ".len()..].to_vec());
    }
    let what = behind(b"\" received signal ").or_else(|| behind(b"\" stopped"))?;
    Some([b"Program ", what].concat())
}

/// `[Inferior 1 (process 12) exited with code 03]`; the code is octal.
fn end_of_program(line: &[u8]) -> Option<Vec<u8>> {
    let inside = line.strip_prefix(b"[Inferior ")?.strip_suffix(b"]")?;
    let at = memchr::memmem::find(inside, b") ")?;
    let what = &inside[at + 2..];
    let code = what.strip_prefix(b"exited with code ").and_then(octal);
    let what = match code {
        Some(code) => format!("exited with code {code}").into_bytes(),
        None => what.to_vec(),
    };
    Some([b"[program ", &what[..], b"]"].concat())
}

/// A number in the octal form in which gdb writes exit codes.
pub(super) fn octal(digits: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// `Attaching to process 12`, `Detaching from program: /bin/t, process 12`
fn without_process(line: &[u8]) -> Vec<u8> {
    let Some(at) = memchr::memmem::rfind(line, b"process ") else { return line.to_vec() };
    let (before, number) = (&line[..at], &line[at + b"process ".len()..]);
    if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
        return line.to_vec();
    }
    match before.strip_suffix(b", ") {
        Some(before) => before.to_vec(),
        None => [before, b"the process"].concat(),
    }
}

/// Removes each ` (LWP 12)`; `None` if there is none.
fn without_lwp(line: &[u8]) -> Option<Vec<u8>> {
    const OPEN: &[u8] = b" (LWP ";
    let mut text = Vec::new();
    let mut rest = line;
    while let Some(at) = memchr::memmem::find(rest, OPEN) {
        let behind = &rest[at + OPEN.len()..];
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 && behind.get(digits) == Some(&b')') {
            text.extend(&rest[..at]);
            rest = &behind[digits + 1..];
        } else {
            text.extend(&rest[..at + OPEN.len()]);
            rest = behind;
        }
    }
    text.extend(rest);
    (text.len() < line.len()).then_some(text)
}
