//! The order of a spawn: from the manager of its spawner to the root, and from there to the managers that start it.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use mpd_wire::bounded::at_most;
use mpd_wire::frame::compact::{self, Malformed};
use mpd_wire::job::{
    Argset, Bytes, CpuChoices, JobSpec, MAX_ARGSETS, MAX_SPEC, Misfit, PlacementSpec, SpawnBlock,
    SpawnOptions, SpawnProgram,
};
use serde::{Deserialize, Serialize};

/// `MPI_ERR_SPAWN` of MPICH and its descendants: the error code of a process that `soft` has left out.
const ERR_SPAWN: i32 = 42;

/// The programs of a spawn, and the data that their managers need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnOrder {
    /// The programs. Their environments contain only the additions to an environment of the job. One more
    /// environment follows, with the initial content of the key-value space as `KEY=VALUE`.
    pub spec: JobSpec,
    /// The name of the spawner's key-value space.
    pub parent: String,
    /// The spawner's number in its world.
    pub rank: Rank,
    /// A user has requested it, and no rank.
    pub of_user: bool,
    /// How many spawns lie between the first world and the new one.
    pub generation: u32,
    /// By program: the index of the job's environment that it inherits.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ARGSETS>")]
    pub inherits: Vec<u32>,
    /// By program: the application number of MPI, if it is not the index of the program.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ARGSETS>")]
    pub appnums: Vec<Option<i32>>,
    /// By program: its hosts.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ARGSETS>")]
    pub blocks: Vec<SpawnBlock>,
}

/// Why bytes are no order of a spawn.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOrder {
    /// There are more bytes than an order may have.
    #[error("{0} bytes are too much for a spawn")]
    TooLong(usize),
    /// The bytes cannot be read.
    #[error("malformed order: {0}")]
    Malformed(#[from] Malformed),
    /// The programs do not fit each other.
    #[error("{0}")]
    Misfit(#[from] Misfit),
    /// The lists do not have one entry for each program.
    #[error("the lists of a spawn have other lengths than its programs")]
    OtherPrograms,
}

/// The facts about a spawner that its children inherit.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The name of its key-value space.
    pub kvsname: String,
    /// Its number in its world.
    pub rank: Rank,
    /// How many spawns lie between the first world and its own.
    pub generation: u32,
    /// The index of the job's environment that it has inherited.
    pub inherited: u32,
    pub niceness: Option<i8>,
}

impl SpawnOrder {
    /// The order of a rank's spawn. `preput` is the initial content of the key-value space.
    ///
    /// # Errors
    /// Why it is impossible; a text for people.
    pub fn of_rank(
        job: &JobSpec,
        parent: Parent,
        programs: Vec<SpawnProgram>,
        preput: &[(Bytes, Bytes)],
    ) -> Result<Self, String> {
        let generation = generation_of_child(parent.generation, &job.spawn)?;
        let spec = JobSpec {
            tmpdir: job.tmpdir.clone(),
            niceness: niceness_of_child(parent.niceness, job.spawn.nice_step),
            ..JobSpec::default()
        };
        let mut order = Self {
            spec,
            parent: parent.kvsname,
            rank: parent.rank,
            of_user: false,
            generation,
            inherits: vec![parent.inherited; programs.len()],
            appnums: Vec::new(),
            blocks: Vec::new(),
        };
        for (number, program) in (0..).zip(programs) {
            let SpawnProgram { argset, block, variables, appnum } = program;
            order.spec.argsets.push(Argset { environment: number, ..argset });
            order.spec.environments.push(variables);
            order.appnums.push(appnum);
            order.blocks.push(block);
        }
        let pair = |(key, value): &(Bytes, Bytes)| [key, &b"="[..], value].concat();
        order.spec.environments.push(preput.iter().map(pair).collect());
        order.spec.check().map_err(|e| e.to_string())?;
        Ok(order)
    }

    /// The order of `count` further processes of the job's last program, which a user requests. `kvsname` is the name of
    /// the job's key-value space.
    ///
    /// # Errors
    /// Why it is impossible; a text for people.
    pub fn of_user(job: &JobSpec, kvsname: &str, count: u32) -> Result<Self, String> {
        let argset = job.argsets.last().ok_or("the job has no program")?;
        if job.adopted || job.debug.is_some() {
            return Err("only a job that mpirun started without a debugger can grow".to_owned());
        }
        let order = Self {
            spec: JobSpec {
                argsets: vec![Argset { size: count, environment: 0, ..argset.clone() }],
                environments: vec![Vec::new(); 2],
                tmpdir: job.tmpdir.clone(),
                niceness: job.niceness,
                ..JobSpec::default()
            },
            parent: kvsname.to_owned(),
            rank: Rank(0),
            of_user: true,
            generation: 0,
            inherits: vec![argset.environment],
            appnums: vec![None],
            blocks: vec![SpawnBlock { size: count, hosts: argset.hosts.clone(), policy: None }],
        };
        order.spec.check().map_err(|e| e.to_string())?;
        Ok(order)
    }

    /// An error code for each requested process, in order, since libraries count them. `requested` has the number of
    /// processes of each program.
    pub fn error_codes(&self, requested: impl IntoIterator<Item = u32>) -> Vec<i32> {
        let codes = |(size, block): (u32, &SpawnBlock)| {
            let started = block.size;
            (0..size).map(move |n| if n < started { 0 } else { ERR_SPAWN })
        };
        requested.into_iter().zip(&self.blocks).flat_map(codes).collect()
    }

    /// The bytes of the order.
    pub fn encode(&self) -> Vec<u8> {
        compact::to_vec(self)
    }

    /// The same, if a root takes that many.
    ///
    /// # Errors
    /// [`InvalidOrder::TooLong`].
    pub fn encode_bounded(&self) -> Result<Bytes, InvalidOrder> {
        let bytes = self.encode();
        check_length(&bytes)?;
        Ok(bytes)
    }

    /// Reads an order and checks it.
    ///
    /// # Errors
    /// What is invalid.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidOrder> {
        check_length(bytes)?;
        let order: Self = compact::from_slice(bytes)?;
        let Self { spec, inherits, appnums, blocks, .. } = &order;
        spec.check()?;
        let programs = spec.argsets.len();
        if [inherits.len(), appnums.len(), blocks.len()].iter().any(|&length| length != programs)
            || spec.environments.len() != programs + 1
        {
            return Err(InvalidOrder::OtherPrograms);
        }
        Ok(order)
    }

    /// The initial content of the world's key-value space.
    pub fn preput(&self) -> Vec<(Bytes, Bytes)> {
        let pairs = self.spec.environments.last().into_iter().flatten();
        pairs.filter_map(|pair| split(pair)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    }

    /// Whether a call of `MPI_Comm_spawn` made it. Such an order names the port at which the spawner waits. MPICH and its
    /// descendants put it into the key-value space, Open MPI into the environment.
    pub fn is_of_mpi(&self) -> bool {
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
    pub fn completed_by(self, job: &JobSpec) -> JobSpec {
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

const fn check_length(bytes: &[u8]) -> Result<(), InvalidOrder> {
    match bytes.len() {
        0..=MAX_SPEC => Ok(()),
        length => Err(InvalidOrder::TooLong(length)),
    }
}

/// The generation of a world that one of `generation` spawns.
///
/// # Errors
/// The chain of spawns is as long as it may be; a text for people.
fn generation_of_child(generation: u32, options: &SpawnOptions) -> Result<u32, String> {
    let longest = options.longest_chain();
    if generation >= longest {
        return Err(format!(
            "the chain of spawns has {longest} worlds already, each spawned by the one before; if that is right, raise the bound with -spawn-depth N"
        ));
    }
    Ok(generation + 1)
}

/// The niceness of processes that a process of the niceness `parent` spawns.
fn niceness_of_child(parent: Option<i8>, step: i8) -> Option<i8> {
    match (parent, step) {
        (niceness, 0) => niceness,
        (niceness, step) => Some(niceness.unwrap_or(0).saturating_add(step).clamp(-20, 19)),
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
            environment,
            directory: b"/w".into(),
            search: b"/bin".into(),
            umask: 0o22,
            ..Argset::default()
        };
        let list = |list: &&[&str]| list.iter().map(|v| v.as_bytes().to_vec()).collect();
        JobSpec {
            argsets: (0..).map(argset).take(programs).collect(),
            environments: environments.iter().map(list).collect(),
            tmpdir: b"/tmp".into(),
            ..JobSpec::default()
        }
    }

    /// The order of `size` processes. `is_of_mpi`: the spawner waits until they have initialised MPI.
    pub(crate) fn small_order(size: u32, is_of_mpi: bool) -> SpawnOrder {
        let preput: &[&str] = if is_of_mpi { &["PARENT_ROOT_PORT_NAME=tag#0$"] } else { &[] };
        let mut spec = spec(&[&["TOKEN=hush"], preput], 1);
        spec.argsets[0].size = size;
        spec.argsets[0].args = vec![b"--password=hush".to_vec()];
        spec.argsets[0].search = b"/opt/hush/bin".to_vec();
        SpawnOrder {
            spec,
            parent: "kvs".to_owned(),
            rank: Rank(0),
            of_user: false,
            generation: 1,
            inherits: vec![0],
            appnums: vec![None],
            blocks: vec![SpawnBlock { size, hosts: None, policy: None }],
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

    #[test]
    fn a_chain_of_spawns_ends_at_its_bound_with_the_option_that_raises_it() {
        let options = |depth| SpawnOptions { depth, ..SpawnOptions::default() };
        assert_eq!(generation_of_child(0, &options(None)), Ok(1));
        assert_eq!(generation_of_child(99, &options(None)), Ok(100));
        let refused = generation_of_child(100, &options(None)).unwrap_err();
        assert!(refused.contains("100 worlds") && refused.contains("-spawn-depth"), "{refused}");
        assert_eq!(generation_of_child(100, &options(Some(101))), Ok(101));
        assert!(generation_of_child(1, &options(Some(1))).is_err());
    }

    #[test]
    fn each_level_of_spawns_has_a_higher_niceness_up_to_the_highest() {
        assert_eq!(niceness_of_child(Some(3), 0), Some(3));
        assert_eq!(niceness_of_child(None, 0), None);
        assert_eq!(niceness_of_child(Some(3), 5), Some(8));
        assert_eq!(niceness_of_child(Some(18), 5), Some(19));
        assert_eq!(niceness_of_child(Some(0), -3), Some(-3));
    }
}
