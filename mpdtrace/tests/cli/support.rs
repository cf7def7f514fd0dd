//! A simulated daemon that answers as a test prescribes, and the tools that run against it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use mpd_io::network::conn::{Conn, Filled};
use mpd_wire::message::{ConsoleReply, Happening, MemberView, Opening, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Instance, Standing, frame};
use tempfile::TempDir;

/// Text that would write over a terminal line or forge a message.
pub(crate) const NAUGHTY: &str = "x\nmpdtrace: FAKE \u{1b}]0;t\u{7}\u{9b}";

/// Steps of the daemon on a connection; after the last step it closes the connection.
pub(crate) enum Act {
    Say(ConsoleReply),
    Bytes(Vec<u8>),
    /// Sends nothing until the console closes.
    Hold,
    /// Sends nothing until the test sets the flag.
    Until(Arc<AtomicBool>),
}

type Script = Box<dyn FnMut(&RingRequest) -> Vec<Act> + Send>;

pub(crate) struct Daemon {
    directory: TempDir,
    asked: Arc<Mutex<Vec<RingRequest>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(crate) fn new(script: impl FnMut(&RingRequest) -> Vec<Act> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rundir = directory.path().join("r");
        std::fs::DirBuilder::new().mode(0o700).create(&rundir).unwrap();
        let listener = UnixListener::bind(rundir.join("mpd.sock")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(AtomicBool::new(false));
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let (shared, end) = (Arc::clone(&asked), Arc::clone(&over));
        let thread = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (script, asked) = (Arc::clone(&script), Arc::clone(&shared));
                thread::spawn(move || serve(stream, &script, &asked));
            }
        });
        Self { directory, asked, over, thread: Some(thread) }
    }

    /// A daemon that reports the ring and sends laps round it.
    pub(crate) fn of(view: RingView) -> Self {
        Self::new(move |request| match request {
            RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
            RingRequest::Lap { .. } => vec![Act::Say(home(&way(&view)))],
            _ => vec![],
        })
    }

    /// A daemon that reports the ring and confirms all other requests. No answer came from `missing`.
    pub(crate) fn confirming(view: RingView, missing: &'static [&'static str]) -> Self {
        Self::new(move |request| match request {
            RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
            _ => done(missing),
        })
    }

    pub(crate) fn rundir(&self) -> PathBuf {
        self.directory.path().join("r")
    }

    pub(crate) fn asked(&self) -> Vec<RingRequest> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        run(program, &self.rundir(), arguments)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(self.rundir().join("mpd.sock"));
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(stream: UnixStream, script: &Mutex<Script>, asked: &Mutex<Vec<RingRequest>>) {
    let mut conn = Conn::new(stream);
    let Ok(request) = receive(&mut conn) else { return };
    asked.lock().unwrap().push(request.clone());
    let acts = script.lock().unwrap()(&request);
    for act in acts {
        match act {
            Act::Say(reply) => {
                conn.send(&reply);
                let _ = conn.flush_blocking();
            }
            Act::Bytes(bytes) => {
                let mut stream = io::Cursor::new(bytes);
                let mut socket = io::BufWriter::new(RawSocket(&conn));
                let _ = io::copy(&mut stream, &mut socket);
            }
            Act::Hold => while !matches!(conn.wait(1000), Ok(Some(Filled::Closed)) | Err(_)) {},
            Act::Until(flag) => {
                while !flag.load(Ordering::SeqCst) {
                    let _ = conn.wait(10);
                }
            }
        }
    }
}

/// Bytes that are no frames.
struct RawSocket<'a>(&'a Conn);

impl io::Write for RawSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nix::unistd::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The request of a console; an error for a console that only tests the connection.
fn receive(conn: &mut Conn) -> Result<RingRequest, ()> {
    loop {
        if let Some((_, payload)) = conn.next_frame().map_err(drop)? {
            return match frame::decode_message(payload).map_err(drop)? {
                Opening::Ring { request, .. } => Ok(request),
                Opening::Status { .. } => {
                    conn.send(&ConsoleReply::Refused { problem: "busy".into() });
                    conn.flush_blocking().map_err(drop)?;
                    Err(())
                }
                other => panic!("no console says {other:?}"),
            };
        }
        if matches!(conn.wait(10_000), Ok(Some(Filled::Closed)) | Err(_)) {
            return Err(());
        }
    }
}

/// The result of a tool.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ran = Self {
            code: output.status.code().unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        for text in [&ran.out, &ran.err] {
            let raw = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(raw, None, "a raw control character in {text:?}");
        }
        ran
    }

    /// Expects code 0 and an empty standard error; returns standard output.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// Expects code 1 and lines of standard error that begin with the tool's name; returns them.
    #[track_caller]
    pub(crate) fn bad(self, program: &str) -> String {
        assert_eq!(self.code, 1, "{}{}", self.out, self.err);
        assert!(!self.err.is_empty());
        for line in self.err.lines() {
            assert!(line.starts_with(&format!("{program}: ")), "{line}");
        }
        self.err
    }
}

pub(crate) fn command(program: &str, rundir: &Path, arguments: &[&str]) -> Command {
    // The build script links the other names beside it.
    let path = Path::new(env!("CARGO_BIN_EXE_mpdtrace")).with_file_name(program);
    let mut command = Command::new(path);
    for variable in ["MPD_RUNDIR", "MPD_RING", "MPD_CON_EXT", "SLURM_JOB_ID", "PBS_JOBID"] {
        command.env_remove(variable);
    }
    command.env("MPD_RUNDIR", rundir).args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(program: &str, rundir: &Path, arguments: &[&str]) -> Ran {
    Ran::new(&command(program, rundir, arguments).output().unwrap())
}

pub(crate) fn finish(child: Child) -> Ran {
    Ran::new(&child.wait_with_output().unwrap())
}

pub(crate) fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

/// A whole ring. The first member is the local one. Ports count from 5000.
pub(crate) fn ring(names: &[&str]) -> RingView {
    let member = |(i, n): (usize, &&str)| MemberView {
        name: name(n),
        standing: Standing::Live,
        instance: Instance::from_bytes([7; 16]),
        ordinal: i as u64,
        ncpus: 2,
        addresses: vec![Address::new(&format!("10.0.0.{}:{}", i + 1, 5000 + i)).unwrap()],
        suspect: false,
        draining: false,
        by: None,
    };
    RingView {
        ring: String::new(),
        me: name(names[0]),
        key: "0011aabb".into(),
        whole: true,
        rhs: names.get(1).map(|n| name(n)),
        lhs: names.last().map(|n| name(n)),
        members: names.iter().enumerate().map(member).collect(),
        events: BTreeMap::new(),
    }
}

/// The way of a lap round a ring.
pub(crate) fn way(view: &RingView) -> Vec<DaemonName> {
    let live = view.members.iter().filter(|m| m.standing == Standing::Live);
    let mut names: Vec<_> = live.map(|m| m.name.clone()).collect();
    names.rotate_left(1);
    names
}

pub(crate) fn home(names: &[DaemonName]) -> ConsoleReply {
    let hops = u32::try_from(names.len()).unwrap();
    ConsoleReply::LapsHome { hops, names: names.to_vec(), took_us: 2500 }
}

pub(crate) fn event(word: &str, text: &str) -> Act {
    Act::Say(ConsoleReply::Event(Happening {
        time: "2026-11-21T00:00:00.000000Z".into(),
        seen_by: name("h1"),
        event: word.into(),
        member: None,
        live: 2,
        text: text.into(),
    }))
}

pub(crate) fn refusal(text: &str) -> Vec<Act> {
    vec![Act::Say(ConsoleReply::Refused { problem: text.into() })]
}

pub(crate) fn done(missing: &[&str]) -> Vec<Act> {
    let missing = missing.iter().map(|n| name(n)).collect();
    vec![Act::Say(ConsoleReply::Done { missing })]
}

/// A remote shell that runs the command on this host: it drops the options and the host.
pub(crate) fn home_shell(directory: &Path, name: &str) -> String {
    const SCRIPT: &str = "#!/bin/sh\n\
        host=$1; [ \"$1\" = -x ] && { while [ \"$1\" != -- ]; do shift; done; shift; host=$1; }\n\
        shift\n\
        case $host in\n\
        far) echo 'ssh: connect to host far port 22: No route to host' >&2; exit 255 ;;\n\
        bare) exec sh -c '/nowhere/x' ;;\n\
        esac\n\
        echo 'Welcome to the cluster'\n\
        exec sh -c \"$*\"\n";
    let path = directory.join(name);
    std::fs::write(&path, SCRIPT).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}
