//! A root manager's request for the placement of spawned processes.

use serde::{Deserialize, Serialize};

use crate::DaemonName;
use crate::bounded::{at_most, at_most_if_any};
use crate::job::Argset;
use crate::job::bounds::{Bytes, MAX_ARGSETS, MAX_HOSTS, MAX_RANKS, Misfit};
use crate::job::host_slice::MAX_HOST_SLICES;
use crate::job::placement_options::{HostChoice, check_hosts, check_names};
use crate::job::spawn_options::SpawnPolicy;

/// The processes of one spawn, and the present state of their job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnPlacement {
    /// The programs, in rank order.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ARGSETS>")]
    pub blocks: Vec<SpawnBlock>,
    /// How processes are spread, unless a block has its own policy.
    pub policy: SpawnPolicy,
    /// The hosts of the job, in this order; empty: every member, in ring order. Hosts that have
    /// left the ring are skipped.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOSTS>")]
    pub hosts: Vec<HostChoice>,
    /// Hosts that get no process.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOSTS>")]
    pub exclude: Vec<String>,
    /// The host that this job used last; before the first spawn, the host of the last rank.
    pub last: Option<DaemonName>,
    /// The number of live processes of this job on each host.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    pub running: Vec<(DaemonName, u32)>,
    /// How many of them are blocked: they wait for a spawn, or for processes that they spawned.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    pub blocked: Vec<(DaemonName, u32)>,
    /// Most processes of the job for each slot of a host, without those that are blocked; `None`: no limit.
    pub limit: Option<u32>,
    /// Whether the processes are placed even if no host has a free slot, since nothing frees one.
    pub nevertheless: bool,
    /// Hosts that this job has lost. They never get a process again.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    pub lost: Vec<DaemonName>,
    /// Whether ring order begins with the console's host, and not with its successor.
    pub here_first: bool,
}

/// One program of a spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnBlock {
    /// How many processes.
    pub size: u32,
    /// Hosts for this program alone, in this order; `None`: the job's.
    #[serde(deserialize_with = "at_most_if_any::<_, _, MAX_HOSTS>")]
    pub hosts: Option<Vec<HostChoice>>,
    /// How its processes are spread; `None`: by [`SpawnPlacement::policy`].
    pub policy: Option<SpawnPolicy>,
}

/// One program of a spawn, with its hints applied.
#[derive(Clone, Debug)]
pub struct SpawnProgram {
    /// The program. Its environment is not decided yet.
    pub argset: Argset,
    /// Where its processes run.
    pub block: SpawnBlock,
    /// Variables beside those that it inherits.
    pub variables: Vec<Bytes>,
    /// The application number of MPI, if it is not the index of the program.
    pub appnum: Option<i32>,
}

impl SpawnPlacement {
    /// How many processes. Call after [`SpawnPlacement::check`], which bounds the sum.
    pub fn size(&self) -> u32 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    /// Checks whether this can be placed, provided that the hosts exist.
    ///
    /// # Errors
    /// The first [`Misfit`].
    pub fn check(&self) -> Result<(), Misfit> {
        if self.blocks.is_empty() {
            return Err(Misfit::Empty);
        }
        if self.blocks.iter().any(|block| block.size == 0) {
            return Err(Misfit::NoRanks);
        }
        let size: u64 = self.blocks.iter().map(|block| u64::from(block.size)).sum();
        if size > u64::from(MAX_RANKS) {
            return Err(Misfit::TooManyRanks(size));
        }
        check_hosts(&self.hosts)?;
        check_names(self.exclude.iter().map(String::as_str))?;
        let own = self.blocks.iter().filter_map(|block| block.hosts.as_deref());
        own.into_iter().try_for_each(check_hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(blocks: Vec<SpawnBlock>) -> SpawnPlacement {
        SpawnPlacement {
            blocks,
            policy: SpawnPolicy::default(),
            hosts: Vec::new(),
            exclude: Vec::new(),
            last: None,
            running: Vec::new(),
            blocked: Vec::new(),
            limit: None,
            nevertheless: false,
            lost: Vec::new(),
            here_first: true,
        }
    }

    const fn block(size: u32) -> SpawnBlock {
        SpawnBlock { size, hosts: None, policy: None }
    }

    #[test]
    fn a_request_reads_back_as_written() {
        let host = HostChoice::new("h2".to_owned(), Some(4));
        let own = SpawnBlock { hosts: Some(vec![host]), policy: Some(SpawnPolicy::Pack), size: 3 };
        let mut request = request(vec![block(1), own]);
        request.last = DaemonName::new("h1").ok();
        request.running = vec![(DaemonName::new("h1").unwrap(), 2)];
        request.blocked = vec![(DaemonName::new("h1").unwrap(), 1)];
        request.limit = Some(1);
        let text = serde_json::to_string(&request).unwrap();
        assert!(text.contains(r#"{"size":1,"hosts":null,"policy":null}"#), "{text}");
        assert!(text.contains(r#""policy":"pack""#) && text.contains(r#""policy":"rr""#), "{text}");
        assert_eq!(serde_json::from_str::<SpawnPlacement>(&text).unwrap(), request);
    }

    #[test]
    fn a_request_without_processes_or_with_too_many_is_refused() {
        assert_eq!(request(Vec::new()).check(), Err(Misfit::Empty));
        assert_eq!(request(vec![block(1), block(0)]).check(), Err(Misfit::NoRanks));
        let all = u64::from(MAX_RANKS) + 1;
        let too_many = request(vec![block(MAX_RANKS), block(1)]).check();
        assert_eq!(too_many, Err(Misfit::TooManyRanks(all)));
        assert_eq!(request(vec![block(MAX_RANKS)]).check(), Ok(()));
        let named = |name: &str| vec![HostChoice::new(name.to_owned(), None)];
        let strange = SpawnBlock { hosts: Some(named("a b")), ..block(1) };
        assert_eq!(request(vec![strange]).check(), Err(Misfit::Host("a b".to_owned())));
    }

    #[test]
    fn every_policy_is_found_by_its_name() {
        for policy in SpawnPolicy::ALL {
            assert_eq!(SpawnPolicy::of_name(policy.name()), Some(policy));
        }
        assert_eq!(SpawnPolicy::of_name("RR"), None);
    }
}
