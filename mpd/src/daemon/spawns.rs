//! What jobs want for processes that their ranks spawn. Where there is no ring this host is all there is.

use mpd_wire::job::SpawnWish;
use mpd_wire::message::{Launch, ManagerOrder};
use mpd_wire::{DaemonName, JobId};

use crate::daemon::errand::Errand;
use crate::daemon::placement;

/// Hosts in one order to a manager: so many problems fit a frame.
const MISSING_PER_ORDER: usize = 256;

/// What a root manager wants for processes that its ranks spawn.
#[derive(Debug)]
pub(super) enum Spawn {
    /// To know where they go.
    Place {
        /// Whose, and the number that its manager gave it.
        job: JobId,
        request: u32,
        wish: SpawnWish,
    },
    /// Managers on further hosts.
    Grow(Box<Launch>),
}

/// The messages that report hosts without a manager to the root manager of `job`.
pub(super) fn errands_of_missing(
    job: &JobId,
    members: &[(DaemonName, String)],
) -> impl Iterator<Item = Errand> {
    members
        .chunks(MISSING_PER_ORDER)
        .map(|some| Errand::new(job.clone(), ManagerOrder::Missing { members: some.to_vec() }))
}

/// The messages to managers from the daemon `name`, which is in no ring.
pub(super) fn answers(name: &str, spawn: Spawn) -> Vec<Errand> {
    match spawn {
        Spawn::Place { job, request, wish } => {
            let outcome = placement::spawned_alone(name, &wish);
            let order = ManagerOrder::Placed { request, outcome };
            vec![Errand::new(job, order)]
        }
        Spawn::Grow(launch) => {
            let problem = "no daemon is running here, so the job has one host alone";
            let members = launch.newcomers().map(|(_, share)| share.member.clone());
            let missing: Vec<_> = members.map(|member| (member, problem.to_owned())).collect();
            errands_of_missing(&launch.job, &missing).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::Instance;
    use mpd_wire::RankSet;
    use mpd_wire::job::{Cookie, JobKey, Share, Shares};
    use mpd_wire::job::{SpawnBlock, SpawnPolicy};
    use mpd_wire::message::Placing;

    use super::*;

    fn wish(hosts: &[&str]) -> SpawnWish {
        let host = |name: &&str| mpd_wire::job::HostWish { name: (*name).into(), slots: None };
        let hosts = (!hosts.is_empty()).then(|| hosts.iter().map(host).collect());
        SpawnWish {
            blocks: vec![SpawnBlock { size: 3, hosts, policy: None }],
            policy: SpawnPolicy::default(),
            hosts: Vec::new(),
            exclude: Vec::new(),
            last: DaemonName::new("h1").ok(),
            running: Vec::new(),
            lost: Vec::new(),
            here_first: true,
        }
    }

    fn placed(wish: SpawnWish) -> Placing {
        let job = "1@h1".parse().unwrap();
        let mut errands = answers("h1", Spawn::Place { job, request: 7, wish });
        match errands.pop().map(|errand| errand.order) {
            Some(ManagerOrder::Placed { request: 7, outcome }) => outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn alone_every_process_is_here() {
        let Placing::Done { shares, last } = placed(wish(&[])) else { panic!("not placed") };
        assert_eq!((shares.len(), last.as_str()), (1, "h1"));
        assert_eq!((shares[0].member.as_str(), &shares[0].ranks), ("h1", &RankSet::below(3)));
        let Placing::Failed(problem) = placed(wish(&["h2"])) else { panic!("placed") };
        assert!(problem.starts_with("not in the ring: h2"), "{problem}");
    }

    #[test]
    fn alone_a_job_cannot_grow_and_is_told_of_the_new_hosts_only() {
        let share = |host: u8| Share {
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
            shares: Shares::new((1..=3).map(share).collect(), 3).unwrap(),
            first: 2,
        };
        let errands = answers("h1", Spawn::Grow(Box::new(launch)));
        let [Errand { order: ManagerOrder::Missing { members }, .. }] = &errands[..] else {
            panic!("{errands:?}");
        };
        assert!(matches!(&members[..], [(member, _)] if member.as_str() == "h3"), "{members:?}");
    }
}
