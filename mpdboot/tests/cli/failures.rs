//! Failures and their messages; the transcript is in `golden/`.

use std::fs;

use crate::world::World;

/// The transcript of all common failures on hosts.
const MISTAKES: &str = include_str!("../golden/mistakes.txt");

#[test]
fn each_failure_on_a_host_is_reported_with_its_step_the_hosts_text_and_a_hint() {
    let world = World::new();
    for (host, behaviour) in [
        ("unknown", "unknown"),
        ("denied", "denied"),
        ("new", "new"),
        ("off", "off"),
        ("refused", "refused"),
        ("missing", "missing"),
        ("silent", "silent"),
    ] {
        world.set(&format!("hosts/{host}"), behaviour);
    }
    world.put_key("local", "0a");
    world.put_key("otherkey", "0b");
    world.put_key("openkey", "0a");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(world.path("home/openkey/key"), open).unwrap();
    world.set("mpd/busy", "busy");
    world.set("mpd/old", "old");
    world.set("mpd/hangs", "hangs");
    let reader = std::thread::spawn({
        let fifo = world.path("silent");
        // Two agents have reached the point where they hang.
        move || (fs::read(&fifo), fs::read(&fifo))
    });
    let hosts =
        "fine,unknown,off,refused,denied,new,missing,old,otherkey,openkey,busy,silent,hangs";
    let ran = world.run(&["--hosts", hosts, "--timeout", "4"]);
    drop(reader);
    assert_eq!(ran.code, Some(3));
    assert_eq!(ran.err, MISTAKES, "the transcript is now:\n{}", ran.err);
    assert_eq!(world.ring().len(), 2);
    world.assert_nothing_left();
}

#[test]
fn names_that_could_be_options_or_code_are_refused_and_nothing_runs() {
    let world = World::new();
    let trap = world.path("trap");
    let trap = trap.to_str().unwrap();
    let long = "x".repeat(10_001);
    for bad in [
        format!("-oProxyCommand=touch${{IFS}}{trap}"),
        format!("$(touch {trap})"),
        format!("a;touch {trap}"),
        format!("h user=-oProxyCommand=x;touch {trap}"),
        "h ifhn=$(x)".to_owned(),
        "a\0b".to_owned(),
        long,
    ] {
        fs::write(world.path("home/local/mpd.hosts"), format!("fine\n{bad}\n")).unwrap();
        world.run(&["-f", "mpd.hosts"]).assert(1, "mpdboot: mpd.hosts: line 2: ");
        world.run(&["--hosts", &bad.replace('\0', "\u{1}")]).assert(1, "mpdboot: --hosts: ");
    }
    for user in ["-oProxyCommand=x", "$(x)"] {
        let user = format!("--user={user}");
        world.run(&["--hosts", "h1", &user]).assert(2, "--user");
    }
    assert_eq!((world.text("ssh.argv"), world.text("mpd.argv")), (String::new(), String::new()));
    assert!(!world.path("trap").exists());
}

#[test]
fn problems_on_this_host_are_reported_before_any_start() {
    let world = World::new();
    world
        .run(&["-n", "2"])
        .assert(1, "mpd.hosts: cannot read the list of hosts; name a file with -f");
    world.run(&["-n", "4", "--hosts", "h1,h2"]).assert(1, "-n 4 needs 3 hosts besides this one");
    world.run(&["--hosts", "h1", "--rsh", "/no/ssh"]).assert(1, "cannot run '/no/ssh'");
    world
        .run(&["--mpd", "/no/mpd"])
        .assert(1, "/no/mpd: no such program; give its path with --mpd");
    world.run(&["--bogus"]).assert(2, "--bogus");
    world.run(&["--ring", "a/b"]).assert(1, "cannot be the name of a ring");
    world.put_key("local", "xy");
    world.run(&["--hosts", "h1"]).assert(1, "line 2 is not a key of hexadecimal digits");
    assert_eq!((world.text("ssh.argv"), world.text("mpd.argv")), (String::new(), String::new()));
}

#[test]
fn without_the_daemon_of_this_host_nothing_is_started_elsewhere() {
    let world = World::new();
    world.set(&format!("mpd/{}", mpd_io::ring::rundir::host_name()), "busy");
    let ran = world.run(&["--hosts", "h1"]);
    ran.assert(1, "step join     cannot listen on port 7000: Address already in use");
    assert!(ran.err.ends_with("mpdboot: nothing was started\n"), "{}", ran.err);
    assert_eq!(world.text("ssh.argv"), "");
}

#[test]
fn an_agent_that_is_lost_in_the_middle_fails_its_host() {
    let world = World::new();
    world.set("hosts/h1", "lost");
    world.run(&["--hosts", "h1,h2"]).assert(3, "host h1  step ssh");
}

#[test]
fn an_agent_reports_a_wrong_request_without_quoting_it() {
    let world = World::new();
    let agent = |order: &str| {
        let mut command = world.command(&world.path("suite/mpd"));
        let mut child =
            command.arg("--boot-agent").stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), order.as_bytes()).unwrap();
        crate::world::Ran::of(child.wait_with_output().unwrap(), &world)
    };
    agent("").assert(1, "standard input ended before the request");
    let ran = agent("{\"version\":7,\"nonce\":\"x\",\"task\":{\"boot\":{\"key\":\"c0ffee\"}}}\n");
    ran.assert(1, "another version of mpdboot");
    assert!(!ran.err.contains("c0ffee"));
    agent("{\"version\":1,\"nonce\":\"x\",\"task\":{\"check\":{\"name\":\"h\"}}}\n")
        .assert(1, "it speaks version 1, and mpd here 7");
    let ran = agent("{\"version\":7,\"nonce\":\"x\",\"task\":{\"check\":{\"name\":\"h\"}}}\n");
    assert_eq!(
        ran.out,
        "MPDBOOT-x {\"host\":{\"name\":\"h\",\"outcome\":\"up\"}}\nMPDBOOT-x \"done\"\n"
    );
}
