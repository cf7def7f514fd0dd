//! A program that was started alone and calls for us: `-pmi_args PORT INTERFACE KEY PID`.
//!
//! Its MPI library has forked a child, which runs us, and waits at a port for us to connect. We find out who
//! is there, and submit it as the one rank of a job: whoever manages that gets our connection and a
//! descriptor that means this process and no other.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mpd_io::farend::FarEnd;
use mpd_io::pidfd::Pidfd;
use mpd_io::terminal;
use mpd_wire::RankSet;
use mpd_wire::job::JobSpec;
use nix::unistd::{Pid, geteuid};
use pmi_proto::singleton;

use crate::options::Key;
use crate::scan::{Section, Setting};
use crate::usage::Usage;

/// What stands in a specification until it is known which program called.
const UNKNOWN: &str = "(unknown)";

/// How long the program may take to answer: it waits for us and does nothing else.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer.
const MAX_ANSWER: usize = 1024;

/// What makes no sense for a program that runs already.
const MEANINGLESS: [Key; 8] = [
    Key::ConfigFile,
    Key::Host,
    Key::Merge,
    Key::Preload,
    Key::Processes,
    Key::Soft,
    Key::Stdin,
    Key::StdinSwitch,
];

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where it waits.
    port: u16,
    /// The process that became us, a child of the one that calls.
    child: Pid,
}

/// The program, found and proven.
#[derive(Debug)]
pub struct Adopted {
    /// Our connection, on which it awaits the name of its key-value space.
    pub(crate) pmi: OwnedFd,
    /// The process at its other end.
    pub(crate) process: OwnedFd,
}

impl Call {
    /// The call in these sections, which are those of a job with a program then.
    pub(crate) fn take(sections: &mut [Section]) -> Result<Option<Self>, Usage> {
        let is_call = |setting: &&Setting| setting.opt.key == Key::Singleton;
        let found = sections.iter().flat_map(|section| &section.settings).find(is_call);
        let Some(call) = found.map(Self::parse).transpose()? else { return Ok(None) };
        let [section] = sections else {
            return Err(Usage::syntax("-pmi_args is for one program, which runs already"));
        };
        if let Some(program) = section.program.as_ref().and_then(|words| words.first()) {
            let text = format!("-pmi_args is for a program that runs already, not for {program:?}");
            return Err(Usage::syntax(text));
        }
        let mut settings = section.settings.iter();
        if let Some(setting) = settings.find(|s| MEANINGLESS.contains(&s.opt.key)) {
            let text = format!("{} makes no sense with -pmi_args", setting.name());
            return Err(Usage::syntax(text));
        }
        section.program = Some(vec![UNKNOWN.into()]);
        Ok(Some(call))
    }

    fn parse(setting: &Setting) -> Result<Self, Usage> {
        let [port, _interface, _key, child] = &setting.values[..] else {
            return Err(setting.error("a port, two words and a process id are expected"));
        };
        let port = number(port).and_then(|port| u16::try_from(port).ok());
        let child = number(child).and_then(|pid| i32::try_from(pid).ok());
        Ok(Self {
            port: port.ok_or_else(|| setting.error("the first value is no port"))?,
            child: child
                .map(Pid::from_raw)
                .ok_or_else(|| setting.error("the last is no process"))?,
        })
    }

    /// Connects to the program, and makes `spec` tell of it.
    ///
    /// # Errors
    /// Nobody is there, does not speak PMI, or is not the process that has started us.
    pub fn answer(&self, spec: &mut JobSpec) -> Result<Adopted> {
        let port = self.port;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let whom = || format!("the program that called, at port {port}");
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)
            .with_context(|| format!("cannot connect to {}", whom()))?;
        // Questions and answers, each waited for.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(singleton::GREETING).with_context(whom)?;
        let line = read_line(&mut stream).with_context(|| format!("no answer from {}", whom()))?;
        singleton::check(&line).with_context(whom)?;
        let (pid, process) = self.find(&stream).with_context(whom)?;
        describe(pid, spec);
        Ok(Adopted { pmi: stream.into(), process: process.into() })
    }

    /// The process at the other end. It has answered, so it has accepted the connection.
    fn find(&self, stream: &TcpStream) -> Result<(Pid, Pidfd)> {
        let far = FarEnd::of(stream)?;
        if far.uid != geteuid().as_raw() {
            bail!("it belongs to another user");
        }
        // The child that was forked for us runs us, or a script in our name that does.
        let parent = terminal::parent_of(self.child).context("the process that called is gone")?;
        for pid in [parent, self.child] {
            let Ok(process) = Pidfd::open(pid) else { continue };
            let is_held = match far.is_held_by(pid) {
                // Who may not be looked at can still be our own parent, and is of our user.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => pid == Pid::parent(),
                result => result.unwrap_or(false),
            };
            // It has lived until now, so it was looked at and no other of its number.
            if is_held && !process.is_over() {
                return Ok((pid, process));
            }
        }
        bail!("it is not the program that has started this process")
    }
}

/// What a specification must be for a program that runs already.
pub(crate) fn prepare(spec: &mut JobSpec) {
    spec.adopted = true;
    spec.stdin = RankSet::none();
    for argset in &mut spec.argsets {
        argset.size = 1;
    }
}

/// Tells the program's name and arguments, for those who list jobs.
fn describe(pid: Pid, spec: &mut JobSpec) {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let file = fs::read_link(format!("/proc/{pid}/exe"));
    let file = file.map(|path| path.into_os_string().into_vec()).unwrap_or_default();
    if let Some(argset) = spec.argsets.first_mut() {
        let named = words.first().filter(|name| !name.is_empty()).cloned();
        argset.program = named.filter(|_| file.is_empty()).unwrap_or(file);
        // Behind the last there is one more end.
        argset.args = words.get(1..words.len().saturating_sub(1)).unwrap_or_default().to_vec();
        if argset.program.is_empty() {
            argset.program = UNKNOWN.into();
        }
    }
}

/// Reads one line and nothing behind it.
fn read_line(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_ANSWER {
        match stream.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte == *b"\n" => return Ok(line),
            Ok(_) => line.extend(byte),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(line)
}

/// A positive number.
fn number(word: &OsStr) -> Option<u32> {
    let is_number = word.as_bytes().iter().all(u8::is_ascii_digit);
    word.to_str().filter(|_| is_number)?.parse().ok().filter(|&number| number > 0)
}
