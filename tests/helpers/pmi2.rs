//! A PMI-2 client that needs no library.
//!
//!     t-pmi2 hello                init to finalize; prints the answers
//!     t-pmi2 put-fence-get-all K  every rank puts K keys and reads those of all
//!     t-pmi2 threads              has many requests open at once, answered in any order
//!     t-pmi2 ring                 exchanges values with its neighbours
//!     t-pmi2 mixed                the odd ranks use PMI-1, and all pass a fence
//!     t-pmi2 again                a second init on the same descriptor
//!     t-pmi2 abort RANK CODE      that rank aborts, the others wait for a node attribute that no rank puts
//!     t-pmi2 garbage RANK         that rank sends an invalid message; the others wait in a fence
//!     t-pmi2 say RANK MESSAGE...  that rank sends these messages with "cmd=" before them, and prints the answers
#![expect(unsafe_code, reason = "taking over the descriptor number in PMI_FD")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mpd_tests::{argument, rank, say, size};

const BOUND_S: u32 = 60;

fn main() {
    mpd_tests::bound(BOUND_S);
    let mode: String = argument(0, "hello".to_owned());
    let chosen = argument(1, 0) == rank();
    let mut client = Client::connect();
    if mode == "mixed" && rank() % 2 == 1 {
        return client.speak_pmi_1();
    }
    client.init();
    match mode.as_str() {
        "hello" => hello(&mut client),
        "put-fence-get-all" => put_fence_get_all(&mut client, argument(1, 1)),
        "threads" => threads(&mut client),
        "ring" => ring(&mut client),
        "again" => again(&mut client),
        "mixed" => mixed(&mut client),
        "abort" if chosen => {
            let code: i32 = argument(2, 1);
            client.send(&format!("abort;exitcode={code};message=as requested;"));
            std::thread::sleep(Duration::from_secs(u64::from(BOUND_S)));
        }
        "abort" => drop(client.ask("info-getnodeattr;key=nobody;wait=TRUE;")),
        "garbage" if chosen => {
            client.write(b"GET / HTTP/1.0\r\n\r\n");
            std::thread::sleep(Duration::from_secs(u64::from(BOUND_S)));
        }
        "garbage" => client.fence(),
        "say" if chosen => {
            for message in std::env::args().skip(3) {
                report(&client.ask(&message));
            }
        }
        "say" => {}
        other => panic!("unknown mode '{other}'"),
    }
    client.finalize();
}

fn hello(client: &mut Client) {
    let appnum = value_of(&client.welcome, "appnum").to_owned();
    assert_eq!(value_of(&client.welcome, "rank"), rank().to_string());
    assert_eq!(value_of(&client.welcome, "size"), size().to_string());
    assert!(!client.welcome.contains("spawner-jobid"), "{}", client.welcome);
    let universe = client.ask("info-getjobattr;key=universeSize;");
    let mapping = client.ask("info-getjobattr;key=PMI_process_mapping;");
    client.fence();
    let (rank, size, job) = (rank(), size(), client.job.clone());
    let (universe, mapping) = (value_of(&universe, "value"), value_of(&mapping, "value"));
    report(&format!(
        "hello rank {rank} of {size} appnum {appnum} universe {universe} mapping {mapping} kvs {job}"
    ));
}

fn put_fence_get_all(client: &mut Client, keys: usize) {
    let rank = rank();
    for key in 0..keys {
        client.put(&format!("key-{rank}-{key}"), &format!("value;;of={rank}-{key}"));
    }
    client.fence();
    for other in 0..size() {
        for key in 0..keys {
            let value = client.get(&format!("key-{other}-{key}"));
            assert_eq!(value, format!("value;;of={other}-{key}"));
        }
    }
    report(&format!("pmi2 ok {rank}"));
}

/// Answers arrive in any order; each has the token of its request.
fn threads(client: &mut Client) {
    for thread in 0..20 {
        client.send(&format!("info-getnodeattr;thrid=w{thread};key=late-{thread};wait=TRUE;"));
    }
    client.send("name-lookup;thrid=n;name=nobody has published this;");
    client.send("kvs-fence;thrid=f;");
    // This request is answered while the others wait, or some of them; their order is not defined.
    client.send("job-getid;thrid=j;");
    for thread in 0..20 {
        client.send(&format!("info-putnodeattr;thrid=p{thread};key=late-{thread};value={thread};"));
    }
    let mut answers: Vec<String> = (0..43).map(|_| client.receive()).collect();
    answers.sort();
    let mut expected: Vec<String> = (0..20)
        .flat_map(|thread| {
            [
                format!(
                    "info-getnodeattr-response;thrid=w{thread};found=TRUE;value={thread};rc=0;"
                ),
                format!("info-putnodeattr-response;thrid=p{thread};rc=0;"),
            ]
        })
        .chain([
            "name-lookup-response;thrid=n;rc=1;errmsg=service_not_found;".to_owned(),
            "kvs-fence-response;thrid=f;rc=0;".to_owned(),
            format!("job-getid-response;thrid=j;jobid={};rc=0;", client.job),
        ])
        .collect();
    expected.sort();
    assert_eq!(answers, expected);
    report(&format!("threads ok {}", rank()));
}

fn ring(client: &mut Client) {
    let (rank, size) = (rank(), size());
    for round in 0..3 {
        let request =
            format!("ring;ring-count=1;ring-left=l{rank}.{round};ring-right=r{rank}.{round};");
        let answer = client.ask(&request);
        assert_eq!(value_of(&answer, "ring-count"), rank.to_string());
        assert_eq!(
            value_of(&answer, "ring-left"),
            format!("r{}.{round}", (rank + size - 1) % size)
        );
        assert_eq!(value_of(&answer, "ring-right"), format!("l{}.{round}", (rank + 1) % size));
    }
    report(&format!("ring ok {rank}"));
}

fn again(client: &mut Client) {
    client.put(&format!("first-{}", rank()), "1");
    client.fence();
    client.init();
    assert_eq!(client.get(&format!("first-{}", (rank() + 1) % size())), "1");
    client.fence();
    report(&format!("again ok {}", rank()));
}

fn mixed(client: &mut Client) {
    client.put(&format!("mixed-{}", rank()), "2");
    client.fence();
    for other in 0..size() {
        let dialect = if other % 2 == 1 { "1" } else { "2" };
        assert_eq!(client.get(&format!("mixed-{other}")), dialect);
    }
    report(&format!("mixed ok {}", rank()));
}

fn report(line: &str) {
    say(line).expect("stdout");
}

/// The value of `name=` in a message without unusual values.
fn value_of<'m>(message: &'m str, name: &str) -> &'m str {
    let pair = message.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    pair.unwrap_or_else(|| panic!("no {name} in '{message}'"))
}

struct Client {
    stream: BufReader<UnixStream>,
    welcome: String,
    job: String,
}

impl Client {
    fn connect() -> Self {
        let number = std::env::var("PMI_FD").expect("PMI_FD in the environment");
        let number = number.parse().expect("PMI_FD is a number");
        // SAFETY: the parent passed the descriptor to this process, and no other code here uses it.
        let stream = unsafe { UnixStream::from_raw_fd(number) };
        Self { stream: BufReader::new(stream), welcome: String::new(), job: String::new() }
    }

    fn init(&mut self) {
        let answer = self.ask_line("cmd=init pmi_version=2 pmi_subversion=0");
        assert_eq!(answer, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
        self.welcome = self.ask(&format!("fullinit;pmirank={};threaded=TRUE;", rank()));
        let answer = self.ask("job-getid;");
        self.job = value_of(&answer, "jobid").to_owned();
    }

    fn speak_pmi_1(&mut self) {
        self.ask_line("cmd=init pmi_version=1 pmi_subversion=1");
        let answer = self.ask_line("cmd=get_my_kvsname");
        let kvs = answer.trim_end().rsplit_once('=').expect("a name").1.to_owned();
        let put = self.ask_line(&format!("cmd=put kvsname={kvs} key=mixed-{} value=1", rank()));
        assert!(put.contains("rc=0"), "{put}");
        self.ask_line("cmd=barrier_in");
        let got = self.ask_line(&format!("cmd=get kvsname={kvs} key=mixed-0"));
        assert!(got.ends_with("value=2\n"), "{got}");
        report(&format!("mixed ok {}", rank()));
        self.ask_line("cmd=finalize");
    }

    fn put(&mut self, key: &str, value: &str) {
        let answer = self.ask(&format!("kvs-put;key={key};value={value};"));
        assert_eq!(answer, "kvs-put-response;rc=0;");
    }

    fn get(&mut self, key: &str) -> String {
        let answer = self.ask(&format!("kvs-get;jobid={};srcid=-1;key={key};", self.job));
        let value = answer.strip_prefix("kvs-get-response;found=TRUE;value=").expect("a value");
        value.strip_suffix(";rc=0;").expect("an end").to_owned()
    }

    fn fence(&mut self) {
        assert_eq!(self.ask("kvs-fence;"), "kvs-fence-response;rc=0;");
    }

    fn finalize(&mut self) {
        assert_eq!(self.ask("finalize;"), "finalize-response;rc=0;");
    }

    fn ask(&mut self, message: &str) -> String {
        self.send(message);
        self.receive()
    }

    /// `message` is without its `cmd=`.
    fn send(&mut self, message: &str) {
        let body = format!("cmd={message}");
        self.write(format!("{:<6}{body}", body.len()).as_bytes());
    }

    fn receive(&mut self) -> String {
        let mut header = [0; 6];
        self.stream.read_exact(&mut header).expect("the length of an answer");
        let length = std::str::from_utf8(&header).ok().and_then(|text| text.trim().parse().ok());
        let mut body = vec![0; length.expect("a length")];
        self.stream.read_exact(&mut body).expect("an answer");
        let body = String::from_utf8(body).expect("text");
        body.strip_prefix("cmd=").expect("a command").to_owned()
    }

    fn ask_line(&mut self, line: &str) -> String {
        self.write(format!("{line}\n").as_bytes());
        let mut answer = String::new();
        self.stream.read_line(&mut answer).expect("an answer");
        answer
    }

    fn write(&mut self, bytes: &[u8]) {
        // A server may close after invalid bytes; it decides how this rank ends.
        let _ = self.stream.get_mut().write_all(bytes);
    }
}
