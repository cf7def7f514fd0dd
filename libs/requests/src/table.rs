//! The requests of a program.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::{End, Error, MAX_REQUESTS, MAX_STRING, RequestId, ToHelper, ToProgram, Wanted};

/// Most bytes of one string of arguments. The system takes no longer one.
const MAX_ARGUMENT: usize = 128 * 1024 - 1;
/// Most bytes of all arguments.
const MAX_ARGUMENTS: usize = 2 << 20;

/// What a completion reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The request has its slot.
    Granted,
    /// Its process runs.
    Started,
    /// Its process exited with this code.
    Exited(u8),
    /// A signal ended its process.
    Signaled(u8),
    /// It was cancelled, or a soft request got no slot.
    Cancelled,
    /// The daemon or the scheduler's hook refuses it.
    Refused,
    /// Its slot, its host, the daemon or the helper is lost, or its process could not be started.
    Lost(u8),
}

impl State {
    /// Whether the request is over.
    pub const fn is_last(self) -> bool {
        !matches!(self, Self::Granted | Self::Started)
    }

    /// The exit code of the process, as a shell reports it.
    pub const fn code(self) -> Option<u8> {
        match self {
            Self::Exited(code) => Some(code),
            Self::Signaled(signal) => Some(signal.saturating_add(128)),
            _ => None,
        }
    }
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What happened.
    pub state: State,
    /// The host; empty if the request never had one.
    pub host: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Granted,
    Running,
    Over,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// The first request of its call.
    first: RequestId,
    /// Its allocation, and its place there.
    alloc: (String, u64),
    host: String,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    reports_start: bool,
    is_cancelled: bool,
    completions: VecDeque<State>,
}

#[derive(Debug)]
struct Group {
    global: Option<String>,
    local: Vec<String>,
    left: usize,
}

/// What `MPD_Get_jsinfo` gives.
#[derive(Serialize)]
struct Info<'a> {
    allocation: &'a str,
    slot: u64,
    host: &'a str,
    global: Option<&'a str>,
    local: Option<&'a str>,
}

/// All requests of a program.
#[derive(Debug, Default)]
pub struct Table {
    entries: BTreeMap<RequestId, Entry>,
    groups: BTreeMap<RequestId, Group>,
    last: u64,
    /// Why the last call was refused.
    refusal: String,
    waiting: usize,
}

impl Table {
    /// Adds the requests of a call. Returns the first one; the others follow it.
    ///
    /// # Errors
    /// [`Error::Argument`].
    pub fn allocate(&mut self, wanted: &Wanted) -> Result<RequestId, Error> {
        check(wanted)?;
        let first = RequestId(self.last + 1);
        let count = wanted.count as usize;
        self.last += u64::from(wanted.count);
        for index in 0..count {
            let entry = Entry {
                phase: Phase::Waiting,
                first,
                alloc: (String::new(), 0),
                host: String::new(),
                path: Vec::new(),
                arguments: Vec::new(),
                reports_start: false,
                is_cancelled: false,
                completions: VecDeque::new(),
            };
            self.entries.insert(first.plus(index), entry);
        }
        let Wanted { global, local, .. } = wanted.clone();
        self.groups.insert(first, Group { global, local, left: count });
        Ok(first)
    }

    /// Removes the requests of a call that failed.
    pub fn withdraw(&mut self, first: RequestId) {
        self.entries.retain(|_, entry| entry.first != first);
        self.groups.remove(&first);
    }

    fn entry(&mut self, id: RequestId) -> Result<&mut Entry, Error> {
        self.entries.get_mut(&id).ok_or(Error::Request)
    }

    fn before_start(&mut self, id: RequestId) -> Result<&mut Entry, Error> {
        let entry = self.entry(id)?;
        match entry.phase {
            Phase::Waiting | Phase::Granted => Ok(entry),
            Phase::Running => Err(Error::state("the process is started already")),
            Phase::Over => Err(Error::state("the request is over; its completion waits")),
        }
    }

    /// The program of a request that has not started.
    ///
    /// # Errors
    /// The path is empty or too long, or the request is in another state.
    pub fn set_exec(&mut self, id: RequestId, path: &[u8]) -> Result<(), Error> {
        let entry = self.before_start(id)?;
        let path = argument("the path of the program", path)?;
        if path.is_empty() || path.starts_with(b"-") {
            let problem = "the path of the program is empty or begins with a dash";
            return Err(Error::Argument(problem.to_owned()));
        }
        entry.path = path;
        Ok(())
    }

    /// The arguments of the program, without its name.
    ///
    /// # Errors
    /// They are too long, or the request is in another state.
    pub fn set_args(&mut self, id: RequestId, arguments: &[&[u8]]) -> Result<(), Error> {
        let entry = self.before_start(id)?;
        if arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() > MAX_ARGUMENTS {
            return Err(Error::Argument(format!("more than {MAX_ARGUMENTS} bytes of arguments")));
        }
        let all = arguments.iter().map(|text| argument("an argument", text));
        entry.arguments = all.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The start of the process shall be reported too.
    ///
    /// # Errors
    /// The request is in another state.
    pub fn want_start(&mut self, id: RequestId) -> Result<(), Error> {
        self.before_start(id)?.reports_start = true;
        Ok(())
    }

    /// Checks whether [`Self::start`] is possible.
    ///
    /// # Errors
    /// The request is not granted, cancelled, or has no program.
    pub fn can_start(&mut self, id: RequestId) -> Result<(), Error> {
        let entry = self.before_start(id)?;
        match entry {
            Entry { phase: Phase::Waiting, .. } => {
                Err(Error::state("the request is not granted yet"))
            }
            Entry { is_cancelled: true, .. } => Err(Error::state("the request is cancelled")),
            Entry { path, .. } if path.is_empty() => {
                Err(Error::state("the request has no program; MPD_Set_exec sets it"))
            }
            _ => Ok(()),
        }
    }

    /// Starts the process of a granted request. A granted completion that waits is over: the program knows of it.
    ///
    /// # Errors
    /// As for [`Self::can_start`].
    pub fn start(&mut self, id: RequestId) -> Result<ToHelper, Error> {
        self.can_start(id)?;
        let entry = self.entry(id)?;
        entry.phase = Phase::Running;
        let gone = std::mem::take(&mut entry.completions).len();
        let (path, arguments) = (entry.path.clone(), entry.arguments.clone());
        let reports_start = entry.reports_start;
        self.waiting -= gone;
        Ok(ToHelper::Start { id, path, arguments, reports_start })
    }

    /// Cancels a request. `None`: it is over or cancelled already, so there is nothing to tell the helper.
    ///
    /// # Errors
    /// There is no such request.
    pub fn cancel(&mut self, id: RequestId) -> Result<Option<ToHelper>, Error> {
        let entry = self.entry(id)?;
        if entry.phase == Phase::Over || std::mem::replace(&mut entry.is_cancelled, true) {
            return Ok(None);
        }
        Ok(Some(ToHelper::Cancel(id)))
    }

    /// The request has a process that can be signalled, or had one whose end is not reported yet.
    ///
    /// # Errors
    /// There is no process.
    pub fn can_signal(&mut self, id: RequestId) -> Result<bool, Error> {
        match self.entry(id)?.phase {
            Phase::Running => Ok(true),
            Phase::Over => Ok(false),
            Phase::Waiting | Phase::Granted => Err(Error::state("the process is not started")),
        }
    }

    /// The host of a granted request.
    ///
    /// # Errors
    /// It is not granted.
    pub fn host(&mut self, id: RequestId) -> Result<&str, Error> {
        let entry = self.entry(id)?;
        match entry.host.is_empty() {
            true => Err(Error::state("the request is not granted yet")),
            false => Ok(&entry.host),
        }
    }

    /// What the scheduler knows about a granted request, as a line of JSON.
    ///
    /// # Errors
    /// It is not granted.
    pub fn info(&mut self, id: RequestId) -> Result<String, Error> {
        self.host(id)?;
        let Some(entry) = self.entries.get(&id) else { return Err(Error::Request) };
        let Some(group) = self.groups.get(&entry.first) else { return Err(Error::Library) };
        let place = usize::try_from(id.0 - entry.first.0).ok();
        let local = place.and_then(|place| group.local.get(place));
        let (alloc, slot) = &entry.alloc;
        let info = Info {
            allocation: alloc,
            slot: *slot,
            host: &entry.host,
            global: group.global.as_deref(),
            local: local.map(String::as_str),
        };
        Ok(serde_json::to_string(&info).expect("texts and numbers serialise"))
    }

    /// Handles a message of the helper.
    pub fn received(&mut self, message: ToProgram) {
        match message {
            // The session takes these.
            ToProgram::Answer { .. }
            | ToProgram::Events { .. }
            | ToProgram::EventsFailed { .. } => {}
            ToProgram::Granted { first, alloc, hosts } => {
                for (index, (slot, host)) in (0..).zip(hosts).enumerate() {
                    if let Some(entry) = self.entries.get_mut(&first.plus(index))
                        && entry.phase == Phase::Waiting
                    {
                        (entry.phase, entry.host) = (Phase::Granted, host);
                        entry.alloc = (alloc.clone(), slot);
                        entry.completions.push_back(State::Granted);
                        self.waiting += 1;
                    }
                }
            }
            ToProgram::Refused { first, count, why } => {
                self.refusal = why;
                (0..count as usize).for_each(|index| self.end(first.plus(index), State::Refused));
            }
            ToProgram::Started(id) => {
                if let Some(entry) = self.entries.get_mut(&id)
                    && entry.phase == Phase::Running
                    && entry.reports_start
                {
                    entry.completions.push_back(State::Started);
                    self.waiting += 1;
                }
            }
            ToProgram::Ended(id, end) => self.end(
                id,
                match end {
                    End::Exited(code) => State::Exited(code),
                    End::Signaled(signal) => State::Signaled(signal),
                    End::Cancelled => State::Cancelled,
                    End::Lost(code) => State::Lost(code),
                },
            ),
        }
    }

    /// The helper is gone, and all requests with it.
    pub fn lose_all(&mut self) {
        let all: Vec<RequestId> = self.entries.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id, State::Lost(0)));
    }

    fn end(&mut self, id: RequestId, state: State) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.phase == Phase::Over {
            return;
        }
        entry.phase = Phase::Over;
        let before = entry.completions.len();
        // A grant that was not reported is none any more.
        entry.completions.retain(|waiting| *waiting != State::Granted);
        entry.completions.push_back(state);
        self.waiting = self.waiting + entry.completions.len() - before;
    }

    /// Whether a completion waits.
    pub const fn has_completions(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the request will complete without a further call: it waits or runs.
    ///
    /// # Errors
    /// There is no such request.
    pub fn is_active(&mut self, id: RequestId) -> Result<bool, Error> {
        let entry = self.entry(id)?;
        Ok(entry.phase != Phase::Granted || entry.is_cancelled || !entry.completions.is_empty())
    }

    /// The next completion of a request. After the last one the request is forgotten.
    ///
    /// # Errors
    /// There is no such request.
    pub fn take(&mut self, id: RequestId) -> Result<Option<Status>, Error> {
        let entry = self.entry(id)?;
        let Some(state) = entry.completions.pop_front() else { return Ok(None) };
        let (host, first) = (entry.host.clone(), entry.first);
        self.waiting -= 1;
        if state.is_last() {
            self.entries.remove(&id);
            if let Some(group) = self.groups.get_mut(&first) {
                group.left -= 1;
                if group.left == 0 {
                    self.groups.remove(&first);
                }
            }
        }
        Ok(Some(Status { state, host }))
    }

    /// Why the last call was refused.
    pub fn refusal(&self) -> &str {
        &self.refusal
    }
}

fn argument(what: &str, text: &[u8]) -> Result<Vec<u8>, Error> {
    if text.contains(&0) {
        return Err(Error::Argument(format!("{what} has a NUL byte")));
    }
    match text.len() <= MAX_ARGUMENT {
        true => Ok(text.to_vec()),
        false => Err(Error::Argument(format!("{what} is longer than {MAX_ARGUMENT} bytes"))),
    }
}

fn check(wanted: &Wanted) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Argument(text));
    let count = wanted.count as usize;
    if !(1..=MAX_REQUESTS).contains(&count) {
        return refuse(format!("the number of requests must be 1 to {MAX_REQUESTS}"));
    }
    if !wanted.nodes.is_empty() && wanted.nodes.len() != count {
        return refuse("there must be a node for each request".to_owned());
    }
    if !wanted.local.is_empty() && wanted.local.len() != count {
        return refuse("there must be a string for each request".to_owned());
    }
    let strings = wanted.global.iter().chain(&wanted.local);
    if strings.into_iter().any(|text| text.len() > MAX_STRING || text.contains('\0')) {
        return refuse(format!("a string for the scheduler is longer than {MAX_STRING} bytes"));
    }
    // A variable has one line for each process.
    match wanted.local.iter().any(|text| text.contains('\n')) {
        true => refuse("a string for the scheduler about a process has a newline".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: u32) -> (Table, RequestId) {
        let mut table = Table::default();
        let first = table.allocate(&Wanted { count, ..Wanted::default() }).unwrap();
        (table, first)
    }

    fn grant(table: &mut Table, first: RequestId, hosts: &[&str]) {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        table.received(ToProgram::Granted { first, alloc: "a1@h".to_owned(), hosts });
    }

    fn take(table: &mut Table, id: RequestId) -> Option<State> {
        table.take(id).unwrap().map(|status| status.state)
    }

    #[test]
    fn a_request_completes_as_granted_then_as_exited_and_is_forgotten() {
        let (mut table, id) = table(1);
        assert!(table.is_active(id).unwrap() && !table.has_completions());
        assert!(matches!(table.can_start(id), Err(Error::State(_))));
        assert!(matches!(table.host(id), Err(Error::State(_))));
        grant(&mut table, id, &["h2"]);
        assert_eq!(table.take(id).unwrap().unwrap().host, "h2");
        assert!(!table.is_active(id).unwrap() && !table.has_completions());
        assert!(matches!(table.start(id), Err(Error::State(_))), "it has no program");
        assert!(matches!(table.can_signal(id), Err(Error::State(_))));
        table.set_exec(id, b"/bin/a").unwrap();
        table.set_exec(id, b"/bin/b").unwrap();
        table.set_args(id, &[b"x"]).unwrap();
        let ToHelper::Start { path, arguments, .. } = table.start(id).unwrap() else { panic!() };
        assert_eq!((path, arguments), (b"/bin/b".to_vec(), vec![b"x".to_vec()]));
        assert!(matches!(table.set_exec(id, b"c"), Err(Error::State(_))));
        assert!(matches!(table.start(id), Err(Error::State(_))));
        assert_eq!(table.can_signal(id), Ok(true));
        table.received(ToProgram::Started(id));
        table.received(ToProgram::Ended(id, End::Exited(7)));
        table.received(ToProgram::Ended(id, End::Exited(8)));
        assert_eq!(
            (take(&mut table, id), table.can_signal(id)),
            (Some(State::Exited(7)), Err(Error::Request))
        );
        assert_eq!(table.take(id), Err(Error::Request));
        assert!(table.groups.is_empty() && !table.has_completions());
    }

    #[test]
    fn a_start_is_reported_if_it_is_wanted_and_before_the_end() {
        let (mut table, id) = table(1);
        table.want_start(id).unwrap();
        grant(&mut table, id, &["h"]);
        table.set_exec(id, b"a").unwrap();
        table.start(id).unwrap();
        table.received(ToProgram::Started(id));
        table.received(ToProgram::Ended(id, End::Signaled(9)));
        assert_eq!(take(&mut table, id), Some(State::Started));
        assert_eq!(take(&mut table, id), Some(State::Signaled(9)));
        assert_eq!(State::Signaled(9).code(), Some(137));
    }

    #[test]
    fn a_grant_that_was_not_reported_is_replaced_by_the_end_of_the_request() {
        let (mut table, first) = table(3);
        grant(&mut table, first, &["a", "a"]);
        table.received(ToProgram::Ended(first.plus(2), End::Cancelled));
        assert_eq!(table.cancel(first), Ok(Some(ToHelper::Cancel(first))));
        assert_eq!(table.cancel(first), Ok(None));
        assert!(matches!(table.can_start(first), Err(Error::State(_))));
        table.received(ToProgram::Ended(first, End::Cancelled));
        assert_eq!(take(&mut table, first), Some(State::Cancelled));
        assert_eq!(take(&mut table, first.plus(1)), Some(State::Granted));
        assert_eq!(take(&mut table, first.plus(2)), Some(State::Cancelled));
        assert!(!table.has_completions());
        table.lose_all();
        assert_eq!(take(&mut table, first.plus(1)), Some(State::Lost(0)));
    }

    #[test]
    fn all_requests_of_a_refused_call_complete_with_the_reason() {
        let (mut table, first) = table(2);
        table.received(ToProgram::Refused { first, count: 2, why: "no".to_owned() });
        assert_eq!(table.refusal(), "no");
        assert_eq!(take(&mut table, first), Some(State::Refused));
        assert_eq!(take(&mut table, first.plus(1)), Some(State::Refused));
    }

    #[test]
    fn the_information_has_both_strings_as_they_are() {
        let mut table = Table::default();
        let local = vec!["large_memory".to_owned(), "b".to_owned()];
        let global = Some("gang_schedule".to_owned());
        let wanted = Wanted { count: 2, global, local, ..Wanted::default() };
        let first = table.allocate(&wanted).unwrap();
        grant(&mut table, first, &["h1", "h2"]);
        assert_eq!(
            table.info(first.plus(1)).unwrap(),
            r#"{"allocation":"a1@h","slot":1,"host":"h2","global":"gang_schedule","local":"b"}"#
        );
    }

    #[test]
    fn a_request_with_an_allocation_of_its_own_has_its_own_string() {
        let mut table = Table::default();
        let local = vec!["a".to_owned(), "b".to_owned()];
        let first = table.allocate(&Wanted { count: 2, local, ..Wanted::default() }).unwrap();
        grant(&mut table, first.plus(1), &["h2"]);
        assert!(matches!(table.info(first), Err(Error::State(_))));
        assert_eq!(
            table.info(first.plus(1)).unwrap(),
            r#"{"allocation":"a1@h","slot":0,"host":"h2","global":null,"local":"b"}"#
        );
        let refused = ToProgram::Refused { first, count: 1, why: "no".to_owned() };
        table.received(refused);
        assert_eq!(take(&mut table, first), Some(State::Refused));
        assert_eq!(take(&mut table, first.plus(1)), Some(State::Granted));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let mut table = Table::default();
        let long = "x".repeat(MAX_STRING + 1);
        for wanted in [
            Wanted::default(),
            Wanted { count: 5000, ..Wanted::default() },
            Wanted { count: 2, nodes: vec!["*".to_owned()], ..Wanted::default() },
            Wanted { count: 2, local: vec!["a".to_owned()], ..Wanted::default() },
            Wanted { count: 1, global: Some(long), ..Wanted::default() },
            Wanted { count: 1, local: vec!["a\nb".to_owned()], ..Wanted::default() },
        ] {
            assert!(matches!(table.allocate(&wanted), Err(Error::Argument(_))), "{wanted:?}");
        }
        let first = table.allocate(&Wanted { count: 1, ..Wanted::default() }).unwrap();
        assert!(table.set_exec(first, b"").is_err() && table.set_exec(first, b"-a").is_err());
        assert!(table.set_exec(first, b"a\0").is_err());
        assert!(table.set_args(first, &[&[b'x'; MAX_ARGUMENT + 1]]).is_err());
        table.withdraw(first);
        assert_eq!(table.set_exec(first, b"a"), Err(Error::Request));
    }
}
