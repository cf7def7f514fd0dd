//! The progress of commands for many hosts, on a terminal. The remote shell is a script that plays the hosts.

use std::fs;

use crate::demand::World;
use crate::process::Process;
use crate::pty::Terminal;
use crate::run::wait_until;

/// The beginning of a bar that shows progress.
const BAR: &str = "[#";

/// A script of the world, as a command for its terminal.
fn script(world: &World, name: &str, command: &str) -> String {
    let suite = &world.suite;
    let (shell, hosts) = (suite.path("shell"), suite.path("list"));
    fs::write(&hosts, "h1\nh2\n").expect("a host file");
    let text = format!(
        "export WORLD={} MPD_RUNDIR={}\n{} -r {} -f {} \"$@\"\n",
        suite.path("").display(),
        suite.path("hosts/here").display(),
        suite.program(command),
        shell.display(),
        hosts.display()
    );
    fs::write(suite.path(name), text).expect("a script");
    suite.path(name).display().to_string()
}

#[test]
fn a_terminal_shows_how_many_hosts_a_boot_has_started() {
    let world = World::new();
    let boot = script(&world, "boot", "mpdboot");
    let end = |world: &World| {
        let run = world.suite.command(world.suite.program("mpdallexit"));
        run.env("MPD_RUNDIR", world.suite.path("hosts/here")).output().code(0).quiet();
        world.suite.no_job_is_left_but(&["bash"]);
        let is_over = || !world.suite.processes().iter().any(Process::is_daemon);
        wait_until("the daemons have ended", is_over);
    };
    let mut terminal = Terminal::with_shell(&world.suite, "");
    let screen = terminal.ran(&format!("TERM=xterm sh {boot}"));
    assert!(screen.contains(" of 3 in the ring\x1b[K"), "{screen}");
    let (_, after) = screen.rsplit_once("in the ring").expect("a bar");
    let after = after.split_once("\x1b[K").expect("the end of the line").1;
    assert!(after.starts_with("\x1b[K"), "the bar is removed: {screen}");
    end(&world);
    for line in [format!("TERM=dumb sh {boot}"), format!("TERM=xterm sh {boot} --quiet")] {
        let screen = terminal.ran(&line);
        assert!(!screen.contains(BAR), "{line}: {screen}");
        end(&world);
    }
    let log = world.suite.path("boot.err");
    terminal.ran(&format!("TERM=xterm sh {boot} 2>{}", log.display()));
    assert!(!fs::read_to_string(&log).expect("a file").contains(BAR), "a file gets no progress");
    end(&world);
    terminal.leave();
    world.suite.gone(&[]);
}

#[test]
fn a_terminal_shows_how_many_hosts_are_cleaned_up() {
    let world = World::new();
    let clean = script(&world, "clean", "mpdcleanup");
    let mut terminal = Terminal::with_shell(&world.suite, "");
    let screen = terminal.ran(&format!("TERM=xterm sh {clean}"));
    assert!(screen.contains("mpdcleanup: 0 of 2 hosts are done\x1b[K"), "{screen}");
    assert!(screen.contains("mpdcleanup: 2 of 2 hosts are done\x1b[K\x1b[K"), "{screen}");
    for line in [format!("TERM=dumb sh {clean}"), format!("TERM=xterm sh {clean} -q")] {
        let screen = terminal.ran(&line);
        assert!(!screen.contains("hosts are done"), "{line}: {screen}");
    }
    let screen = terminal.ran(&format!("TERM=xterm sh {clean} -n 1"));
    assert!(screen.contains("mpdcleanup: 1 of 1 hosts are done"), "{screen}");
    terminal.leave();
    world.suite.gone(&[]);
}
