//! Answers to the questions of the machine: starts, and other system calls whose results it needs.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_clients::Client;
use mpd_ending as ending;
use mpd_io::clean_up::leftovers::BeforeStart;
use mpd_io::files::logging::plain;
use mpd_io::host::cpus::{self, CpuMask};
use mpd_io::process::spawn::{Extra, SpawnError, Step};
use mpd_ranks::{Answer, Launch, Question, Slot, Start, StartProblem, Started};
use mpd_wire::Rank;
use mpd_wire::job::Failure;
use nix::unistd::Pid;

use super::adoption::Adoption;
use super::launches::{Prepared, spawn_of};
use super::process::{Ends, Given, RankProcess, StartError};
use super::{Ranks, confinement, resources};
use crate::manager::context::Turn;
use crate::manager::stdio::pipes::Pipes;
use crate::manager::tokens::MPI_USERS;
use crate::mpi_users::Search;
use mpd_io::process::identity::number_of;

impl Ranks {
    /// Answers a question.
    pub(in crate::manager) fn answer(&mut self, turn: &Turn<'_>, question: Question) -> Answer {
        match question {
            Question::Limit(allowance) => {
                Answer::Limited(confinement::impose(allowance, self.cgroup.as_deref()))
            }
            Question::Start(start) => Answer::Started(self.start(turn, start)),
            Question::Adopt(slot) => Answer::Adopted(self.adopt(turn, slot)),
            Question::Send(rank, order) => Answer::Sent(self.shims.send(rank, &order)),
            Question::Search(ranks) => Answer::Is(self.search_in(turn, ranks)),
            Question::KillAdopted => {
                if matches!(self.adoption, Adoption::Arrived(_)) {
                    self.adoption = Adoption::None;
                }
                let killed = self.adoption.rank().map(|pidfd| pidfd.signal(libc::SIGKILL));
                Answer::Is(killed.is_none_or(|killed| killed.is_ok()))
            }
        }
    }

    /// Keeps what the ranks of a world are started with.
    pub(super) fn keep(&mut self, turn: &Turn<'_>, first: Rank, launches: BTreeMap<usize, Launch>) {
        let spawns = launches.into_iter().map(|(number, launch)| (number, spawn_of(launch)));
        let reports = turn.job.spec.placement.report_bindings;
        let cpus = reports.then(|| cpus::allowed().unwrap_or_default());
        self.prepared.insert(first, Prepared { spawns: spawns.collect(), cpus });
    }

    // ----- starts -----

    fn start(&mut self, turn: &Turn<'_>, start: Start) -> Result<Started, StartProblem> {
        let job = turn.job;
        let (world, prepared) = (job.worlds.of(start.first), self.prepared.get(&start.first));
        let spawn = prepared.and_then(|prepared| prepared.spawns.get(&start.argset));
        let (Some(world), Some(prepared), Some((spawn, shim))) = (world, prepared, spawn) else {
            let problem = "its world is unknown here".to_owned();
            return Err(StartProblem::Process { problem, at_limit: false });
        };
        let (order, rank) = (&job.order, start.rank);
        let variables: Vec<CString> =
            start.variables.into_iter().filter_map(|text| CString::new(text).ok()).collect();
        let arguments: Vec<CString> =
            start.arguments.into_iter().filter_map(|word| CString::new(word).ok()).collect();
        let cpus = CpuMask::of(world.cpus_of(rank));
        let extra = Extra {
            variables: &variables,
            arguments: &arguments,
            cpus: cpus.as_ref(),
            closed: start.closed,
            low: self.low.as_ref(),
            is_confined: start.is_confined,
        };
        let given = Given {
            fed: start.is_fed,
            shim: *shim,
            size: start.size,
            joined: job.spec.output.joined,
            muted: start.is_muted,
            enlarge: start.enlarge,
            null: turn.null,
            cgroup: self.cgroup.as_ref().map(|group| group.as_fd()),
        };
        if let (true, Some(group)) = (start.is_confined, &self.cgroup) {
            confinement::keep(job.spec.allowance, group)
                .map_err(|problem| StartProblem::Process { problem, at_limit: false })?;
        }
        let before = BeforeStart::now();
        let started = RankProcess::start(turn.registry, (extra, start.slot), spawn, given);
        let begin = before.begin();
        let (RankProcess { pid, control }, ends) = started.map_err(problem_of)?;
        self.readiness.put_first(pid);
        let (name, host) = (job.name_of(rank), &order.host);
        let cpus = prepared.cpus.as_ref().map(|all| resources::report(&name, host, pid, all));
        let (ends, unwatched) = match ends {
            Ok(ends) => (Some(ends), None),
            Err(error) => (None, Some(problem_of(error.into()))),
        };
        self.ends = ends;
        // Without it, the shim got no connection.
        let shim = shim.filter(|_| control.is_some());
        if let Some(control) = control {
            self.shims.add(rank, control);
        }
        Ok(Started { pid: number_of(pid), begin, shim, cpus, unwatched })
    }

    fn adopt(&mut self, turn: &Turn<'_>, slot: Slot) -> Result<u32, Failure> {
        let failed = |e: std::io::Error| {
            let problem = format!("cannot watch the program that was running: {e}");
            Failure::Suite { problem }
        };
        let Adoption::Arrived(arrived) = std::mem::replace(&mut self.adoption, Adoption::None)
        else {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        };
        let (pidfd, pmi) = arrived.settle(turn.registry, slot).map_err(failed)?;
        let number = pidfd.pid().map_or(0, |pid| pid.as_raw().unsigned_abs());
        self.adoption = Adoption::Rank(pidfd, false);
        self.ends = Some(Ends { pipes: Pipes::default(), pmi, client: Client::Adopted });
        Ok(number)
    }

    // ----- the helper -----

    /// Starts a helper that examines these ranks. Whether that succeeded.
    fn search_in(&mut self, turn: &Turn<'_>, ranks: Vec<(Rank, ending::Pid)>) -> bool {
        let ranks = ranks.into_iter().map(|(rank, pid)| (rank, Pid::from_raw(pid.0))).collect();
        self.search = Search::start(ranks, turn.null)
            .and_then(|search| {
                let fd = search.as_raw_fd();
                turn.registry.register(&mut SourceFd(&fd), Token(MPI_USERS), Interest::READABLE)?;
                Ok(search)
            })
            .inspect_err(|e| log::warn!("cannot find the MPI libraries of ranks: {e:#}"))
            .ok();
        self.search.is_some()
    }
}

/// Why a rank did not start, with the texts of the system.
fn problem_of(error: StartError) -> StartProblem {
    match error {
        StartError::Spawn(SpawnError::Child { step, error }) => {
            let problem = plain(&error);
            match step {
                Step::Exec => {
                    let missing =
                        matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR));
                    StartProblem::Program { problem, missing }
                }
                Step::Directory => StartProblem::Directory(problem),
                Step::Binding => StartProblem::Binding(problem),
                other => StartProblem::Step(format!("{other:?}"), problem),
            }
        }
        StartError::Spawn(SpawnError::Fork(error)) => StartProblem::Process {
            problem: plain(&error),
            at_limit: error.raw_os_error() == Some(libc::EAGAIN),
        },
        StartError::Spawn(SpawnError::Descriptor(error)) | StartError::Descriptors(error) => {
            StartProblem::Pipes(plain(&error))
        }
    }
}
