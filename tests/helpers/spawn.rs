//! A light program that spawns others: a PMI client without an MPI library.
//!
//!     t-spawn many COUNT SIZES PROGRAM...     spawns PROGRAM COUNT times, one spawn after the other; SIZES are the
//!                                         numbers of processes in turn ("3,1,2"); prints the time
//!     t-spawn hold DIRECTORY COUNTS SIZES PROGRAM...  the same for each of the COUNTS; after the first it creates
//!                                         DIRECTORY/held.1 and waits for DIRECTORY/go.1, and so on
//!     t-spawn until DIRECTORY SIZE PROGRAM...     spawns until that file exists; prints "spawned NUMBER" each time
//!     t-spawn fib N                       a tree: prints its host, spawns fib N-1 and fib N-2, adds their
//!                                         results; the first process prints the sum
//!     t-spawn fib N DIRECTORY             the same; each process creates DIRECTORY/PID.N when it has spawned its
//!                                         children, and waits for DIRECTORY/go
//!     t-spawn leaf                        prints its host
//!     t-spawn quiet                       only inits and finalizes
//!     t-spawn stay DIRECTORY              creates DIRECTORY/ready.HOST.PID and stays until the file `stop` exists
//!
//! PROGRAM is any program with its arguments; `self` means this program. A failed spawn is reported on stderr,
//! with exit code 3.
#![expect(clippy::exit, reason = "the code of a failed spawn")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::exit;
use std::time::{Duration, Instant};

use mpd_tests::{say, write_all};
use pmi_client::{Client, SpawnCommand, SpawnRequest, Version};

/// No process of a test lives longer.
const BOUND_S: u32 = 600;
/// Pause between looks for the file that ends it.
const PAUSE: Duration = Duration::from_millis(20);
/// The key with the address of the parent of a child.
const PARENT: &[u8] = b"parent";

fn main() {
    mpd_tests::bound(BOUND_S);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let client = Client::connect(Version::One).expect("a manager");
    match arguments[..] {
        ["many", count, sizes, ref program @ ..] => many(&client, count, sizes, program),
        ["hold", directory, counts, sizes, ref program @ ..] => {
            for (step, count) in (1..).zip(counts.split(',')) {
                many(&client, count, sizes, program);
                create(directory, &format!("held.{step}"));
                wait_for(directory, &format!("go.{step}"));
            }
        }
        ["until", directory, size, ref program @ ..] => {
            until(&client, directory, number(size), program);
        }
        ["fib", n] => fib(&client, number(n), None),
        ["fib", n, directory] => fib(&client, number(n), Some(directory)),
        ["leaf"] => report(&host()),
        ["quiet"] => {}
        ["stay", directory] => {
            create(directory, &format!("ready.{}.{}", host(), std::process::id()));
            wait_for(directory, "stop");
        }
        _ => panic!("unknown words {arguments:?}"),
    }
    client.finalize().expect("its goodbye");
}

/// The name of this host in the ring.
fn host() -> String {
    std::env::var("PMI_HOSTNAME").unwrap_or_else(|_| "nowhere".to_owned())
}

fn report(line: &str) {
    say(line).expect("stdout");
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn create(directory: &str, file: &str) {
    std::fs::write(Path::new(directory).join(file), "").expect("the marker file");
}

fn wait_for(directory: &str, file: &str) {
    while !Path::new(directory).join(file).exists() {
        std::thread::sleep(PAUSE);
    }
}

/// Spawns a program; exits if that fails.
fn spawn(client: &Client, size: u32, program: &[&str], preput: &[(&[u8], &[u8])]) {
    let own = std::env::current_exe().expect("its own path").display().to_string();
    let Some((name, arguments)) = program.split_first() else { panic!("spawn what?") };
    let name = if *name == "self" { &own } else { *name };
    let command = SpawnCommand {
        program: name.as_bytes().to_vec(),
        args: arguments.iter().map(|word| word.as_bytes().to_vec()).collect(),
        size,
        info: Vec::new(),
    };
    let preput = preput.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    let spawned = client.spawn(&SpawnRequest { commands: vec![command], preput });
    let problem = match spawned {
        Ok(spawned) if spawned.codes.iter().all(|code| *code == 0) => return,
        Ok(spawned) => format!("codes {:?}", spawned.codes),
        Err(error) => error.to_string(),
    };
    let text = format!("t-spawn: spawn failed: {problem}\n");
    write_all(std::io::stderr(), text.as_bytes()).expect("stderr");
    exit(3);
}

fn many(client: &Client, count: &str, sizes: &str, program: &[&str]) {
    let count = number(count);
    let sizes: Vec<u32> = sizes.split(',').map(number).collect();
    let begin = Instant::now();
    for (_, size) in (0..count).zip(sizes.iter().cycle()) {
        spawn(client, *size, program, &[]);
    }
    let took = begin.elapsed().as_secs_f64();
    let rate = f64::from(count) / took;
    report(&format!("spawns {count} in {took:.3} s: {rate:.0} per second"));
}

fn until(client: &Client, directory: &str, size: u32, program: &[&str]) {
    for number in 1.. {
        if Path::new(directory).join("stop").exists() {
            break;
        }
        spawn(client, size, program, &[]);
        report(&format!("spawned {number}"));
    }
}

/// The call tree of a recursive function with a process for each call: 1 + C(n-1) + C(n-2) processes.
fn fib(client: &Client, n: u32, directory: Option<&str>) {
    report(&format!("fib({n}) on {}", host()));
    let children = (n >= 2).then(|| spawn_two(client, n, directory));
    if let Some(directory) = directory {
        create(directory, &format!("{}.{n}", std::process::id()));
        wait_for(directory, "go");
    }
    let sum = children.map_or_else(|| u64::from(n), |children| sum_of_two(&children));
    if client.process_info().is_spawned {
        let parent = client.get(PARENT).expect("an answer").expect("the address of its parent");
        let address = String::from_utf8(parent).expect("an address");
        let mut parent = TcpStream::connect(&*address).expect("its parent");
        parent.write_all(&sum.to_be_bytes()).expect("its parent listens");
    } else {
        report(&format!("sum {sum}"));
    }
}

/// Spawns the children of `fib(n)`; they connect to the returned listener.
fn spawn_two(client: &Client, n: u32, directory: Option<&str>) -> TcpListener {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    // The names of daemons that share a host are not addresses.
    let name = host();
    let is_known = (&*name, port).to_socket_addrs().is_ok_and(|mut found| found.next().is_some());
    let address = format!("{}:{port}", if is_known { &name } else { "127.0.0.1" });
    for less in 1..=2 {
        let word = (n - less).to_string();
        let words: Vec<&str> = ["self", "fib", &word].into_iter().chain(directory).collect();
        spawn(client, 1, &words, &[(PARENT, address.as_bytes())]);
    }
    listener
}

fn sum_of_two(children: &TcpListener) -> u64 {
    let answer = || {
        let (mut child, _) = children.accept().expect("a child");
        let mut bytes = [0; 8];
        child.read_exact(&mut bytes).expect("its sum");
        u64::from_be_bytes(bytes)
    };
    (0..2).map(|_| answer()).sum()
}
