//! The order of a spawn: from the manager of its spawner to the root, and from there to the managers that start it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use mpd_wire::Rank;
use mpd_wire::job::SpawnBlock;
use mpd_wire::job::{Bytes, CpuChoices, JobSpec, MAX_SPEC, PlacementSpec};
use serde::{Deserialize, Serialize};

/// The programs of a spawn, and the data that their managers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpawnOrder {
    /// The programs. Their environments contain only the additions to an environment of the job. One more
    /// environment follows, with the initial content of the key-value space as `KEY=VALUE`.
    pub(crate) spec: JobSpec,
    /// The name of the spawner's key-value space.
    pub(crate) parent: String,
    /// The spawner's number in its world.
    pub(crate) rank: Rank,
    /// A user has requested it, and no rank.
    pub(crate) of_user: bool,
    /// How many spawns lie between the first world and the new one.
    pub(crate) generation: u32,
    /// By program: the index of the job's environment that it inherits.
    pub(crate) inherits: Vec<u32>,
    /// By program: the application number of MPI, if it is not the index of the program.
    pub(crate) appnums: Vec<Option<i32>>,
    /// By program: its hosts.
    pub(crate) blocks: Vec<SpawnBlock>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    parent: String,
    rank: Rank,
    of_user: bool,
    generation: u32,
    inherits: Vec<u32>,
    appnums: Vec<Option<i32>>,
    blocks: Vec<SpawnBlock>,
}

impl SpawnOrder {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = Head {
            parent: self.parent.clone(),
            rank: self.rank,
            of_user: self.of_user,
            generation: self.generation,
            inherits: self.inherits.clone(),
            appnums: self.appnums.clone(),
            blocks: self.blocks.clone(),
        };
        // Our own structs serialise; see frame::encode_message.
        let head = serde_json::to_vec(&head).expect("a head serialises");
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        [&length.to_be_bytes(), &head[..], &self.spec.encode()].concat()
    }

    /// Reads an order and checks it.
    ///
    /// # Errors
    /// What is invalid.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_SPEC {
            bail!("{} bytes are too much for a spawn", bytes.len());
        }
        let (length, rest) = bytes.split_first_chunk::<4>().context("no head")?;
        let length = u32::from_be_bytes(*length) as usize;
        let (head, spec) = rest.split_at_checked(length).context("a short head")?;
        let Head { parent, rank, of_user, generation, inherits, appnums, blocks } =
            serde_json::from_slice(head)?;
        let spec = JobSpec::decode(spec)?;
        spec.check()?;
        let programs = spec.argsets.len();
        if [inherits.len(), appnums.len(), blocks.len()].iter().any(|&length| length != programs)
            || spec.environments.len() != programs + 1
        {
            bail!("a head of other programs");
        }
        Ok(Self { spec, parent, rank, of_user, generation, inherits, appnums, blocks })
    }

    /// The initial content of the world's key-value space.
    pub(crate) fn preput(&self) -> Vec<(Bytes, Bytes)> {
        let pairs = self.spec.environments.last().into_iter().flatten();
        pairs.filter_map(|pair| split(pair)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    }

    /// Whether a call of `MPI_Comm_spawn` made it. Such an order names the port at which the spawner waits. MPICH and its
    /// descendants put it into the key-value space, Open MPI into the environment.
    pub(crate) fn is_of_mpi(&self) -> bool {
        let (preput, environments) = match self.spec.environments.split_last() {
            Some((preput, environments)) => (&preput[..], environments),
            None => return false,
        };
        let names = |pairs: &[Bytes], name: &[u8]| {
            pairs.iter().any(|pair| split(pair).is_some_and(|(other, _)| other == name))
        };
        names(preput, b"PARENT_ROOT_PORT_NAME")
            || environments.iter().any(|variables| names(variables, b"OMPI_PARENT_PORT"))
    }

    /// The programs with complete environments, and with the job's way of binding and of giving GPUs. The lines of a rank file are
    /// for the ranks of the first world only. The hosts are placed already, but their lists may tell their GPUs.
    pub(crate) fn completed_by(self, job: &JobSpec) -> JobSpec {
        let Self { mut spec, inherits, blocks, .. } = self;
        let PlacementSpec { binding, width, if_room, spread, ref cpus, gpus, .. } = job.placement;
        let cpus = if cpus.by_rank { CpuChoices::default() } else { cpus.clone() };
        let hosts = if gpus.is_some() { job.placement.hosts.clone() } else { Vec::new() };
        let own = PlacementSpec { binding, width, if_room, spread, cpus, ..spec.placement };
        spec.placement = PlacementSpec { gpus, hosts, ..own };
        for (argset, block) in spec.argsets.iter_mut().zip(blocks) {
            argset.hosts = block.hosts.filter(|_| gpus.is_some());
        }
        spec.environments.truncate(inherits.len());
        for (own, inherited) in spec.environments.iter_mut().zip(inherits) {
            let given: BTreeSet<&[u8]> = own.iter().filter_map(|v| Some(split(v)?.0)).collect();
            let inherited_rest = job.environments.get(inherited as usize).into_iter().flatten();
            let inherited_rest =
                inherited_rest.filter(|v| split(v).is_none_or(|(name, _)| !given.contains(name)));
            let inherited_rest: Vec<Bytes> = inherited_rest.cloned().collect();
            own.extend(inherited_rest);
        }
        spec
    }
}

fn split(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = pair.iter().position(|&byte| byte == b'=')?;
    Some((&pair[..at], &pair[at + 1..]))
}

#[cfg(test)]
pub(crate) mod tests {
    use mpd_wire::job::{Argset, Binding, CpuChoice, CpuNumbers, CpuRange, HostChoice};

    use super::*;

    pub(crate) fn spec(environments: &[&[&str]], programs: usize) -> JobSpec {
        let argset = |environment: u32| Argset {
            size: 1,
            program: b"./a".into(),
            args: Vec::new(),
            substitute: false,
            environment,
            directory: b"/w".into(),
            search: b"/bin".into(),
            umask: 0o22,
            limits: Vec::new(),
            hosts: None,
            pty: None,
        };
        let list = |list: &&[&str]| list.iter().map(|v| v.as_bytes().to_vec()).collect();
        JobSpec {
            argsets: (0..).map(argset).take(programs).collect(),
            environments: environments.iter().map(list).collect(),
            tmpdir: b"/tmp".into(),
            ..JobSpec::default()
        }
    }

    pub(crate) fn order() -> SpawnOrder {
        let block = SpawnBlock { size: 1, hosts: None, policy: None };
        SpawnOrder {
            spec: spec(&[&["A=new"], &[], &["port=a=b", "empty="]], 2),
            parent: "kvs_1".to_owned(),
            rank: Rank(3),
            of_user: false,
            generation: 3,
            inherits: vec![1, 0],
            appnums: vec![None, Some(7)],
            blocks: vec![block.clone(), block],
        }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = order();
        assert_eq!(SpawnOrder::decode(&order.encode()).unwrap(), order);
        let encoded = order.encode();
        for cut in [0, 3, 10, encoded.len() - 1] {
            assert!(SpawnOrder::decode(&encoded[..cut]).is_err(), "{cut}");
        }
        let short = SpawnOrder { appnums: Vec::new(), ..order };
        assert!(SpawnOrder::decode(&short.encode()).is_err());
    }

    #[test]
    fn a_spawned_program_has_its_ancestors_environment_and_its_own_variables() {
        let order = order();
        let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
        assert_eq!(order.preput(), [pair("port", "a=b"), pair("empty", "")]);
        let job = spec(&[&["X=0"], &["A=old", "B=1"]], 1);
        let whole = order.completed_by(&job);
        assert_eq!(whole.environments[0], [&b"A=new"[..], b"B=1"]);
        assert_eq!(whole.environments[1], [b"X=0"]);
    }

    #[test]
    fn a_spawned_world_is_bound_like_the_job_without_its_rank_file() {
        let mut job = spec(&[&[], &[]], 2);
        job.placement.binding = Binding::Core;
        job.placement.width = 2;
        job.placement.per_host = Some(3);
        let only = CpuChoice(vec![CpuRange { of: CpuNumbers::System, low: 0, high: 3 }]);
        job.placement.cpus.only = Some(only.clone());
        let placement = order().completed_by(&job).placement;
        assert_eq!(
            (placement.binding, placement.width, placement.per_host),
            (Binding::Core, 2, None)
        );
        assert_eq!(placement.cpus.only, Some(only));
        job.placement.cpus.by_rank = true;
        assert_eq!(order().completed_by(&job).placement.cpus, CpuChoices::default());
    }

    #[test]
    fn a_spawned_world_gets_gpus_like_the_job_by_the_lists_of_both() {
        let mut job = spec(&[&[], &[]], 2);
        let host = |gpus| HostChoice { gpus: Some(gpus), ..HostChoice::new("h1".into(), None) };
        job.placement.hosts = vec![host(4)];
        let mut order = order();
        order.blocks[0].hosts = Some(vec![host(2)]);
        let plain = order.clone().completed_by(&job);
        assert_eq!((plain.placement.hosts.len(), plain.argsets[0].hosts.is_some()), (0, false));
        job.placement.gpus = Some(2);
        let whole = order.completed_by(&job);
        assert_eq!((whole.placement.gpus, whole.placement.hosts), (Some(2), vec![host(4)]));
        assert_eq!(whole.argsets[0].hosts, Some(vec![host(2)]));
        assert_eq!(whole.argsets[1].hosts, None);
    }

    #[test]
    fn a_spawn_with_the_port_of_a_spawner_that_waits_is_one_of_mpi() {
        let is_of_mpi = |environments: &[&[&str]]| {
            let order = SpawnOrder {
                spec: spec(environments, environments.len() - 1),
                parent: "kvs".to_owned(),
                rank: Rank(0),
                of_user: false,
                generation: 1,
                inherits: Vec::new(),
                appnums: Vec::new(),
                blocks: Vec::new(),
            };
            order.is_of_mpi()
        };
        assert!(is_of_mpi(&[&["A=b"], &["x=y", "PARENT_ROOT_PORT_NAME=tag#0$"]]));
        assert!(is_of_mpi(&[&["A=b"], &["OMPI_PARENT_PORT=1.0:2"], &[]]));
        assert!(!is_of_mpi(&[&["PARENT_ROOT_PORT_NAME=tag#0$"], &["port=x"]]));
        assert!(!is_of_mpi(&[&["OMPI_PARENT_PORTS=1"], &["OMPI_PARENT_PORT=1"]]));
    }
}
