//! PMI-2: framed messages. Each answer is given to the thread that sent the request.
//!
//! This module starts no thread. One of the waiting threads reads the answers of all of them. A
//! request that is sent while others are open has a token, which its answer repeats. A single
//! request has no token, like a request of a client with one thread. Some servers do not repeat
//! tokens; then the name of the answer decides.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pmi_proto::limits::{MAX_KEY, MAX_VALUE};
use pmi_proto::pmi2::{Decoder, Element, Message, Request};
use pmi_proto::{Client as Codec, Reply, SpawnRequest};

use crate::environment::Environment;
use crate::error::Error;
use crate::server::{Limits, ProcessInfo, Ring, Server, Source, Spawned};
use crate::wire::Wire;

/// A server over PMI-2.
#[derive(Debug)]
pub(crate) struct Frames {
    wire: Wire,
    requests: Mutex<Requests>,
    answered: Condvar,
    /// The name of the job. Empty until the server has sent it.
    job: Vec<u8>,
    size: u32,
}

#[derive(Debug)]
struct Requests {
    decoder: Decoder,
    /// The requests without an answer, in the order of sending.
    open: Vec<Open>,
    /// The number of requests up to now.
    count: u64,
    /// Whether a thread is reading answers.
    is_reading: bool,
    /// No more answers can arrive.
    is_closed: bool,
}

#[derive(Debug)]
struct Open {
    number: u64,
    has_token: bool,
    name: &'static str,
    answer: Option<Message>,
}

impl Frames {
    /// Sends the first requests of every client.
    pub(crate) fn begin(
        wire: Wire,
        environment: &Environment,
    ) -> Result<(Self, ProcessInfo), Error> {
        wire.send(&Codec::new().init_version(2, 0))?;
        let mut decoder = Decoder::new();
        match read_line(&wire, &mut decoder)? {
            Reply::ResponseToInit { rc: 0, version: 2, .. } => {}
            Reply::ResponseToInit { rc, version, subversion } => {
                let message = format!("it speaks PMI {version}.{subversion}");
                return Err(Error::Refused { request: "init", rc, message });
            }
            other => {
                return Err(Error::NotUnderstood { request: "init", answer: format!("{other:?}") });
            }
        }
        let requests =
            Requests { decoder, open: Vec::new(), count: 0, is_reading: false, is_closed: false };
        let (requests, answered) = (Mutex::new(requests), Condvar::new());
        let mut frames = Self { wire, requests, answered, job: Vec::new(), size: 0 };
        let rank = environment.rank.to_string();
        let mut pairs = vec![("pmirank", rank.as_bytes()), ("threaded", b"TRUE")];
        if let Some(job) = &environment.job {
            pairs.insert(0, ("pmijobid", job.as_bytes()));
        }
        let reported = frames.ask("fullinit", &pairs)?;
        let job = frames.ask("job-getid", &[])?;
        frames.job = required("job-getid", &job, "jobid")?.to_vec();
        let process_info = ProcessInfo {
            rank: number("fullinit", &reported, "rank")?,
            size: number("fullinit", &reported, "size")?,
            appnum: number("fullinit", &reported, "appnum").unwrap_or(-1),
            is_spawned: reported.get("spawner-jobid").is_some(),
            job: frames.job.clone(),
        };
        frames.size = process_info.size;
        Ok((frames, process_info))
    }

    /// Sends a request and waits for its answer. A refusal is an error.
    fn ask(&self, name: &'static str, pairs: &[(&str, &[u8])]) -> Result<Message, Error> {
        self.ask_by(name, |thrid| {
            let mut message = Message::new(name);
            if let Some(thrid) = thrid {
                message.push("thrid", thrid);
            }
            for (key, value) in pairs {
                message.push(key, *value);
            }
            message
        })
    }

    /// As [`ask`](Self::ask), with a message that is made from the token.
    fn ask_by(
        &self,
        name: &'static str,
        message: impl FnOnce(Option<&[u8]>) -> Message,
    ) -> Result<Message, Error> {
        let (number, has_token) = self.open(name)?;
        let token = has_token.then(|| number.to_string());
        let message = message(token.as_deref().map(str::as_bytes));
        let sent = encode(&message).and_then(|frame| self.wire.send(&frame));
        if let Err(error) = sent {
            self.requests().open.retain(|request| request.number != number);
            return Err(error);
        }
        check_result(name, self.wait(number)?)
    }

    fn open(&self, name: &'static str) -> Result<(u64, bool), Error> {
        let mut requests = self.requests();
        if requests.is_closed {
            return Err(Error::Closed);
        }
        requests.count += 1;
        let (number, has_token) = (requests.count, !requests.open.is_empty());
        requests.open.push(Open { number, has_token, name, answer: None });
        Ok((number, has_token))
    }

    /// Waits for the answer to a request. Reads if no other thread does.
    fn wait(&self, number: u64) -> Result<Message, Error> {
        let mut requests = self.requests();
        loop {
            if let Some(answer) = requests.take(number) {
                return Ok(answer);
            }
            if requests.is_closed {
                requests.open.retain(|request| request.number != number);
                return Err(Error::Closed);
            }
            if requests.is_reading {
                requests = self.answered.wait(requests).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            requests.is_reading = true;
            drop(requests);
            let mut buffer = [0; 4096];
            let read = self.wire.receive(&mut buffer);
            requests = self.requests();
            requests.is_reading = false;
            match read {
                Ok(read) => requests.receive(&buffer[..read]),
                Err(_) => requests.is_closed = true,
            }
            // Threads whose answers have arrived continue. If this thread does, another must read.
            self.answered.notify_all();
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attribute(
        &self,
        name: &'static str,
        pairs: &[(&str, &[u8])],
    ) -> Result<Option<Vec<u8>>, Error> {
        let answer = self.ask(name, pairs)?;
        if answer.get("found") != Some(b"TRUE") {
            return Ok(None);
        }
        Ok(Some(required(name, &answer, "value")?.to_vec()))
    }
}

impl Requests {
    fn receive(&mut self, bytes: &[u8]) {
        self.decoder.receive(bytes);
        while let Some(received) = self.decoder.poll() {
            match received {
                Ok(Element::Message(message)) => self.assign(message),
                // It is no answer to a request.
                Ok(Element::Line(_)) | Err(pmi_proto::ProtocolError::NoCommand { .. }) => {}
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    /// Gives an answer to its request. An answer without an open request is dropped.
    fn assign(&mut self, message: Message) {
        let named = |request: &Open| {
            message.command().strip_suffix(b"-response") == Some(request.name.as_bytes())
        };
        let mut open = self.open.iter_mut().filter(|request| request.answer.is_none());
        let request = match message.get("thrid") {
            Some(token) => open.find(|request| request.number.to_string().as_bytes() == token),
            None => {
                let mut fitting: Vec<_> = open.filter(|request| named(request)).collect();
                // A request without a token comes first.
                fitting.sort_by_key(|request| request.has_token);
                fitting.into_iter().next()
            }
        };
        if let Some(request) = request {
            request.answer = Some(message);
        }
    }

    fn take(&mut self, number: u64) -> Option<Message> {
        let at = self.open.iter().position(|request| request.number == number)?;
        let answer = self.open[at].answer.take()?;
        self.open.remove(at);
        Some(answer)
    }
}

impl Server for Frames {
    fn limits(&self) -> Limits {
        // The protocol has no request for limits. These are the limits of its C interface.
        Limits { job: MAX_JOB, key: MAX_KEY, value: MAX_VALUE }
    }

    fn needs_lines(&self) -> bool {
        false
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.ask("kvs-put", &[("key", key), ("value", value)]).map(drop)
    }

    fn get(&self, from: Source<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let rank = from.rank.map_or_else(|| "-1".to_owned(), |rank| rank.to_string());
        let job = from.job.unwrap_or(&self.job);
        let pairs = [("jobid", job), ("srcid", rank.as_bytes()), ("key", key)];
        self.attribute("kvs-get", &pairs)
    }

    fn fence(&self) -> Result<(), Error> {
        self.ask("kvs-fence", &[]).map(drop)
    }

    fn universe_size(&self) -> Result<Option<u32>, Error> {
        let value = self.job_attribute(b"universeSize")?;
        Ok(value.and_then(|value| parse::<u32>(&value)).filter(|&size| size > 0))
    }

    fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.attribute("info-getjobattr", &[("key", name)])
    }

    fn node_attribute(&self, name: &[u8], wait: bool) -> Result<Option<Vec<u8>>, Error> {
        let wait: &[u8] = if wait { b"TRUE" } else { b"FALSE" };
        self.attribute("info-getnodeattr", &[("key", name), ("wait", wait)])
    }

    fn put_node_attribute(&self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        self.ask("info-putnodeattr", &[("key", name), ("value", value)]).map(drop)
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error> {
        let pairs = [("name", service), ("port", port), ("infokeycount", b"0")];
        self.ask("name-publish", &pairs).map(drop)
    }

    fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error> {
        let answer = self.ask("name-lookup", &[("name", service), ("infokeycount", b"0")])?;
        // The name of the value depends on the server.
        let port =
            answer.get("port").map_or_else(|| required("name-lookup", &answer, "value"), Ok)?;
        Ok(port.to_vec())
    }

    fn unpublish(&self, service: &[u8]) -> Result<(), Error> {
        self.ask("name-unpublish", &[("name", service), ("infokeycount", b"0")]).map(drop)
    }

    fn spawn(&self, request: &SpawnRequest) -> Result<Spawned, Error> {
        let answer =
            self.ask_by("spawn", |thrid| Request::Spawn(request.clone()).message(thrid))?;
        let codes = answer.get("errcodes").unwrap_or_default();
        Ok(Spawned {
            job: answer.get("jobid").map(<[u8]>::to_vec),
            codes: codes.split(|&byte| byte == b',').filter_map(parse).collect(),
        })
    }

    fn connect_job(&self, job: &[u8]) -> Result<(), Error> {
        self.ask("job-connect", &[("jobid", job)]).map(drop)
    }

    fn disconnect_job(&self, job: &[u8]) -> Result<(), Error> {
        self.ask("job-disconnect", &[("jobid", job)]).map(drop)
    }

    fn ring(&self, value: &[u8]) -> Result<Ring, Error> {
        let pairs = [("ring-count", &b"1"[..]), ("ring-left", value), ("ring-right", value)];
        let answer = self.ask("ring", &pairs)?;
        // Slurm sends the position as ring-count.
        let position = number("ring", &answer, "ring-rank");
        let position = position.or_else(|_| number("ring", &answer, "ring-count"))?;
        let neighbour = |key| Ok::<_, Error>(required("ring", &answer, key)?.to_vec());
        let (left, right) = (neighbour("ring-left")?, neighbour("ring-right")?);
        Ok(Ring { position, size: self.size, left, right })
    }

    fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        let (rank, signal) = (rank.to_string(), signal.to_string());
        let pairs = [("rank", rank.as_bytes()), ("signal", signal.as_bytes())];
        self.ask("mpd-signal", &pairs).map(drop)
    }

    fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error> {
        // Older servers read the first pair, newer servers the other pairs.
        let abort = Message::new("abort")
            .with("isworld", "TRUE")
            .with("exitcode", code.to_string())
            .with("message", message)
            .with("msg", message);
        self.wire.send(&encode(&abort)?)
    }

    fn finalize(&self) -> Result<(), Error> {
        self.ask("finalize", &[]).map(drop)
    }
}

fn read_line(wire: &Wire, decoder: &mut Decoder) -> Result<Reply, Error> {
    let mut buffer = [0; 4096];
    loop {
        match decoder.poll() {
            Some(Ok(Element::Line(line))) => {
                let mut codec = Codec::new();
                codec.receive(&line);
                codec.receive(b"\n");
                return Ok(codec.poll_reply().unwrap_or(Reply::NotUnderstood(line)));
            }
            Some(other) => {
                return Err(Error::NotUnderstood { request: "init", answer: format!("{other:?}") });
            }
            None => {
                let read = wire.receive(&mut buffer)?;
                decoder.receive(&buffer[..read]);
            }
        }
    }
}

fn encode(message: &Message) -> Result<Vec<u8>, Error> {
    message.encode().map_err(|error| Error::ValueTooLong(error.length))
}

/// The answer, unless it is a refusal.
fn check_result(request: &'static str, answer: Message) -> Result<Message, Error> {
    match number(request, &answer, "rc")? {
        0 => Ok(answer),
        rc => {
            let message = answer.get("errmsg").unwrap_or_default();
            let message = String::from_utf8_lossy(message).into_owned();
            Err(Error::Refused { request, rc, message })
        }
    }
}

fn required<'a>(request: &'static str, answer: &'a Message, key: &str) -> Result<&'a [u8], Error> {
    answer.get(key).ok_or_else(|| Error::NotUnderstood { request, answer: format!("no {key}") })
}

fn number<T: std::str::FromStr>(
    request: &'static str,
    answer: &Message,
    key: &str,
) -> Result<T, Error> {
    let text = required(request, answer, key)?;
    parse(text).ok_or_else(|| Error::NotUnderstood {
        request,
        answer: format!("{key}={}", String::from_utf8_lossy(text)),
    })
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Most bytes of the name of a job, the terminating zero of C included.
const MAX_JOB: usize = 256;
