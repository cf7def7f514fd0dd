//! A program that was started without mpirun and calls it: `-pmi_args PORT INTERFACE KEY PID`.
//!
//! The program's MPI library forks a child, which runs mpirun. The program waits at a port for a
//! connection of mpirun. mpirun identifies the program and submits it as the only rank of a job.
//! The job's manager gets the connection and a descriptor of the process.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mpd_io::network::far_end::FarEnd;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::terminal::controlling;
use mpd_wire::RankSet;
use mpd_wire::job::JobSpec;
use nix::unistd::{Pid, geteuid};
use pmi_proto::singleton;

use crate::options::Key;
use crate::scan::{Section, Setting};
use crate::usage::Usage;

/// Name in a specification until the calling program is known.
const UNKNOWN: &str = "(unknown)";

/// Deadline for an answer of the program, which does nothing else than wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer.
const MAX_ANSWER: usize = 1024;

/// Options that cannot apply to a running program.
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

/// A call of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Port at which the program waits.
    port: u16,
    /// The process that became mpirun, a child of the calling program.
    child: Pid,
}

/// The identified program.
#[derive(Debug)]
pub struct Adopted {
    /// The connection on which the program waits for the name of its key-value space.
    pub(crate) pmi: OwnedFd,
    /// Descriptor of the program's process.
    pub(crate) process: OwnedFd,
}

impl Call {
    /// The call in these sections. If there is one, the sections get a program.
    pub(crate) fn take(sections: &mut [Section]) -> Result<Option<Self>, Usage> {
        let is_call = |setting: &&Setting| setting.opt.key == Key::Singleton;
        let found = sections.iter().flat_map(|section| &section.settings).find(is_call);
        let Some(call) = found.map(Self::parse).transpose()? else { return Ok(None) };
        let [section] = sections else {
            return Err(Usage::syntax("-pmi_args is for one program, which runs already"));
        };
        if let Some(program) = section.program.as_ref().and_then(|arguments| arguments.first()) {
            let text = format!("-pmi_args is for a running program, not for {program:?}");
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

    /// Connects to the program, and adds its name to `spec`.
    ///
    /// # Errors
    /// No process listens, the peer does not speak PMI, or it is not the process that started
    /// mpirun.
    pub fn answer(&self, spec: &mut JobSpec) -> Result<Adopted> {
        let port = self.port;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let program = || format!("the program that called, at port {port}");
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)
            .with_context(|| format!("cannot connect to {}", program()))?;
        // Each message waits for its answer.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(singleton::GREETING).with_context(program)?;
        let line =
            read_line(&mut stream).with_context(|| format!("no answer from {}", program()))?;
        singleton::check(&line).with_context(program)?;
        let (pid, process) = self.find(&stream).with_context(program)?;
        describe(pid, spec);
        Ok(Adopted { pmi: stream.into(), process: process.into() })
    }

    /// Finds the process of the peer. It has answered, so it has accepted the connection.
    fn find(&self, stream: &TcpStream) -> Result<(Pid, Pidfd)> {
        let far = FarEnd::of(stream)?;
        if far.uid != geteuid().as_raw() {
            bail!("it belongs to another user");
        }
        // The forked child runs mpirun, or a script that runs mpirun.
        let parent =
            controlling::parent_of(self.child).context("the process that called is gone")?;
        for pid in [parent, self.child] {
            let Ok(process) = Pidfd::open(pid) else { continue };
            let is_held = match far.is_held_by(pid) {
                // A process whose descriptors cannot be read may still be the parent, and belongs
                // to the same user.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => pid == Pid::parent(),
                result => result.unwrap_or(false),
            };
            // The process still lives, so its process id was not used again during the check.
            if is_held && !process.is_over() {
                return Ok((pid, process));
            }
        }
        bail!("it is not the program that has started this process")
    }
}

/// Changes a specification for a running program.
pub(crate) fn prepare(spec: &mut JobSpec) {
    spec.adopted = true;
    spec.stdin = RankSet::none();
    for argset in &mut spec.argsets {
        argset.size = 1;
    }
}

/// Adds the program's name and arguments, which tools list.
fn describe(pid: Pid, spec: &mut JobSpec) {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments: Vec<_> = arguments.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let file = fs::read_link(format!("/proc/{pid}/exe"));
    let file = file.map(|path| path.into_os_string().into_vec()).unwrap_or_default();
    if let Some(argset) = spec.argsets.first_mut() {
        let named = arguments.first().filter(|name| !name.is_empty()).cloned();
        argset.program = named.filter(|_| file.is_empty()).unwrap_or(file);
        // The last argument ends with a separator, too.
        argset.args =
            arguments.get(1..arguments.len().saturating_sub(1)).unwrap_or_default().to_vec();
        if argset.program.is_empty() {
            argset.program = UNKNOWN.into();
        }
    }
}

/// Reads exactly one line.
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

/// Parses a positive number.
fn number(word: &OsStr) -> Option<u32> {
    let is_number = word.as_bytes().iter().all(u8::is_ascii_digit);
    word.to_str().filter(|_| is_number)?.parse().ok().filter(|&number| number > 0)
}
