//! The smallest manager: one session, one KVS, a fence of one rank.
//!
//! Answers each operation at once and takes all output; keeps both for the test to look at.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use pmi_proto::{Answer, Facts, Kvs, Operation, ProtocolError, Session};

/// The name of the job's KVS in all tests.
pub(crate) const KVSNAME: &str = "kvs_22138_0";

/// Facts of rank 0 of 2.
pub(crate) fn facts() -> Facts {
    Facts { kvsname: KVSNAME.into(), rank: 0, size: 2, appnum: 0, universe_size: None }
}

/// A session with its manager.
pub(crate) struct Manager {
    pub(crate) session: Session,
    pub(crate) kvs: Kvs,
    pub(crate) names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Every operation so far.
    pub(crate) operations: Vec<Operation>,
    /// Every byte written to the client so far.
    pub(crate) written: Vec<u8>,
}

impl Manager {
    pub(crate) fn new() -> Self {
        Self {
            session: Session::new(facts()),
            kvs: Kvs::new(),
            names: BTreeMap::new(),
            operations: Vec::new(),
            written: Vec::new(),
        }
    }

    /// A manager whose client has said its init.
    pub(crate) fn initialized() -> Self {
        let mut manager = Self::new();
        manager.say("cmd=init pmi_version=1 pmi_subversion=1");
        manager.operations.clear();
        manager
    }

    /// Gives bytes to the session and does all that follows.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.session.receive(bytes);
        self.settle();
    }

    /// Ends the client's stream and does all that follows.
    pub(crate) fn end_of_stream(&mut self) {
        self.session.end_of_stream();
        self.settle();
    }

    /// Gives one line and returns what was written in return.
    pub(crate) fn say(&mut self, line: &str) -> String {
        let before = self.written.len();
        self.receive(format!("{line}\n").as_bytes());
        String::from_utf8_lossy(&self.written[before..]).into_owned()
    }

    /// The errors among the operations so far, with their fatality.
    pub(crate) fn errors(&self) -> Vec<(ProtocolError, bool)> {
        let misbehaved = |operation: &Operation| match operation {
            Operation::Misbehaved { error, fatal } => Some((error.clone(), *fatal)),
            _ => None,
        };
        self.operations.iter().filter_map(misbehaved).collect()
    }

    fn settle(&mut self) {
        loop {
            let operation = self.session.poll_operation();
            if let Some(operation) = &operation {
                self.perform(operation);
            }
            let output = self.session.output().len();
            self.written.extend_from_slice(self.session.output());
            self.session.consume(output);
            match operation {
                Some(operation) => self.operations.push(operation),
                None if output == 0 => return,
                None => {}
            }
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::Put { key, value } => {
                self.session.answer(Answer::Put(self.kvs.put(key, value)));
            }
            Operation::Get { key } => self.session.answer(Answer::Get(self.kvs.get(key))),
            Operation::GetByIndex { index } => {
                self.session.answer(Answer::GetByIndex(self.kvs.get_index(*index)));
            }
            Operation::Publish { name, value } => {
                let free = !self.names.contains_key(name);
                if free {
                    self.names.insert(name.clone(), value.clone());
                }
                self.session.answer(Answer::Published(free.then_some(()).ok_or("taken")));
            }
            Operation::Lookup { name } => {
                let found = self.names.get(name).map(Vec::as_slice);
                self.session.answer(Answer::Found(found.ok_or("service_not_found")));
            }
            Operation::Unpublish { name } => {
                let found = self.names.remove(name).map(drop);
                self.session.answer(Answer::Unpublished(found.ok_or("service_not_found")));
            }
            Operation::Fence => self.session.answer(Answer::Fence),
            Operation::Initialized { .. }
            | Operation::Finalized
            | Operation::Abort { .. }
            | Operation::Misbehaved { .. } => {}
        }
    }
}
