//! The orders of spawns, from the facts that this process has, and the daemon's order to start managers on further hosts.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_clients::{Caller, ClientSpawn, FromJob};
use mpd_io::files::logging::plain;
use mpd_job::manager::Input;
use mpd_job::manager::spawns::SpawnInput;
use mpd_job::manager::spawns::order::{Parent, SpawnOrder};
use mpd_placement::hints::{Surroundings, Wanted, program_of};
use mpd_wire::Rank;
use mpd_wire::job::Bytes;
use mpd_wire::message::{Launch, ManagerReport};

use super::context::{Job, Turn};

/// Longest file of hints or of hosts.
const MAX_FILE: u64 = 1 << 20;

/// Passes the spawn of a rank here to the machine.
pub(super) fn ask(turn: &mut Turn<'_>, caller: Caller, spawn: &ClientSpawn) {
    let requested = spawn.request.commands.iter().map(|command| command.size);
    let input = order_of(turn.job, caller.0, spawn).and_then(|order| {
        let errors = order.error_codes(requested);
        let order = order.encode_bounded().map_err(|e| e.to_string())?;
        Ok(SpawnInput::Asked { caller, errors, order })
    });
    match input {
        Ok(input) => turn.post(Input::Spawn(input)),
        Err(problem) => {
            let text = format!("spawn by rank {}: {problem}", turn.job.name_of(caller.0));
            turn.post(Input::Notice(text));
            turn.report(FromJob::Spawned(caller, Err("cannot_spawn")));
        }
    }
}

/// Passes a user's request for further processes to the machine.
pub(super) fn grow(turn: &mut Turn<'_>, size: u32) {
    let order = SpawnOrder::of_user(&turn.job.spec, &turn.job.order.kvsname, size);
    match order.and_then(|order| order.encode_bounded().map_err(|e| e.to_string())) {
        Ok(order) => turn.post(Input::Spawn(SpawnInput::Grow(order))),
        Err(problem) => turn.post(Input::Notice(format!("growth: {problem}"))),
    }
}

/// Asks the daemon for managers on the hosts that joined at the tree indices from `from` on.
pub(super) fn announce_growth(turn: &mut Turn<'_>, from: usize) {
    let order = &turn.job.order;
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
    turn.send_to_daemon(ManagerReport::Grow { launch: Box::new(launch) });
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
        architecture: std::env::consts::ARCH,
        read: &read,
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

fn read(path: &[u8]) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let file = File::open(Path::new(OsStr::from_bytes(path)));
    let file = file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    file.map_err(|e| plain(&e))?;
    Ok(bytes)
}
