//! Hosts without sshd on which the daemon is the first process, as in containers. Names become known late, other
//! processes leave orphans, addresses change, and SIGTERM ends a daemon.

use std::time::Duration;

use mpd_tests::waiting::comes_true;

use crate::rig::{Rig, RigOptions, text, up_as, without};

/// How long a step may take.
const NEVER: Duration = Duration::from_secs(60);

/// What Kubernetes prepares for the command of a pod. The key is a link to a file that the group may read, as in a mounted
/// secret.
const POD: &str = r#"
until [ -s "${0%/*}/key" ]; do sleep 0.1; done
mkdir -p /run/secrets/mpd/..data && cd /run/secrets/mpd && umask 027
cp "${0%/*}/key" ..data/key && ln -s ..data/key key && cd /
number=$(hostname) && number=${number#h}
export HOSTNAME=mpd-$((number - 1)) CPUS=2
"#;

/// The script of every host: the command of the manifest in contrib/k8s. Pod 0 begins the ring sooner.
fn main_of_a_pod() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/k8s/ring.yaml");
    let manifest = std::fs::read_to_string(path).expect("the manifest");
    let lines = manifest.lines().skip_while(|line| line.trim() != "- |").skip(1);
    let indent = " ".repeat(14);
    let command: Vec<&str> = lines.map_while(|line| line.strip_prefix(&indent)).collect();
    let command = command.join("\n") + "\n";
    assert!(command.contains("exec mpd --port 7777"), "{command}");
    assert!(command.contains("--patience 10 --or-begin"), "{command}");
    format!("{POD}{}", command.replace("--patience 10", "--patience 2"))
}

/// A name that every host knows from now on, with these addresses; with none it is unknown.
fn set_name(rig: &Rig, host: &str, name: &str, addresses: &[&str]) {
    let lines: String = addresses.iter().map(|address| format!("{address} {name}\n")).collect();
    let file = rig.file("lines", &lines);
    let edit = format!(
        "{{ grep -v ' {name}$' /etc/hosts; cat {file}; }} >/etc/hosts.new && mv /etc/hosts.new /etc/hosts"
    );
    rig.run(host, &["sh", "-c", &edit]);
}

fn address(rig: &Rig, host: &str) -> String {
    let output = rig.run(host, &["hostname", "-I"]);
    output.split_whitespace().next().expect("an address").to_owned()
}

fn runs_everywhere(rig: &Rig, from: &str, hosts: &[String]) {
    let count = hosts.len().to_string();
    let ran = rig.run(from, &["mpirun", "-n", &count, "-ppn", "1", "hostname"]);
    let mut lines: Vec<&str> = ran.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, hosts);
}

/// Starts a process whose parent ends, so that the first process of the host adopts it. Returns its number there.
fn orphan(rig: &Rig, host: &str) -> String {
    let pid = rig.run(host, &["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"]);
    pid.trim().to_owned()
}

fn parent(rig: &Rig, host: &str, pid: &str) -> Option<String> {
    let output = rig.exec(host, &["ps", "-o", "ppid=,stat=", "-p", pid]);
    let parent = text(&output).split_whitespace().next().map(str::to_owned);
    parent.filter(|_| output.status.success())
}

#[test]
fn daemons_as_first_processes_meet_by_a_late_name_and_return_with_another_address() {
    let main = Some(main_of_a_pod());
    let Some(mut rig) = up_as(RigOptions { hosts: Some(4), main, ..RigOptions::default() }) else {
        return;
    };
    let hosts = rig.all();
    let key = mpd_io::files::key_file::generate("pods").expect("a key").to_text();
    let whole = rig.file("key.new", &key);
    std::fs::rename(&whole, rig.share().join("key")).expect("a file");
    // h1 has found no daemon and has begun; the others do not know the name yet.
    rig.heals("h1 began", &hosts[..1]);
    assert!(rig.view("h2").is_none(), "h2 is in a ring though it knows no name");
    let addresses: Vec<String> = hosts.iter().map(|host| address(&rig, host)).collect();
    let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
    set_name(&rig, "h1", "mpd", &all);
    rig.heals("the name is known", &hosts);
    runs_everywhere(&rig, "h2", &hosts);

    // Orphans of other processes live on when a job ends, and are reaped when they end.
    let stranger = orphan(&rig, "h3");
    assert_eq!(parent(&rig, "h3", &stranger).as_deref(), Some("1"));
    let wait = ["sh", "-c", "sleep 1000 & exec sleep 1000"];
    let job = [&["mpirun", "-n", "4", "-ppn", "1"][..], &wait].concat();
    let file = rig.share().join("ended");
    let line = format!("{} ; echo $? >{}", quoted(&job), file.display());
    rig.run("h1", &["sh", "-c", &format!("({line}) >/dev/null 2>&1 &")]);
    let sleeps = |count: usize| {
        let output = rig.exec("h3", &["pidof", "sleep"]);
        text(&output).split_whitespace().count() == count
    };
    assert!(comes_true(NEVER, || sleeps(3)), "the job does not run on h3");
    rig.run("h3", &["sh", "-c", "kill -9 $(pidof mpdman)"]);
    assert!(comes_true(NEVER, || file.exists()), "the job does not end");
    assert!(comes_true(NEVER, || sleeps(1)), "orphans of the job are left on h3");
    runs_everywhere(&rig, "h1", &hosts);
    assert_eq!(parent(&rig, "h3", &stranger).as_deref(), Some("1"), "the stranger was killed");
    rig.run("h3", &["kill", &stranger]);
    assert!(comes_true(NEVER, || parent(&rig, "h3", &stranger).is_none()), "it is not reaped");

    // A container that is replaced has the same name and another address.
    rig.control(&["kill", "h4"]);
    let rest = without(&hosts, &["h4"]);
    rig.heals("h4 lost", &rest);
    let another = "10.77.250.4";
    set_name(&rig, "h1", "h4", &[another]);
    set_name(&rig, "h1", "mpd", &[all[0], all[1], all[2], another]);
    rig.control(&["boot", "h4", another]);
    rig.heals("h4 returned", &hosts);
    assert_eq!(address(&rig, "h4"), another);
    runs_everywhere(&rig, "h4", &hosts);

    // The first one is replaced, too: it finds the others and begins no ring of its own.
    rig.control(&["kill", "h1"]);
    rig.heals("h1 lost", &hosts[1..]);
    rig.control(&["boot", "h1"]);
    rig.heals("h1 returned", &hosts);
    runs_everywhere(&rig, "h1", &hosts);

    // SIGTERM ends the first process after a clean leave.
    // It ends this command, too.
    rig.exec("h2", &["kill", "-TERM", "1"]);
    let rest = without(&hosts, &["h2"]);
    rig.heals("h2 left", &rest);
    let is_off = |rig: &Rig, host: &str| !rig.exec(host, &["true"]).status.success();
    assert!(comes_true(NEVER, || is_off(&rig, "h2")), "the first process of h2 lives");
    rig.exec("h3", &["mpdallexit"]);
    for host in &rest {
        assert!(comes_true(NEVER, || is_off(&rig, host)), "the first process of {host} lives");
    }
}

/// The words of a command for sh.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}
