//! The requests of one allocation: their slots, the owner of these, and the order to free some of them. A hard call has an
//! allocation for each of its requests.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mpd_alloc::data::{self, AllocId, AllocRequest, Part, Pattern, Strings};
use mpd_alloc::exchange::Ask;
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::slots::{self, GLOBAL_VARIABLE, LOCAL_VARIABLE};
use mpd_requests::{Call, Error, Hardness, RequestId, Wanted};
use mpd_wire::DaemonName;

use crate::ask::AskError;
use crate::connection::AGAIN;
use crate::owner::Owner;

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) call: Call,
    /// The slots are gone without it.
    pub(super) owner: Option<Owner>,
    pub(super) alloc: Option<AllocId>,
    wanted: Wanted,
    /// The daemon does not know which slots are still needed.
    is_changed: bool,
    /// The order that is under way.
    order: Option<Console>,
    next_order: Instant,
}

impl Held {
    /// Makes the request.
    ///
    /// # Errors
    /// A pattern is invalid, or the daemon is not there.
    pub(super) fn ask(rundir: RunDir, first: RequestId, wanted: Wanted) -> Result<Self, Error> {
        let (request, strings) = request(&wanted)?;
        let owner = Owner::ask(rundir, request, strings).map_err(|error| match error {
            AskError::Console(ConsoleError::Refused(text)) => Error::Refused(text),
            error => Error::Daemon(error.to_string()),
        })?;
        Ok(Self {
            call: Call::new(first, wanted.count as usize),
            owner: Some(owner),
            alloc: None,
            wanted,
            is_changed: false,
            order: None,
            next_order: Instant::now(),
        })
    }

    /// The number of its requests.
    pub(super) const fn count(&self) -> u32 {
        self.wanted.count
    }

    /// Whether it waits in the queue.
    pub(super) fn waits(&self) -> bool {
        self.owner.is_some() && !self.call.is_granted()
    }

    /// Whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.call.is_over() && self.owner.is_none()
    }

    /// The variables of the process of a request.
    pub(super) fn variables(&self, id: RequestId) -> Vec<Vec<u8>> {
        let local = self.call.index_of(id).and_then(|index| self.wanted.local.get(index));
        let global = self.wanted.global.iter().map(|text| format!("{GLOBAL_VARIABLE}={text}"));
        let local = local.map(|text| format!("{LOCAL_VARIABLE}={text}"));
        global.chain(local).map(String::into_bytes).collect()
    }

    /// A request is over, so the call needs fewer slots.
    pub(super) const fn needs_less(&mut self) {
        self.is_changed = true;
    }

    pub(super) fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.owner.as_ref().and_then(Owner::fd), self.order.as_ref().map(|order| order.as_fd())]
    }

    /// How long to wait at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        let owner = self.owner.as_ref().and_then(Owner::patience);
        let is_due = self.is_changed && self.order.is_none() && self.alloc.is_some();
        let order = is_due.then(|| self.next_order.saturating_duration_since(Instant::now()));
        owner.into_iter().chain(order).min()
    }

    /// Tells the daemon which slots are needed, or gives all of them back.
    pub(super) fn review(&mut self, rundir: &RunDir) {
        if self.call.is_over() && self.owner.as_ref().is_some_and(|owner| owner.fd().is_some()) {
            // The slots are free when the connection closes. Without one, the next daemon must see it close.
            (self.owner, self.order) = (None, None);
        }
        if self.owner.is_none() || !self.call.is_granted() {
            return;
        }
        if let Some(order) = &mut self.order {
            match order.answer(Some(Duration::ZERO)) {
                Err(ConsoleError::Silent(_)) => return,
                // If it is refused, the allocation is over, and its owner learns that.
                Ok(_) | Err(ConsoleError::Refused(_)) => {}
                Err(_) => self.is_changed = true,
            }
            self.order = None;
            self.next_order = Instant::now() + if self.is_changed { AGAIN } else { Duration::ZERO };
        }
        let Some(alloc) = self.alloc.as_ref().filter(|_| self.is_changed) else { return };
        if self.next_order > Instant::now() {
            return;
        }
        let order = Ask::Keep { alloc: alloc.to_string(), parts: parts(&self.call.needs()) };
        match slots::ask(rundir, &order) {
            Ok(console) => (self.order, self.is_changed) = (Some(console), false),
            Err(_) => self.next_order = Instant::now() + AGAIN,
        }
    }
}

fn parts(needs: &BTreeMap<&str, u32>) -> Vec<Part> {
    let part = |(host, slots): (&&str, &u32)| {
        // The hosts came from the daemon.
        Some(Part { host: DaemonName::new(host).ok()?, slots: *slots })
    };
    needs.iter().filter_map(part).collect()
}

/// The hosts of the slots of an allocation, one by one.
pub(super) fn hosts(parts: &[Part]) -> Vec<String> {
    let each = |part: &Part| std::iter::repeat_n(part.host.to_string(), part.slots as usize);
    parts.iter().flat_map(each).collect()
}

/// The allocations of a call, each with its first request.
///
/// # Errors
/// A pattern or a string is invalid.
pub(super) fn allocations(
    first: RequestId,
    wanted: Wanted,
) -> Result<VecDeque<(RequestId, Wanted)>, Error> {
    if wanted.hardness != Hardness::Hard {
        request(&wanted)?;
        return Ok([(first, wanted)].into());
    }
    let one = |index: usize| {
        let of = |texts: &[String]| texts.get(index).cloned().into_iter().collect();
        let (nodes, local) = (of(&wanted.nodes), of(&wanted.local));
        let one = Wanted { count: 1, nodes, local, ..wanted.clone() };
        request(&one)?;
        Ok((first.plus(index), one))
    };
    (0..wanted.count as usize).map(one).collect()
}

fn request(wanted: &Wanted) -> Result<(AllocRequest, Strings), Error> {
    let invalid = |error: &dyn std::fmt::Display| Error::Argument(error.to_string());
    let pattern = |text: &String| text.parse::<Pattern>().map_err(|error| invalid(&error));
    let mut hosts: Vec<Pattern> = wanted.nodes.iter().map(pattern).collect::<Result<_, _>>()?;
    if hosts.iter().all(|host| Some(host) == hosts.first()) {
        hosts.truncate(1);
    }
    hosts.retain(|host| wanted.nodes.iter().any(|node| node != "*") || host.as_str() != "*");
    let arch = wanted.arch.iter().filter(|arch| *arch != "*").map(pattern);
    let request = AllocRequest {
        count: wanted.count,
        hardness: match wanted.hardness {
            Hardness::Hard | Hardness::Gang => data::Hardness::Hard,
            Hardness::Soft => data::Hardness::Soft,
        },
        hosts,
        arch: arch.collect::<Result<_, _>>()?,
        width: 1,
        limit_s: None,
        // The daemon fills these in.
        uid: 0,
        since_us: 0,
    };
    if request.hosts.len() > data::MAX_PATTERNS {
        let most = data::MAX_PATTERNS;
        return Err(Error::Argument(format!(
            "at most {most} requests can have nodes of their own"
        )));
    }
    request.check().map_err(|error| invalid(&error))?;
    let strings = Strings { global: wanted.global.clone(), each: wanted.local.clone() };
    strings.check().map_err(|error| invalid(&error))?;
    Ok((request, strings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_architectures_become_patterns() {
        let wanted = |nodes: &[&str], arch: Option<&str>| Wanted {
            count: 4,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            arch: arch.map(str::to_owned),
            ..Wanted::default()
        };
        let hosts = |nodes: &[&str]| {
            let (request, _) = request(&wanted(nodes, None)).unwrap();
            let texts = request.hosts.iter().map(Pattern::as_str);
            texts.collect::<Vec<_>>().join(",")
        };
        assert_eq!(hosts(&["h1", "*", "h3", "*"]), "h1,*,h3,*");
        assert_eq!(hosts(&["h1", "h1", "h1", "h1"]), "h1");
        assert_eq!((hosts(&[]), hosts(&["*"; 4])), (String::new(), String::new()));
        assert!(request(&wanted(&[], Some("*"))).unwrap().0.arch.is_empty());
        assert_eq!(request(&wanted(&[], Some("x86_64"))).unwrap().0.arch.len(), 1);
        assert!(matches!(request(&wanted(&["a b"; 4], None)), Err(Error::Argument(_))));
        let part = |host: &str, slots| Part { host: DaemonName::new(host).unwrap(), slots };
        assert_eq!(hosts_of(&[part("a", 2), part("b", 1), part("a", 1)]), "a a b a");
    }

    #[test]
    fn a_hard_call_has_an_allocation_for_each_request_and_others_have_one() {
        let wanted = |hardness| Wanted {
            count: 2,
            hardness,
            nodes: vec!["h1".to_owned(), "*".to_owned()],
            local: vec!["a".to_owned(), "b".to_owned()],
            ..Wanted::default()
        };
        let all = allocations(RequestId(5), wanted(Hardness::Hard)).unwrap();
        let shown =
            all.iter().map(|(id, one)| (id.0, one.count, &one.nodes[0][..], &one.local[0][..]));
        assert_eq!(shown.collect::<Vec<_>>(), [(5, 1, "h1", "a"), (6, 1, "*", "b")]);
        for hardness in [Hardness::Gang, Hardness::Soft] {
            assert_eq!(allocations(RequestId(5), wanted(hardness)).unwrap().len(), 1);
        }
        let wrong =
            Wanted { nodes: vec!["h1".to_owned(), "a b".to_owned()], ..wanted(Hardness::Hard) };
        assert!(matches!(allocations(RequestId(5), wrong), Err(Error::Argument(_))));
    }

    fn hosts_of(parts: &[Part]) -> String {
        hosts(parts).join(" ")
    }
}
