//! Attacks by another user on the port of a manager for PMIx clients. The tests run as root, the job as a user.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use pmix_proto::connect::Introduction;

use crate::process;
use crate::run::{Running, comes_true, sample, wait_until};
use crate::suite::{Suite, is_root, skip, tell};

/// Two threads are more than a loop of one user's shell, and leave a processor for the job.
const THREADS: usize = 2;

/// A row of the kernel's table of connections over IPv4.
struct Row {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    state: u8,
    inode: String,
}

fn rows() -> Vec<Row> {
    let address = |text: &str| {
        let (host, port) = text.split_once(':').expect("an address");
        let host = u32::from_str_radix(host, 16).expect("an address").to_ne_bytes();
        SocketAddrV4::new(host.into(), u16::from_str_radix(port, 16).expect("a port"))
    };
    let text = std::fs::read_to_string("/proc/net/tcp").expect("the table");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Row {
            local: address(fields[1]),
            remote: address(fields[2]),
            state: u8::from_str_radix(fields[3], 16).expect("a state"),
            inode: fields[9].to_owned(),
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// The addresses at which a process listens.
fn listening(pid: i32) -> Vec<SocketAddrV4> {
    const LISTEN: u8 = 0x0a;
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open: BTreeSet<String> = entries
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    let is_its = |row: &Row| open.contains(&format!("socket:[{}]", row.inode));
    let all = rows().into_iter().filter(|row| row.state == LISTEN && is_its(row));
    all.map(|row| row.local).collect()
}

/// A user's job of two PMIx clients that wait for the end of their input, and the port of its manager.
struct Victim {
    suite: Suite,
    job: Running,
    manager: i32,
    port: SocketAddrV4,
}

impl Victim {
    fn new(user: u32) -> Self {
        let suite = Suite::as_user(user);
        suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
        let job = suite.ranks(2, "t-raw-pmix", &["waits"]).input_pipe().start();
        let manager = || suite.manager().pid;
        wait_until("the manager runs", || suite.managers().len() == 1);
        let manager = manager();
        wait_until("it listens", || !listening(manager).is_empty());
        let [port] = listening(manager)[..] else { panic!("more than one port") };
        let victim = Self { suite, job, manager, port };
        wait_until("both are connected", || victim.sources().len() == 2);
        victim
    }

    /// The ports of the clients that are connected.
    fn sources(&self) -> Vec<u16> {
        const ESTABLISHED: u8 = 1;
        let all = rows().into_iter();
        let connected = all.filter(|row| row.remote == self.port && row.state == ESTABLISHED);
        connected.map(|row| row.local.port()).collect()
    }

    /// Ends the job, which must succeed.
    fn finish(mut self) {
        drop(self.job.stdin());
        self.job.wait().code(0).quiet();
        self.suite.only_the_daemon_is_left();
    }
}

/// Connects and closes, again and again, while something is done. Returns its result and the number of connections.
fn flooded<T>(port: SocketAddrV4, work: impl FnOnce() -> T) -> (T, u64) {
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let attack = || {
        while !over.load(Ordering::Relaxed) {
            match TcpStream::connect_timeout(&port.into(), Duration::from_millis(50)) {
                Ok(_) => drop(count.fetch_add(1, Ordering::Relaxed)),
                // The queue is full, or the job has ended.
                Err(_) => std::thread::yield_now(),
            }
        }
    };
    let result = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(attack);
        }
        let result = work();
        over.store(true, Ordering::Relaxed);
        result
    });
    (result, count.into_inner())
}

#[test]
fn another_users_connections_cost_a_job_of_admitted_clients_nothing() {
    if !is_root() {
        return skip("a job of another user: needs root");
    }
    let victim = Victim::new(60_221);
    let cpu = || process::Process::read(victim.manager).expect("the manager").cpu();
    let (begin, window) = (cpu(), Duration::from_millis(sample(1_000, 5_000)));
    let (_, count) = flooded(victim.port, || comes_true(window, || false));
    let used = cpu() - begin;
    tell(&format!("{count} connections in {window:?}: {used:?} of the manager"));
    assert!(used < window / 5, "{used:?} of the manager for {count} connections");
    victim.finish();
}

#[test]
fn ranks_start_work_and_end_while_another_user_connects_to_their_manager() {
    if !is_root() {
        return skip("a job of another user: needs root");
    }
    let suite = Suite::as_user(60_222);
    suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
    // A job without PMI, whose output passes the manager, and clients of PMIx that connect meanwhile.
    let lines = sample(20_000, 200_000);
    let work = format!("read x; seq {lines}; \"$0\" 9");
    let job = || {
        let program = suite.program("t-raw-pmix");
        suite.mpirun(["-n", "2", "-s", "all", "bash", "-c", &work, &program]).input_pipe().start()
    };
    let through = |mut job: Running| {
        let begin = Instant::now();
        drop(job.stdin());
        let output = job.wait();
        output.code(0);
        assert_eq!(output.out().lines().count(), 2 * lines);
        begin.elapsed()
    };
    let calm = through(job());
    suite.only_the_daemon_is_left();
    let job = job();
    wait_until("the manager listens", || {
        suite.managers().first().is_some_and(|manager| !listening(*manager).is_empty())
    });
    let [port] = listening(suite.manager().pid)[..] else { panic!("more than one port") };
    let (took, count) = flooded(port, || through(job));
    tell(&format!("{count} connections: {took:?}, calm {calm:?}"));
    assert!(count > 100, "{count} connections");
    suite.only_the_daemon_is_left();
}

/// A connection from this address, as a client of that user that names a wrong namespace, and half closed.
fn pose(from: SocketAddr, to: SocketAddrV4, user: u32) -> TcpStream {
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
    let fd = socket(AddressFamily::Inet, kind, flags, None).expect("a socket");
    bind(fd.as_raw_fd(), &SockaddrStorage::from(from)).expect("an address of this host");
    connect(fd.as_raw_fd(), &SockaddrStorage::from(to)).expect("it listens");
    let mut stream = TcpStream::from(fd);
    let introduction = Introduction {
        security: b"native".to_vec(),
        user: Some((user, user)),
        role: 0,
        namespace: b"mpd-guess-0".to_vec(),
        rank: 0,
        version: b"4.2.2".to_vec(),
        encoding: b"v41".to_vec(),
        buffers: 1,
        store: b"hash".to_vec(),
    };
    let payload = introduction.write();
    let length = u32::try_from(payload.len()).expect("a length");
    let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
    stream.write_all(&[header, payload].concat()).expect("room");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    stream
}

#[test]
fn a_connection_from_the_port_of_a_rank_at_another_address_is_not_that_of_the_rank() {
    if !is_root() {
        return skip("a job of another user: needs root");
    }
    const USER: u32 = 60_223;
    let victim = Victim::new(USER);
    let source = victim.sources()[0];
    // The manager looks at the connection when it is half closed.
    process::Process::read(victim.manager).expect("the manager").stop();
    let mut stream = pose((Ipv4Addr::new(127, 0, 0, 2), source).into(), victim.port, USER);
    process::send(victim.manager, Signal::SIGCONT);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // A client of the user would read that it is refused.
    assert!(answer.is_empty(), "it was answered: {answer:?}");
    victim.finish();
}

#[test]
fn a_job_without_pmix_has_no_port() {
    for has_daemon in [true, false] {
        let suite = Suite::new();
        if has_daemon {
            suite.start_daemon();
        }
        let script = "echo ready $PMIX_NAMESPACE; read x";
        let arguments = ["-no-pmix", "-n", "1", "bash", "-c", script];
        let mut job = suite.mpirun(arguments).input_pipe().start();
        job.shows("ready");
        assert_eq!(listening(suite.manager().pid), []);
        assert_eq!(job.stdout(), "ready\n");
        drop(job.stdin());
        job.wait().failed();
    }
}
