//! Rings that start.

use std::fs;

use mpd_io::process::identity::own_account;
use mpd_io::ring::rundir::host_name;

use crate::world::World;

fn line<'a>(text: &'a str, with: &str) -> &'a str {
    text.lines().find(|line| line.contains(with)).unwrap_or_else(|| panic!("no {with} in {text}"))
}

#[test]
fn without_hosts_mpdboot_starts_the_local_daemon_and_prints_nothing() {
    let world = World::new();
    let ran = world.run(&[]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    assert_eq!(world.ring(), [host_name()]);
    assert_eq!(
        world.text("mpd.argv"),
        format!("--daemon --name {} --ordinal 1 --key /proc/self/cwd/key\n", host_name())
    );
    assert_eq!(world.text("ssh.argv"), "");
}

#[test]
fn every_host_gets_its_options_addresses_to_join_and_the_key() {
    let world = World::new();
    world.set("hosts/h2", "banner");
    let user = own_account();
    let file = format!("# ours\nh1:4 ifhn=h1-ib\nlocalhost:2\nh2 user={user} port=2222\nh1\n");
    fs::write(world.path("home/local/mpd.hosts"), file).unwrap();
    let ran = world.run(&["-n", "3", "--port", "7000", "--ring", "blue"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let (shells, daemons) = (world.text("ssh.argv"), world.text("mpd.argv"));
    let here = host_name();
    let join = format!(" --join {here}:7000");
    let key = "--key /proc/self/cwd/key";
    let local = line(&daemons, "--ordinal 1");
    assert_eq!(
        local,
        format!("--daemon --name {here} --ring blue --ordinal 1 --port 7000 --ncpus 2 {key}")
    );
    let first = line(&daemons, "--name h1");
    assert!(first.starts_with("--agent --nonce "), "{first}");
    assert!(
        first.contains(&format!(" --waits --report-ready --name h1 --ring blue{join}")),
        "{first}"
    );
    assert!(first.ends_with(&format!("--ordinal 2 --port 7000 --ifhn h1-ib --ncpus 4 {key}")));
    assert!(line(&daemons, "--name h2").contains(&join));
    let lists = world.text("lists");
    let list = |name: &str| line(&lists, &format!("{name} {{")).split_once(' ').unwrap().1;
    assert_eq!(list("h1"), list("h2"), "one list for all");
    assert!(list("h1").contains("\"h2:7000\""), "{lists}");
    let agent = world.path("suite/mpd");
    let tail = format!(" -p 2222 -l {user} -- h2 {} --boot-agent --name h2", agent.display());
    assert!(line(&shells, "-- h2").ends_with(&tail), "{shells}");
    assert!(line(&shells, "-- h1").starts_with("-x -T -o BatchMode=yes -o ConnectTimeout=10"));
    let ours = world.text("home/local/key");
    assert!(ours.starts_with("ring blue\n"));
    assert_eq!((world.text("home/h1/key"), world.text("home/h2/key")), (ours.clone(), ours));
}

#[test]
fn a_report_in_json_has_every_host() {
    let world = World::new();
    world.set("hosts/h2", "denied");
    let ran = world.run(&["--hosts", "h1,h2", "--json"]);
    ran.assert(3, "step ssh");
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&report["total"], &report["succeeded"], &report["failed"]),
        (&3.into(), &2.into(), &1.into())
    );
    assert_eq!(report["hosts"][1]["state"], "in_ring");
    assert_eq!(
        (&report["hosts"][2]["state"], &report["hosts"][2]["step"]),
        (&"failed".into(), &"ssh".into())
    );
}

#[test]
fn with_more_hosts_than_the_window_hosts_start_each_other() {
    let world = World::new();
    let ran = world.run(&["-hosts", "c[01-13]", "--window", "2", "-v"]);
    ran.assert(0, "all 14 are in the ring");
    assert_eq!(world.ring().len(), 14);
    assert_eq!(world.text("ssh.argv").lines().count(), 13);
    assert!(ran.err.contains("host c01: starting, and 6 further ones from there"), "{}", ran.err);
    // c01 was started by another host, through which it enters.
    let daemons = world.text("mpd.argv");
    assert!(line(&daemons, "--name c13").contains(&format!("{}:7000", host_name())));
    world.assert_nothing_left();
}

#[test]
fn hosts_behind_a_failed_host_are_started_in_another_way() {
    let world = World::new();
    world.set("hosts/c1", "denied");
    world.set("hosts/c5", "above");
    let ran = world.run(&["--hosts", "c[1-8]", "--window", "2", "-v"]);
    ran.assert(3, "host c1: step ssh");
    assert_eq!(world.ring().len(), 8);
    assert!(world.ring().contains(&"c5".to_owned()));
}

#[test]
fn hosts_named_twice_get_one_daemon_or_several_with_option_1() {
    let world = World::new();
    let ran = world.run(&["--hosts", "h1,localhost,h1,localhost", "-v"]);
    ran.assert(0, "named several times, used once: h1, localhost");
    assert_eq!(world.ring().len(), 2);
    let world = World::new();
    world.run(&["--hosts", "h1,h1,h1", "-1"]).assert(0, "");
    let daemons = world.text("mpd.argv");
    let third = line(&daemons, "--name h1-3");
    assert!(third.contains(&format!("--rundir {}-3", world.path("run/h1").display())), "{third}");
    assert!(!line(&daemons, "--name h1 ").contains("--rundir"));
}

#[test]
fn a_second_ring_needs_add_or_replace() {
    let world = World::new();
    world.run(&["--hosts", "h1"]).assert(0, "");
    world
        .run(&["--hosts", "h2"])
        .assert(1, "--add adds hosts to its ring, --replace ends that ring");
    assert_eq!(world.ring().len(), 2);
    world.run(&["--add", "--hosts", "h[1-3]", "-v"]).assert(0, "all 4 are in the ring");
    assert!(world.text("mpd.argv").contains("--ordinal 3 "));
    world.run(&["--replace", "--hosts", "h9"]).assert(0, "");
    let mut wanted = [host_name(), "h9".to_owned()];
    wanted.sort();
    assert_eq!(world.ring(), wanted);
}

#[test]
fn add_without_a_ring_is_an_error() {
    World::new().run(&["--add", "--hosts", "h1"]).assert(1, "leave out --add");
}

#[test]
fn chkuponly_starts_nothing() {
    let world = World::new();
    world.run(&["--hosts", "h[1-3]", "--chkuponly", "-v"]).assert(0, "all 4 can be reached");
    world.set("hosts/h2", "off");
    let ran = world.run(&["--hosts", "h[1-3]", "--chkup"]);
    ran.assert(1, "host h2  step connect");
    assert!(ran.err.ends_with("mpdboot: nothing was started\n"));
    assert_eq!(
        (world.text("mpd.argv"), world.text("home/local/key")),
        (String::new(), String::new())
    );
    fs::remove_file(world.path("hosts/h2")).unwrap();
    world.run(&["--hosts", "h[1-3]", "--chkup"]).assert(0, "");
    assert_eq!(world.ring().len(), 4);
}

#[test]
fn with_keep_every_daemon_has_a_recipe_to_revive_it() {
    let world = World::new();
    world.run(&["--hosts", "h1:3,h2", "--keep"]).assert(0, "");
    let recipe = world.path("run/h2/keep.json");
    let (text, key) = (fs::read_to_string(&recipe).unwrap(), world.text("home/local/key"));
    assert!(!text.contains(key.lines().nth(1).unwrap()));
    assert_eq!(text, world.text("run/local/keep.json"));
    assert!(line(&world.text("mpd.argv"), "--name h2").ends_with("/run/h2/keep.json"));
    fs::remove_file(world.path("ring/h1")).unwrap();
    let plan = recipe.to_str().unwrap();
    let revive =
        |name: &str| world.run(&["--revive", name, "--plan", plan, "--join", "h2:7000,x:1"]);
    let ran = revive("h1");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let daemons = world.text("mpd.argv");
    let again = daemons.lines().last().unwrap();
    assert!(again.contains("--name h1 --join h2:7000,x:1 --ordinal 2 --ncpus 3"), "{again}");
    assert!(world.text("ssh.argv").lines().last().unwrap().contains("ConnectTimeout=5"));
    world.set("hosts/h1", "off");
    let ran = revive("h1");
    ran.assert(
        1,
        "mpdboot: host h1: step connect: ssh: connect to host h1 port 22: Connection timed out",
    );
    assert_eq!(ran.err.lines().count(), 1);
    revive("h3").assert(1, "does not name h3");
}
