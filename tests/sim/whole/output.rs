//! Output of ranks: their pipes, and the terminals of consoles. Each line names its rank, its stream and its number there, so
//! the lines of a terminal show what is lost, doubled or torn.

use std::collections::{BTreeMap, BTreeSet};

use mpd_clients::Job;
use mpd_sansio::Time;
use mpd_stdio::machine::{
    Action, Facts, Found, Here, Input, Look, Opened, Read, Stdio, Target, Written,
};
use mpd_stdio::silence::Task;
use mpd_wire::{Rank, Stream};

use super::consoles::Console;
use super::facts::Facts as JobFacts;
use super::machines::Machines;
use super::manager::{Effect, ForManager, Turn};
use super::schedule::JobPlan;
use super::suite::{Event, LOCAL, Suite};
use crate::world::MS;

/// Bytes that a pipe holds.
const PIPE: usize = 64 * 1024;

/// What reads the output of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    /// Standard output and error are one.
    pub(super) is_shared: bool,
    /// Bytes that it holds unread.
    pub(super) room: usize,
    /// Microseconds until it has read what was written.
    pub(super) delay: u64,
}

/// The manager's ends of the pipes of a rank.
#[derive(Debug)]
pub(super) struct Pipes {
    bytes: [Vec<u8>; 2],
    is_closed: [bool; 2],
    /// Processes that can write.
    writers: BTreeSet<i32>,
}

/// The text of a line of output. All lines of a job have its width.
fn line(rank: Rank, stream: Stream, number: u32, width: usize) -> String {
    let filler = char::from(b'a' + u8::try_from(number % 26).expect("a letter"));
    let filler = filler.to_string().repeat(width);
    format!("{} {} {number} {filler}\n", rank.0, stream.index())
}

impl Pipes {
    pub(super) fn of(process: i32) -> Self {
        Self { bytes: Default::default(), is_closed: [false; 2], writers: [process].into() }
    }

    /// A line is written whole or not at all. A closed pipe swallows it: SIGPIPE ends its writer soon.
    fn write(&mut self, stream: Stream, line: &[u8]) -> bool {
        let bytes = &mut self.bytes[stream.index()];
        let has_room = bytes.len() + line.len() <= PIPE;
        if has_room && !self.is_closed[stream.index()] {
            bytes.extend_from_slice(line);
        }
        has_room
    }

    fn read(&mut self, stream: Stream, room: &mut [u8]) -> Found {
        let bytes = &mut self.bytes[stream.index()];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        bytes.drain(..count);
        match count {
            0 if !self.writers.is_empty() => Found::Nothing,
            count => Found::Bytes(count),
        }
    }
}

/// What is lent to the machine: no name is needed, and every writer waits.
#[derive(Debug)]
struct Lent<'a>(&'a Job);

impl Here for Lent<'_> {
    fn name_of(&self, rank: Rank) -> String {
        self.0.name_of(rank)
    }

    fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        self.0.worlds.of(rank).and_then(|world| world.parts.tree_index_of(rank))
    }

    fn writer(&self, _: Rank) -> Vec<Task> {
        Vec::new()
    }
}

fn facts(now: Time, job: &Job) -> Facts<'_> {
    Facts { now, wall: None, spec: &job.spec, order: &job.order }
}

impl Machines {
    /// A rank was started, with pipes.
    pub(super) fn open_pipes(&mut self, turn: &mut Turn<'_>, rank: Rank, process: i32) {
        turn.common.pipes.insert(rank, Pipes::of(process));
        let opened = Opened { has_input: false, has_outputs: true, is_debugged: false };
        self.report(Input::Opened(rank, opened));
    }

    pub(super) fn mark_source(&mut self, rank: Rank, stream: Stream, has_ended: bool) {
        self.node.lend().stdio.mark_source(rank, stream, has_ended);
    }

    pub(super) fn give_stdio(&mut self, turn: &mut Turn<'_>, input: Input) {
        let lending = self.node.lend();
        lending.stdio.handle(&facts(turn.now, lending.job), &Lent(lending.job), input);
        self.settle_stdio(turn);
    }

    fn call<T>(&mut self, turn: &mut Turn<'_>, act: impl FnOnce(&mut Stdio, &Facts<'_>) -> T) -> T {
        let lending = self.node.lend();
        let result = act(lending.stdio, &facts(turn.now, lending.job));
        self.settle_stdio(turn);
        result
    }

    // ----- the stages of a turn -----

    pub(super) fn serve_sources(&mut self, turn: &mut Turn<'_>) {
        self.call(turn, Stdio::feed_ready);
        for _ in 0..self.node.stdio().runnable() {
            self.call(turn, |machine, _| machine.begin_source());
        }
    }

    pub(super) fn expire_output(&mut self, turn: &mut Turn<'_>) {
        let looks = self.call(turn, Stdio::expired_lines);
        looks.into_iter().for_each(|look| self.look(turn, look));
        if self.call(turn, |machine, facts| machine.must_catch_up(facts)) {
            self.serve_flows(turn);
            self.call(turn, Stdio::pass_answers);
        }
        let lending = self.node.lend();
        lending.stdio.expire_merged(&facts(turn.now, lending.job), &Lent(lending.job));
        self.settle_stdio(turn);
        self.serve_flows(turn);
    }

    fn serve_flows(&mut self, turn: &mut Turn<'_>) {
        for flow in self.node.stdio().waiting_flows() {
            while self.call(turn, |machine, facts| machine.pass_record(facts, flow)) {}
        }
    }

    pub(super) fn flush_output(&mut self, turn: &mut Turn<'_>) {
        self.call(turn, |machine, _| machine.flush());
        self.call(turn, Stdio::resume);
    }

    pub(super) fn pass_up(&mut self, turn: &mut Turn<'_>) {
        let looks = self.node.lend().stdio.asked();
        looks.into_iter().for_each(|look| self.look(turn, look));
        self.call(turn, Stdio::pass_up);
    }

    pub(super) fn review_drain(&mut self, turn: &mut Turn<'_>) {
        let is_all_up = self.node.is_all_up(&super::willing::Willing(&turn.common.links));
        self.call(turn, Stdio::review_drain);
        self.call(turn, |machine, _| machine.finish_drain(is_all_up));
    }

    fn look(&mut self, turn: &mut Turn<'_>, look: Look) {
        self.call(turn, |machine, _| machine.begin_look(look));
        self.give_stdio(turn, Input::Seen(look, Vec::new()));
    }

    // ----- what the machine wants -----

    fn settle_stdio(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(action) = self.node.lend().next_of_stdio() {
                if let Action::CloseSource(rank, stream) = action
                    && let Some(pipes) = turn.common.pipes.get_mut(&rank)
                {
                    pipes.is_closed[stream.index()] = true;
                    pipes.bytes[stream.index()].clear();
                }
            }
            if !self.write_some(turn) && !self.read_some(turn) {
                return;
            }
        }
    }

    fn write_some(&mut self, turn: &mut Turn<'_>) -> bool {
        let lending = self.node.lend();
        let Some((target, bytes)) = lending.stdio.next_write() else { return false };
        let Target::Sink(sink) = target else { panic!("no rank has a pipe of input") };
        let room = &mut turn.common.room[sink];
        let count = bytes.len().min(*room);
        *room -= count;
        let written = if count > 0 { Written::Bytes(count) } else { Written::Full };
        if count > 0 {
            turn.effects.push(Effect::Shown(sink, bytes[..count].to_vec()));
        }
        lending.stdio.wrote(&facts(turn.now, lending.job), target, written);
        true
    }

    fn read_some(&mut self, turn: &mut Turn<'_>) -> bool {
        let lending = self.node.lend();
        let facts = facts(turn.now, lending.job);
        match lending.stdio.next_read(&facts) {
            None => return false,
            Some(Read::Passed) => {}
            Some(Read::Source(rank, stream, room)) => {
                let pipes = turn.common.pipes.get_mut(&rank).expect("the pipes of a rank");
                let found = pipes.read(stream, room);
                if let Found::Bytes(count) = found {
                    turn.effects.push(Effect::Read(rank, stream, count));
                }
                lending.stdio.was_read(&facts, found);
            }
        }
        true
    }
}

impl Suite {
    /// The next lines of a program.
    pub(super) fn print(&mut self, host: usize, pid: i32, stream: Stream, count: u32) {
        let program = self.programs.get_mut(&(host, pid)).expect("it runs");
        let width = self.jobs[program.job].width;
        let number = &mut program.printed[stream.index()];
        for number in *number..*number + count {
            program.lines.push_back((stream, line(program.rank, stream, number, width)));
        }
        *number += count;
    }

    /// Writes the lines of a program that the pipes hold now. Whether these are all.
    pub(super) fn write_lines(&mut self, host: usize, pid: i32) -> bool {
        let Some(program) = self.programs.get_mut(&(host, pid)) else { return true };
        let (manager, rank) = (program.manager, program.rank);
        let mut to = self.hosts[host].managers.get_mut(&manager);
        let mut pipes = to.as_mut().and_then(|to| to.common.pipes.get_mut(&rank));
        let mut streams = BTreeSet::new();
        while let Some((stream, line)) = program.lines.front() {
            let Some(pipes) = &mut pipes else { break };
            if !pipes.write(*stream, line.as_bytes()) {
                break;
            }
            let facts = &mut self.facts[program.job];
            *facts.written.entry((rank, stream.index())).or_default() += line.len();
            streams.insert(*stream);
            program.lines.pop_front();
        }
        let is_done = program.lines.is_empty() || pipes.is_none();
        for stream in streams {
            let input = ForManager::Written(rank, stream);
            self.push(LOCAL, Event::Manager(host, manager, input));
        }
        if !is_done {
            self.push(5 * MS, Event::Step(host, pid));
        }
        is_done
    }

    /// A process can write to the pipes of a rank, or no longer.
    pub(super) fn set_writer(&mut self, host: usize, pid: i32, writes: bool) {
        let Some(program) = self.programs.get(&(host, pid)) else { return };
        let (manager, rank) = (program.manager, program.rank);
        let to = self.hosts[host].managers.get_mut(&manager);
        let Some(pipes) = to.and_then(|to| to.common.pipes.get_mut(&rank)) else { return };
        if writes {
            pipes.writers.insert(pid);
        } else if pipes.writers.remove(&pid) && pipes.writers.is_empty() {
            self.push(LOCAL, Event::Manager(host, manager, ForManager::HungUp(rank)));
        }
    }

    /// The terminal of a job gets bytes.
    pub(super) fn show(
        &mut self,
        (host, pid): (usize, i32),
        job: usize,
        sink: usize,
        bytes: &[u8],
    ) {
        let console = &mut self.consoles[job];
        let is_late = console.code.is_some() && console.ended.is_some();
        console.shown[sink].extend_from_slice(bytes);
        if is_late {
            self.violate(format!("console {job} gets output after its end"));
        }
        let after = LOCAL + self.dice.below(1 + 2 * self.jobs[job].terminal.delay as usize) as u64;
        self.push(after, Event::Manager(host, pid, ForManager::Room(sink, bytes.len())));
    }
}

/// What is wrong with the output of a job.
pub(super) fn judge_output(
    job: usize,
    plan: &JobPlan,
    facts: &JobFacts,
    console: &Console,
) -> Vec<String> {
    let mut shown = BTreeMap::new();
    let mut wrong = Vec::new();
    let is_whole =
        console.ended.is_some() && !console.is_lost && !facts.is_disturbed && !facts.lost_manager;
    for bytes in &console.shown {
        // The last line of a terminal whose manager is gone may have no end.
        let is_shown = |line: &&[u8]| is_whole || line.ends_with(b"\n");
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(is_shown) {
            wrong.extend(take_line(plan, line, &mut shown));
        }
    }
    let none = (0, 0);
    for (source, read) in facts.read.iter().filter(|_| is_whole) {
        let (lines, bytes) = shown.get(source).unwrap_or(&none);
        if bytes != read {
            wrong.push(format!(
                "{source:?}: {read} bytes were read, {bytes} in {lines} lines shown"
            ));
        }
    }
    for (source, written) in facts.written.iter().filter(|_| is_whole) {
        let read = facts.read.get(source).unwrap_or(&0);
        if written != read {
            wrong.push(format!("{source:?}: {written} bytes were written, {read} read"));
        }
    }
    wrong.into_iter().map(|text| format!("output of job {job}: {text}")).collect()
}

/// Counts a line of the terminal with the others of its rank and stream. Returns what is wrong with it.
fn take_line(
    plan: &JobPlan,
    bytes: &[u8],
    shown: &mut BTreeMap<(Rank, usize), (u32, usize)>,
) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let torn = || Some(format!("a line is torn: {text:?}"));
    let (label, body) = match plan.is_labelled {
        true => text.split_once(": ").map_or(("", &text[..]), |(label, body)| (label, body)),
        false => ("", &text[..]),
    };
    let mut words = body.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
    let (Some(rank), Some(stream), Some(found)) = (number(), number(), number()) else {
        return torn();
    };
    let Some(&stream) = Stream::BOTH.get(stream as usize) else { return torn() };
    if body != line(Rank(rank), stream, found, plan.width) {
        return torn();
    }
    if plan.is_labelled && rank < plan.size() && label != rank.to_string() {
        return Some(format!("a line has a wrong label: {text:?}"));
    }
    let (next, bytes) = shown.entry((Rank(rank), stream.index())).or_default();
    let is_next = *next == found;
    *next = found + 1;
    *bytes += body.len();
    (!is_next).then(|| format!("line {found} of rank {rank} is not the next one"))
}
