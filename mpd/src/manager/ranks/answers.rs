//! Answers to the questions of the machine: checks, starts, and other system calls whose results it needs.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_clients::{Client, Job, World, variables_of};
use mpd_ending as ending;
use mpd_io::clean_up::leftovers::BeforeStart;
use mpd_io::files::logging::plain;
use mpd_io::host::cpus::{self, CpuMask};
use mpd_io::process::spawn::{Extra, SpawnError, Step};
use mpd_placement::gpus::Gpus;
use mpd_placement::locality::list;
use mpd_ranks::{Answer, Checked, Question, Slot, Start, Started};
use mpd_wire::Rank;
use mpd_wire::job::Failure;
use nix::unistd::Pid;

use super::adoption::Adoption;
use super::prepare::{self, Launch, Prepared};
use super::process::{Ends, Given, RankProcess, StartError};
use super::ranks_context::RanksContext;
use super::{Ranks, resources};
use crate::manager::context::Turn;
use crate::manager::ending::groups::Groups;
use crate::manager::event::Event;
use crate::manager::links::staging::Staging;
use crate::manager::stdio::pipes::Pipes;
use crate::manager::tokens::MPI_USERS;
use crate::mpi_users::Search;

impl Ranks {
    /// Answers a question.
    pub(super) fn answer(
        &mut self,
        turn: &mut Turn<'_>,
        staging: Option<&Staging>,
        question: Question,
    ) -> Answer {
        match question {
            Question::Check { first, is_adopted: true, .. } => {
                Answer::Checked(Ok(self.keep(turn, first, Prepared::default())))
            }
            Question::Check { first, running, is_adopted: false } => {
                let prepared = self.prepare(turn, (first, running), staging);
                Answer::Checked(prepared.map(|prepared| self.keep(turn, first, prepared)))
            }
            Question::Start(start) => Answer::Started(self.start(turn, &start)),
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

    // ----- checks -----

    fn prepare(
        &self,
        turn: &Turn<'_>,
        (first, running): (Rank, usize),
        staging: Option<&Staging>,
    ) -> Result<Prepared, Failure> {
        let job = turn.job;
        let Some(world) = job.worlds.of(first) else { return Ok(Prepared::default()) };
        let own: Vec<Rank> = world.here.iter().map(|&rank| world.numbers.own(rank)).collect();
        let context = RanksContext {
            spec: &world.spec,
            order: &job.order,
            running,
            is_added: !job.is_first(first),
            has_parent: world.spawner.is_some(),
            debug: job.spec.debug.as_ref(),
            daemon: self.daemon,
        };
        prepare::prepare(context, &own, job.directory.as_deref(), staging)
    }

    fn keep(&mut self, turn: &mut Turn<'_>, first: Rank, mut prepared: Prepared) -> Checked {
        turn.report(Event::Bound(first, std::mem::take(&mut prepared.bindings)));
        if turn.job.spec.placement.report_bindings {
            prepared.cpus = Some(cpus::allowed().unwrap_or_default());
        }
        let gpus = prepared.gpus;
        self.prepared.insert(first, prepared);
        Checked { gpus }
    }

    // ----- starts -----

    fn start(&mut self, turn: &Turn<'_>, start: &Start) -> Result<Started, Failure> {
        let job = turn.job;
        let (world, prepared) = (job.worlds.of(start.first), self.prepared.get(&start.first));
        let (Some(world), Some(prepared)) = (world, prepared) else {
            let problem = "the world of a rank is unknown here".to_owned();
            return Err(Failure::Suite { problem });
        };
        let (spec, order, rank) = (&job.spec, &job.order, start.rank);
        let (own, local) = (world.numbers.own(rank), world.local(rank));
        let Launch { spawn, shim } = &prepared.launches[&world.argset_of(rank)];
        let gpus = prepared.gpus.map(|gpus| (gpus, start.running));
        let variables = variables_of_rank((job, &self.groups), world, rank, gpus);
        let cpus = CpuMask::of(world.cpus_of(rank));
        let argset = &world.spec.argsets[world.argset_of(rank)];
        let arguments = prepare::arguments_of((&world.spec, order), (own, local));
        let extra = Extra {
            variables: &variables,
            arguments: arguments.as_deref().unwrap_or_default(),
            cpus: cpus.as_ref(),
            closed: spec.closed_in(argset, start.is_fed),
            low: self.low.as_ref(),
        };
        let given = Given {
            fed: start.is_fed,
            shim: *shim,
            size: start.size,
            joined: spec.output.joined,
            muted: start.is_muted,
            enlarge: start.enlarge,
            null: turn.null,
            cgroup: self.cgroup.as_ref().map(|group| group.as_fd()),
        };
        let before = BeforeStart::now();
        let started = RankProcess::start(turn.registry, (extra, start.slot), spawn, given);
        let begin = before.begin();
        let failed = |error: StartError| start_failure(world, rank, &error);
        let (RankProcess { pid, control }, ends) = started.map_err(failed)?;
        self.readiness.put_first(pid);
        let (name, host) = (job.name_of(rank), &order.host);
        let cpus = prepared.cpus.as_ref().map(|all| resources::report(&name, host, pid, all));
        let (ends, unwatched) = match ends {
            Ok(ends) => (Some(ends), None),
            Err(error) => (None, Some(failed(error.into()))),
        };
        self.ends = ends;
        // Without it, the shim got no connection.
        let shim = shim.filter(|_| control.is_some());
        if let Some(control) = control {
            self.shims.add(rank, control);
        }
        Ok(Started { pid: ending::Pid(pid.as_raw()), begin, shim, cpus, unwatched })
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

/// The variables that differ from rank to rank. With the GPUs comes the number of ranks that use GPUs before.
fn variables_of_rank(
    (job, groups): (&Job, &Groups),
    world: &World,
    rank: Rank,
    gpus: Option<(Gpus, usize)>,
) -> Vec<CString> {
    let (own, local) = (world.numbers.own(rank), world.local(rank));
    let mut variables = prepare::variables_of((&world.spec, groups), own, local);
    variables.extend(prepare::lines_of(variables_of(job, world, rank)));
    variables.extend(prepare::lines_of(prepare::variables_of_binding(world.cpus_of(rank))));
    let string = prepare::variable_of_scheduler(&world.spec, own);
    variables.extend(prepare::lines_of(string.into_iter().collect()));
    if let Some((gpus, running)) = gpus {
        let of_gpus = prepare::variables_of_gpus(&world.spec, (own, running + local), gpus);
        variables.extend(prepare::lines_of(of_gpus));
    }
    variables
}

fn start_failure(world: &World, rank: Rank, error: &StartError) -> Failure {
    let argset = &world.spec.argsets[world.argset_of(rank)];
    let cpus = world.cpus_of(rank);
    let rank = world.numbers.own(rank);
    let program = String::from_utf8_lossy(&argset.program).into_owned();
    let problem = match error {
        StartError::Spawn(SpawnError::Child { step: Step::Exec, error }) => {
            let missing = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR));
            return Failure::CannotExecute { rank, program, problem: plain(error), missing };
        }
        StartError::Spawn(SpawnError::Child { step: Step::Directory, error }) => {
            prepare::cannot_enter(&argset.directory, error)
        }
        StartError::Spawn(SpawnError::Child { step: Step::Binding, error }) => {
            let cpus = list(cpus.iter().copied());
            format!("cannot bind rank {rank} to the CPUs {cpus}: {}", plain(error))
        }
        StartError::Spawn(SpawnError::Child { step, error }) => {
            format!("cannot prepare rank {rank} ({step:?}): {}", plain(error))
        }
        StartError::Spawn(SpawnError::Fork(error)) => {
            let advice = match error.raw_os_error() {
                Some(libc::EAGAIN) => {
                    " (the limit of processes is reached: ulimit -u, or pids.max of a control group)"
                }
                _ => "",
            };
            format!("cannot start a process for rank {rank}: {}{advice}", plain(error))
        }
        StartError::Spawn(SpawnError::Descriptor(error)) | StartError::Descriptors(error) => {
            format!("cannot make the pipes of rank {rank}: {}", plain(error))
        }
    };
    Failure::Suite { problem }
}
