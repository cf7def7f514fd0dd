//! Mistakes of a new user, on real hosts: each message by itself explains the solution.

use mpd_tests::surroundings::tell;

use crate::rig::{text, up};

#[test]
fn each_mistake_is_reported_with_its_host_its_step_and_a_hint() {
    let Some(rig) = up() else { return };
    // Mistakes: h2, no process listens at the expected ssh port; h3, another key; h4, no disk space, which prevents
    // nothing. Also h5, its shell prints a banner; h6, its own name is 127.0.1.1; h7, a daemon runs already, which joins.
    let other_key = "mount -t tmpfs none /etc/mpd && mpd --daemon && mpdallexit";
    rig.run("h1", &["sh", "-c", "mpd --daemon && mpdallexit"]);
    rig.run("h3", &["sh", "-c", other_key]);
    rig.run("h4", &["sh", "-c", "dd if=/dev/zero of=/tmp/full bs=1M 2>/dev/null; true"]);
    let own = "sed 's/^.* h6$/127.0.1.1 h6/' /etc/hosts >/run/hosts; echo 127.0.1.1 h6 >>/run/hosts; mount --bind /run/hosts /etc/hosts";
    rig.run("h6", &["sh", "-c", own]);
    rig.run("h7", &["mpd", "--daemon"]);
    let banner = "echo 'Welcome to the cluster. Be nice.' >/home/root/.bashrc";
    rig.run("h5", &["sh", "-c", banner]);
    let lines = "h1\nh2 port=9\nh3\nh4\nh5\nh6\nh7\nnosuchhost\n";
    let file = rig.file("hosts", lines);
    let output = rig.exec("h1", &["mpdboot", "-f", &file]);
    rig.run("h5", &["rm", "/home/root/.bashrc"]);
    let printed = text(&output);
    tell(&printed);
    assert_eq!(
        output.status.code(),
        Some(3),
        "some hosts are in the ring, some are not: {printed}"
    );
    for (host, step, arguments) in [
        ("h2", "connect", "Connection refused"),
        ("h3", "key", "another key"),
        ("nosuchhost", "resolve", "nosuchhost"),
    ] {
        let line = printed.lines().find(|line| line.contains(&format!("host {host} ")));
        let line = line.unwrap_or_else(|| panic!("nothing about {host}: {printed}"));
        assert!(line.contains(step) && line.contains(arguments), "{host}: {line}");
    }
    let members: Vec<String> = ["h1", "h4", "h5", "h6", "h7"].map(String::from).to_vec();
    rig.heals("those without a mistake", &members);
    rig.ends("h1");
}

#[test]
fn a_missing_mpd_is_reported_with_the_host_and_the_option() {
    let Some(rig) = up() else { return };
    let file = rig.file("hosts", "h1\nh2\n");
    // Here the programs are in the directory of mpdboot; on the other hosts they are searched in the same directory.
    let copy = rig.share().join("bin");
    let here = copy.display().to_string();
    let install = format!("mkdir {here} && cp $(command -v mpd) $(command -v mpdboot) {here}");
    rig.run("h1", &["sh", "-c", &install]);
    rig.run("h2", &["sh", "-c", &format!("mount -t tmpfs none {here}")]);
    let output = rig.exec("h1", &[&format!("{here}/mpdboot"), "-f", &file]);
    let printed = text(&output);
    tell(&printed);
    assert!(printed.contains("step exec") && printed.contains("--mpd"), "{printed}");
    rig.ends("h1");
}
