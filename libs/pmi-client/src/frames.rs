//! PMI-2: framed messages, and answers that find the thread that asked.
//!
//! There is no thread of our own: of those that wait one reads for all. A request that is sent
//! while others are open carries a token, which its answer repeats; a lone one carries none, as a
//! client with one thread would send it. Servers that know no tokens are told apart by the name of
//! the answer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pmi_proto::limits::{MAX_KEY, MAX_VALUE};
use pmi_proto::pmi2::{Decoder, Message, Request, Said};
use pmi_proto::{Client as Codec, Reply, SpawnRequest};

use crate::environment::Surroundings;
use crate::error::Error;
use crate::server::{Limits, ProcessInfo, Ring, Server, Source, Spawned};
use crate::wire::Wire;

/// A conversation by messages.
#[derive(Debug)]
pub(crate) struct Frames {
    wire: Wire,
    talk: Mutex<Talk>,
    answered: Condvar,
    /// Known after the first words.
    job: Vec<u8>,
    size: u32,
}

#[derive(Debug)]
struct Talk {
    decoder: Decoder,
    /// In the order of asking.
    open: Vec<Open>,
    /// How many requests there were.
    count: u64,
    /// Whether a thread is reading, for all.
    is_read: bool,
    /// Nothing will come any more.
    is_over: bool,
}

#[derive(Debug)]
struct Open {
    number: u64,
    has_token: bool,
    name: &'static str,
    answer: Option<Message>,
}

impl Frames {
    /// Says what every client says first.
    pub(crate) fn begin(wire: Wire, around: &Surroundings) -> Result<(Self, ProcessInfo), Error> {
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
        let talk = Talk { decoder, open: Vec::new(), count: 0, is_read: false, is_over: false };
        let (talk, answered) = (Mutex::new(talk), Condvar::new());
        let mut frames = Self { wire, talk, answered, job: Vec::new(), size: 0 };
        let rank = around.rank.to_string();
        let mut pairs = vec![("pmirank", rank.as_bytes()), ("threaded", b"TRUE")];
        if let Some(job) = &around.job {
            pairs.insert(0, ("pmijobid", job.as_bytes()));
        }
        let reported = frames.ask("fullinit", &pairs)?;
        let job = frames.ask("job-getid", &[])?;
        frames.job = wanted("job-getid", &job, "jobid")?.to_vec();
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

    /// Sends a request and waits for its answer, which is a yes.
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

    /// As [`ask`](Self::ask), with a message that is made for the token.
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
            self.talk().open.retain(|request| request.number != number);
            return Err(error);
        }
        judge(name, self.wait(number)?)
    }

    fn open(&self, name: &'static str) -> Result<(u64, bool), Error> {
        let mut talk = self.talk();
        if talk.is_over {
            return Err(Error::Closed);
        }
        talk.count += 1;
        let (number, has_token) = (talk.count, !talk.open.is_empty());
        talk.open.push(Open { number, has_token, name, answer: None });
        Ok((number, has_token))
    }

    /// Waits for one answer; reads if nobody else does.
    fn wait(&self, number: u64) -> Result<Message, Error> {
        let mut talk = self.talk();
        loop {
            if let Some(answer) = talk.take(number) {
                return Ok(answer);
            }
            if talk.is_over {
                talk.open.retain(|request| request.number != number);
                return Err(Error::Closed);
            }
            if talk.is_read {
                talk = self.answered.wait(talk).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            talk.is_read = true;
            drop(talk);
            let mut buffer = [0; 4096];
            let read = self.wire.receive(&mut buffer);
            talk = self.talk();
            talk.is_read = false;
            match read {
                Ok(read) => talk.receive(&buffer[..read]),
                Err(_) => talk.is_over = true,
            }
            // Whose answers came goes on, and if mine did, another one has to read.
            self.answered.notify_all();
        }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
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
        Ok(Some(wanted(name, &answer, "value")?.to_vec()))
    }
}

impl Talk {
    fn receive(&mut self, bytes: &[u8]) {
        self.decoder.receive(bytes);
        while let Some(said) = self.decoder.poll() {
            match said {
                Ok(Said::Message(message)) => self.settle(message),
                // Not an answer to anything.
                Ok(Said::Line(_)) | Err(pmi_proto::ProtocolError::NoCommand { .. }) => {}
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Gives an answer to its request; one that nobody waits for is dropped.
    fn settle(&mut self, message: Message) {
        let named = |request: &Open| {
            message.command().strip_suffix(b"-response") == Some(request.name.as_bytes())
        };
        let mut open = self.open.iter_mut().filter(|request| request.answer.is_none());
        let request = match message.get("thrid") {
            Some(token) => open.find(|request| request.number.to_string().as_bytes() == token),
            None => {
                let mut fitting: Vec<_> = open.filter(|request| named(request)).collect();
                // False comes before true.
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
        // The protocol has no request for these; they are those of its C interface.
        Limits { job: MAX_JOB, key: MAX_KEY, value: MAX_VALUE }
    }

    fn is_of_lines(&self) -> bool {
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
        // Some servers call it the one, some the other.
        let port =
            answer.get("port").map_or_else(|| wanted("name-lookup", &answer, "value"), Ok)?;
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
        // Slurm calls the place a count.
        let process_info = number("ring", &answer, "ring-rank");
        let process_info = process_info.or_else(|_| number("ring", &answer, "ring-count"))?;
        let neighbour = |key| Ok::<_, Error>(wanted("ring", &answer, key)?.to_vec());
        let (left, right) = (neighbour("ring-left")?, neighbour("ring-right")?);
        Ok(Ring { process_info, size: self.size, left, right })
    }

    fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        let (rank, signal) = (rank.to_string(), signal.to_string());
        let pairs = [("rank", rank.as_bytes()), ("signal", signal.as_bytes())];
        self.ask("mpd-signal", &pairs).map(drop)
    }

    fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error> {
        // The first pair is read by older servers, the others by newer ones.
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
            Some(Ok(Said::Line(line))) => {
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

/// The answer, if it is a yes.
fn judge(request: &'static str, answer: Message) -> Result<Message, Error> {
    match number(request, &answer, "rc")? {
        0 => Ok(answer),
        rc => {
            let message = answer.get("errmsg").unwrap_or_default();
            let message = String::from_utf8_lossy(message).into_owned();
            Err(Error::Refused { request, rc, message })
        }
    }
}

fn wanted<'a>(request: &'static str, answer: &'a Message, key: &str) -> Result<&'a [u8], Error> {
    answer.get(key).ok_or_else(|| Error::NotUnderstood { request, answer: format!("no {key}") })
}

fn number<T: std::str::FromStr>(
    request: &'static str,
    answer: &Message,
    key: &str,
) -> Result<T, Error> {
    let text = wanted(request, answer, key)?;
    parse(text).ok_or_else(|| Error::NotUnderstood {
        request,
        answer: format!("{key}={}", String::from_utf8_lossy(text)),
    })
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Longest name of a job, with C's zero.
const MAX_JOB: usize = 256;
