//! The client as programs see it: one connection, and calls that wait.

use pmi_proto::limits::MAX_PORT;
use pmi_proto::{SpawnRequest, process_mapping};

use crate::alone::{Alone, MAPPING};
use crate::environment::{Surroundings, Where};
use crate::error::Error;
use crate::frames::Frames;
use crate::lines::Lines;
use crate::server::{Limits, Pair, ProcessInfo, Ring, Server, Source, Spawned};
use crate::wire::Wire;

/// Which version of PMI to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PMI-1, which every process manager speaks.
    One,
    /// PMI-2, which has attributes of nodes, and answers several threads at once.
    Two,
}

/// A process of a job, connected to its process manager.
///
/// Every call waits for its answer. Threads may share a client; see [`Version`] for who waits for
/// whom. To drop one without [`finalize`](Self::finalize) is to leave the job in disorder.
pub struct Client {
    process_info: ProcessInfo,
    limits: Limits,
    server: Box<dyn Server>,
}

impl Client {
    /// Connects to the process manager that the environment names; without one this process is
    /// rank 0 of 1, and all calls that make sense for it work.
    ///
    /// # Errors
    /// When the environment names what cannot be used, or the process manager refuses.
    pub fn connect(version: Version) -> Result<Self, Error> {
        Self::connect_by(version, |name| std::env::var(name).ok())
    }

    /// As [`connect`](Self::connect), with variables from elsewhere.
    ///
    /// # Errors
    /// As those of [`connect`](Self::connect).
    pub fn connect_by(
        version: Version,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let around = Surroundings::read(lookup)?;
        let (wire, id) = match &around.server {
            Where::Descriptor(fd) => (Wire::inherited(*fd)?, None),
            Where::Port { address, id } => (Wire::connect(address)?, *id),
            Where::Nowhere => return Ok(Self::over(Alone::default(), Alone::process_info())),
        };
        match version {
            Version::One => {
                let (lines, process_info) = Lines::begin(wire, id, &around)?;
                Ok(Self::over(lines, process_info))
            }
            Version::Two => {
                let (frames, process_info) = Frames::begin(wire, &around)?;
                Ok(Self::over(frames, process_info))
            }
        }
    }

    fn over(server: impl Server + 'static, process_info: ProcessInfo) -> Self {
        Self { process_info, limits: server.limits(), server: Box::new(server) }
    }

    /// This process in its job.
    pub fn process_info(&self) -> &ProcessInfo {
        &self.process_info
    }

    /// How long things may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many processes there could be; `None` if nobody knows.
    ///
    /// # Errors
    /// When the process manager refuses or is gone, as with all calls below.
    pub fn universe_size(&self) -> Result<Option<u32>, Error> {
        self.server.universe_size()
    }

    /// Puts a pair into the job's key-value space. Others see it after the next
    /// [`fence`](Self::fence).
    ///
    /// # Errors
    /// Also when the key or the value is too long, or the protocol cannot carry it.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.server.put(key, value)
    }

    /// The value of a key, if anybody has put it.
    ///
    /// # Errors
    /// Also when the key is not one.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_from(Source::default(), key)
    }

    /// As [`get`](Self::get), from another job or with a hint who has put it.
    ///
    /// # Errors
    /// Also when the key is not one.
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

    /// Waits until all ranks of the job have come here; then all see what all have put.
    ///
    /// # Errors
    /// When the process manager is gone.
    pub fn fence(&self) -> Result<(), Error> {
        self.server.fence()
    }

    /// An attribute of the job, like `PMI_process_mapping`.
    ///
    /// # Errors
    /// Also when the name is not one.
    pub fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_key(name)?;
        self.server.job_attribute(name)
    }

    /// An attribute that a process of this node has put. With `wait` there will be one.
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

    /// The ranks on the node of this process, itself among them, in order. Where the process
    /// manager does not tell which they are, this process counts as alone.
    ///
    /// # Errors
    /// When the process manager refuses or is gone.
    pub fn ranks_of_node(&self) -> Result<Vec<u32>, Error> {
        let alone = vec![self.process_info.rank];
        let Some(mapping) = self.server.job_attribute(MAPPING)? else { return Ok(alone) };
        let text = String::from_utf8_lossy(&mapping);
        let Ok(nodes) = process_mapping::decode(&text) else { return Ok(alone) };
        // A mapping that is too short begins again, in the reading of MPICH.
        let node = |rank: u32| nodes.get(rank as usize % nodes.len().max(1));
        let mine = node(self.process_info.rank);
        Ok(match mine {
            None => alone,
            Some(_) => (0..self.process_info.size).filter(|&rank| node(rank) == mine).collect(),
        })
    }

    /// Publishes what a service is reached by.
    ///
    /// # Errors
    /// Also when the name is taken, or the port is longer than the room that MPI programs provide for one.
    pub fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error> {
        self.check_text(service)?;
        self.check_text(port)?;
        if port.len() >= MAX_PORT {
            return Err(Error::PortTooLong(port.len()));
        }
        self.server.publish(service, port)
    }

    /// What a service is reached by.
    ///
    /// # Errors
    /// Also when nobody has published it.
    pub fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error> {
        self.check_text(service)?;
        self.server.lookup(service)
    }

    /// Takes a name back.
    ///
    /// # Errors
    /// Also when there is no such name.
    pub fn unpublish(&self, service: &[u8]) -> Result<(), Error> {
        self.check_text(service)?;
        self.server.unpublish(service)
    }

    /// Starts programs as a job of their own.
    ///
    /// # Errors
    /// Also when no process of it can be started.
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

    /// Lets the key-value space of another job be read.
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

    /// Gives a value to both neighbours in a ring of all ranks, and takes theirs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in PMI-1.
    pub fn ring(&self, value: &[u8]) -> Result<Ring, Error> {
        self.check_value(value)?;
        self.server.ring(value)
    }

    /// Has a signal sent to a rank of this job. Only MPD does that.
    ///
    /// # Errors
    /// Also when there is no such rank or signal.
    pub fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        self.server.signal_rank(rank, signal)
    }

    /// Wants the job ended, all its processes, with this exit code. Does not wait for that: the
    /// caller had better end itself now.
    ///
    /// # Errors
    /// When the process manager is gone.
    pub fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error> {
        // What is said at such a moment is not refused for its form.
        let message: Vec<u8> = message
            .iter()
            .map(|&byte| if byte.is_ascii_control() { b' ' } else { byte })
            .take(MAX_MESSAGE)
            .collect();
        self.server.abort(code, &message)
    }

    /// Says goodbye. A process that ends without has failed.
    ///
    /// # Errors
    /// When the process manager is gone.
    pub fn finalize(self) -> Result<(), Error> {
        self.server.finalize()
    }

    /// As [`finalize`](Self::finalize), for a client that others still hold.
    ///
    /// # Errors
    /// When the process manager is gone.
    pub fn finalize_shared(&self) -> Result<(), Error> {
        self.server.finalize()
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        let carried = |&byte: &u8| byte != 0 && !(self.server.is_of_lines() && is_separator(byte));
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
        let carried = |&byte: &u8| byte != 0 && !(self.server.is_of_lines() && is_end(byte));
        if text.iter().all(carried) { Ok(()) } else { Err(Error::InvalidText) }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Client").field("place", &self.process_info).finish_non_exhaustive()
    }
}

/// Lines end with a newline, before which a carriage return does not count.
fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_separator(byte: u8) -> bool {
    byte == b' ' || is_end(byte)
}

/// How much of the last words is passed on: a line of an older server has room for it.
const MAX_MESSAGE: usize = 900;
