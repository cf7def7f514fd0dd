//! Two rigs on one machine.

use mpd_tests::surroundings::skip;

use crate::rig::{self, Wish};

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

#[test]
fn a_rig_that_is_taken_down_leaves_the_machine_as_the_other_one_needs_it() {
    let read = || std::fs::read_to_string(SETTING);
    if read().is_err() {
        return skip("this kernel does not group processes by session");
    }
    let Some(rig) = rig::up_as(Wish { hosts: Some(1), ..Wish::default() }) else { return };
    let other = format!("u{}", std::process::id());
    let control = |words: &[&str]| {
        let output = rig.script().env("RIG_NAME", &other).args(words).output().expect("rig.sh");
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    control(&["up", "1"]);
    control(&["down"]);
    assert_eq!(read().expect("the setting"), "0\n");
}
