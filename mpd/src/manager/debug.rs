//! Jobs that are debugged: each rank is the driver of a debugger. What the console says to it goes down its
//! standard input, what it answers comes as output; its program's PMI connections are handed to it.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use mpd_io::passing::pass;
use mpd_job::manager::Input;
use mpd_wire::message::MAX_DEBUG_LINE;
use mpd_wire::{Rank, RankSet, Stream};
use pmi_proto::Session;

use super::clients::{Client, Pmi};
use super::worlds::World;
use super::{Process, Timer};

/// Bytes that may wait for a driver that does not read.
const MAX_WAITING: usize = 8 * MAX_DEBUG_LINE;

/// Comes with a PMI connection for the next run of a program.
const CONNECTION: u8 = b'P';

/// The last mark of a driver, whatever it was asked.
const ENDED: &[u8] = b"=4294967295 ended\n";

/// The manager's side of a driver.
#[derive(Debug)]
pub(crate) struct Driver {
    /// Takes PMI connections.
    control: UnixStream,
    /// What it has not read yet.
    commands: Vec<u8>,
}

impl Driver {
    pub(crate) const fn new(control: UnixStream) -> Self {
        Self { control, commands: Vec::new() }
    }
}

/// Hands the program's end of a new PMI connection to what stands in front of it, and returns ours.
///
/// # Errors
/// There is no descriptor, or nobody at the other end.
pub(crate) fn connect(control: &UnixStream) -> io::Result<UnixStream> {
    let (pmi, program) = UnixStream::pair()?;
    pass(control, CONNECTION, &program)?;
    Ok(pmi)
}

impl Client {
    /// Queues a line for the driver. Says whether there was room.
    fn command(&mut self, line: &str) -> bool {
        let Some(driver) = &mut self.driver else { return true };
        if driver.commands.len() + line.len() > MAX_WAITING {
            return false;
        }
        driver.commands.extend_from_slice(line.as_bytes());
        driver.commands.push(b'\n');
        self.flush_commands();
        true
    }

    /// Writes what the driver takes.
    pub(super) fn flush_commands(&mut self) {
        let (Some(driver), Some(pipe)) = (&mut self.driver, &mut self.stdin) else { return };
        while !driver.commands.is_empty() {
            match pipe.write(&driver.commands) {
                Ok(n) => drop(driver.commands.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return driver.commands.clear(),
            }
        }
    }
}

impl Process {
    /// The console says something to the debuggers of these ranks, some of which run here or below.
    pub(super) fn tell_debuggers(&mut self, ranks: &RankSet, line: &str) {
        if line.len() > MAX_DEBUG_LINE || line.contains('\n') {
            log::warn!("a command of {} bytes for debuggers is none", line.len());
            return;
        }
        if !matches!(line.split(' ').nth(1), Some("input" | "eof")) {
            // Those have no answer.
            let now = self.now();
            self.outputs.ask(now, ranks);
        }
        let here: Vec<Rank> = self.debugged().filter(|rank| ranks.contains(*rank)).collect();
        for rank in here {
            if self.clients.get_mut(rank).is_some_and(|client| !client.command(line)) {
                let text = format!("rank {rank}: its debugger takes no commands");
                self.post(Input::Notice(text));
            }
        }
    }

    /// The ranks here that are drivers.
    fn debugged(&self) -> impl Iterator<Item = Rank> {
        let lives = |client: &Client| client.driver.is_some() && client.process.is_some();
        let drivers = self.clients.started().filter(move |(_, client)| lives(client));
        drivers.map(|(rank, _)| rank)
    }

    /// A driver says no more, whether it has said that or not: nobody is to wait for it.
    pub(super) fn end_driver(&mut self, rank: Rank) {
        self.buffer[..ENDED.len()].copy_from_slice(ENDED);
        self.take_output(rank, Stream::Out, ENDED.len());
    }

    /// No program runs, and all of them are to be started once more: what they share begins anew.
    pub(super) fn restart(&mut self) {
        self.restarts += 1;
        let mut world = World::of_job(&self.spec, &self.order);
        world.kvsname = format!("{}_r{}", self.order.kvsname, self.restarts);
        if let Some(before) = self.worlds.of_mut(Rank(0)) {
            world.spawns = std::mem::take(&mut before.spawns);
            world.bindings = std::mem::take(&mut before.bindings);
        }
        self.worlds.insert(world);
        let here: Vec<Rank> = self.debugged().collect();
        for rank in here {
            self.spawning.forget(rank);
            self.misbehaved.remove(&rank);
            self.timers.stop(Timer::PmiLost(rank));
            if let Err(e) = self.reconnect(rank) {
                let problem = mpd_io::logging::plain(&e);
                let text = format!("rank {rank}: its program will not find PMI: {problem}");
                self.post(Input::Notice(text));
            }
        }
        self.take_names_back();
        self.post(Input::Restarted);
    }

    /// A new PMI session for the next run of a rank's program.
    fn reconnect(&mut self, rank: Rank) -> io::Result<()> {
        let Some(world) = self.worlds.of(rank) else { return Ok(()) };
        let facts = world.facts(rank, self.spec.universe_size);
        let token = self.clients.token_of(rank);
        let Some(client) = self.clients.get_mut(rank) else { return Ok(()) };
        client.pmi = Pmi { stream: None, session: Session::new(facts), ending: false };
        let (Some(driver), Some(token)) = (&client.driver, token) else { return Ok(()) };
        let pmi = connect(&driver.control)?;
        client.watch_pmi(self.poll.registry(), token, pmi)
    }
}
