//! The reports about the ranks here to the daemon, for listings of jobs.

use mpd_alloc::variables::USED_VARIABLE;
use mpd_clients::{Job, World};
use mpd_wire::RankSet;
use mpd_wire::job::{JobSpec, World as Numbers};
use mpd_wire::message::{MAX_RUN, ManagerReport, RankRun};

use crate::output::Output;
use crate::ranks::Ranks;

/// Most characters of a program's name in a report.
const MAX_PROGRAM: usize = 100;

/// Most bytes of an alias; a longer one is not reported.
const MAX_ALIAS: usize = 1024;

impl Ranks {
    /// Reports the ranks here of all completely started worlds; for each new daemon.
    pub(crate) fn report_all(&mut self, job: &Job) {
        job.worlds.all().for_each(|world| self.report_world(job, world));
        if job.is_root() {
            let spec = &job.spec;
            let size = spec.size();
            let can = if spec.stdin_switch { RankSet::below(size) } else { spec.stdin.clone() };
            self.report(Output::ToDaemon(ManagerReport::Receivers { can, size }));
        }
    }

    /// Reports the ranks here of a world, if all of them were started.
    pub(crate) fn report_world(&mut self, job: &Job, world: &World) {
        if self.is_starting(world.numbers.first) {
            return;
        }
        let here = world.here.iter().filter_map(|&rank| Some((rank, self.table.get(rank)?)));
        let started: Vec<(usize, u32, u32)> =
            here.map(|(rank, state)| (world.argset_of(rank), rank.0, state.number)).collect();
        let spawned = Some(world.numbers).filter(|numbers| numbers.number > 0);
        let parent = world.spawner.as_ref().and_then(|spawner| {
            let number = Numbers::number_of(spawner.kvsname.as_bytes(), &job.order.kvsname)?;
            Some((number, spawner.rank))
        });
        let mut reports = Vec::new();
        for same in started.chunk_by(|one, next| one.0 == next.0) {
            let program = String::from_utf8_lossy(&world.spec.argsets[same[0].0].program);
            let program: String = program.chars().take(MAX_PROGRAM).collect();
            reports.extend(same.chunks(MAX_RUN).map(|some| RankRun {
                world: spawned,
                parent,
                program: program.clone(),
                ranks: RankSet::from_ranges(some.iter().map(|(_, r, _)| (*r, *r)).collect()),
                pids: some.iter().map(|(_, _, pid)| *pid).collect(),
            }));
        }
        let alias = job.spec.alias.clone().filter(|alias| alias.len() <= MAX_ALIAS);
        let held = is_in_allocation(&job.spec);
        let report = |runs| ManagerReport::Ranks { alias: alias.clone(), held, runs };
        if reports.is_empty() && spawned.is_none() {
            // The alias of the job counts even if the job has no rank here.
            self.report(Output::ToDaemon(report(Vec::new())));
        }
        for run in reports {
            self.report(Output::ToDaemon(report(vec![run])));
        }
    }
}

/// Whether a job was started in an allocation.
fn is_in_allocation(spec: &JobSpec) -> bool {
    let mut variables = spec.environments.iter().flatten();
    variables.any(|variable| {
        let value = variable.strip_prefix(USED_VARIABLE.as_bytes());
        value.is_some_and(|rest| rest.first() == Some(&b'='))
    })
}
