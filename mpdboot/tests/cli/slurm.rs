//! Rings in a Slurm job, with a script in the place of srun.

use mpd_io::ring::rundir::host_name;

use crate::world::{Ran, World};

/// An mpdboot in a Slurm job of three nodes, on a host that is none of them.
fn boot(world: &World, arguments: &[&str]) -> Ran {
    let srun = world.path("bin/srun").display().to_string();
    let arguments = [&["--rsh", &srun, "-v"], arguments].concat();
    let mut command = world.mpdboot(&arguments);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n[1-3]");
    command.env("SLURM_TASKS_PER_NODE", "2(x2),1").env("SLURM_LABELIO", "1");
    Ran::of(command.output().unwrap(), world)
}

fn members(nodes: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
    all.push(host_name());
    all.sort();
    all
}

#[test]
fn one_step_starts_the_daemons_of_all_nodes_and_the_holder_ends_with_it() {
    let world = World::new();
    boot(&world, &["--waiting", "2", "--alloc-hook", "/etc/hook"])
        .assert(0, "all 4 are in the ring");
    assert_eq!(world.ring(), members(&["n1", "n2", "n3"]));
    let steps = world.text("srun.argv");
    assert_eq!(steps.lines().count(), 1, "{steps}");
    assert!(steps.starts_with("--nodes=3 --ntasks=3 --ntasks-per-node=1 "), "{steps}");
    assert!(steps.contains(" --nodelist=n1,n2,n3 "), "{steps}");
    let daemons = world.text("mpd.argv");
    let line = |name: &str| {
        let name = format!("--name {name} ");
        daemons.lines().find(|line| line.contains(&name)).unwrap().to_owned()
    };
    let (own, third) = (line(&host_name()), line("n3"));
    assert!(own.starts_with("--daemon ") && own.contains(" --ring 7 "), "{own}");
    assert!(own.contains(" --waiting 2 --alloc-hook /etc/hook --held-by "), "{own}");
    assert!(
        third.contains(" --ncpus 1 ") && third.contains(" --waiting 2 --alloc-hook /etc/hook"),
        "{third}"
    );
    assert!(own.ends_with(" --in-batch") && third.ends_with(" --in-batch"), "{daemons}");
    assert!(!third.contains("--held-by"), "{third}");
    assert_eq!(world.text("drained"), host_name(), "this host gets no ranks");
    world.assert_nothing_left();
}

#[test]
fn a_node_without_the_program_is_named_and_the_others_form_the_ring() {
    let world = World::new();
    world.set("hosts/n1", "missing");
    let ran = boot(&world, &["--timeout", "2"]);
    ran.assert(3, "the ring runs with 3 of 4 daemons");
    ran.assert(3, "host n1");
    assert_eq!(world.ring(), members(&["n2", "n3"]));
    world.assert_nothing_left();
}

#[test]
fn hosts_outside_of_the_slurm_job_are_reached_by_ssh() {
    let world = World::new();
    let mut command = world.mpdboot(&["--hosts", "n1,other"]);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n[1-3]");
    Ran::of(command.output().unwrap(), &world).assert(0, "");
    assert_eq!(world.ring(), members(&["n1", "other"]));
    assert_eq!(world.text("ssh.argv").lines().count(), 2);
    assert!(!world.text("mpd.argv").contains("--in-batch"));
}
