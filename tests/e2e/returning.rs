//! A host whose daemon has died, and with it all that the host knew: the other daemons of the ring run on.

use std::fs;

use mpd_io::ring::console::{Console, PATIENCE};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, Opening, RingRequest, VERSION};
use nix::sys::signal::Signal;

use crate::demand::World;
use crate::members::Members;
use crate::process::{self, Process};
use crate::run::{Output, wait_until};

impl World {
    /// Starts daemons on this host, h1 and h2.
    fn boot(&self) -> Output {
        fs::write(self.suite.path("list"), "h1\nh2\n").expect("a host file");
        let run = self.suite.command(self.suite.program("mpdboot"));
        let run =
            run.arg("-r").arg(self.suite.path("shell")).arg("-f").arg(self.suite.path("list"));
        let run = run.env("WORLD", self.suite.path("")).deadline(90);
        run.env("MPD_RUNDIR", self.suite.path("hosts/here")).output()
    }

    /// What a power cycle does to the daemon of this host, and to its run directory.
    fn lose(&self, host: &str) {
        let path = self.suite.path("hosts").join(host);
        let status =
            Console::open(&RunDir::at(path.clone()), &Opening::Status { version: VERSION })
                .and_then(|mut console| console.answer(Some(PATIENCE)));
        let Ok(ConsoleReply::Status { pid, .. }) = status else { panic!("{status:?}") };
        let pid = i32::try_from(pid).expect("a pid");
        process::send(pid, Signal::SIGKILL);
        let is_gone = || Process::is_gone(pid);
        wait_until("the daemon is gone", is_gone);
        fs::remove_dir_all(path).expect("a directory");
    }

    fn members(&self) -> usize {
        let run = self.suite.command(self.suite.program("mpdtrace"));
        let run = run.env("MPD_RUNDIR", self.suite.path("hosts/here"));
        run.output().code(0).out().lines().count()
    }
}

#[test]
fn mpdboot_joins_the_daemons_of_its_ring_that_it_finds_and_starts_the_others() {
    let world = World::new();
    world.boot().code(0);
    assert_eq!(world.members(), 3);
    for lost in [&["here"][..], &["here", "h2"]] {
        lost.iter().for_each(|host| world.lose(host));
        world.boot().code(0);
        assert_eq!(world.members(), 3, "after the loss of {lost:?}");
    }
    let exit = world.suite.command(world.suite.program("mpdallexit"));
    exit.env("MPD_RUNDIR", world.suite.path("hosts/here")).output().code(0);
    world.suite.gone(&[]);
}

#[test]
fn consoles_say_that_the_ring_of_a_host_is_gone_from_there() {
    let ring = Members::of(2);
    wait_until("the ring is saved", || RunDir::at(ring.rundir(1)).saved_members() == Some(2));
    ring.kill(1);
    ring.tool(1, "mpdtrace", &[]).output().code(1).says(&["its ring of 2 hosts is gone"]);
    let job = ring.mpirun(1, &["-n", "1", "echo", "hi"]).output();
    job.code(0).says(&["the ring of 2 hosts is gone from here", "mpdboot"]).prints("hi\n");
    ring.start_again(1);
    ring.agree();
    ring.mpirun(1, &["-n", "1", "echo", "hi"]).output().code(0).quiet();
}

#[test]
fn two_rings_of_one_key_become_one_when_a_daemon_of_one_seeks_the_other() {
    let ring = Members::of(2);
    // Without the address of another member.
    let third = ring.start_again(3);
    let addresses = vec![mpd_wire::Address::new(&third.address.to_string()).expect("an address")];
    let answer = ring.ask(1, RingRequest::Seek { addresses });
    assert_eq!(answer.expect("an answer"), ConsoleReply::Done { missing: Vec::new() });
    ring.agree();
}
