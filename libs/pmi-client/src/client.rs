//! The client: one connection to the process manager, and calls that wait for their answers.

use pmi_proto::limits::MAX_PORT;
use pmi_proto::{SpawnRequest, process_mapping};

use crate::environment::{Environment, ServerAddress};
use crate::error::Error;
use crate::frames::Frames;
use crate::lines::Lines;
use crate::server::{Limits, Pair, ProcessInfo, Ring, Server, Source, Spawned};
use crate::singleton::{MAPPING, Singleton};
use crate::wire::Wire;

/// The version of PMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PMI-1, which every process manager supports. A thread waits while another thread waits for
    /// its answer.
    One,
    /// PMI-2, which has attributes of nodes. Several threads can wait for answers at the same time.
    Two,
}

/// A process of a job, connected to its process manager.
///
/// Each call waits for its answer. Threads may share a client. The process must call
/// [`finalize`](Self::finalize) before it ends; otherwise the process manager treats it as failed.
pub struct Client {
    process_info: ProcessInfo,
    limits: Limits,
    server: Box<dyn Server>,
}

impl Client {
    /// Connects to the process manager that the environment names. If it names none, this process
    /// is rank 0 of 1; then calls that need another process fail.
    ///
    /// # Errors
    /// A variable is invalid, the connection cannot be made, or the process manager refuses.
    pub fn connect(version: Version) -> Result<Self, Error> {
        Self::connect_by(version, |name| std::env::var(name).ok())
    }

    /// As [`connect`](Self::connect), with the variables that `lookup` returns.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn connect_by(
        version: Version,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let environment = Environment::read(lookup)?;
        let (wire, id) = match &environment.server {
            ServerAddress::Descriptor(fd) => (Wire::inherited(*fd)?, None),
            ServerAddress::Port { address, id } => (Wire::connect(address)?, *id),
            ServerAddress::Missing => {
                return Ok(Self::new(Singleton::default(), Singleton::process_info()));
            }
        };
        match version {
            Version::One => {
                let (lines, process_info) = Lines::begin(wire, id, &environment)?;
                Ok(Self::new(lines, process_info))
            }
            Version::Two => {
                let (frames, process_info) = Frames::begin(wire, &environment)?;
                Ok(Self::new(frames, process_info))
            }
        }
    }

    fn new(server: impl Server + 'static, process_info: ProcessInfo) -> Self {
        Self { process_info, limits: server.limits(), server: Box::new(server) }
    }

    /// The rank of this process, and its job.
    pub fn process_info(&self) -> &ProcessInfo {
        &self.process_info
    }

    /// The sizes that the process manager accepts.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The number of processes that the process manager can run; `None` if it is unknown.
    ///
    /// # Errors
    /// The process manager refuses, or the connection is closed. All calls below have these errors.
    pub fn universe_size(&self) -> Result<Option<u32>, Error> {
        self.server.universe_size()
    }

    /// Puts a pair into the key-value space of the job. All ranks can get it after the next
    /// [`fence`](Self::fence).
    ///
    /// # Errors
    /// Also if the key or the value is too long, or the protocol cannot carry it.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.server.put(key, value)
    }

    /// The value of a key; `None` if no rank has put it.
    ///
    /// # Errors
    /// Also if the key is invalid.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_from(Source::default(), key)
    }

    /// As [`get`](Self::get), from another job, or with the rank that has put it.
    ///
    /// # Errors
    /// Also if the key is invalid.
    pub fn get_from(&self, source: Source<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_key(key)?;
        self.server.get(source, key)
    }

    /// The pair with this index, counted from 0; `None` past the last one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-2.
    pub fn entry(&self, index: usize) -> Result<Option<Pair>, Error> {
        self.server.entry(index)
    }

    /// Waits until all ranks of the job have called it. Then all ranks can get all pairs that were
    /// put before.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn fence(&self) -> Result<(), Error> {
        self.server.fence()
    }

    /// An attribute of the job, like `PMI_process_mapping`; `None` if there is none of this name.
    ///
    /// # Errors
    /// Also if the name is invalid.
    pub fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_key(name)?;
        self.server.job_attribute(name)
    }

    /// An attribute that a process of this node has put. With `wait`, the call returns as soon as
    /// a process has put it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn node_attribute(&self, name: &[u8], wait: bool) -> Result<Option<Vec<u8>>, Error> {
        self.check_key(name)?;
        self.server.node_attribute(name, wait)
    }

    /// Puts an attribute for all processes of this job on this node.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn put_node_attribute(&self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_key(name)?;
        self.check_value(value)?;
        self.server.put_node_attribute(name, value)
    }

    /// The ranks on the node of this process in ascending order, its own rank included. If the
    /// process manager has no valid mapping, the result is only the own rank.
    ///
    /// # Errors
    /// The process manager refuses, or the connection is closed.
    pub fn ranks_of_node(&self) -> Result<Vec<u32>, Error> {
        let alone = vec![self.process_info.rank];
        let Some(mapping) = self.server.job_attribute(MAPPING)? else { return Ok(alone) };
        let text = String::from_utf8_lossy(&mapping);
        let Ok(nodes) = process_mapping::decode(&text) else { return Ok(alone) };
        // As in MPICH, a mapping that is too short is repeated.
        let node = |rank: u32| nodes.get(rank as usize % nodes.len().max(1));
        let mine = node(self.process_info.rank);
        Ok(match mine {
            None => alone,
            Some(_) => (0..self.process_info.size).filter(|&rank| node(rank) == mine).collect(),
        })
    }

    /// Publishes the port of a service.
    ///
    /// # Errors
    /// Also if the name is in use, or the port has more than 255 bytes.
    pub fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error> {
        self.check_text(service)?;
        self.check_text(port)?;
        if port.len() >= MAX_PORT {
            return Err(Error::PortTooLong(port.len()));
        }
        self.server.publish(service, port)
    }

    /// The port of a service.
    ///
    /// # Errors
    /// Also if no process has published the service.
    pub fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error> {
        self.check_text(service)?;
        self.server.lookup(service)
    }

    /// Withdraws a published service.
    ///
    /// # Errors
    /// Also if no process has published the service.
    pub fn unpublish(&self, service: &[u8]) -> Result<(), Error> {
        self.check_text(service)?;
        self.server.unpublish(service)
    }

    /// Starts programs as a new job.
    ///
    /// # Errors
    /// Also if no process of the job can be started.
    pub fn spawn(&self, request: &SpawnRequest) -> Result<Spawned, Error> {
        for command in &request.commands {
            self.check_text(&command.program)?;
            for text in &command.args {
                self.check_line(text)?;
            }
            for (key, value) in &command.info {
                self.check_line(key)?;
                self.check_line(value)?;
            }
        }
        for (key, value) in &request.preput {
            self.check_key(key)?;
            self.check_value(value)?;
        }
        self.server.spawn(request)
    }

    /// Opens the key-value space of another job for [`get_from`](Self::get_from).
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn connect_job(&self, job: &[u8]) -> Result<(), Error> {
        self.check_text(job)?;
        self.server.connect_job(job)
    }

    /// Undoes [`connect_job`](Self::connect_job).
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn disconnect_job(&self, job: &[u8]) -> Result<(), Error> {
        self.check_text(job)?;
        self.server.disconnect_job(job)
    }

    /// Exchanges a value with both neighbours in a ring of all ranks.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn ring(&self, value: &[u8]) -> Result<Ring, Error> {
        self.check_value(value)?;
        self.server.ring(value)
    }

    /// Sends a signal to a rank of this job. Only MPD supports this request.
    ///
    /// # Errors
    /// Also if there is no such rank or signal.
    pub fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        self.server.signal_rank(rank, signal)
    }

    /// Requests that all processes of the job are ended, with this exit code. The call does not
    /// wait for that. The caller should then end its process.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error> {
        // An abort must not fail because of the form of its message.
        let message: Vec<u8> = message
            .iter()
            .map(|&byte| if byte.is_ascii_control() { b' ' } else { byte })
            .take(MAX_MESSAGE)
            .collect();
        self.server.abort(code, &message)
    }

    /// Reports that this process ends as planned. The process manager treats a process that ends
    /// without this report as failed.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn finalize(self) -> Result<(), Error> {
        self.server.finalize()
    }

    /// As [`finalize`](Self::finalize), for a client that threads share.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn finalize_shared(&self) -> Result<(), Error> {
        self.server.finalize()
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        let carried = |&byte: &u8| byte != 0 && !(self.server.needs_lines() && is_separator(byte));
        match key.len() {
            0 => Err(Error::InvalidKey),
            length if length >= self.limits.key => Err(Error::KeyTooLong(length)),
            _ if key.iter().all(carried) => Ok(()),
            _ => Err(Error::InvalidKey),
        }
    }

    fn check_value(&self, value: &[u8]) -> Result<(), Error> {
        match value.len() {
            length if length >= self.limits.value => Err(Error::ValueTooLong(length)),
            _ => self.check_line(value).map_err(|_| Error::InvalidValue),
        }
    }

    fn check_text(&self, text: &[u8]) -> Result<(), Error> {
        if text.is_empty() { Err(Error::InvalidText) } else { self.check_line(text) }
    }

    fn check_line(&self, text: &[u8]) -> Result<(), Error> {
        let carried = |&byte: &u8| byte != 0 && !(self.server.needs_lines() && is_end(byte));
        if text.iter().all(carried) { Ok(()) } else { Err(Error::InvalidText) }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Client").field("process_info", &self.process_info).finish_non_exhaustive()
    }
}

/// A line ends with a newline. Readers remove a carriage return before it.
fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_separator(byte: u8) -> bool {
    byte == b' ' || is_end(byte)
}

/// Most bytes of the message of an abort. It fits in a line of an older server.
const MAX_MESSAGE: usize = 900;
