//! Events of jobs when a host loses its power.

use serde_json::Value;

use crate::event_lines::{about, ends, events};
use crate::hosts::DEADLINE;
use crate::jobs::booted;
use crate::rig::{Rig, RigOptions, without};
use crate::run::{Run, Running};

impl Rig {
    /// A watcher on a host, which has shown its first event.
    fn watcher(&self, host: &str, job: &str) -> Running {
        let mut command = self.script();
        command.args(["exec", host, "mpdwatch", "--json", "--job", job]);
        let watcher = Run::new(command).deadline(DEADLINE).start();
        watcher.shows("\"number\":1,");
        watcher
    }
}

/// The events that both watchers have seen.
fn seen_by_both(watchers: [Running; 2]) -> Vec<Value> {
    let outputs = watchers.map(Running::wait);
    outputs.iter().for_each(|output| {
        output.code(0).quiet();
    });
    let [one, other] = outputs;
    assert_eq!(one.out(), other.out());
    events(&one.out())
}

#[test]
fn a_power_cut_of_a_host_is_one_event_before_the_ends_of_its_ranks() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let job = rig.counts(&hosts[0], "steps", ranks, [20, 0]);
    let id = format!("1@{}", hosts[0]);
    let watchers = [&hosts[1], &hosts[3]].map(|host| rig.watcher(host, &id));
    let lost = &hosts[2];
    rig.control(&["kill", lost]);
    let left = without(&hosts, &[lost]);
    job.running.wait().code(125).says(&[lost]);
    let all = seen_by_both(watchers);
    assert_eq!(about(&all, lost), ["host_lost"]);
    let ends = ends(&all);
    assert_eq!(ends.len(), ranks);
    let is_unknown = |end: &Value| end["code"].is_null() && end["signal"].is_null();
    let of_lost = ends.values().filter(|end| end["host"] == lost.as_str());
    assert_eq!(of_lost.filter(|end| is_unknown(end)).count(), 2, "{all:?}");
    let loss = all.iter().position(|event| event["event"] == "host_lost");
    let first_end = all.iter().position(|event| event["event"] == "exited");
    assert!(loss < first_end, "{all:?}");
    rig.is_clean("power cut", &left);
    rig.heals("the rest", &left);
    rig.ends(&hosts[0]);
}

#[test]
fn a_job_that_does_not_use_a_host_outlives_its_power_cut_and_reports_it_once() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let used = 2;
    let job = rig.counts(&hosts[0], "steps", 2 * used, [20, 0]);
    let id = format!("1@{}", hosts[0]);
    let watchers = [&hosts[1], &hosts[3]].map(|host| rig.watcher(host, &id));
    let lost = &hosts[hosts.len() - 1];
    rig.control(&["kill", lost]);
    watchers.iter().for_each(|watcher| {
        watcher.shows("\"event\":\"host_lost\"");
    });
    job.ends_whole(2 * used);
    let all = seen_by_both(watchers);
    assert_eq!(about(&all, lost), ["host_lost"]);
    let ends = ends(&all);
    assert_eq!(ends.len(), 2 * used);
    assert!(ends.values().all(|end| end["code"] == 0), "{all:?}");
    let left = without(&hosts, &[lost]);
    rig.heals("the rest", &left);
    rig.ends(&hosts[0]);
}
