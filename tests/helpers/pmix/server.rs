//! The loop: connections, ends of ranks, and what the sessions ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use pmix_proto::collective::{Collectives, Completion, Key, Kind};
use pmix_proto::connect::{Expectation, Introduction};
use pmix_proto::encoding::Value;
use pmix_proto::event_log::OrderedEvent;
use pmix_proto::job_info;
use pmix_proto::view::{Info, Proc, WILDCARD};
use pmix_proto::{Answer, Event, Operation, Range, Session, Spawn, Status, Ticket};

use crate::jobs::{App, World};
use crate::names::Names;

#[derive(Default, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) keep: bool,
    pub(crate) trace: bool,
}

enum Message {
    Accepted(TcpStream),
    Bytes(usize, Vec<u8>),
    Closed(usize),
    Ended(Proc, i32),
}

struct Connection {
    stream: TcpStream,
    session: Session,
}

/// A request that waits for its answer, and its connection.
type Waiter = (usize, Ticket);

struct Waiting {
    waiter: Waiter,
    proc: Proc,
    key: Option<Vec<u8>>,
}

pub(crate) struct Server {
    options: Options,
    uid: u32,
    port: u16,
    secret: String,
    /// Connections with the data of all processes.
    supplied: BTreeSet<usize>,
    /// For temporary files of the library; removed at the end.
    scratch: PathBuf,
    clean_up: Vec<PathBuf>,
    worlds: Vec<World>,
    connections: BTreeMap<usize, Connection>,
    next_connection: usize,
    collectives: Collectives<Waiter>,
    contributions: BTreeMap<Vec<u8>, Vec<(Proc, Vec<Info>)>>,
    contexts: u64,
    last_event: u64,
    gets: Vec<Waiting>,
    lookups: Vec<(Waiter, Vec<Vec<u8>>, usize)>,
    names: Names,
    processes: BTreeMap<Proc, u32>,
    status: u8,
    is_ending: bool,
    sender: Sender<Message>,
    receiver: Option<Receiver<Message>>,
}

impl Server {
    pub(crate) fn new(options: Options) -> Self {
        let (sender, receiver) = channel();
        let mut random = [0; 16];
        let mut source = std::fs::File::open("/dev/urandom").expect("random bytes");
        source.read_exact(&mut random).expect("random bytes");
        let secret = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let scratch = std::env::temp_dir().join(format!("t-pmix-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).expect("a directory");
        let options = Options { nodes: options.nodes.max(1), ..options };
        Self {
            options,
            uid: getuid().as_raw(),
            port: 0,
            secret,
            scratch,
            supplied: BTreeSet::new(),
            clean_up: Vec::new(),
            worlds: Vec::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            collectives: Collectives::default(),
            contributions: BTreeMap::new(),
            contexts: 0,
            last_event: 0,
            gets: Vec::new(),
            lookups: Vec::new(),
            names: Names::default(),
            processes: BTreeMap::new(),
            status: 0,
            is_ending: false,
            sender,
            receiver: Some(receiver),
        }
    }

    pub(crate) fn run(mut self, program: &[Vec<u8>]) -> u8 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        self.port = listener.local_addr().expect("an address").port();
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if sender.send(Message::Accepted(stream)).is_err() {
                    return;
                }
            }
        });
        let app = App {
            size: self.options.ranks.max(1),
            command: program.to_vec(),
            environment: Vec::new(),
            directory: None,
        };
        self.start(vec![app], None).expect("the program starts");
        let receiver = self.receiver.take().expect("taken once");
        while let Ok(message) = receiver.recv() {
            self.take(message);
            if self.processes.is_empty() {
                break;
            }
        }
        // Open MPI 4 removes the directory itself, and all libraries remove most of the files.
        let _ = std::fs::remove_dir_all(&self.scratch);
        for path in &self.clean_up {
            let _ = std::fs::remove_file(path);
        }
        self.status
    }

    fn start(&mut self, apps: Vec<App>, parent: Option<Proc>) -> std::io::Result<usize> {
        let namespace = format!("mpd-{}-{}", self.secret, self.worlds.len());
        let before = u32::try_from(self.processes.len()).unwrap_or(0);
        let scratch = self.scratch.display().to_string();
        let world = World::new(&namespace, self.options.nodes, before, &apps, parent, &scratch);
        let children = world.start(&apps, self.port)?;
        self.worlds.push(world);
        for (rank, mut child) in (0..).zip(children) {
            let proc = Proc::new(namespace.as_str(), rank);
            self.processes.insert(proc.clone(), child.id());
            let sender = self.sender.clone();
            std::thread::spawn(move || {
                use std::os::unix::process::ExitStatusExt as _;
                let status = child.wait().expect("a child of ours");
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                drop(sender.send(Message::Ended(proc, code)));
            });
        }
        Ok(self.worlds.len() - 1)
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Accepted(stream) => self.accept(stream),
            Message::Bytes(number, bytes) => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.session.receive(&bytes);
                }
                self.serve(number);
            }
            Message::Closed(number) => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.session.end_of_stream();
                }
                self.serve(number);
                if let Some(connection) = self.connections.remove(&number) {
                    self.forget(number);
                    let proc = connection.session.proc().clone();
                    if let Some(world) = self.world_of(&proc) {
                        world.connected[proc.rank as usize] = false;
                    }
                }
            }
            Message::Ended(proc, code) => self.ended(&proc, code),
        }
    }

    fn accept(&mut self, stream: TcpStream) {
        let number = self.next_connection;
        self.next_connection += 1;
        let mut reader = stream.try_clone().expect("a second descriptor");
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let message = match reader.read(&mut buffer) {
                    Ok(0) | Err(_) => Message::Closed(number),
                    Ok(count) => Message::Bytes(number, buffer[..count].to_vec()),
                };
                let is_last = matches!(message, Message::Closed(_));
                if sender.send(message).is_err() || is_last {
                    return;
                }
            }
        });
        self.connections.insert(number, Connection { stream, session: Session::new() });
    }

    /// Performs what the session asks for, and writes.
    fn serve(&mut self, number: usize) {
        while let Some((ticket, operation)) =
            self.connections.get_mut(&number).and_then(|one| one.session.poll_operation())
        {
            self.trace(number, &operation);
            self.perform((number, ticket), operation);
        }
        self.write(number);
    }

    fn write(&mut self, number: usize) {
        let Some(Connection { stream, session }) = self.connections.get_mut(&number) else {
            return;
        };
        while !session.output().is_empty() {
            let output = session.output().to_vec();
            if stream.write_all(&output).is_err() {
                session.end_of_stream();
            }
            session.consume(output.len());
        }
        if session.is_to_be_closed() {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn trace(&self, number: usize, operation: &Operation) {
        if self.options.trace {
            let rank = self.connections.get(&number).map(|one| one.session.proc().rank);
            let mut text = format!("{operation:?}");
            text.truncate(600);
            eprintln!("[{number}] rank {}: {text}", rank.unwrap_or(u32::MAX));
        }
    }

    fn answer(&mut self, (number, ticket): Waiter, answer: Answer<'_>) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.session.answer(ticket, answer);
        }
        self.write(number);
    }

    fn world_of(&mut self, proc: &Proc) -> Option<&mut World> {
        let world = self.worlds.iter_mut().find(|one| one.job.namespace == proc.namespace)?;
        ((proc.rank as usize) < world.alive.len() || proc.rank == WILDCARD).then_some(world)
    }

    fn asker(&self, number: usize) -> (Proc, Vec<u8>) {
        let proc = self.connections[&number].session.proc().clone();
        let world = self.worlds.iter().find(|one| one.job.namespace == proc.namespace);
        let node = world.map(|world| world.node_name(proc.rank).to_vec()).unwrap_or_default();
        (proc, node)
    }

    fn perform(&mut self, waiter: Waiter, operation: Operation) {
        let number = waiter.0;
        match operation {
            Operation::Connecting(introduction) => self.decide(number, &introduction),
            Operation::JobInfo => {
                let (proc, node) = self.asker(number);
                let encoding = self.connections[&number].session.encoding();
                let info = self.world_of(&proc).map(|world| world.describe(&node, encoding));
                self.answer(waiter, Answer::JobInfo(&info.unwrap_or_default()));
            }
            Operation::Commit { puts } => {
                let (proc, _) = self.asker(number);
                let world = self.world_of(&proc).expect("a world of ours");
                let status = world.modex.commit(proc.rank, puts).err().unwrap_or(Status::SUCCESS);
                self.answer(waiter, Answer::Done(status));
                self.serve_gets();
            }
            collective @ (Operation::Fence { .. }
            | Operation::Connect { .. }
            | Operation::Disconnect { .. }
            | Operation::Construct { .. }
            | Operation::Destruct { .. }) => self.perform_together(waiter, collective),
            Operation::Get { proc, key, immediate, .. } => {
                let waiting = Waiting { waiter, proc, key };
                if !self.get(&waiting, immediate) {
                    self.gets.push(waiting);
                }
            }
            name @ (Operation::Publish { .. }
            | Operation::Lookup { .. }
            | Operation::Unpublish { .. }) => self.perform_name(waiter, name),
            Operation::Spawn(spawn) => self.spawn(waiter, spawn),
            Operation::Notify(event) => {
                self.answer(waiter, Answer::Done(Status::SUCCESS));
                self.deliver(event);
            }
            Operation::Query(_) => {
                self.answer(waiter, Answer::Answers(Status::NOT_SUPPORTED, &[]));
            }
            Operation::CleanUp(files) => {
                let path = |file: Vec<u8>| PathBuf::from(OsString::from_vec(file));
                self.clean_up.extend(files.files.into_iter().map(path));
                self.answer(waiter, Answer::Done(Status::SUCCESS));
            }
            Operation::Log { text, .. } => {
                eprint!("{}", String::from_utf8_lossy(&text));
                self.answer(waiter, Answer::Done(Status::SUCCESS));
            }
            Operation::Registered { .. } => {}
            Operation::Finalized => {
                let (proc, _) = self.asker(number);
                let world = self.world_of(&proc).expect("a world of ours");
                world.finalized[proc.rank as usize] = true;
            }
            Operation::Abort { status, message, .. } => {
                eprintln!("t-pmix: abort({status}): {}", String::from_utf8_lossy(&message));
                self.end_all(u8::try_from(status & 0xff).unwrap_or(1).max(1));
            }
            Operation::Misbehaved { error, .. } => eprintln!("t-pmix: {error}"),
        }
    }

    fn perform_together(&mut self, waiter: Waiter, operation: Operation) {
        match operation {
            Operation::Fence { procs, .. } => self.gather(waiter, Kind::Fence, procs),
            Operation::Connect { procs, .. } => self.gather(waiter, Kind::Connect, procs),
            Operation::Disconnect { procs, .. } => self.gather(waiter, Kind::Disconnect, procs),
            Operation::Construct { group, procs, contribution, .. } => {
                let (proc, _) = self.asker(waiter.0);
                self.contributions.entry(group.clone()).or_default().push((proc, contribution));
                self.gather(waiter, Kind::Construct(group), procs);
            }
            Operation::Destruct { group, procs, .. } => {
                self.gather(waiter, Kind::Destruct(group), procs);
            }
            other => panic!("{other:?} is not done together"),
        }
    }

    fn perform_name(&mut self, waiter: Waiter, operation: Operation) {
        match operation {
            Operation::Publish { pairs, persistence, .. } => {
                let (proc, _) = self.asker(waiter.0);
                let done = self.names.publish(&proc, pairs, persistence);
                let status = if done { Status::SUCCESS } else { Status::EXISTS };
                self.answer(waiter, Answer::Done(status));
                self.serve_lookups();
            }
            Operation::Lookup { keys, wait, .. } => {
                self.lookups.push((waiter, keys, wait.unwrap_or(0)));
                self.serve_lookups();
            }
            Operation::Unpublish { keys, .. } => {
                let (proc, _) = self.asker(waiter.0);
                self.names.unpublish(&proc, &keys);
                self.answer(waiter, Answer::Done(Status::SUCCESS));
            }
            other => panic!("{other:?} is not about names"),
        }
    }

    fn decide(&mut self, number: usize, introduction: &Introduction) {
        let proc = Proc::new(introduction.namespace.as_slice(), introduction.rank);
        let uid = self.uid;
        let world = self.world_of(&proc).filter(|_| proc.rank != WILDCARD);
        let decision = introduction.check(&Expectation {
            namespace: world.as_ref().map_or(b"", |world| &world.job.namespace),
            uid,
            peer_uid: None,
            is_running: world.as_ref().is_some_and(|world| world.alive[proc.rank as usize]),
            is_connected: world.as_ref().is_some_and(|world| world.connected[proc.rank as usize]),
        });
        if let (Ok(_), Some(world)) = (decision, world) {
            world.connected[proc.rank as usize] = true;
            world.introduced[proc.rank as usize] = true;
        }
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match decision {
            Ok(encoding) => connection.session.admit(introduction, encoding, introduction.rank),
            Err(refusal) => {
                eprintln!("t-pmix: refused: {refusal}");
                connection.session.refuse(refusal);
            }
        }
    }

    fn gather(&mut self, waiter: Waiter, kind: Kind, procs: Vec<Proc>) {
        let (proc, _) = self.asker(waiter.0);
        let mut local = BTreeMap::new();
        for member in &procs {
            let Some(world) = self.world_of(member) else { continue };
            for (rank, alive) in (0..).zip(&world.alive) {
                if member.rank == WILDCARD || member.rank == rank {
                    local.insert(Proc::new(member.namespace.as_slice(), rank), *alive);
                }
            }
        }
        match self.collectives.arrive(Key { kind, members: procs }, &proc, waiter, &local) {
            Ok(None) => {}
            Ok(Some(completion)) => self.complete(completion),
            Err(status) => self.answer(waiter, Answer::Done(status)),
        }
    }

    fn complete(&mut self, completion: Completion<Waiter>) {
        let Completion { key, waiters, status, .. } = completion;
        if let (Kind::Construct(group), true) = (&key.kind, status.is_success()) {
            return self.construct(&group.clone(), &waiters);
        }
        for (proc, waiter) in waiters {
            if key.kind == Kind::Connect && status.is_success() {
                let jobs = self.others(&proc, &key.members, waiter.0);
                self.answer(waiter, Answer::Connected(&jobs));
            } else {
                self.answer(waiter, Answer::Done(status));
            }
        }
    }

    /// What the other namespaces of a connect are to a member.
    fn others(&self, proc: &Proc, members: &[Proc], number: usize) -> Vec<Vec<u8>> {
        let Some(connection) = self.connections.get(&number) else { return Vec::new() };
        let encoding = connection.session.encoding();
        let (_, node) = self.asker(number);
        let mut namespaces: Vec<_> = members.iter().map(|one| one.namespace.clone()).collect();
        namespaces.dedup();
        let others = namespaces.iter().filter(|name| **name != proc.namespace);
        let describe = |name: &Vec<u8>| {
            let world = self.worlds.iter().find(|one| one.job.namespace == *name)?;
            Some(job_info::answer(encoding, name, &world.describe(&node, encoding)))
        };
        others.filter_map(describe).collect()
    }

    /// Each member's contribution becomes a pair that holds for this group alone.
    fn construct(&mut self, group: &[u8], waiters: &[(Proc, Waiter)]) {
        self.contexts += 1;
        let context = Value::size(self.contexts);
        for (proc, contribution) in self.contributions.remove(group).unwrap_or_default() {
            let pairs = pmix_proto::modex::qualified(&contribution, &context);
            let world = self.world_of(&proc).expect("a world of ours");
            for pair in pairs {
                world.modex.qualify(proc.rank, pair).expect("few groups");
            }
        }
        let members: Vec<_> = waiters.iter().map(|(proc, _)| proc.clone()).collect();
        for (_, waiter) in waiters {
            let answer = Answer::Group { members: &members, context: Some(self.contexts) };
            self.answer(*waiter, answer);
        }
    }

    /// Answers a get if that is possible now.
    fn get(&mut self, waiting: &Waiting, immediate: bool) -> bool {
        let (_, node) = self.asker(waiting.waiter.0);
        let encoding = self.connections[&waiting.waiter.0].session.encoding();
        let proc = &waiting.proc;
        let (own, _) = self.asker(waiting.waiter.0);
        let is_first = proc.rank != WILDCARD && !self.supplied.contains(&waiting.waiter.0);
        let Some(world) = self.world_of(proc) else {
            self.answer(waiting.waiter, Answer::Done(Status::NOT_FOUND));
            return true;
        };
        let data = if proc.rank == WILDCARD {
            // The own job is described already.
            let pairs = world.describe(&node, encoding);
            (proc.namespace != own.namespace).then(|| job_info::blob(encoding, proc, &pairs))
        } else {
            let view = world.view(proc.rank, &node);
            let key = waiting.key.as_deref().unwrap_or_default();
            let is_there = key.is_empty() || world.modex.has_key(proc.rank, key, view);
            let is_last = immediate || !world.alive[proc.rank as usize];
            match world.modex.data(proc, view, encoding) {
                Some(data) if is_there || immediate => Some(data),
                _ if is_last => None,
                _ => return false,
            }
        };
        let all = |data| {
            let others = (0..u32::try_from(world.alive.len()).unwrap_or(0))
                .filter(|rank| *rank != proc.rank);
            let other = |rank| {
                let other = Proc { rank, ..proc.clone() };
                world.modex.data(&other, world.view(rank, &node), encoding)
            };
            std::iter::once(data).chain(others.filter_map(other)).collect::<Vec<_>>()
        };
        let data = data.map(|data| if is_first { all(data) } else { vec![data] });
        match data {
            Some(data) => {
                // One reply at each connection has the data of all, which saves the client its further requests.
                if is_first {
                    self.supplied.insert(waiting.waiter.0);
                }
                self.answer(waiting.waiter, Answer::AllData(&data));
            }
            None => self.answer(waiting.waiter, Answer::Done(Status::NOT_FOUND)),
        }
        true
    }

    fn serve_gets(&mut self) {
        for waiting in std::mem::take(&mut self.gets) {
            if !self.get(&waiting, false) {
                self.gets.push(waiting);
            }
        }
    }

    fn serve_lookups(&mut self) {
        for (waiter, keys, wanted) in std::mem::take(&mut self.lookups) {
            match self.names.find(&keys, wanted) {
                Some(found) => self.answer(waiter, Answer::Found(&found)),
                None if wanted == 0 => self.answer(waiter, Answer::Done(Status::NOT_FOUND)),
                None => self.lookups.push((waiter, keys, wanted)),
            }
        }
    }

    fn spawn(&mut self, waiter: Waiter, spawn: Spawn) {
        let (parent, node) = self.asker(waiter.0);
        let apps = spawn.request.commands.into_iter().zip(spawn.environments);
        let app = |(command, environment): (pmix_proto::SpawnCommand, Vec<Vec<u8>>)| App {
            size: command.size,
            directory: command
                .info
                .iter()
                .find(|(key, _)| key == b"wdir")
                .map(|(_, at)| at.clone()),
            command: std::iter::once(command.program).chain(command.args).collect(),
            environment,
        };
        match self.start(apps.map(app).collect(), Some(parent)) {
            Ok(index) => {
                let encoding = self.connections[&waiter.0].session.encoding();
                let world = &self.worlds[index];
                let info = world.describe(&node, encoding);
                let namespace = world.job.namespace.clone();
                self.answer(waiter, Answer::Spawned { namespace: &namespace, info: &info });
            }
            Err(error) => {
                eprintln!("t-pmix: spawn: {error}");
                self.answer(waiter, Answer::Done(Status::EXE_NOT_FOUND));
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        self.last_event += 1;
        let source = event.source.clone();
        let ordered = OrderedEvent { number: self.last_event, has_default: false, event };
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            if let Some(Connection { session, .. }) = self.connections.get_mut(&number)
                && *session.proc() != source
            {
                session.notify(&ordered);
            }
            self.write(number);
        }
    }

    fn ended(&mut self, proc: &Proc, code: i32) {
        self.processes.remove(proc);
        let world = self.world_of(proc).expect("a world of ours");
        let at = proc.rank as usize;
        world.alive[at] = false;
        let is_improper = world.introduced[at] && !world.finalized[at];
        let code = u8::try_from(code & 0xff).unwrap_or(1);
        if self.options.trace {
            eprintln!("rank {} ended with {code}", proc.rank);
        }
        for completion in self.collectives.remove(proc) {
            self.complete(completion);
        }
        self.serve_gets();
        if self.options.keep {
            let status = if code > 128 { Status::ABORTED_BY_SIGNAL } else { Status::TERM_WO_SYNC };
            if is_improper {
                self.deliver(Event {
                    status,
                    source: proc.clone(),
                    range: Range::Namespace,
                    targets: Vec::new(),
                    info: vec![Info::new("pmix.evproc", proc.value())],
                });
            }
        } else {
            if !self.is_ending {
                self.status = self.status.max(code);
            }
            if code != 0 || is_improper {
                self.end_all(code.max(1));
            }
        }
    }

    fn end_all(&mut self, status: u8) {
        if !self.is_ending {
            self.status = self.status.max(status);
        }
        self.is_ending = true;
        for process in self.processes.values() {
            let pid = Pid::from_raw(i32::try_from(*process).expect("a pid"));
            // One that has ended since is of no interest.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    /// A connection is gone: its requests are, too.
    fn forget(&mut self, number: usize) {
        self.collectives.withdraw(|waiter| waiter.0 == number);
        self.gets.retain(|waiting| waiting.waiter.0 != number);
        self.lookups.retain(|(waiter, ..)| waiter.0 != number);
    }
}
