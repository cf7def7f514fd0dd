//! The orders of spawns, and the daemon's order to start managers on further hosts.

use mpd_clients::{Caller, ClientSpawn, FromJob, Job};
use mpd_job::manager::Input;
use mpd_job::manager::spawns::SpawnInput;
use mpd_job::manager::spawns::order::{Parent, SpawnOrder};
use mpd_placement::hints::{Surroundings, Wanted, program_of};
use mpd_wire::Rank;
use mpd_wire::message::{Launch, ManagerReport};

use crate::event::Event;
use crate::turn::Queue;

/// Passes the spawn of a rank here to the machine.
pub(crate) fn ask(job: &Job, queue: &mut Queue, caller: Caller, spawn: &ClientSpawn) {
    let requested = spawn.request.commands.iter().map(|command| command.size);
    let input = order_of(job, caller.0, spawn).and_then(|order| {
        let errors = order.error_codes(requested);
        let order = order.encode_bounded().map_err(|e| e.to_string())?;
        Ok(SpawnInput::Asked { caller, errors, order })
    });
    match input {
        Ok(input) => queue.report(Event::Input(Input::Spawn(input))),
        Err(problem) => {
            let text = format!("spawn by rank {}: {problem}", job.name_of(caller.0));
            queue.report(Event::Input(Input::Notice(text)));
            queue.clients(FromJob::Spawned(caller, Err("cannot_spawn")));
        }
    }
}

/// Passes a user's request for further processes to the machine.
pub(crate) fn grow(job: &Job, queue: &mut Queue, size: u32) {
    let order = SpawnOrder::of_user(&job.spec, &job.order.kvsname, size);
    let order = order.and_then(|order| order.encode_bounded().map_err(|e| e.to_string()));
    queue.report(Event::Input(match order {
        Ok(order) => Input::Spawn(SpawnInput::Grow(order)),
        Err(problem) => Input::Notice(format!("growth: {problem}")),
    }));
}

/// The request for managers on the hosts that joined at the tree indices from `from` on.
pub(crate) fn growth(job: &Job, from: usize) -> ManagerReport {
    let order = &job.order;
    let launch = Launch {
        job: order.job.clone(),
        key: order.key.clone(),
        cookie: order.cookie.clone(),
        kvsname: order.kvsname.clone(),
        tmpdir: order.tmpdir.clone(),
        host_slices: order.host_slices.clone(),
        universe: order.universe,
        first: u32::try_from(from).unwrap_or(u32::MAX),
    };
    ManagerReport::Grow { launch: Box::new(launch) }
}

/// The order of a rank's spawn.
///
/// # Errors
/// Why it is impossible; a text for people.
fn order_of(job: &Job, rank: Rank, spawn: &ClientSpawn) -> Result<SpawnOrder, String> {
    let world = job.worlds.of(rank).ok_or("it has ended")?;
    let argset = world.argset_of(rank);
    let parent = Parent {
        kvsname: world.kvsname.clone(),
        rank: world.numbers.own(rank),
        generation: world.generation,
        inherited: world.inherits.get(argset).copied().unwrap_or(0),
        niceness: world.spec.niceness,
    };
    let around = Surroundings {
        parent: &world.spec.argsets[argset],
        architecture: job.host_facts.architecture(),
        read: &|path| job.host_facts.read(path),
    };
    let mut programs = Vec::new();
    for (number, command) in spawn.request.commands.iter().enumerate() {
        let wanted = Wanted {
            program: &command.program,
            args: &command.args,
            size: command.size,
            info: &command.info,
        };
        let mut program = program_of(wanted, around)?;
        program.variables.extend(spawn.variables.get(number).into_iter().flatten().cloned());
        programs.push(program);
    }
    SpawnOrder::of_rank(&job.spec, parent, programs, &spawn.request.preput)
}
