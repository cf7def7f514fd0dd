//! PMI-1: each line has one answer, for one thread at a time.
//!
//! An answer does not name its request. Therefore other threads wait while one thread is in a
//! barrier. Only an abort does not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pmi_proto::limits::MAX_REPLY;
use pmi_proto::{Client as Codec, Refusal, Reply, Setting, SpawnRequest};

use crate::environment::Environment;
use crate::error::Error;
use crate::server::{Limits, Pair, ProcessInfo, Server, Source, Spawned};
use crate::wire::Wire;

/// A server over PMI-1.
#[derive(Debug)]
pub(crate) struct Lines {
    wire: Wire,
    codec: Mutex<Codec>,
    limits: Limits,
}

impl Lines {
    /// Sends the first requests of every client.
    pub(crate) fn begin(
        wire: Wire,
        id: Option<u32>,
        environment: &Environment,
    ) -> Result<(Self, ProcessInfo), Error> {
        let mut codec = Codec::new();
        let mut process_info = ProcessInfo {
            rank: environment.rank,
            size: environment.size,
            appnum: -1,
            is_spawned: environment.is_spawned,
            job: Vec::new(),
        };
        if let Some(id) = id {
            identify(&wire, &mut codec, id, &mut process_info)?;
        }
        match ask(&wire, &mut codec, "init", Codec::init)? {
            Reply::ResponseToInit { rc: 0, .. } => {}
            Reply::ResponseToInit { rc, version, subversion } => {
                let message = format!("it speaks PMI {version}.{subversion}");
                return Err(Error::Refused { request: "init", rc, message });
            }
            other => return Err(unexpected("init", &other)),
        }
        let (job, key, value) = match ask(&wire, &mut codec, "get_maxes", Codec::get_maxes)? {
            Reply::Maxes { kvsname, key, value } => (kvsname, key, value),
            other => return Err(unexpected("get_maxes", &other)),
        };
        match ask(&wire, &mut codec, "get_appnum", Codec::get_appnum)? {
            Reply::Appnum(appnum) => process_info.appnum = appnum,
            other => return Err(unexpected("get_appnum", &other)),
        }
        match ask(&wire, &mut codec, "get_my_kvsname", Codec::get_my_kvsname)? {
            Reply::MyKvsname(name) => process_info.job = name,
            other => return Err(unexpected("get_my_kvsname", &other)),
        }
        let value = value.min(max_value(process_info.job.len(), key));
        let limits = Limits { job, key, value };
        Ok((Self { wire, codec: Mutex::new(codec), limits }, process_info))
    }

    fn ask(
        &self,
        request: &'static str,
        line: impl FnOnce(&Codec) -> Vec<u8>,
    ) -> Result<Reply, Error> {
        ask(&self.wire, &mut self.codec(), request, line)
    }

    fn codec(&self) -> MutexGuard<'_, Codec> {
        self.codec.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server for Lines {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn needs_lines(&self) -> bool {
        true
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match self.ask("put", |codec| codec.put(key, value))? {
            Reply::PutResult(result) => result.map_err(|refusal| refused("put", refusal)),
            other => Err(unexpected("put", &other)),
        }
    }

    fn get(&self, from: Source<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut codec = self.codec();
        if from.job.is_some_and(|job| job != codec.kvsname()) {
            return Err(Error::Unsupported("the key-value space of another job"));
        }
        match ask(&self.wire, &mut codec, "get", |codec| codec.get(key))? {
            // The reason of a refusal depends on the server, so any refusal is a missing key.
            Reply::GetResult(result) => Ok(result.ok()),
            other => Err(unexpected("get", &other)),
        }
    }

    fn entry(&self, index: usize) -> Result<Option<Pair>, Error> {
        match self.ask("getbyidx", |codec| codec.get_by_index(index))? {
            Reply::GetByIndexResult(result) => {
                Ok(result.ok().map(|entry| (entry.key, entry.value)))
            }
            other => Err(unexpected("getbyidx", &other)),
        }
    }

    fn fence(&self) -> Result<(), Error> {
        match self.ask("barrier_in", Codec::barrier_in)? {
            Reply::BarrierOut { .. } => Ok(()),
            other => Err(unexpected("barrier_in", &other)),
        }
    }

    fn universe_size(&self) -> Result<Option<u32>, Error> {
        match self.ask("get_universe_size", Codec::get_universe_size)? {
            Reply::UniverseSize(size) => Ok(size),
            other => Err(unexpected("get_universe_size", &other)),
        }
    }

    fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get(Source::default(), name)
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error> {
        match self.ask("publish_name", |codec| codec.publish_name(service, port))? {
            Reply::PublishResult(result) => {
                result.map_err(|refusal| refused("publish_name", refusal))
            }
            other => Err(unexpected("publish_name", &other)),
        }
    }

    fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error> {
        match self.ask("lookup_name", |codec| codec.lookup_name(service))? {
            Reply::LookupResult(result) => {
                result.map_err(|refusal| refused("lookup_name", refusal))
            }
            other => Err(unexpected("lookup_name", &other)),
        }
    }

    fn unpublish(&self, service: &[u8]) -> Result<(), Error> {
        match self.ask("unpublish_name", |codec| codec.unpublish_name(service))? {
            Reply::UnpublishResult(result) => {
                result.map_err(|refusal| refused("unpublish_name", refusal))
            }
            other => Err(unexpected("unpublish_name", &other)),
        }
    }

    fn spawn(&self, request: &SpawnRequest) -> Result<Spawned, Error> {
        match self.ask("spawn", |codec| codec.spawn(request))? {
            Reply::SpawnResult(Ok(codes)) => Ok(Spawned { job: None, codes }),
            Reply::SpawnResult(Err(refusal)) => Err(refused("spawn", refusal)),
            other => Err(unexpected("spawn", &other)),
        }
    }

    fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        let reply = self.ask("mpd_signal", |codec| codec.signal_rank(rank, signal))?;
        match reply {
            Reply::SignalResult(result) => result.map_err(|refusal| refused("mpd_signal", refusal)),
            other => Err(unexpected("mpd_signal", &other)),
        }
    }

    fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error> {
        // A thread in a barrier keeps the codec locked, so the abort has a codec of its own.
        self.wire.send(&Codec::new().abort(code, message))
    }

    fn finalize(&self) -> Result<(), Error> {
        match self.ask("finalize", Codec::finalize)? {
            Reply::FinalizeAck { rc: 0 } => Ok(()),
            // Hydra sends no code.
            Reply::NotUnderstood(line) if line.trim_ascii_end() == b"cmd=finalize_ack" => Ok(()),
            Reply::FinalizeAck { rc } => {
                Err(Error::Refused { request: "finalize", rc, message: String::new() })
            }
            other => Err(unexpected("finalize", &other)),
        }
    }
}

/// Sends the id of a client that has connected to a port, and receives its rank and size.
fn identify(
    wire: &Wire,
    codec: &mut Codec,
    id: u32,
    process_info: &mut ProcessInfo,
) -> Result<(), Error> {
    match ask(wire, codec, "initack", |codec| codec.initack(id))? {
        Reply::InitAck { rc: 0 } => {}
        Reply::InitAck { rc } => {
            return Err(Error::Refused { request: "initack", rc, message: String::new() });
        }
        other => return Err(unexpected("initack", &other)),
    }
    for _ in 0..3 {
        match next(wire, codec)? {
            Reply::Set { setting: Setting::Size, value } => process_info.size = value,
            Reply::Set { setting: Setting::Rank, value } => process_info.rank = value,
            Reply::Set { setting: Setting::Debug, .. } => {}
            other => return Err(unexpected("initack", &other)),
        }
    }
    Ok(())
}

fn ask(
    wire: &Wire,
    codec: &mut Codec,
    request: &'static str,
    line: impl FnOnce(&Codec) -> Vec<u8>,
) -> Result<Reply, Error> {
    wire.send(&line(codec))?;
    match next(wire, codec)? {
        Reply::Refused { refusal, .. } => Err(refused(request, refusal)),
        reply => Ok(reply),
    }
}

fn next(wire: &Wire, codec: &mut Codec) -> Result<Reply, Error> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(reply) = codec.poll_reply() {
            return Ok(reply);
        }
        let read = wire.receive(&mut buffer)?;
        codec.receive(&buffer[..read]);
    }
}

fn refused(request: &'static str, refusal: Refusal) -> Error {
    let message = String::from_utf8_lossy(&refusal.msg).into_owned();
    Error::Refused { request, rc: refusal.rc, message }
}

fn unexpected(request: &'static str, reply: &Reply) -> Error {
    let answer = match reply {
        Reply::NotUnderstood(line) => String::from_utf8_lossy(line).into_owned(),
        other => format!("{other:?}"),
    };
    Error::NotUnderstood { request, answer }
}

/// Most bytes of a value, with its zero. Its put and the answers with it fit in the longest line
/// of older servers, even with the longest key.
fn max_value(job: usize, key: usize) -> usize {
    let put = "cmd=put kvsname= key= value=".len() + job + key.saturating_sub(1);
    let got = "cmd=get_result rc=0 msg=success value=".len();
    let indexed = "cmd=getbyidx_results rc=0 nextidx=1234567890 key= val=".len();
    let indexed = indexed + key.saturating_sub(1);
    (MAX_REPLY + 1).saturating_sub(put.max(got).max(indexed))
}
