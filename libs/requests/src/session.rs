//! The requests of a program, and the calls about them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Error, Event, Events, RequestId, Status, Table, ToHelper, ToProgram, Wanted};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::helper::{self, Helper, Places};

/// The requests of a program, with their helper. Threads may share a session.
#[derive(Debug)]
pub struct Session {
    shared: Mutex<Shared>,
    /// Messages were read, or the thread that waited for them has stopped.
    news: Condvar,
    /// Readable when the socket of the helper or `ready` is.
    descriptor: Epoll,
    places: Places,
}

#[derive(Debug)]
struct Shared {
    helper: Option<Helper>,
    table: Table,
    events: Events,
    answers: BTreeMap<u64, Result<(), Error>>,
    last_number: u64,
    /// One thread waits at the socket; the others wait for it.
    is_watched: bool,
    /// Readable while completions or events wait.
    ready: EventFd,
    is_ready: bool,
}

impl Session {
    /// A session without requests. Its helper starts with the first one.
    ///
    /// # Errors
    /// [`Error::Helper`]: there are no descriptors.
    pub fn new() -> Result<Self, Error> {
        Self::with_places(Vec::new())
    }

    /// The same; the programs of MPD are looked for in these directories before those of `PATH`.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_places(places: Vec<PathBuf>) -> Result<Self, Error> {
        let failed = |error: Errno| Error::Helper(format!("cannot make a descriptor: {error}"));
        let descriptor = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ready = EventFd::from_value_and_flags(0, flags).map_err(failed)?;
        descriptor.add(&ready, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(failed)?;
        let shared = Shared {
            helper: None,
            table: Table::default(),
            events: Events::default(),
            answers: BTreeMap::new(),
            last_number: 0,
            is_watched: false,
            ready,
            is_ready: false,
        };
        Ok(Self {
            shared: Mutex::new(shared),
            news: Condvar::new(),
            descriptor,
            places: Places(places),
        })
    }

    /// Readable when a completion or an event waits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.0.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests slots, each for one process. Returns at once.
    ///
    /// # Errors
    /// An argument is invalid, or there is no daemon on this host.
    pub fn allocate(&self, wanted: &Wanted) -> Result<Vec<RequestId>, Error> {
        let mut shared = self.lock();
        let first = shared.table.allocate(wanted)?;
        let made = shared.ensure_helper(&self.places, &self.descriptor);
        let asked = made.and_then(|()| {
            let number = shared.next_number();
            shared.send(&ToHelper::Allocate { number, first, wanted: wanted.clone() })?;
            Ok(number)
        });
        let (mut shared, result) = match asked {
            Ok(number) => self.answer(shared, number),
            Err(error) => (shared, Err(error)),
        };
        match result {
            Ok(()) => Ok((0..wanted.count as usize).map(|index| first.plus(index)).collect()),
            Err(error) => {
                shared.table.withdraw(first);
                Err(error)
            }
        }
    }

    /// Sets the program of a request that is not started.
    ///
    /// # Errors
    /// [`Error`].
    pub fn set_exec(&self, request: RequestId, path: &[u8]) -> Result<(), Error> {
        self.lock().table.set_exec(request, path)
    }

    /// Sets the arguments of the program, without its name.
    ///
    /// # Errors
    /// [`Error`].
    pub fn set_args(&self, request: RequestId, arguments: &[&[u8]]) -> Result<(), Error> {
        self.lock().table.set_args(request, arguments)
    }

    /// Lets the start of the process be reported too.
    ///
    /// # Errors
    /// [`Error`].
    pub fn want_start(&self, request: RequestId) -> Result<(), Error> {
        self.lock().table.want_start(request)
    }

    /// Starts the process of a granted request.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start(&self, request: RequestId) -> Result<(), Error> {
        self.start_all(&[request])
    }

    /// Starts several processes, all or none.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start_all(&self, requests: &[RequestId]) -> Result<(), Error> {
        let mut shared = self.lock();
        // The latest news decide whether a request may start.
        shared.receive();
        for (index, &request) in requests.iter().enumerate() {
            shared.table.can_start(request)?;
            if requests[..index].contains(&request) {
                return Err(Error::Argument("a request is there twice".to_owned()));
            }
        }
        let result = requests.iter().try_for_each(|&request| {
            let message = shared.table.start(request)?;
            shared.send(&message)
        });
        self.settled(shared, result)
    }

    /// Cancels a request, which completes as cancelled. A running process is ended.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn cancel(&self, request: RequestId) -> Result<(), Error> {
        let mut shared = self.lock();
        let result = match shared.table.cancel(request) {
            Ok(Some(message)) => shared.send(&message),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.settled(shared, result)
    }

    /// Sends a signal to the processes of requests, by its name or number. All are checked before one gets it.
    ///
    /// # Errors
    /// [`Error`]. No signal was sent if a name or a request is wrong.
    pub fn signal(&self, signal: &str, requests: &[RequestId]) -> Result<(), Error> {
        let mut shared = self.lock();
        shared.receive();
        let mut ids = Vec::new();
        for &request in requests {
            if shared.table.can_signal(request)? {
                ids.push(request);
            }
        }
        let made = shared.ensure_helper(&self.places, &self.descriptor);
        let asked = made.and_then(|()| {
            let number = shared.next_number();
            shared.send(&ToHelper::Signal { number, signal: signal.to_owned(), ids })?;
            Ok(number)
        });
        match asked {
            Ok(number) => {
                let (shared, result) = self.answer(shared, number);
                self.settled(shared, result)
            }
            Err(error) => self.settled(shared, Err(error)),
        }
    }

    /// Subscribes to the events of a job, those in the set `wanted` (see [`crate::EventKind::bit`]) and gaps. `from` is the
    /// number of the first event; 0: the first one that is kept. The call replaces an earlier one, and 0 for `wanted` only
    /// ends that.
    ///
    /// # Errors
    /// [`Error`]; the earlier subscription continues if an argument is wrong.
    pub fn notify(&self, job: &str, wanted: u32, from: u64) -> Result<(), Error> {
        let mut shared = self.lock();
        let number = shared.next_number();
        let message = shared.events.subscribe(number, job, wanted, from);
        let made = message.and_then(|message| {
            shared.ensure_helper(&self.places, &self.descriptor)?;
            shared.send(&message)
        });
        match made {
            Ok(()) => {
                let (shared, result) = self.answer(shared, number);
                self.settled(shared, result)
            }
            Err(error) => self.settled(shared, Err(error)),
        }
    }

    /// The next event of the job, if one is there. After [`crate::EventKind::JobEnded`] none comes.
    ///
    /// # Errors
    /// [`Error::Refused`], once: there is no such job, or its events can no longer be followed.
    pub fn next_event(&self) -> Result<Option<Event>, Error> {
        let mut shared = self.lock();
        shared.receive();
        let found = shared.events.take().map(|(event, report)| {
            // A helper that is gone sends no further events.
            let _ = report.map(|report| shared.send(&report));
            event
        });
        self.settled(shared, found)
    }

    /// The host of a granted request.
    ///
    /// # Errors
    /// [`Error`].
    pub fn node_name(&self, request: RequestId) -> Result<String, Error> {
        let mut shared = self.lock();
        shared.receive();
        let name = shared.table.host(request).map(str::to_owned);
        self.settled(shared, name)
    }

    /// The allocation, slot and strings of a granted request, as a line of JSON.
    ///
    /// # Errors
    /// [`Error`].
    pub fn js_info(&self, request: RequestId) -> Result<String, Error> {
        let mut shared = self.lock();
        shared.receive();
        let info = shared.table.info(request);
        self.settled(shared, info)
    }

    /// Whether the request is not over, or its last completion waits.
    pub fn is_known(&self, request: RequestId) -> bool {
        self.lock().table.is_active(request).is_ok()
    }

    /// Why the last refused call was refused.
    pub fn refusal(&self) -> String {
        self.lock().table.refusal().to_owned()
    }

    /// The next completion of a request, if one is there.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn test(&self, request: RequestId) -> Result<Option<Status>, Error> {
        let mut shared = self.lock();
        shared.receive();
        let found = shared.table.take(request);
        self.settled(shared, found)
    }

    /// Whether the request will complete without a further call.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn is_active(&self, request: RequestId) -> Result<bool, Error> {
        self.lock().table.is_active(request)
    }

    /// Waits for the next completion of a request. `None`: it is granted and not started, so that none will come.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn wait(&self, request: RequestId) -> Result<Option<Status>, Error> {
        let (shared, found) = self.until(self.lock(), |shared| match shared.table.take(request) {
            Ok(None) => match shared.table.is_active(request) {
                Ok(true) => None,
                Ok(false) => Some(Ok(None)),
                Err(error) => Some(Err(error)),
            },
            found => Some(found),
        });
        self.settled(shared, found)
    }

    /// Waits until at least one of the requests completes. Returns the completions that are there, at most one for each
    /// request, by its index. It is empty if none of them will complete.
    ///
    /// # Errors
    /// [`Error::Request`]: one of them does not exist. No completion is taken then.
    pub fn wait_some(&self, requests: &[RequestId]) -> Result<Vec<(usize, Status)>, Error> {
        let (shared, found) = self.until(self.lock(), |shared| {
            let mut is_any_active = false;
            for &request in requests {
                match shared.table.is_active(request) {
                    Ok(is_active) => is_any_active |= is_active,
                    Err(error) => return Some(Err(error)),
                }
            }
            let mut found = Vec::new();
            for (index, &request) in requests.iter().enumerate() {
                // A request that is there twice is forgotten at the second time.
                if let Ok(Some(status)) = shared.table.take(request) {
                    found.push((index, status));
                }
            }
            (!found.is_empty() || !is_any_active).then_some(Ok(found))
        });
        self.settled(shared, found)
    }

    /// Waits for the answer of the helper.
    fn answer<'a>(
        &'a self,
        shared: MutexGuard<'a, Shared>,
        number: u64,
    ) -> (MutexGuard<'a, Shared>, Result<(), Error>) {
        self.until(shared, |shared| match shared.answers.remove(&number) {
            None if shared.helper.is_none() => {
                // The answer to the first message says why it has ended.
                let why = shared.answers.remove(&0).and_then(Result::err);
                Some(Err(why.unwrap_or_else(helper::gone)))
            }
            answer => answer,
        })
    }

    /// Reads messages until `find` finds something.
    fn until<'a, R>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        mut find: impl FnMut(&mut Shared) -> Option<R>,
    ) -> (MutexGuard<'a, Shared>, R) {
        loop {
            shared.receive();
            if let Some(found) = find(&mut shared) {
                return (shared, found);
            }
            let socket = shared.helper.as_ref().map(Helper::socket);
            let Some(socket) = socket.filter(|_| !shared.is_watched) else {
                shared = self.news.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            shared.is_watched = true;
            drop(shared);
            let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            // A signal of the program ends it early, and it begins again.
            let _ = poll(&mut fds, PollTimeout::NONE);
            shared = self.lock();
            shared.is_watched = false;
            shared.receive();
            self.news.notify_all();
        }
    }

    /// Ends a call: the descriptor shows whether completions wait, and other threads look again.
    fn settled<R>(&self, mut shared: MutexGuard<'_, Shared>, result: R) -> R {
        shared.show();
        drop(shared);
        self.news.notify_all();
        result
    }
}

impl Shared {
    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn ensure_helper(&mut self, places: &Places, descriptor: &Epoll) -> Result<(), Error> {
        if self.helper.is_none() {
            let helper = Helper::start(places)?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 1);
            descriptor
                .add(&*helper.socket(), event)
                .map_err(|error| Error::Helper(format!("cannot watch the helper: {error}")))?;
            self.helper = Some(helper);
        }
        Ok(())
    }

    fn send(&mut self, message: &ToHelper) -> Result<(), Error> {
        let Some(helper) = &mut self.helper else {
            return Err(helper::gone());
        };
        let result = helper.send(message);
        if matches!(result, Err(Error::Helper(_))) {
            // Its last messages may be there.
            self.receive();
        }
        result
    }

    /// Takes the messages that are there.
    fn receive(&mut self) {
        let Some(helper) = &mut self.helper else { return };
        let (table, answers, events) = (&mut self.table, &mut self.answers, &mut self.events);
        let result = helper.receive(|message| match message {
            ToProgram::Answer { number, error } => {
                answers.insert(number, error.map_or(Ok(()), Err));
            }
            ToProgram::Events { subscription, events: new } => events.received(subscription, new),
            ToProgram::EventsFailed { subscription, why } => events.failed(subscription, why),
            other => table.received(other),
        });
        if result.is_err() {
            self.helper = None;
            self.table.lose_all();
            self.events.lose(&helper::gone().to_string());
        }
        self.show();
    }

    /// Makes the descriptor readable if completions or events wait.
    fn show(&mut self) {
        let waits = self.table.has_completions() || self.events.is_ready();
        if waits != self.is_ready {
            self.is_ready = waits;
            let _ = if waits { self.ready.write(1).map(drop) } else { self.ready.read().map(drop) };
        }
    }
}
