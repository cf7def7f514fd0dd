//! Two rigs on one machine.

use mpd_tests::surroundings::skip;

use crate::rig::{self, RigOptions};

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

#[test]
fn the_end_of_a_rig_keeps_the_machine_settings_of_another_rig() {
    let read = || std::fs::read_to_string(SETTING);
    if read().is_err() {
        return skip("this kernel does not group processes by session");
    }
    let Some(rig) = rig::up_as(RigOptions { hosts: Some(1), ..RigOptions::default() }) else {
        return;
    };
    let other = format!("u{}", std::process::id());
    let control = |arguments: &[&str]| {
        let output = rig.script().env("RIG_NAME", &other).args(arguments).output().expect("rig.sh");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    control(&["up", "1"]);
    control(&["down"]);
    assert_eq!(read().expect("the setting"), "0\n");
}
