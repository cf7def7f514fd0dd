//! What the daemon is told of the ranks here, for those who list jobs.

use mpd_wire::message::{MAX_RUN, ManagerReport, RankRun};
use mpd_wire::{Rank, RankSet};

use super::Process;
use super::clients::Client;

/// Characters of a program's name that are worth telling.
const MAX_PROGRAM: usize = 100;

/// Bytes of a job's own name beyond which it is no name to call it by.
const MAX_ALIAS: usize = 1024;

impl Process {
    /// Tells which ranks run here, of all worlds of which all were started: for each new daemon.
    pub(super) fn report_ranks(&mut self) {
        self.worlds.all().into_iter().for_each(|first| self.report_world(first));
        if self.order.place == 0 {
            let size = self.spec.size();
            let all = self.spec.stdin_switch;
            let can = if all { RankSet::below(size) } else { self.spec.stdin.clone() };
            self.daemon.report(&ManagerReport::Receivers { can, size });
        }
    }

    /// Tells which ranks of a world run here, if all were started.
    pub(super) fn report_world(&mut self, first: Rank) {
        let Some(world) = self.worlds.of(first).filter(|world| world.starting.is_none()) else {
            return;
        };
        let here = world.here.iter().filter_map(|&rank| Some((rank, self.clients.get(rank)?)));
        let started: Vec<(usize, u32, u32)> =
            here.map(|(rank, client)| (world.argset_of(rank), rank.0, client.number)).collect();
        let spawned = Some(world.numbers).filter(|numbers| numbers.number > 0);
        let mut reports = Vec::new();
        for same in started.chunk_by(|one, next| one.0 == next.0) {
            let program = String::from_utf8_lossy(&world.spec.argsets[same[0].0].program);
            let program: String = program.chars().take(MAX_PROGRAM).collect();
            reports.extend(same.chunks(MAX_RUN).map(|some| RankRun {
                world: spawned,
                program: program.clone(),
                ranks: RankSet::from_ranges(some.iter().map(|(_, r, _)| (*r, *r)).collect()),
                pids: some.iter().map(|(_, _, pid)| *pid).collect(),
            }));
        }
        let alias = || self.spec.alias.clone().filter(|alias| alias.len() <= MAX_ALIAS);
        if reports.is_empty() && spawned.is_none() {
            // The name of the job counts, even where nothing of it runs.
            self.daemon.report(&ManagerReport::Ranks { alias: alias(), runs: Vec::new() });
        }
        for run in reports {
            self.daemon.report(&ManagerReport::Ranks { alias: alias(), runs: vec![run] });
        }
    }

    /// Tells how much each rank has written.
    pub(super) fn report_written(&mut self) {
        let count = |client: &Client| client.sources.iter().map(|source| source.taken).sum();
        let counts: Vec<(Rank, u64)> =
            self.clients.started().map(|(rank, client)| (rank, count(client))).collect();
        if counts.is_empty() {
            self.daemon.report(&ManagerReport::Written { counts: Vec::new() });
        }
        for some in counts.chunks(MAX_RUN) {
            self.daemon.report(&ManagerReport::Written { counts: some.to_vec() });
        }
    }
}
