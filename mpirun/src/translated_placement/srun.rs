//! What the command lines of Slurm's `srun` need besides options: its variables, the number of tasks without an option, and the
//! file with the host of each task.

use mpd_placement::hosts::{HostEntry, parse_list};

use crate::allocation::Allocation;
use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::configfile;
use crate::dialect::{self, Dialect, Language, Layout};
use crate::options::{Key, OPTIONS, Opt, Reach};
use crate::scan::{self, Section};
use crate::usage::Usage;
use mpd_io::files::logging::plain;

/// The variables that stand for options of `srun`, and the options. Those that ask the batch system for something are left out:
/// they are set in every job.
const VARIABLES: [(&str, &str); 18] = [
    ("SLURM_NTASKS_PER_NODE", "ntasks-per-node"),
    ("SRUN_CPUS_PER_TASK", "cpus-per-task"),
    ("SLURM_DISTRIBUTION", "distribution"),
    ("SLURM_CPU_BIND", "cpu-bind"),
    ("SLURM_HINT", "hint"),
    ("SLURM_THREADS_PER_CORE", "threads-per-core"),
    ("SLURM_MEM_BIND", "mem-bind"),
    ("SLURM_GPUS_PER_TASK", "gpus-per-task"),
    ("SLURM_GPU_BIND", "gpu-bind"),
    ("SLURM_STDOUTMODE", "output"),
    ("SLURM_STDERRMODE", "error"),
    ("SLURM_STDINMODE", "input"),
    ("SRUN_EXPORT_ENV", "export"),
    ("SLURM_KILL_BAD_EXIT", "kill-on-bad-exit"),
    ("SLURM_WAIT", "wait"),
    ("SLURM_TIMELIMIT", "time"),
    ("SLURM_WORKING_DIR", "chdir"),
    ("SLURM_LABELIO", "label"),
];

/// Reads the variables into a layout, which options complete. An option comes before a variable, and a variable that has no
/// meaning here is reported in a line.
pub(super) fn of_variables(
    argsets: &mut Argsets<'_>,
    given: &Layout,
    caller: &Caller,
) -> Result<Layout, Usage> {
    let mut layout = Layout::default();
    let language = Language { dialect: Some(Dialect::Srun), caller };
    for (name, option) in VARIABLES {
        let Some(value) = caller.variable(name.as_bytes()).filter(|value| !value.is_empty()) else {
            continue;
        };
        let said = format!("the variable {name}={}", String::from_utf8_lossy(value));
        let is_flag = option == "label";
        if is_flag && value == b"0" || option == "cpu-bind" && given.binds() {
            continue;
        }
        let glued = Some(value).filter(|_| !is_flag);
        let mut own = Layout::default();
        let translated =
            dialect::translate((&said, option.as_bytes()), glued, &[], language, &mut own);
        match translated
            .and_then(|found| found.map_or(Ok(None), |it| scan::options(&it.words).map(Some)))
            .map(|section| section.map(of_all_programs))
        {
            Ok(Some(section)) if section.settings.iter().all(|it| !argsets.has(it.opt.key)) => {
                argsets.add(section.said_by(&said), None)?;
                layout.join(own);
            }
            Ok(_) => {}
            Err(_) => argsets.remark(format!("{said} has no effect: this value is not known here")),
        }
    }
    Ok(layout)
}

/// A variable stands for an option of all programs.
fn of_all_programs(mut section: Section) -> Section {
    for setting in section.settings.iter_mut().filter(|it| it.opt.reach == Reach::Argset) {
        let of_all = |opt: &&Opt| opt.key == setting.opt.key && opt.reach == Reach::Defaults;
        setting.opt = OPTIONS.iter().find(of_all).unwrap_or(setting.opt);
    }
    section
}

/// What is known about the tasks of `srun` and their hosts.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// The slots of the hosts of a batch job, unless options name hosts.
    pub(super) slots: Vec<(String, u32)>,
    /// The hosts of the ring, if these are needed.
    pub(super) hosts: Vec<String>,
    /// Whether the named hosts have their numbers of tasks already.
    pub(super) is_shared: bool,
}

/// Adds the number of tasks and the hosts of tasks.
pub(super) fn tasks(
    argsets: &mut Argsets<'_>,
    layout: &Layout,
    caller: &Caller,
) -> Result<Tasks, Usage> {
    let slots = if argsets.has(Key::Hosts) { Vec::new() } else { slots(caller)? };
    let listed = if layout.is_arbitrary() { listed(caller)? } else { None };
    if !argsets.has(Key::Processes) {
        let by_variable = ["SLURM_NTASKS", "SLURM_NPROCS"].into_iter().find_map(|name| {
            let value = caller.variable(name.as_bytes())?;
            str::from_utf8(value).ok()?.parse::<u32>().ok().filter(|&tasks| tasks > 0)
        });
        let by_file = listed.as_ref().map(|hosts| u32::try_from(hosts.len()).unwrap_or(u32::MAX));
        let tasks = by_file.or(by_variable).or_else(|| layout.tasks_by_default(&slots));
        if let Some(tasks) = tasks {
            let said = "the number of tasks of srun";
            argsets.add_words(said, vec!["-gn".to_owned(), tasks.to_string()])?;
        }
    }
    if !argsets.has(Key::Stdin) && !argsets.has(Key::Pty) {
        argsets.add_words("the input of srun", vec!["-s".to_owned(), "all".to_owned()])?;
    }
    if let Some(hosts) = listed {
        pick(argsets, &hosts)?;
        return Ok(Tasks { slots, is_shared: true, ..Tasks::default() });
    }
    let all = argsets.finish()?.0.size();
    let is_shared = share(argsets, layout, all);
    let is_open = !argsets.has(Key::Hosts) && slots.is_empty();
    let hosts = if is_open && layout.is_uneven(all) { hosts_of_ring(argsets)? } else { Vec::new() };
    Ok(Tasks { slots, hosts, is_shared })
}

/// The hosts of a batch job with their slots; none if a host has no number.
fn slots(caller: &Caller) -> Result<Vec<(String, u32)>, Usage> {
    let found = Allocation::find(caller)?.map(|allocation| allocation.hosts).unwrap_or_default();
    let slots: Option<_> = found.into_iter().map(|host| Some((host.name, host.slots?))).collect();
    Ok(slots.unwrap_or_default())
}

/// Gives each named host an equal share of the tasks, unless options say how many it gets.
fn share(argsets: &mut Argsets<'_>, layout: &Layout, all: u32) -> bool {
    if argsets.has(Key::PerHost) {
        return false;
    }
    let Some(named) = argsets.job.placement.hosts.get_mut() else { return false };
    let is_counted = named.iter().any(|host| host.ncpus.is_some());
    let Some(used) = layout.named_hosts(named.len(), all).filter(|_| !is_counted) else {
        return false;
    };
    named.truncate(used);
    let hosts = u32::try_from(named.len()).unwrap_or(u32::MAX);
    for (host, share) in named.iter_mut().zip(dialect::shares(all, hosts)) {
        host.ncpus = Some(share);
    }
    true
}

/// The hosts of the ring, in its order.
fn hosts_of_ring(argsets: &Argsets<'_>) -> Result<Vec<String>, Usage> {
    let survey = (argsets.caller().survey)(&argsets.job.ring_options, &[]).map_err(Usage::new)?;
    Ok(survey.in_ring_order().into_iter().map(|entry| entry.host).collect())
}

/// The hosts of the file `SLURM_HOSTFILE`, in the order of tasks.
fn listed(caller: &Caller) -> Result<Option<Vec<HostEntry>>, Usage> {
    let Some(value) = caller.variable(b"SLURM_HOSTFILE").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let name = String::from_utf8_lossy(value);
    let problem =
        |problem: String| Usage::new(format!("the file {name} of SLURM_HOSTFILE: {problem}"));
    let path = caller.directory.join(&*name);
    let bytes = configfile::read(&path).map_err(|e| problem(plain(&e)))?;
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<&str> = text.split_whitespace().collect();
    let hosts = parse_list(&names.join(",")).map_err(|e| problem(e.to_string()))?;
    Ok(Some(hosts))
}

/// Runs the tasks on these hosts, in this order.
fn pick(argsets: &mut Argsets<'_>, hosts: &[HostEntry]) -> Result<(), Usage> {
    const SAID: &str = "--distribution arbitrary";
    let mut names: Vec<&str> = Vec::new();
    let mut numbers = Vec::new();
    let tasks = argsets.finish()?.0.size() as usize;
    for host in hosts.iter().take(tasks) {
        let known = names.iter().position(|name| *name == host.host);
        let number = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(&host.host);
        }
        numbers.push(format!("n{number}"));
    }
    if !argsets.has(Key::Hosts) {
        argsets.add_words(SAID, vec!["-hosts".to_owned(), names.join(",")])?;
    }
    argsets.add_words(SAID, vec!["-pick".to_owned(), numbers.join(" ")])
}
