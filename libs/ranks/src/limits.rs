//! What a job may use on this host: which files of control groups get which text, and why a job is refused.
//!
//! The group of a job is below the group of its daemon. A group with processes cannot give controllers to groups below it. So
//! the first job with limits moves the processes of the suite, and the processes that they have started, to a group beside the
//! groups of jobs. Other programs are not moved. The kernel kills one process when the group is full, and not the whole
//! group. The job then ends as after other failures of a rank.

use std::fmt;

use mpd_ending::Pid;
use mpd_wire::job::Allowance;

/// The control groups of this host. Paths are those of their files.
pub trait Groups {
    fn read(&self, path: &str) -> Result<String, Fault>;
    fn write(&self, path: &str, text: &str) -> Result<(), Fault>;
    /// Makes a group.
    fn make(&self, path: &str) -> Result<(), Fault>;
    /// The program of a process; `None`: it cannot be read, or the process has ended.
    fn program_of(&self, pid: Pid) -> Option<Process>;
}

/// What the host tells about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The name of its program.
    pub name: String,
    pub parent: Pid,
    /// Whether its executable is one of the suite; `None`: the system does not say which it has.
    pub is_of_suite: Option<bool>,
}

/// Why the system has refused something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub errno: i32,
    /// The system's text for it.
    pub text: String,
}

/// The groups of the daemon and of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The host shows no control groups of version 2.
    NoGroups,
    /// The daemon is in this group, and could not make one for the job.
    Closed(&'a str),
    /// The group of the job, with the name of the group for processes of the suite beside it.
    Made { group: &'a str, own: &'a str },
}

/// Why a job cannot have its limits here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    allowance: Allowance,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    NoGroups,
    Closed {
        group: String,
    },
    NoController {
        group: String,
        controller: &'static str,
        others: String,
    },
    /// Groups of version 1 have the controller.
    Version1 {
        controller: &'static str,
    },
    Occupied {
        group: String,
        pid: Pid,
        program: Option<String>,
    },
    Nested {
        group: String,
        pid: Pid,
        program: String,
    },
    Restless {
        group: String,
    },
    Unwritable {
        path: String,
        text: String,
        problem: String,
    },
    Unreadable {
        path: String,
        problem: String,
    },
}

const MEMORY: &str = "memory";
const CPU: &str = "cpu";

/// The length of the periods in which CPU time is counted, in microseconds. It is the kernel's default.
const PERIOD_US: u64 = 100_000;

/// How often processes may arrive in the daemon's group while it is emptied.
const MAX_ROUNDS: usize = 20;

/// Most ancestors of a process that are looked at.
const MAX_ANCESTORS: usize = 64;

const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;

/// Limits the group of a job, before it has processes.
///
/// # Errors
/// Why that is impossible here.
pub fn impose(
    allowance: Allowance,
    place: Place<'_>,
    groups: &dyn Groups,
) -> Result<(), Box<Refusal>> {
    let refused = |reason| Box::new(Refusal { allowance, reason });
    let (group, own) = match place {
        Place::NoGroups => return Err(refused(Reason::NoGroups)),
        Place::Closed(group) => return Err(refused(Reason::Closed { group: group.to_owned() })),
        Place::Made { group, own } => (group, own),
    };
    let above = group.rsplit_once('/').map_or("", |(above, _)| above);
    enable(allowance, (above, own), groups)
        .and_then(|()| {
            limits(allowance).try_for_each(|(file, text, is_optional)| {
                let path = format!("{group}/{file}");
                match groups.write(&path, &text) {
                    Err(fault) if is_optional && fault.errno == ENOENT => Ok(()),
                    Err(fault) => Err(unwritable(path, &text, fault)),
                    Ok(()) => Ok(()),
                }
            })
        })
        .map_err(refused)
}

/// The files with their texts, and whether the kernel may lack the file. One without `memory.swap.max` has no swap, or does
/// not count it.
fn limits(allowance: Allowance) -> impl Iterator<Item = (&'static str, String, bool)> {
    let memory = allowance.memory.into_iter().flat_map(|memory| {
        [
            ("memory.max", memory.bytes().to_string(), false),
            // Else a job would slow down the host, and not end.
            ("memory.swap.max", "0".to_owned(), true),
        ]
    });
    let cpus = allowance.cpus.map(|cpus| {
        let quota_us = u64::from(cpus.thousandths()) * PERIOD_US / 1000;
        ("cpu.max", format!("{quota_us} {PERIOD_US}"), false)
    });
    memory.chain(cpus)
}

/// Gives the groups below `above` the controllers that the limits need. Those are not taken back, since other jobs may use them.
fn enable(
    allowance: Allowance,
    (above, own): (&str, &str),
    groups: &dyn Groups,
) -> Result<(), Reason> {
    let wanted = [(MEMORY, allowance.memory.is_some()), (CPU, allowance.cpus.is_some())];
    let wanted = wanted.into_iter().filter_map(|(name, is_wanted)| is_wanted.then_some(name));
    let available = read(groups, format!("{above}/cgroup.controllers"))?;
    let path = format!("{above}/cgroup.subtree_control");
    let enabled = read(groups, path.clone())?;
    let has = |list: &str, name| list.split_whitespace().any(|word| word == name);
    let mut missing = Vec::new();
    for controller in wanted {
        if !has(&available, controller) {
            // A file that only version 1 has, where distributions mount it.
            if groups.read(&format!("/sys/fs/cgroup/{controller}/cgroup.clone_children")).is_ok() {
                return Err(Reason::Version1 { controller });
            }
            let others = available.split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(Reason::NoController { group: above.to_owned(), controller, others });
        }
        if !has(&enabled, controller) {
            missing.push(format!("+{controller}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let text = missing.join(" ");
    for _ in 0..MAX_ROUNDS {
        match groups.write(&path, &text) {
            Ok(()) => return Ok(()),
            Err(fault) if fault.errno == EBUSY => clear(above, own, groups)?,
            Err(fault) => return Err(unwritable(path, &text, fault)),
        }
    }
    Err(Reason::Restless { group: above.to_owned() })
}

/// Moves the processes of the group `above` to the group `own` in it, or none of them.
fn clear(above: &str, own: &str, groups: &dyn Groups) -> Result<(), Reason> {
    let text = read(groups, format!("{above}/cgroup.procs"))?;
    let mut pids = Vec::new();
    for line in text.lines() {
        // A process outside of our view has the number 0.
        let pid = Pid(line.parse().unwrap_or(0));
        match groups.program_of(pid) {
            // It has ended, or is hidden. A hidden one keeps the group busy.
            None if pid.0 != 0 => {}
            None => return Err(Reason::Occupied { group: above.to_owned(), pid, program: None }),
            Some(process) => {
                let (group, program) = (above.to_owned(), process.name.clone());
                match side_of(process, groups) {
                    Side::Suite => pids.push(line),
                    Side::Rank => return Err(Reason::Nested { group, pid, program }),
                    Side::Other => {
                        return Err(Reason::Occupied { group, pid, program: Some(program) });
                    }
                }
            }
        }
    }
    let own = format!("{above}/{own}");
    match groups.make(&own) {
        Err(fault) if fault.errno != EEXIST => return Err(unwritable(own, "", fault)),
        Ok(()) | Err(_) => {}
    }
    let path = format!("{own}/cgroup.procs");
    pids.into_iter().try_for_each(|pid| match groups.write(&path, pid) {
        Err(fault) if fault.errno != ESRCH => Err(unwritable(path.clone(), pid, fault)),
        Ok(()) | Err(_) => Ok(()),
    })
}

/// The owner of a process.
enum Side {
    /// To the suite, which has started it or is it, as ssh by `mpdboot`.
    Suite,
    /// To a job: a manager has started it as a rank, or as what a rank starts.
    Rank,
    Other,
}

const MANAGER: &str = "mpdman";

/// What a manager starts for itself.
const HELPERS: [&str; 3] = [MANAGER, "mpdfork", "mpdwait"];

fn side_of(process: Process, groups: &dyn Groups) -> Side {
    let line = std::iter::successors(Some(process), |child| groups.program_of(child.parent));
    let line: Vec<Process> = line.take(MAX_ANCESTORS).collect();
    let is_helper = |it: &Process| HELPERS.contains(&it.name.as_str()) && is_of_suite(it);
    let is_rank = |(child, parent): (&Process, &Process)| {
        parent.name == MANAGER && is_of_suite(parent) && !is_helper(child)
    };
    if line.iter().zip(line.iter().skip(1)).any(is_rank) {
        Side::Rank
    } else if line.iter().any(is_of_suite) {
        Side::Suite
    } else {
        Side::Other
    }
}

/// Daemons and managers close `/proc` to others, so that only their names are known. Other programs with such a name, as the
/// Music Player Daemon `mpd`, do not.
fn is_of_suite(process: &Process) -> bool {
    const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];
    let has_name = |name: &str| {
        name.starts_with("mpd") || LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))
    };
    process.is_of_suite.unwrap_or_else(|| has_name(&process.name))
}

fn read(groups: &dyn Groups, path: String) -> Result<String, Reason> {
    groups.read(&path).map_err(|fault| Reason::Unreadable { path, problem: fault.text })
}

fn unwritable(path: String, text: &str, fault: Fault) -> Reason {
    Reason::Unwritable { path, text: text.to_owned(), problem: fault.text }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const START: &str = "start its daemon, or without a daemon mpirun, in a group of its own that is delegated, for \
                             example with systemd-run --user --scope -p Delegate=yes";
        match (self.allowance.memory, self.allowance.cpus) {
            (Some(_), Some(_)) => f.write_str("-mem and -cpus: ")?,
            (None, Some(_)) => f.write_str("-cpus: ")?,
            (Some(_) | None, None) => f.write_str("-mem: ")?,
        }
        match &self.reason {
            Reason::NoGroups => f.write_str(
                "this host has no control groups of version 2, or does not show them to the daemon",
            ),
            Reason::Closed { group } => {
                write!(f, "no control group can be made in {group}; {START}")
            }
            Reason::NoController { group, controller, others } => {
                let others = if others.is_empty() { "none" } else { others };
                write!(
                    f,
                    "the control group {group} does not have the controller {controller} (it has: {others}); the group above \
                     it must give it this controller, as Delegate=yes of systemd does"
                )
            }
            Reason::Version1 { controller } => write!(
                f,
                "control groups of version 1 have the controller {controller} on this host, and limits need it in version 2; \
                 systemd.unified_cgroup_hierarchy=1 on the kernel's command line gives it to version 2"
            ),
            Reason::Occupied { group, pid, program } => {
                let program = program.as_deref().unwrap_or("of another container");
                write!(
                    f,
                    "the control group {group} has a program that is not of MPD, process {pid} ({program}), so it cannot \
                     limit the groups in it; {START}"
                )
            }
            Reason::Nested { group, pid, program } => write!(
                f,
                "the control group {group} has a process of another job, process {pid} ({program}), so it cannot limit the \
                 groups in it; a job that a rank starts has no limits of its own: give them to the first job"
            ),
            Reason::Restless { group } => {
                write!(f, "processes keep the control group {group} busy; try again")
            }
            Reason::Unwritable { path, text, problem } if text.is_empty() => {
                write!(f, "cannot make the control group {path}: {problem}")
            }
            Reason::Unwritable { path, text, problem } => {
                write!(f, "cannot write \"{text}\" to {path}: {problem}")
            }
            Reason::Unreadable { path, problem } => write!(f, "cannot read {path}: {problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    use mpd_wire::job::{CpuAmount, MemorySize};

    use super::*;

    const TOP: &str = "/cg/unit";
    const PLACE: Place<'static> = Place::Made { group: "/cg/unit/mpd-7", own: "mpd" };

    /// The files of control groups, with the kernel's rule about processes in groups with controllers.
    #[derive(Default)]
    struct Model {
        controllers: &'static str,
        /// The controllers of groups of version 1.
        of_version_1: Option<&'static str>,
        enabled: RefCell<BTreeSet<String>>,
        /// The group of each process.
        processes: RefCell<BTreeMap<i32, String>>,
        programs: BTreeMap<i32, &'static str>,
        /// The others are children of process 1.
        parents: BTreeMap<i32, i32>,
        /// The processes with a known executable. The executables of other processes are hidden.
        executables: BTreeMap<i32, bool>,
        groups: RefCell<BTreeSet<String>>,
        /// Processes that arrive in the group whenever it was emptied.
        arriving: RefCell<Vec<i32>>,
        /// A process that ends before it is moved.
        ended: Option<i32>,
        without: Vec<&'static str>,
        refused: Option<(&'static str, i32)>,
        writes: RefCell<Vec<String>>,
    }

    impl Model {
        fn new(controllers: &'static str, programs: &[(i32, &'static str)]) -> Self {
            let processes = programs.iter().map(|(pid, _)| (*pid, TOP.to_owned())).collect();
            let programs = programs.iter().copied().collect();
            Self { controllers, processes: RefCell::new(processes), programs, ..Self::default() }
        }

        fn impose(&self, allowance: Allowance) -> Result<(), String> {
            impose(allowance, PLACE, self).map_err(|refusal| refusal.to_string())
        }

        fn members(&self, group: &str) -> Vec<i32> {
            let processes = self.processes.borrow();
            processes.iter().filter(|(_, at)| *at == group).map(|(pid, _)| *pid).collect()
        }
    }

    fn fault(errno: i32) -> Fault {
        Fault { errno, text: format!("error {errno}") }
    }

    impl Groups for Model {
        fn read(&self, path: &str) -> Result<String, Fault> {
            let file_of = |it| format!("/sys/fs/cgroup/{it}/cgroup.clone_children");
            if self.of_version_1.is_some_and(|it| path == file_of(it)) {
                return Ok("0\n".to_owned());
            }
            match path.strip_prefix("/cg/unit/") {
                Some("cgroup.controllers") => Ok(format!("{}\n", self.controllers)),
                Some("cgroup.subtree_control") => {
                    Ok(self.enabled.borrow().iter().cloned().collect::<Vec<_>>().join(" "))
                }
                Some("cgroup.procs") => {
                    Ok(self.members(TOP).iter().map(|pid| format!("{pid}\n")).collect())
                }
                _ => Err(fault(ENOENT)),
            }
        }

        fn write(&self, path: &str, text: &str) -> Result<(), Fault> {
            if let Some((_, errno)) = self.refused.filter(|(end, _)| path.ends_with(end)) {
                return Err(fault(errno));
            }
            let (group, file) = path.rsplit_once('/').unwrap();
            if self.without.contains(&file) {
                return Err(fault(ENOENT));
            }
            if file == "cgroup.subtree_control" && !self.members(group).is_empty() {
                return Err(fault(EBUSY));
            }
            self.writes.borrow_mut().push(format!("{} {text}", &path["/cg/unit/".len()..]));
            match file {
                "cgroup.subtree_control" => {
                    let added = text.split(' ').map(|word| word.trim_start_matches('+').to_owned());
                    self.enabled.borrow_mut().extend(added);
                }
                "cgroup.procs" => {
                    let pid: i32 = text.parse().unwrap();
                    if self.ended == Some(pid) {
                        self.processes.borrow_mut().remove(&pid);
                        return Err(fault(ESRCH));
                    }
                    let at = self.processes.borrow_mut().insert(pid, group.to_owned());
                    assert_eq!(at.as_deref(), Some(TOP), "only its processes move");
                    if let Some(next) = self.arriving.borrow_mut().pop() {
                        self.processes.borrow_mut().insert(next, TOP.to_owned());
                    }
                }
                _ => {}
            }
            Ok(())
        }

        fn make(&self, path: &str) -> Result<(), Fault> {
            let is_new = self.groups.borrow_mut().insert(path.to_owned());
            if is_new { Ok(()) } else { Err(fault(EEXIST)) }
        }

        fn program_of(&self, pid: Pid) -> Option<Process> {
            let parent = Pid(self.parents.get(&pid.0).copied().unwrap_or(1));
            let name = (*self.programs.get(&pid.0)?).to_owned();
            Some(Process { name, parent, is_of_suite: self.executables.get(&pid.0).copied() })
        }
    }

    fn memory(bytes: u64) -> Allowance {
        Allowance { memory: MemorySize::try_from(bytes).ok(), cpus: None }
    }

    fn both() -> Allowance {
        Allowance { cpus: CpuAmount::try_from(1500).ok(), ..memory(4 << 30) }
    }

    #[test]
    fn the_processes_of_the_suite_move_aside_before_the_first_limit() {
        let model =
            Model::new("cpuset cpu memory pids", &[(7, "mpd"), (8, "mpdman"), (9, "mpirun")]);
        assert_eq!(model.impose(both()), Ok(()));
        let expected = [
            "mpd/cgroup.procs 7",
            "mpd/cgroup.procs 8",
            "mpd/cgroup.procs 9",
            "cgroup.subtree_control +memory +cpu",
            "mpd-7/memory.max 4294967296",
            "mpd-7/memory.swap.max 0",
            "mpd-7/cpu.max 150000 100000",
        ];
        assert_eq!(*model.writes.borrow(), expected);
        assert_eq!(model.members("/cg/unit/mpd"), [7, 8, 9]);
    }

    #[test]
    fn only_what_a_later_job_needs_more_is_enabled() {
        let model = Model::new("cpu memory", &[(7, "mpd")]);
        model.impose(memory(1 << 30)).unwrap();
        model.writes.borrow_mut().clear();
        model.impose(memory(1 << 30)).unwrap();
        assert_eq!(
            *model.writes.borrow(),
            ["mpd-7/memory.max 1073741824", "mpd-7/memory.swap.max 0"]
        );
        model.writes.borrow_mut().clear();
        model.impose(both()).unwrap();
        assert_eq!(model.writes.borrow()[0], "cgroup.subtree_control +cpu");
    }

    #[test]
    fn processes_that_start_meanwhile_move_too_and_those_that_have_ended_do_not_matter() {
        let mut model =
            Model::new("memory", &[(7, "mpd"), (8, "mpdman"), (20, "mpdfork"), (21, "mpdwait")]);
        for pid in [20, 21] {
            model.processes.borrow_mut().remove(&pid);
        }
        model.arriving = RefCell::new(vec![20, 21]);
        // It ends before it is moved.
        model.ended = Some(8);
        assert_eq!(model.impose(memory(1 << 20)), Ok(()));
        assert_eq!(model.members(TOP), [0; 0]);
    }

    #[test]
    fn a_process_whose_program_is_hidden_is_not_moved() {
        let mut model = Model::new("memory", &[(7, "mpd"), (8, "sshd")]);
        model.programs.remove(&8);
        assert!(model.impose(memory(1 << 20)).unwrap_err().contains("busy"));
        assert_eq!((model.members(TOP), model.members("/cg/unit/mpd")), (vec![8], vec![7]));
    }

    #[test]
    fn a_group_in_which_processes_arrive_for_ever_is_a_refusal() {
        let model = Model::new("memory", &[(7, "mpd"), (8, "mpd")]);
        model.processes.borrow_mut().remove(&8);
        *model.arriving.borrow_mut() = vec![7; 1000];
        let problem = model.impose(memory(1 << 20)).unwrap_err();
        assert_eq!(problem, "-mem: processes keep the control group /cg/unit busy; try again");
    }

    #[test]
    fn foreign_programs_are_not_moved_and_then_nothing_is() {
        let model = Model::new("cpu memory", &[(7, "mpd"), (8, "bash")]);
        let problem = model.impose(both()).unwrap_err();
        assert!(problem.starts_with("-mem and -cpus: the control group /cg/unit has a program that is not of MPD, process 8 (bash), "), "{problem}");
        assert!(problem.ends_with("systemd-run --user --scope -p Delegate=yes"), "{problem}");
        assert_eq!(*model.writes.borrow(), [""; 0]);
        let model = Model::new("cpu memory", &[(0, "mpd")]);
        model.processes.borrow_mut().insert(0, TOP.to_owned());
        assert!(
            Model { programs: BTreeMap::new(), ..model }
                .impose(both())
                .unwrap_err()
                .contains("process 0 (of another container)")
        );
    }

    #[test]
    fn what_the_suite_has_started_moves_with_it_and_what_has_started_the_suite_does_not() {
        let programs = [(1, "systemd"), (7, "mpdboot"), (8, "sh"), (9, "ssh")];
        let mut model = Model::new("memory", &programs);
        model.processes.borrow_mut().remove(&1);
        model.parents = BTreeMap::from([(8, 7), (9, 8)]);
        assert_eq!(model.impose(memory(1 << 20)), Ok(()));
        let mut model = Model::new("memory", &programs);
        model.processes.borrow_mut().remove(&1);
        model.parents = BTreeMap::from([(7, 8), (9, 7)]);
        assert!(model.impose(memory(1 << 20)).unwrap_err().contains("process 8 (sh)"));
    }

    #[test]
    fn a_job_in_a_job_is_refused_and_nothing_of_it_moves() {
        let programs = [(7, "mpd"), (8, "mpdman"), (9, "sh"), (10, "mpirun"), (11, "mpdman")];
        for nested in [vec![9], vec![10], vec![10, 11]] {
            let mut model = Model::new("memory", &programs);
            model.parents = BTreeMap::from([(8, 7), (9, 8), (10, 9), (11, 10)]);
            // The others are in other groups.
            model.processes.borrow_mut().retain(|pid, _| nested.contains(pid));
            let problem = model.impose(memory(1 << 20)).unwrap_err();
            let expected = format!("has a process of another job, process {} (", nested[0]);
            assert!(problem.contains(&expected), "{problem}");
            assert_eq!(*model.writes.borrow(), [""; 0]);
        }
    }

    #[test]
    fn what_a_manager_starts_for_itself_moves_and_a_launcher_as_a_rank_does_not() {
        let with = |program| {
            let mut model = Model::new("memory", &[(7, "mpd"), (8, "mpdman"), (9, program)]);
            model.parents = BTreeMap::from([(8, 7), (9, 8)]);
            model.executables = BTreeMap::from([(9, true)]);
            model.impose(memory(1 << 20))
        };
        assert_eq!(with("mpdwait"), Ok(()));
        assert!(with("mpirun").unwrap_err().contains("process of another job, process 9"));
    }

    #[test]
    fn a_program_is_of_the_suite_by_its_executable_and_by_its_name_only_if_that_is_hidden() {
        let alone = |program, executable: Option<bool>| {
            let mut model = Model::new("memory", &[(9, program)]);
            model.executables = executable.map(|it| (9, it)).into_iter().collect();
            model.impose(memory(1 << 20)).is_ok()
        };
        for launcher in ["mpirun.mpd", "mpiexec.hydra", "mpirun_rsh", "orterun", "prterun"] {
            assert!(alone(launcher, Some(true)) && alone(launcher, None), "{launcher}");
            assert!(!alone(launcher, Some(false)), "{launcher} of another suite");
        }
        assert!(alone("renamed", Some(true)));
        assert!(!alone("mpd", Some(false)), "the Music Player Daemon");
        assert!(!alone("mpdscribble", Some(false)) && !alone("bash", None));
    }

    #[test]
    fn a_refusal_names_the_controller_the_group_and_what_to_do() {
        let problem = Model::new("hugetlb", &[]).impose(both()).unwrap_err();
        assert_eq!(
            problem,
            "-mem and -cpus: the control group /cg/unit does not have the controller memory (it has: hugetlb); the group \
             above it must give it this controller, as Delegate=yes of systemd does"
        );
        let cpus = Allowance { memory: None, ..both() };
        let problem = Model::new("", &[]).impose(cpus).unwrap_err();
        assert!(problem.starts_with("-cpus: ") && problem.contains("(it has: none)"), "{problem}");
        let mut model = Model::new("hugetlb", &[]);
        model.of_version_1 = Some("cpu");
        let problem = model.impose(cpus).unwrap_err();
        assert!(
            problem.starts_with("-cpus: control groups of version 1 have the controller cpu "),
            "{problem}"
        );
        assert!(model.impose(both()).unwrap_err().contains("does not have the controller memory"));
        // The name of a controller is a whole word.
        let problem = Model::new("memory cpuset", &[]).impose(cpus).unwrap_err();
        assert!(problem.contains("the controller cpu (it has: memory cpuset)"), "{problem}");
        let without =
            |place| impose(memory(1 << 20), place, &Model::default()).unwrap_err().to_string();
        assert!(without(Place::NoGroups).contains("no control groups of version 2"));
        assert!(without(Place::Closed("/cg/x")).contains("can be made in /cg/x; start its daemon"));
    }

    #[test]
    fn a_limit_that_the_system_refuses_is_a_refusal_except_that_of_swap_where_nothing_is_swapped() {
        let refused = |refused, without| {
            let model = Model::new("cpu memory", &[]);
            Model { refused, without, ..model }.impose(both())
        };
        assert_eq!(refused(None, vec!["memory.swap.max"]), Ok(()));
        assert_eq!(
            refused(Some(("memory.swap.max", 13)), vec![]).unwrap_err(),
            "-mem and -cpus: cannot write \"0\" to /cg/unit/mpd-7/memory.swap.max: error 13"
        );
        assert_eq!(
            refused(None, vec!["memory.max"]).unwrap_err(),
            "-mem and -cpus: cannot write \"4294967296\" to /cg/unit/mpd-7/memory.max: error 2"
        );
        assert_eq!(
            refused(Some(("subtree_control", 13)), vec![]).unwrap_err(),
            "-mem and -cpus: cannot write \"+memory +cpu\" to /cg/unit/cgroup.subtree_control: error 13"
        );
    }
}
