//! `^C` and other signals leave no process behind.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{Ran, World};

fn interrupted(world: &World, arguments: &[&str], signal: Signal) -> Ran {
    let child = world.start_until_hanging(arguments);
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    Ran::of(child.wait_with_output().unwrap(), world)
}

#[test]
fn an_interrupt_ends_the_remote_shells_and_the_ring() {
    let world = World::new();
    world.set("hosts/h2", "silent");
    let ran = interrupted(&world, &["--hosts", "h1,h2"], Signal::SIGINT);
    ran.assert(130, "interrupted; the started daemons have been ended");
    assert_eq!(world.ring(), [""; 0]);
    world.assert_nothing_left();
}

#[test]
fn a_remote_shell_that_ignores_the_request_to_end_is_killed() {
    let world = World::new();
    world.set("hosts/h2", "stubborn");
    interrupted(&world, &["--hosts", "h1,h2"], Signal::SIGTERM).assert(143, "interrupted");
    world.assert_nothing_left();
}

#[test]
fn an_interrupt_ends_the_processes_of_agents() {
    let world = World::new();
    world.set("mpd/h3", "hangs");
    // h2 starts h3.
    let ran = interrupted(&world, &["--hosts", "h[1-3]", "--window", "1"], Signal::SIGINT);
    ran.assert(130, "interrupted");
    world.assert_nothing_left();
}

#[test]
fn an_interrupt_during_the_start_of_the_local_daemon_ends_the_daemon() {
    let world = World::new();
    world.set(&format!("mpd/{}", mpd_io::ring::rundir::host_name()), "hangs");
    interrupted(&world, &["--hosts", "h1"], Signal::SIGTERM).assert(143, "interrupted");
    assert_eq!(world.text("ssh.argv"), "");
    world.assert_nothing_left();
}
