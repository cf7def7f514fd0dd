//! What the ranks of a world are started with, as the system calls need it.

use std::collections::BTreeMap;

use mpd_debug::shim::{Abilities, Plan};
use mpd_io::process::spawn::Spawn;
use mpd_placement::cpu::Cpu;
use mpd_ranks::Launch;
use nix::unistd::Pid;

use crate::shim::plan;

/// This executable, in another role.
const THIS_EXECUTABLE: &[u8] = b"/proc/self/exe";

/// What the ranks of a world are started with.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// By argset: also the abilities of the shim, if one is started.
    pub(super) spawns: BTreeMap<usize, (Spawn, Option<Abilities>)>,
    /// The CPUs that the job may use here, if those of the ranks are to be reported.
    pub(super) cpus: Option<Vec<Cpu>>,
}

/// The start of a rank of an argset.
pub(super) fn spawn_of(launch: Launch) -> (Spawn, Option<Abilities>) {
    const CHECKED: &str = "the machine has checked that no text contains a NUL byte";
    let shim = launch.shim.as_ref().map(Plan::abilities);
    let Launch { program, argv, shim: plan, environment, tracer, .. } = launch;
    let (path, argv, script) = match plan {
        None => (program.path, argv, program.script),
        Some(plan) => {
            let mut words = plan::words(&plan);
            let mut argv = argv.into_iter();
            match program.script {
                true => {
                    argv.next();
                    words.extend([b"/bin/sh".to_vec(), b"/bin/sh".to_vec()]);
                }
                false => words.extend(argv.next()),
            }
            words.push(program.path);
            words.extend(argv);
            (THIS_EXECUTABLE.to_vec(), words, false)
        }
    };
    let mut spawn = Spawn::new(&path, argv, environment).expect(CHECKED);
    spawn.script(script);
    spawn.directory(&launch.directory).expect(CHECKED);
    spawn.umask(launch.umask).limits(launch.limits).niceness(launch.niceness);
    spawn.in_our_session().die_with_parent().traced_by(Pid::from_raw(tracer.0));
    (spawn, shim)
}
