//! A program that was started without mpirun and starts a process manager like MPI libraries: it listens at a
//! port and runs `mpiexec [OPTION…] -pmi_args PORT default_interface default_key PID` from PATH.
//!
//!     t-singleton WORD...
//!
//! Performs each step in turn:
//!
//!     option=ARGUMENT an argument before -pmi_args
//!     subversion=N    the PMI-1 version that it reports (default 2)
//!     call            starts mpiexec and waits for its connection; prints "called"
//!     ask=LINE        sends that line, without "cmd=", and prints the answer; KVS is the key-value space
//!     spawn=COMMAND   spawns one process of this program with these arguments, and prints the answer
//!     say=LINE        sends that line without waiting for an answer
//!     until=FILE      waits for that file
//!     close           closes the connection
//!     print=TEXT      prints the text
//!     handle=SIGNAL   survives that signal
//!     wait            until it is killed
//!     exit=CODE       exits

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, exit};
use std::time::Duration;

use mpd_tests::say;
use mpd_tests::waiting::comes_true;
use nix::sys::signal::{SigSet, Signal};

const BOUND_S: u32 = 120;
const BOUND: Duration = Duration::from_secs(120);

fn main() {
    mpd_tests::bound(BOUND_S);
    let mut singleton =
        Singleton { options: String::new(), subversion: 2, pmi: None, called: Vec::new() };
    for word in std::env::args().skip(1) {
        let (verb, rest) = word.split_once('=').unwrap_or((&word, ""));
        singleton.perform(verb, rest);
    }
}

struct Singleton {
    options: String,
    subversion: u32,
    pmi: Option<Pmi>,
    called: Vec<Child>,
}

struct Pmi {
    reader: BufReader<TcpStream>,
    kvsname: String,
}

impl Singleton {
    fn perform(&mut self, verb: &str, rest: &str) {
        match verb {
            "option" => self.options = format!("{} {rest}", self.options),
            "subversion" => self.subversion = rest.parse().expect("a number"),
            "call" => self.start_mpiexec(),
            "ask" => {
                let pmi = self.pmi();
                pmi.send(rest);
                println(&pmi.answer());
            }
            "spawn" => {
                let pmi = self.pmi();
                pmi.spawn(rest);
                println(&pmi.answer());
            }
            "say" => self.pmi().send(rest),
            "until" => assert!(comes_true(BOUND, || Path::new(rest).exists()), "no {rest}"),
            "close" => self.pmi = None,
            "print" => println(rest),
            "handle" => {
                let signal: Signal = rest.parse().expect("a signal");
                let mut set = SigSet::empty();
                set.add(signal);
                set.thread_block().expect("a mask");
            }
            "wait" => std::thread::sleep(BOUND),
            "exit" => exit(rest.parse().expect("a code")),
            other => panic!("unknown step '{other}'"),
        }
    }

    fn pmi(&mut self) -> &mut Pmi {
        self.pmi.as_mut().expect("call first")
    }

    fn start_mpiexec(&mut self) {
        let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
        let port = listener.local_addr().expect("a port").port();
        // The process that becomes mpiexec passes its own process id.
        let command = format!(
            "exec mpiexec{} -pmi_args {port} default_interface default_key $$",
            self.options
        );
        // Libraries do not wait for it either.
        let child = Command::new("sh").args(["-c", &command]).spawn().expect("a shell");
        self.called.push(child);
        let (stream, _) = listener.accept().expect("a connection");
        let mut pmi = Pmi { reader: BufReader::new(stream), kvsname: String::new() };
        assert_eq!(pmi.answer(), "cmd=singinit authtype=none");
        let subversion = self.subversion;
        pmi.send(&format!(
            "singinit pmi_version=1 pmi_subversion={subversion} stdio=yes authtype=none"
        ));
        let info = pmi.answer();
        let start = "cmd=singinit_info rc=0 versionok=yes stdio=no kvsname=";
        pmi.kvsname = info.strip_prefix(start).expect(&info).to_owned();
        self.pmi = Some(pmi);
        println("called");
    }
}

impl Pmi {
    fn send(&mut self, line: &str) {
        let line = line.replace("KVS", &self.kvsname);
        self.write(&format!("cmd={line}\n"));
    }

    fn spawn(&mut self, arguments: &str) {
        let mut arguments = arguments.split(' ');
        let program = arguments.next().expect("a program");
        let arguments: Vec<&str> = arguments.collect();
        let mut block = format!(
            "mcmd=spawn\nnprocs=1\nexecname={program}\ntotspawns=1\nspawnssofar=1\nargcnt={}\n",
            arguments.len()
        );
        for (number, argument) in (1..).zip(arguments) {
            block += &format!("arg{number}={argument}\n");
        }
        self.write(&(block + "preput_num=0\ninfo_num=0\nendcmd\n"));
    }

    fn write(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).expect("a connection");
    }

    /// One line, or "(end)" for the end of the connection.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(1..) => line.trim_end().to_owned(),
            _ => "(end)".to_owned(),
        }
    }
}

fn println(text: &str) {
    say(text).expect("an output");
}
