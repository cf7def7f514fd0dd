//! Requests of root managers about processes that their ranks spawn, and the answers of a daemon without a ring.

use mpd_jobtable::ManagerMessage;
use mpd_wire::job::{SpawnPlacement, SpawnPolicy};
use mpd_wire::message::{Launch, ManagerOrder};
use mpd_wire::{DaemonName, Instance, JobId};

use crate::placement;

/// Hosts in one order to a manager. Their problems fit one frame.
const MISSING_PER_ORDER: usize = 256;

/// A request of a root manager about processes that its ranks spawn.
#[derive(Debug)]
pub(crate) enum Spawn {
    /// Place the processes.
    Place {
        /// The job of the ranks.
        job: JobId,
        /// The number that its manager gave the request.
        request: u32,
        /// What to place.
        placement: Box<SpawnPlacement>,
        /// A random instance for the first of the new managers, or why there is none.
        first: Result<Instance, String>,
    },
    /// Start managers on further hosts.
    Grow(Box<Launch>),
}

impl Spawn {
    /// Whether processes are to be placed by load.
    pub(crate) fn is_by_load(&self) -> bool {
        let Self::Place { placement, .. } = self else { return false };
        let policies =
            placement.blocks.iter().map(|block| block.policy.unwrap_or(placement.policy));
        policies.into_iter().any(|policy| policy == SpawnPolicy::Load)
    }
}

/// The messages that report hosts without a manager to the root manager of `job`.
pub(crate) fn manager_messages_of_missing(
    job: &JobId,
    members: &[(DaemonName, String)],
) -> impl Iterator<Item = ManagerMessage> {
    members.chunks(MISSING_PER_ORDER).map(|some| {
        ManagerMessage::new(job.clone(), ManagerOrder::Missing { members: some.to_vec() })
    })
}

/// The messages to managers from the daemon `name`, which is in no ring. `cpus` counts the CPUs of this host.
pub(crate) fn answers(name: &str, spawn: Spawn, cpus: impl FnOnce() -> u32) -> Vec<ManagerMessage> {
    match spawn {
        Spawn::Place { job, request, placement, first } => {
            let outcome = placement::spawned_alone(name, &placement, first, cpus());
            let order = ManagerOrder::Placed { request, outcome };
            vec![ManagerMessage::new(job, order)]
        }
        Spawn::Grow(launch) => {
            let problem = "no daemon is running here, so the job has one host alone";
            let members = launch.newcomers().map(|(_, host_slice)| host_slice.member.clone());
            let missing: Vec<_> = members.map(|member| (member, problem.to_owned())).collect();
            manager_messages_of_missing(&launch.job, &missing).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::RankSet;
    use mpd_wire::job::SpawnBlock;
    use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey};
    use mpd_wire::message::Placing;

    use super::*;

    fn placement(hosts: &[&str]) -> SpawnPlacement {
        let host = |name: &&str| mpd_wire::job::HostChoice::new((*name).into(), None);
        let hosts = (!hosts.is_empty()).then(|| hosts.iter().map(host).collect());
        SpawnPlacement {
            blocks: vec![SpawnBlock { size: 3, hosts, policy: None }],
            policy: SpawnPolicy::default(),
            hosts: Vec::new(),
            exclude: Vec::new(),
            last: DaemonName::new("h1").ok(),
            running: Vec::new(),
            blocked: Vec::new(),
            limit: None,
            nevertheless: false,
            lost: Vec::new(),
            here_first: true,
        }
    }

    fn place(job: JobId, placement: SpawnPlacement) -> Spawn {
        let first = Ok(Instance::from_bytes([5; 16]));
        Spawn::Place { job, request: 7, placement: Box::new(placement), first }
    }

    fn placed(placement: SpawnPlacement) -> Placing {
        let job = "1@h1".parse().unwrap();
        let mut manager_messages = answers("h1", place(job, placement), || 4);
        match manager_messages.pop().map(|manager_message| manager_message.order) {
            Some(ManagerOrder::Placed { request: 7, outcome }) => outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_ring_every_process_is_placed_here() {
        let Placing::Done { host_slices, last } = placed(placement(&[])) else {
            panic!("not placed")
        };
        assert_eq!((host_slices.len(), last.as_str()), (1, "h1"));
        assert_eq!(
            (host_slices[0].member.as_str(), &host_slices[0].ranks),
            ("h1", &RankSet::below(3))
        );
        let Placing::Failed(problem) = placed(placement(&["h2"])) else { panic!("placed") };
        assert!(problem.starts_with("not in the ring: h2"), "{problem}");
    }

    #[test]
    fn without_a_ring_a_job_cannot_grow_and_the_answer_names_only_the_new_hosts() {
        let host_slice = |host: u8| HostSlice {
            member: DaemonName::new(&format!("h{host}")).unwrap(),
            manager: Instance::from_bytes([host; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(u32::from(host) - 1, u32::from(host) - 1)]),
        };
        let launch = Launch {
            job: "1@h1".parse().unwrap(),
            key: JobKey::from_bytes([1; 32]),
            cookie: Cookie::from_bytes([2; 16]),
            kvsname: "k".into(),
            tmpdir: "/tmp".into(),
            host_slices: HostSlices::new((1..=3).map(host_slice).collect(), 3).unwrap(),
            universe: None,
            first: 2,
        };
        let manager_messages = answers("h1", Spawn::Grow(Box::new(launch)), || 4);
        let [ManagerMessage { order: ManagerOrder::Missing { members }, .. }] =
            &manager_messages[..]
        else {
            panic!("{manager_messages:?}");
        };
        assert!(matches!(&members[..], [(member, _)] if member.as_str() == "h3"), "{members:?}");
    }
}
