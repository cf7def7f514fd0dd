//! What the end of a rank's process means.

use mpd_clients::Job;
use mpd_ending::Pid;
use mpd_job::manager::Input as JobInput;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;
use mpd_wire::message::Phase;

use crate::memory::Cause;
use crate::output::{Action, Output};
use crate::ranks::{Context, Ranks};
use crate::shim::Shim;
use crate::starts::MAX_RANKS_WITHOUT_LOW;

const SIGKILL: u8 = 9;

impl Ranks {
    /// The child was reaped. The flag: all ranks are being killed.
    pub(crate) fn reaped(
        &mut self,
        context: Context<'_>,
        pid: Pid,
        (end, is_kill): (RankEnd, bool),
    ) {
        let Some(rank) = self.table.forget_pid(pid) else { return };
        let shim = self.take_shim(rank);
        if let Some((step, errno)) = shim.as_ref().and_then(Shim::failure) {
            let text = not_started(context, rank, (step, errno));
            self.notice(text);
        }
        // A shim's child has another number.
        let number = shim.is_none().then_some(pid);
        let end = shim.and_then(|shim| shim.end()).unwrap_or(end);
        if !is_kill {
            self.explain(context, rank, (end, number));
        }
        self.note_end(context.job, rank, (end, is_kill));
    }

    /// Gives up a child that cannot be killed.
    pub(crate) fn lose(&mut self, context: Context<'_>, pid: Pid) {
        if let Some(rank) = self.table.forget_pid(pid) {
            self.note_end(context.job, rank, (RankEnd::Lost, true));
        }
    }

    /// Notes that a rank has no process any more.
    fn note_end(&mut self, job: &Job, rank: Rank, (end, is_kill): (RankEnd, bool)) {
        self.report(Output::End(Phase::Run, Some(rank)));
        self.table.end_process(rank);
        if !is_kill {
            self.fit_share(self.table.children());
        }
        self.report(Output::Ended(rank));
        self.retire(job, rank);
        self.post(JobInput::Exited(rank, end));
    }

    pub(crate) fn end_output(&mut self, context: Context<'_>, rank: Rank) {
        if let Some(state) = self.table.get_mut(rank) {
            state.is_silent = true;
            self.retire(context.job, rank);
        }
    }

    /// Removes a rank of a spawned world that has ended completely, and frees its resources.
    fn retire(&mut self, job: &Job, rank: Rank) {
        let is_over = self.table.get(rank).is_some_and(|it| it.process.is_none() && it.is_silent);
        if !job.is_first(rank) && is_over {
            // A child that was given up still has its shim.
            drop(self.take_shim(rank));
            self.table.remove(rank);
            if self.table.len() <= MAX_RANKS_WITHOUT_LOW {
                self.report(Output::Act(Action::FreeLowNumbers));
            }
            self.report(Output::Retired(rank));
        }
    }

    /// Reports to the user that the kernel has killed a rank for lack of memory, or a process in a job with a limit.
    fn explain(&mut self, context: Context<'_>, rank: Rank, (end, pid): (RankEnd, Option<Pid>)) {
        if end == RankEnd::Exited(0) {
            return;
        }
        let is_killed = matches!(end, RankEnd::Signaled { signal: SIGKILL, .. });
        let limit = context.job.spec.allowance.memory;
        let in_group = limit.and_then(|_| self.memory.cause_in_group(is_killed, context.host));
        let cause = match in_group {
            Some(cause) => cause,
            None if is_killed => self.memory.cause_of(pid, context.host),
            None => None,
        };
        let Some(cause) = cause else { return };
        let (host, name) = (context.job.host(), context.job.name_of(rank));
        let victim = match is_killed {
            true => format!("rank {name}"),
            false => format!("a process of the job, perhaps of rank {name}"),
        };
        self.notice(match (cause, limit) {
            (Cause::OfJob(true), Some(limit)) => format!(
                "host {host}: the job has used all of the {limit} that -mem gives it on that host: the kernel has killed {victim}"
            ),
            (Cause::OfJob(_), _) => format!(
                "host {host}: memory ran out, but the job has used less than -mem gives it: the kernel has killed {victim} \
                 (dmesg on that host has details)"
            ),
            (Cause::Certain, _) => format!(
                "host {host}: memory ran out: the kernel has killed rank {name} (dmesg on that host has details)"
            ),
            (Cause::Possible, _) => format!(
                "host {host}: the kernel has killed a process for lack of memory since the job began, perhaps of rank {name} \
                 (dmesg on that host names it)"
            ),
        });
    }
}

/// A line for the user about a program that its shim could not start.
fn not_started(context: Context<'_>, rank: Rank, (step, errno): (&str, i32)) -> String {
    let job = context.job;
    let program = job.worlds.of(rank).map(|world| {
        let argset = &world.spec.argsets[world.argset_of(rank)];
        String::from_utf8_lossy(&argset.program).into_owned()
    });
    format!(
        "host {}: rank {} cannot execute {} ({step}): {}",
        job.host(),
        job.name_of(rank),
        program.unwrap_or_default(),
        context.host.text_of(errno),
    )
}
