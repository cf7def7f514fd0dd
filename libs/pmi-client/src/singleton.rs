//! A process without a process manager: rank 0 of 1, with a key-value space of its own.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pmi_proto::Kvs;
use pmi_proto::limits::{MAX_KEY, MAX_KVSNAME, MAX_VALUE};
use pmi_proto::signal::is_for_programs;

use crate::error::Error;
use crate::raw;
use crate::server::{Limits, Pair, ProcessInfo, Ring, Server, Source};

/// The key-value space, the attributes and the published names of this process.
#[derive(Debug, Default)]
pub(crate) struct Singleton {
    data: Mutex<Data>,
    attribute_put: Condvar,
}

#[derive(Debug, Default)]
struct Data {
    pairs: Kvs,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Singleton {
    pub(crate) fn process_info() -> ProcessInfo {
        let job = format!("singleton_{}", std::process::id()).into_bytes();
        ProcessInfo { rank: 0, size: 1, appnum: 0, is_spawned: false, job }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server for Singleton {
    fn limits(&self) -> Limits {
        Limits { job: MAX_KVSNAME, key: MAX_KEY, value: MAX_VALUE }
    }

    fn needs_lines(&self) -> bool {
        false
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.data().pairs.put(key, value).map_err(|error| refused("put", &error.to_string()))
    }

    fn get(&self, from: Source<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if from.job.is_some_and(|job| job != Self::process_info().job) {
            return Err(Error::Unsupported("the key-value space of another job"));
        }
        if key == MAPPING {
            return Ok(Some(b"(vector,(0,1,1))".to_vec()));
        }
        Ok(self.data().pairs.get(key).map(<[u8]>::to_vec))
    }

    fn entry(&self, index: usize) -> Result<Option<Pair>, Error> {
        let data = self.data();
        Ok(data.pairs.get_index(index).map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn fence(&self) -> Result<(), Error> {
        Ok(())
    }

    fn universe_size(&self) -> Result<Option<u32>, Error> {
        Ok(Some(1))
    }

    fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match name {
            b"universeSize" => Ok(Some(b"1".to_vec())),
            MAPPING => self.get(Source::default(), MAPPING),
            _ => Ok(None),
        }
    }

    fn node_attribute(&self, name: &[u8], wait: bool) -> Result<Option<Vec<u8>>, Error> {
        let mut data = self.data();
        loop {
            if let Some(value) = data.attributes.get(name) {
                return Ok(Some(value.clone()));
            }
            if !wait {
                return Ok(None);
            }
            data = self.attribute_put.wait(data).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put_node_attribute(&self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        self.data().attributes.insert(name.to_vec(), value.to_vec());
        self.attribute_put.notify_all();
        Ok(())
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error> {
        let mut data = self.data();
        if data.names.contains_key(service) {
            return Err(refused("publish", "key_already_present"));
        }
        data.names.insert(service.to_vec(), port.to_vec());
        Ok(())
    }

    fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error> {
        let found = self.data().names.get(service).cloned();
        found.ok_or_else(|| refused("lookup", "service_not_found"))
    }

    fn unpublish(&self, service: &[u8]) -> Result<(), Error> {
        let found = self.data().names.remove(service).map(drop);
        found.ok_or_else(|| refused("unpublish", "service_not_found"))
    }

    fn ring(&self, value: &[u8]) -> Result<Ring, Error> {
        Ok(Ring { position: 0, size: 1, left: value.to_vec(), right: value.to_vec() })
    }

    fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error> {
        match rank {
            0 if is_for_programs(signal) => raw::signal_self(signal).map_err(Error::Io),
            0 => Err(refused("signal", "no_such_signal")),
            _ => Err(refused("signal", "no_such_rank")),
        }
    }

    fn abort(&self, _code: i32, _message: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn finalize(&self) -> Result<(), Error> {
        Ok(())
    }
}

fn refused(request: &'static str, message: &str) -> Error {
    Error::Refused { request, rc: 1, message: message.to_owned() }
}

/// The key of the value that maps ranks to nodes.
pub(crate) const MAPPING: &[u8] = b"PMI_process_mapping";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_an_attribute_ends_when_another_thread_puts_it() {
        let singleton = Singleton::default();
        assert_eq!(singleton.node_attribute(b"a", false).unwrap(), None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| singleton.node_attribute(b"a", true).unwrap());
            singleton.put_node_attribute(b"a", b"1").unwrap();
            assert_eq!(waiting.join().unwrap(), Some(b"1".to_vec()));
        });
    }

    #[test]
    fn names_are_taken_once_and_given_back() {
        let singleton = Singleton::default();
        singleton.publish(b"s", b"p").unwrap();
        assert!(singleton.publish(b"s", b"q").is_err());
        assert_eq!(singleton.lookup(b"s").unwrap(), b"p");
        singleton.unpublish(b"s").unwrap();
        assert!(singleton.lookup(b"s").is_err());
        assert!(singleton.unpublish(b"s").is_err());
    }
}
