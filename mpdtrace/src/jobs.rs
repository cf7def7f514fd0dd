//! Lists of jobs: selection and output forms. Pure; text from other hosts is escaped.

use std::collections::BTreeMap;

use mpd_io::files::logging::one_line;
use mpd_wire::job::World;
use mpd_wire::message::{HostedPart, JobPart, JobRef, SpawnState};
use mpd_wire::{DaemonName, JobId, Rank};
use serde::Serialize;

use crate::ask::Listing;
use crate::render;
use crate::spawn_tree::{self, Node};

/// Printed in place of a missing alias. Existing scripts depend on these spaces.
const NO_ALIAS: &str = "          ";

/// Selects jobs of a user that have the alias or the id. An empty filter selects all jobs.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Name of the jobs' user.
    pub user: Option<String>,
    /// Alias of the jobs.
    pub alias: Option<String>,
    /// Id of the job.
    pub job: Option<JobRef>,
}

/// Removes from `listing` all jobs that `filter` does not select.
pub fn choose(listing: &mut Listing, filter: &JobFilter) {
    let asked = |job: JobRef| match &listing.me {
        Some(me) => job.as_asked_of(me),
        None => job,
    };
    let job = filter.job.clone().map(asked);
    let alias = filter.alias.clone().map(JobRef::Alias);
    let named: Vec<JobRef> = job.into_iter().chain(alias).collect();
    listing.jobs.retain(|HostedPart { part, .. }| {
        filter.user.as_ref().is_none_or(|user| *user == part.user)
            && (named.is_empty() || named.iter().any(|n| n.means(&part.job, part.alias.as_deref())))
    });
}

/// A process of a job.
#[derive(Serialize)]
struct Process<'a> {
    rank: u32,
    /// Number of the world; 0 for the first world of a job.
    world: u32,
    pid: u32,
    program: &'a str,
    /// The name of the process that has spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// In a job whose processes spawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip)]
    name: String,
    /// Its rank, numbered through the job.
    #[serde(skip)]
    in_job: Rank,
}

/// A spawn that waits for slots.
#[derive(Serialize)]
struct Ready<'a> {
    /// The name of the process that wants it; none: a user.
    parent: Option<String>,
    /// How many processes.
    size: u32,
    program: &'a str,
}

fn processes(part: &JobPart) -> impl Iterator<Item = Process<'_>> {
    part.runs.iter().flat_map(|run| {
        let pairs = run.ranks.ranks().zip(&run.pids);
        pairs.map(|(rank, pid)| Process {
            rank: run.world.map_or(rank, |world| world.own(rank)).0,
            world: run.world.map_or(0, |world| world.number),
            pid: *pid,
            program: &run.program,
            parent: run.parent.map(|(world, own)| match world {
                0 => own.to_string(),
                world => format!("{own},{world}"),
            }),
            state: None,
            name: World::name(run.world.as_ref(), rank),
            in_job: rank,
        })
    })
}

/// A block of lines for each process.
pub fn blocks(jobs: &[HostedPart]) -> String {
    let mut text = String::new();
    for HostedPart { host, part } in jobs {
        for process in processes(part) {
            let fields = [
                ("jobid", part.job.to_string()),
                ("jobalias", part.alias.as_deref().unwrap_or(NO_ALIAS).to_owned()),
                ("username", part.user.clone()),
                ("host", host.to_string()),
                ("pid", process.pid.to_string()),
                ("sid", part.manager.to_string()),
                ("rank", process.name),
                ("pgm", process.program.to_owned()),
            ];
            for (name, value) in fields {
                text += &format!("{name:8} = {}\n", one_line(&value));
            }
            text.push('\n');
        }
    }
    text
}

/// `HOST PID MANAGER` for each process.
pub fn short(jobs: &[HostedPart]) -> String {
    let line = |host: &DaemonName, part: &JobPart, process: &Process<'_>| {
        format!("{host} {} {}\n", process.pid, part.manager)
    };
    let lines = |HostedPart { host, part }: &HostedPart| -> String {
        processes(part).map(|process| line(host, part, &process)).collect()
    };
    jobs.iter().map(lines).collect()
}

/// A job on all its hosts.
#[derive(Serialize)]
struct Job<'a> {
    #[serde(serialize_with = "render::as_text")]
    job: &'a JobId,
    alias: Option<&'a str>,
    user: &'a str,
    hosts: Vec<Host<'a>>,
    /// Spawns that wait for slots, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ready: Vec<Ready<'a>>,
    /// How many more wait.
    #[serde(skip_serializing_if = "is_zero")]
    more_ready: u32,
}

impl<'a> Job<'a> {
    /// Adds a part of the state of its spawns. All its processes are known.
    fn add_spawns(&mut self, spawns: &'a SpawnState) {
        let mut names: BTreeMap<Rank, String> = BTreeMap::new();
        for process in self.hosts.iter_mut().flat_map(|host| &mut host.processes) {
            if spawns.blocked.contains(process.in_job) {
                process.state = Some("blocked");
            } else if spawns.ended.contains(process.in_job) {
                process.state = Some("ended");
            } else {
                process.state.get_or_insert("running");
            }
            names.insert(process.in_job, process.name.clone());
        }
        let name = |rank: Rank| names.get(&rank).cloned().unwrap_or_else(|| rank.to_string());
        self.ready.extend(spawns.ready.iter().map(|ready| Ready {
            parent: ready.spawner.map(name),
            size: ready.size,
            program: &ready.program,
        }));
        self.more_ready = self.more_ready.max(spawns.more_ready);
    }

    /// The tree of its spawns; nothing without spawns.
    fn spawn_tree(&self) -> Vec<String> {
        let mut nodes = Vec::new();
        for host in &self.hosts {
            nodes.extend(host.processes.iter().filter_map(|process| {
                let Process { name, state, program, .. } = process;
                Some(Node {
                    name: Some(name),
                    parent: process.parent.as_deref(),
                    line: format!("rank {name} on {}: {}, {program}", host.host, (*state)?),
                })
            }));
        }
        nodes.extend(self.ready.iter().map(|Ready { parent, size, program }| Node {
            name: None,
            parent: parent.as_deref(),
            line: match size {
                1 => format!("ready: {program}"),
                _ => format!("ready: {size} processes of {program}"),
            },
        }));
        spawn_tree::lines(&nodes)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct Host<'a> {
    host: &'a DaemonName,
    manager: u32,
    processes: Vec<Process<'a>>,
}

/// Joins the parts of each job. Hosts of a job keep their order.
fn by_job(jobs: &[HostedPart]) -> Vec<Job<'_>> {
    let mut all: BTreeMap<&JobId, Job<'_>> = BTreeMap::new();
    for HostedPart { host, part } in jobs {
        let JobPart { job, alias, user, manager, .. } = part;
        let new = || Job {
            job,
            alias: alias.as_deref(),
            user,
            hosts: Vec::new(),
            ready: Vec::new(),
            more_ready: 0,
        };
        let entry = all.entry(job).or_insert_with(new);
        // The part of a host on which the job has just begun may lack the alias.
        entry.alias = entry.alias.or(alias.as_deref());
        match entry.hosts.iter_mut().find(|known| known.host == host) {
            Some(known) => known.processes.extend(processes(part)),
            None => {
                let processes = processes(part).collect();
                entry.hosts.push(Host { host, manager: *manager, processes });
            }
        }
    }
    for HostedPart { part, .. } in jobs {
        if let (Some(spawns), Some(job)) = (&part.spawns, all.get_mut(&part.job)) {
            job.add_spawns(spawns);
        }
    }
    all.into_values().collect()
}

/// Each job, followed by its hosts, and by the tree of its spawns; each host is followed by its processes.
pub fn tree(jobs: &[HostedPart]) -> String {
    let mut text = String::new();
    for job in by_job(jobs) {
        let spawns = job.spawn_tree();
        let Job { job, alias, user, hosts, more_ready, .. } = job;
        let alias = alias.map(|alias| format!(" '{alias}'")).unwrap_or_default();
        text += &one_line(&format!("{job}{alias} of {user}"));
        text.push('\n');
        for Host { host, manager, processes } in hosts {
            text += &format!("  {host}: manager {manager}\n");
            for Process { name, pid, program, .. } in processes {
                text += &one_line(&format!("    rank {name}: {pid} {program}"));
                text.push('\n');
            }
        }
        if !spawns.is_empty() {
            text += "  spawns:\n";
        }
        for line in spawns {
            text += &format!("    {}\n", one_line(&line));
        }
        if more_ready > 0 {
            text += &format!("    ready: {more_ready} more spawns\n");
        }
    }
    text
}

/// The listing as one line of JSON.
pub fn json(listing: &Listing) -> String {
    #[derive(Serialize)]
    struct Out<'a> {
        jobs: Vec<Job<'a>>,
        missing: &'a [DaemonName],
    }
    render::json(&Out { jobs: by_job(&listing.jobs), missing: &listing.missing })
}

#[cfg(test)]
mod tests {
    use mpd_wire::RankSet;
    use mpd_wire::message::{RankRun, ReadySpawn};

    use super::*;
    use crate::samples::name;

    fn part(host: &str, job: &str, alias: Option<&str>, ranks: &str, pids: &[u32]) -> HostedPart {
        let ranks: RankSet = ranks.parse().unwrap();
        let run = RankRun {
            world: None,
            parent: None,
            program: "a.out\u{1b}".into(),
            ranks,
            pids: pids.to_vec(),
        };
        let part = JobPart {
            job: job.parse().unwrap(),
            alias: alias.map(str::to_owned),
            user: "ada".into(),
            manager: 20,
            runs: vec![run],
            spawns: None,
        };
        HostedPart { host: name(host), part }
    }

    fn listing() -> Listing {
        Listing {
            me: Some(name("h1")),
            jobs: vec![
                part("h1", "2@h1", None, "0", &[21]),
                part("h1", "1@h1", Some("x"), "0-1", &[31, 32]),
                part("h2", "1@h1", Some("x"), "2", &[41]),
                part("h2", "1@h2", None, "0", &[51]),
            ],
            missing: vec![],
            problems: vec![],
        }
    }

    #[test]
    fn a_block_has_eight_lines_and_an_empty_line() {
        let text = blocks(&listing().jobs[..1]);
        let expected = "jobid    = 2@h1\njobalias =           \nusername = ada\nhost     = h1\n\
                        pid      = 21\nsid      = 20\nrank     = 0\npgm      = a.out\\u{1b}\n\n";
        assert_eq!(text, expected);
        assert_eq!(blocks(&listing().jobs).lines().count(), 5 * 9);
    }

    #[test]
    fn a_job_must_have_the_user_and_either_the_alias_or_the_id() {
        let chosen = |user: Option<&str>, alias: Option<&str>, job: Option<JobRef>| {
            let mut all = listing();
            let filter =
                JobFilter { user: user.map(str::to_owned), alias: alias.map(str::to_owned), job };
            choose(&mut all, &filter);
            short(&all.jobs)
        };
        assert_eq!(chosen(None, None, None).lines().count(), 5);
        assert_eq!(chosen(Some("bob"), None, None), "");
        assert_eq!(chosen(None, Some("x"), None), "h1 31 20\nh1 32 20\nh2 41 20\n");
        assert_eq!(chosen(None, None, Some(JobRef::Number(2))), "h1 21 20\n");
        let one = JobRef::Id("1@h2".parse().unwrap());
        assert_eq!(chosen(Some("ada"), Some("x"), Some(one)).lines().count(), 4);
    }

    #[test]
    fn a_tree_shows_parents_and_states_of_spawned_processes_and_the_spawns_that_wait() {
        let run = |ranks: &str, world, parent, pid| RankRun {
            world,
            parent,
            program: "fib".into(),
            ranks: ranks.parse().unwrap(),
            pids: vec![pid],
        };
        let world = |number| Some(World { number, first: Rank(number), size: 1 });
        let spawns = SpawnState {
            blocked: "0,2".parse().unwrap(),
            ended: "5".parse().unwrap(),
            running: 3,
            ready: vec![ReadySpawn { spawner: Some(Rank(2)), size: 2, program: "fib".into() }],
            more_ready: 3,
        };
        let mut here = part("h1", "1@h1", None, "0", &[31]);
        here.part.runs = vec![run("0", None, None, 31), run("2", world(2), Some((1, Rank(0))), 33)];
        here.part.spawns = Some(spawns);
        let mut there = part("h2", "1@h1", None, "1", &[41]);
        there.part.runs = vec![
            run("1", world(1), Some((0, Rank(0))), 41),
            run("5", world(5), Some((4, Rank(0))), 45),
        ];
        let jobs = vec![here, there];
        let text = tree(&jobs);
        let (_, spawned) = text.split_once("  spawns:\n").unwrap();
        let expected = "    rank 0 on h1: blocked, fib\n      rank 0,1 on h2: running, fib\n        \
                        rank 0,2 on h1: blocked, fib\n          ready: 2 processes of fib\n    \
                        rank 0,5 on h2: ended, fib (its parent 0,4 has ended)\n    \
                        ready: 3 more spawns\n";
        assert_eq!(spawned, expected);
        let listing = Listing { me: None, jobs, missing: vec![], problems: vec![] };
        let value: serde_json::Value = serde_json::from_str(&json(&listing)).unwrap();
        let job = &value["jobs"][0];
        assert_eq!(job["hosts"][0]["processes"][1]["parent"], "0,1");
        assert_eq!(job["hosts"][1]["processes"][0]["state"], "running");
        assert_eq!(job["ready"][0]["parent"], "0,2");
        assert_eq!(job["more_ready"], 3);
    }

    #[test]
    fn a_tree_joins_the_parts_of_a_job() {
        let expected = "1@h1 'x' of ada\n  h1: manager 20\n    rank 0: 31 a.out\\u{1b}\n    \
                        rank 1: 32 a.out\\u{1b}\n  h2: manager 20\n    rank 2: 41 a.out\\u{1b}\n\
                        1@h2 of ada\n  h2: manager 20\n    rank 0: 51 a.out\\u{1b}\n\
                        2@h1 of ada\n  h1: manager 20\n    rank 0: 21 a.out\\u{1b}\n";
        assert_eq!(tree(&listing().jobs), expected);
        let value: serde_json::Value = serde_json::from_str(&json(&listing())).unwrap();
        assert_eq!(value["jobs"][0]["hosts"][0]["processes"][1]["pid"], 32);
        assert_eq!(value["jobs"][1]["alias"], serde_json::Value::Null);
    }
}
