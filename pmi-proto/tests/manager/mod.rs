//! The smallest manager: one session, one KVS, a fence of one rank.
//!
//! It answers each operation at once and takes all output. It keeps both for the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use pmi_proto::{
    Answer, Facts, Kvs, NodeAttributes, Operation, Phase, ProtocolError, Service, Session, Spawned,
    Ticket,
};

/// The name of the job's KVS in all tests.
pub(crate) const KVSNAME: &str = "kvs_22138_0";

/// Facts of rank 0 of 2.
pub(crate) fn facts() -> Facts {
    Facts { kvsname: KVSNAME.into(), rank: 0, size: 2, appnum: 0, spawner: None }
}

/// The frame of a message, given without `cmd=`.
pub(crate) fn frame(body: &str) -> Vec<u8> {
    let body = format!("cmd={body}");
    format!("{:6}{body}", body.len()).into_bytes()
}

/// The bodies of frames, or lines between them, one a line, without their `cmd=`.
pub(crate) fn bodies(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while !bytes.is_empty() {
        let line = bytes.starts_with(b"cmd=");
        let (body, rest) = if line {
            let end = bytes.iter().position(|&byte| byte == b'\n').expect("a whole line");
            (&bytes[..end], &bytes[end + 1..])
        } else {
            let (header, rest) = bytes.split_at(6);
            let length = std::str::from_utf8(header).unwrap().trim_start().parse().unwrap();
            rest.split_at(length)
        };
        let body = std::str::from_utf8(body).unwrap();
        text += body.strip_prefix("cmd=").unwrap();
        text.push('\n');
        bytes = rest;
    }
    text
}

/// A session with its manager.
pub(crate) struct Manager {
    pub(crate) session: Session,
    pub(crate) kvs: Kvs,
    pub(crate) names: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) attributes: NodeAttributes<Ticket>,
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
            attributes: NodeAttributes::new(),
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

    /// A manager whose client speaks PMI-2 and has said its init.
    pub(crate) fn initialized_2() -> Self {
        let mut manager = Self::new();
        let reply = manager.say("cmd=init pmi_version=2 pmi_subversion=0");
        assert_eq!(reply, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
        manager.operations.clear();
        manager.written.clear();
        manager
    }

    /// Sends one message, given without its `cmd=`. Returns the bodies of the written messages, one per line.
    pub(crate) fn message(&mut self, body: &str) -> String {
        let before = self.written.len();
        self.receive(&frame(body));
        bodies(&self.written[before..])
    }

    /// Gives bytes to the session, and answers all operations.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.session.receive(bytes);
        self.settle();
    }

    /// Ends the client's stream, and answers all operations.
    pub(crate) fn end_of_stream(&mut self) {
        self.session.end_of_stream();
        self.settle();
    }

    /// Sends one line and returns the written bytes.
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
            let polled = self.session.poll_operation();
            if let Some((ticket, operation)) = &polled {
                self.perform(*ticket, operation);
            }
            let output = self.session.output().len();
            self.written.extend_from_slice(self.session.output());
            self.session.consume(output);
            match polled {
                Some((_, operation)) => self.operations.push(operation),
                None if output == 0 => return,
                None => {}
            }
        }
    }

    fn perform(&mut self, ticket: Ticket, operation: &Operation) {
        let session = &mut self.session;
        match operation {
            Operation::Put { key, value } => {
                session.answer(ticket, Answer::Put(self.kvs.put(key, value)));
            }
            Operation::Get { key } => session.answer(ticket, Answer::Get(self.kvs.get(key))),
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(self.kvs.get_index(*index)));
            }
            Operation::Publish { service: Service { name, .. }, value } => {
                let free = !self.names.contains_key(name);
                if free {
                    self.names.insert(name.clone(), value.clone());
                }
                session.answer(ticket, Answer::Published(free.then_some(()).ok_or("taken")));
            }
            Operation::Lookup { service: Service { name, .. } } => {
                let found = self.names.get(name).map(Vec::as_slice);
                session.answer(ticket, Answer::Found(found.ok_or("service_not_found")));
            }
            Operation::Unpublish { service: Service { name, .. } } => {
                let found = self.names.remove(name).map(drop);
                session.answer(ticket, Answer::Unpublished(found.ok_or("service_not_found")));
            }
            Operation::UniverseSize => session.answer(ticket, Answer::UniverseSize(None)),
            Operation::Fence | Operation::GroupFence { .. } => {
                session.answer(ticket, Answer::Fence);
            }
            Operation::GetOf { jobid, key } => {
                let found = (jobid == b"kvs_parent").then_some(key.as_slice());
                session.answer(ticket, Answer::Get(found));
            }
            Operation::PutNodeAttribute { key, value } => match self.attributes.put(key, value) {
                Err(error) => session.answer(ticket, Answer::Put(Err(error))),
                Ok(waiters) => {
                    session.answer(ticket, Answer::Put(Ok(())));
                    for waiter in waiters {
                        session.answer(waiter, Answer::Get(Some(value)));
                    }
                }
            },
            Operation::GetNodeAttribute { key, wait } => {
                let found = self.attributes.get(key);
                if found.is_some() || !wait || self.attributes.wait(key, ticket).is_err() {
                    session.answer(ticket, Answer::Get(self.attributes.get(key)));
                }
            }
            Operation::GetJobAttribute { key } => {
                session.answer(ticket, Answer::Get(self.kvs.get(key)));
            }
            Operation::Connect { .. } | Operation::Disconnect { .. } | Operation::Signal { .. } => {
                session.answer(ticket, Answer::Done(Ok(())));
            }
            // A ring of one.
            Operation::Ring { left, right } => {
                session.answer(ticket, Answer::Ring(Ok((right, left))));
            }
            Operation::Spawn(request) => {
                let size: u32 = request.commands.iter().map(|command| command.size.min(9)).sum();
                let errors = vec![0; size as usize];
                let spawned = Spawned { jobid: "kvs_child", errors: &errors };
                session.answer(ticket, Answer::Spawned(Ok(spawned)));
            }
            Operation::Initialized { .. }
            | Operation::Finalized
            | Operation::Abort { .. }
            | Operation::Misbehaved { .. } => {}
        }
    }
}

/// Cuts `bytes` into pieces of these sizes, over and over.
pub(crate) fn cut<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// The operations, the written bytes and the phase after all these pieces.
pub(crate) fn conversation(pieces: &[&[u8]]) -> (Vec<Operation>, Vec<u8>, Phase) {
    let mut manager = Manager::new();
    for piece in pieces {
        manager.receive(piece);
    }
    manager.end_of_stream();
    (manager.operations, manager.written, manager.session.phase())
}
