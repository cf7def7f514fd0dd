//! The scripts of ranks, and the answers that they get.

use std::collections::VecDeque;

use mpd_wire::job::RankEnd;
use mpd_wire::{JobId, Rank, Stream};

use super::manager::ForManager;
use super::suite::{Event, LOCAL, Suite};
use crate::dialect::{Dialect, Heard, Words};
use crate::kernel::{Process, State};
use crate::world::MS;

/// The signals of [`Step::Handle`].
const HANDLED: [i32; 2] = [2, 15];

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Init,
    Put,
    Fence,
    /// The value that this rank of the world has put before the last fence.
    Get(u32),
    Spawn(u32),
    /// This rank of the first world connects with the world that it has spawned. Its processes take part.
    Connect(u32),
    Publish(u32),
    Lookup(u32),
    /// So many lines of a stream.
    Print(Stream, u32),
    Finalize,
    /// For so many milliseconds.
    Compute(u64),
    /// A child computes for so many milliseconds.
    Fork(u64),
    /// It handles SIGINT and SIGTERM from now on.
    Handle,
    Abort,
    Exit(u8),
    Crash(u8),
}

/// The process of a rank, or a child of it.
#[derive(Debug)]
pub(super) struct Program {
    /// The number of its console.
    pub(super) job: usize,
    pub(super) job_id: JobId,
    pub(super) manager: i32,
    pub(super) rank: Rank,
    /// The number in its world.
    own: Rank,
    /// The first rank of its world.
    first: Rank,
    /// The key-value space and the namespace of the world.
    space: [String; 2],
    /// The namespace of the world that it has spawned.
    children: Option<String>,
    script: VecDeque<Step>,
    /// How many fences it has left behind.
    round: u32,
    /// What it has said without an answer yet.
    said: Option<Words>,
    unread: Vec<u8>,
    /// Lines that are not written yet.
    pub(super) lines: VecDeque<(Stream, String)>,
    /// How many lines of each stream it has had.
    pub(super) printed: [u32; 2],
    is_child: bool,
}

impl Program {
    /// The words that connect the two worlds, unless the spawn was refused.
    fn connection(&self, parent: u32) -> Option<Words> {
        let own = self.space[1].clone();
        if self.first == Rank(0) {
            return Some(Words::Connect(own, Rank(parent), self.children.clone()?));
        }
        let (job, _) = own.rsplit_once('-')?;
        Some(Words::Connect(format!("{job}-0"), Rank(parent), own))
    }
}

impl Suite {
    pub(super) fn begin_program(
        &mut self,
        (host, manager): (usize, i32),
        (pid, rank): (i32, Rank),
        (first, own): (Rank, Rank),
        space: [String; 2],
        job_id: &JobId,
    ) {
        let is_its = |console: &super::consoles::Console| console.job.as_ref() == Some(job_id);
        let Some(job) = self.consoles.iter().position(is_its) else { return };
        let plan = &self.jobs[job];
        let script = match first {
            Rank(0) => &plan.programs[own.index()],
            _ => &plan.child,
        };
        let program = Program {
            job,
            job_id: job_id.clone(),
            manager,
            rank,
            own,
            first,
            space,
            children: None,
            script: script.iter().cloned().collect(),
            round: 0,
            said: None,
            unread: Vec::new(),
            lines: VecDeque::new(),
            printed: [0; 2],
            is_child: false,
        };
        self.facts[job].started.insert(rank);
        self.programs.insert((host, pid), program);
        self.step_soon(host, pid);
    }

    fn step_soon(&mut self, host: usize, pid: i32) {
        let after = LOCAL + self.dice.below(3000) as u64;
        self.push(after, Event::Step(host, pid));
    }

    /// A process does its next step, unless it waits for an answer.
    pub(super) fn step(&mut self, host: usize, pid: i32) {
        let state = self.hosts[host].kernel.processes.get(&pid).map(|process| process.state);
        let Some(program) = self.programs.get_mut(&(host, pid)) else { return };
        if state == Some(State::Stopped) {
            return self.push(20 * MS, Event::Step(host, pid));
        }
        if program.said.is_some() || !self.write_lines(host, pid) {
            return;
        }
        let program = self.programs.get_mut(&(host, pid)).expect("it runs");
        let Some(step) = program.script.pop_front() else { return };
        let (job, own, round) = (program.job, program.own, program.round);
        let words = match step {
            Step::Init => Words::Init,
            Step::Put => Words::Put(key(own.0, round), value(job, program.first, own.0, round)),
            Step::Fence => Words::Fence(true),
            Step::Get(peer) => Words::Get(Rank(peer), key(peer, round - 1)),
            Step::Spawn(size) => Words::Spawn(size),
            Step::Connect(parent) => match program.connection(parent) {
                Some(words) => words,
                None => return self.step_soon(host, pid),
            },
            Step::Publish(name) => Words::Publish(format!("name{name}"), format!("port{name}")),
            Step::Lookup(name) => Words::Lookup(format!("name{name}")),
            Step::Finalize => Words::Finalize,
            Step::Abort => Words::Abort,
            other => return self.compute(host, pid, &other),
        };
        self.talk(host, pid, words);
    }

    /// A step without words.
    fn compute(&mut self, host: usize, pid: i32, step: &Step) {
        let kernel = &mut self.hosts[host].kernel;
        let job = self.programs[&(host, pid)].job;
        match step {
            Step::Compute(millis) => return self.push(millis * MS, Event::Step(host, pid)),
            Step::Fork(millis) => {
                let parent = &kernel.processes[&pid];
                let (rank, handles) = (parent.rank, parent.handles);
                let child = kernel.start(Process { rank, handles, ..Process::child_of(pid) });
                let program = &self.programs[&(host, pid)];
                let program = Program {
                    job_id: program.job_id.clone(),
                    space: program.space.clone(),
                    children: None,
                    script: VecDeque::from([Step::Compute(*millis), Step::Exit(0)]),
                    said: None,
                    unread: Vec::new(),
                    lines: VecDeque::new(),
                    is_child: true,
                    ..*program
                };
                self.programs.insert((host, child), program);
                self.set_writer(host, child, true);
                self.step_soon(host, child);
            }
            Step::Print(stream, count) => self.print(host, pid, *stream, *count),
            Step::Handle => {
                kernel.processes.get_mut(&pid).expect("it runs").handles = &HANDLED;
            }
            Step::Exit(code) => {
                self.note_own_end(host, pid, RankEnd::Exited(*code));
                return self.hosts[host].kernel.die(pid, RankEnd::Exited(*code));
            }
            Step::Crash(signal) => {
                let end = RankEnd::Signaled { signal: *signal, core: true };
                self.note_own_end(host, pid, end);
                return self.hosts[host].kernel.die(pid, end);
            }
            other => panic!("rank of job {job}: {other:?} has words"),
        }
        self.step_soon(host, pid);
    }

    fn note_own_end(&mut self, host: usize, pid: i32, end: RankEnd) {
        let program = &self.programs[&(host, pid)];
        if !program.is_child {
            let (job, rank) = (program.job, program.rank);
            self.facts[job].ends_of_own.insert(rank, end);
        }
    }

    fn talk(&mut self, host: usize, pid: i32, words: Words) {
        let program = self.programs.get_mut(&(host, pid)).expect("it runs");
        let dialect = self.jobs[program.job].dialect;
        let space = &program.space[usize::from(dialect == Dialect::Pmix)];
        let bytes = dialect.write(&words, program.own, space);
        let text = format!("rank {} of job {}: {words:?}", program.rank, program.job);
        let (rank, manager) = (program.rank, program.manager);
        if words == Words::Abort {
            let job = program.job;
            self.facts[job].has_aborted = true;
        } else {
            program.said = Some(words);
        }
        self.say(host, &text);
        if let Some(manager) = self.hosts[host].managers.get_mut(&manager) {
            manager.common.unread.entry(rank).or_default().extend(bytes);
        }
        self.push(LOCAL, Event::Manager(host, manager, ForManager::Readable(rank)));
        self.push(LOCAL, Event::Step(host, pid));
    }

    /// A process reads bytes.
    pub(super) fn hear(&mut self, host: usize, pid: i32, bytes: &[u8]) {
        let Some(program) = self.programs.get_mut(&(host, pid)) else { return };
        let dialect = self.jobs[program.job].dialect;
        program.unread.extend_from_slice(bytes);
        let who = format!("rank {} of job {}", program.rank, program.job);
        let Some(words) = program.said.take() else {
            if !self.facts[program.job].has_aborted {
                let text = bytes.escape_ascii().to_string();
                self.violate(format!("{who} has not asked: {text}"));
            }
            return;
        };
        let Some(heard) = dialect.read(&mut program.unread, &words) else {
            program.said = Some(words);
            return;
        };
        let is_more = !program.unread.is_empty();
        program.round += u32::from(matches!(words, Words::Fence(_)));
        if let (Words::Spawn(_), Heard::Found(namespace)) = (&words, &heard) {
            program.children = Some(String::from_utf8_lossy(namespace).into_owned());
        }
        let (job, first) = (program.job, program.first);
        self.say(host, &format!("{who} hears {heard:?}"));
        if is_more {
            self.violate(format!("{who} gets a second answer to {words:?}"));
        }
        self.check_answer(job, first, &words, &heard);
        self.step_soon(host, pid);
    }

    fn check_answer(&mut self, job: usize, first: Rank, words: &Words, heard: &Heard) {
        let facts = &mut self.facts[job];
        let is_right = match (words, heard) {
            (Words::Get(peer, key), Heard::Found(bytes)) => {
                let round = key.rsplit('-').next().and_then(|round| round.parse().ok());
                let wanted = value(job, first, peer.0, round.expect("a round"));
                bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
            }
            // The rank that has put it may be gone.
            (Words::Get(..), _) => !facts.is_clean(),
            (Words::Lookup(name), Heard::Found(bytes)) => {
                let wanted = name.replace("name", "port");
                bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
            }
            (Words::Lookup(_) | Words::Publish(..), Heard::Missing) => true,
            (Words::Spawn(_), Heard::Found(_)) => true,
            (Words::Connect(..), Heard::Missing) => !facts.is_clean(),
            (Words::Spawn(_), Heard::Missing) => {
                facts.has_refused_spawn = true;
                !facts.is_clean()
            }
            (_, heard) => *heard == Heard::Done,
        };
        if !is_right {
            self.violate(format!("a rank of job {job} hears {heard:?} after {words:?}"));
        }
    }

    /// A fault kills a process.
    pub(super) fn note_kill(&mut self, host: usize, pid: i32, signal: u8) {
        let program = &self.programs[&(host, pid)];
        if !program.is_child {
            let (job, rank) = (program.job, program.rank);
            self.facts[job].killed.insert(rank, signal);
        }
    }

    /// A process has ended.
    pub(super) fn end_program(&mut self, host: usize, pid: i32, end: RankEnd) {
        let Some(program) = self.programs.remove(&(host, pid)) else { return };
        if !program.is_child {
            self.facts[program.job].ends.insert(program.rank, end);
        }
    }
}

fn key(rank: u32, round: u32) -> String {
    format!("r{rank}-{round}")
}

fn value(job: usize, first: Rank, rank: u32, round: u32) -> String {
    format!("value-{job}-{first}-{rank}-{round}")
}
