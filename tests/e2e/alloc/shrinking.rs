//! Jobs that get fewer processes, and the slots that become free.

use crate::members::Members;
use crate::run::{Output, wait_until};

/// The work of ranks: each notes its process in a directory until it ends.
struct Work {
    directory: String,
    stop: String,
}

impl Work {
    fn of(ring: &Members) -> Self {
        let directory = ring.suite.new_directory("work-of-ranks");
        Self { directory, stop: ring.suite.path("stop").display().to_string() }
    }

    /// The script of a rank. It ends after `stop` appears, or by SIGTERM: some by the signal, others with 0.
    fn script(&self) -> String {
        let Self { directory, stop } = self;
        format!(
            "exec 2> /dev/null; me={directory}/$$; trap 'rm $me; [ $PMI_RANK = 2 ] && exit 0; trap - TERM; kill $$' TERM; \
             touch $me; until [ -e {stop} ]; do sleep 0.01; done; rm $me"
        )
    }

    /// How many work.
    fn count(&self) -> usize {
        std::fs::read_dir(&self.directory).expect("a directory").count()
    }

    /// Lets all end with 0.
    fn stop(&self) {
        std::fs::write(&self.stop, "").expect("a file");
    }
}

/// The states of the processes of the only job, sorted, by world and rank.
fn states(ring: &Members) -> Vec<String> {
    let output = ring.tool(1, "mpdlistjobs", &["--json"]).output();
    let value: serde_json::Value = serde_json::from_str(&output.code(0).out()).expect("JSON");
    let hosts = value["jobs"][0]["hosts"].as_array().cloned().unwrap_or_default();
    let processes = hosts.iter().filter_map(|host| host["processes"].as_array()).flatten();
    let state = |it: &serde_json::Value| {
        format!("{},{} {}", it["rank"], it["world"], it["state"].as_str().unwrap_or("-"))
    };
    let mut all: Vec<String> = processes.map(state).collect();
    all.sort();
    all
}

#[test]
fn a_job_grows_and_shrinks_and_its_slots_are_free_for_its_next_processes() {
    let ring = Members::with_slots(3, 4);
    let work = Work::of(&ring);
    let count = || work.count();
    let words = ["-a", "ocean", "-spawn-limit", "1", "-n", "8", "bash", "-c", &work.script()];
    let job = ring.mpirun(1, &words).deadline(60).start();
    wait_until("8 ranks run", || count() == 8);
    let grow = |change: &str| -> Output { ring.tool(2, "mpdgrow", &["ocean", change]).output() };
    grow("+4").code(0).quiet();
    wait_until("12 processes run", || count() == 12);
    grow("+6").code(0).quiet();
    let waits = || {
        let tree = ring.tool(3, "mpdlistjobs", &["--tree"]).output();
        tree.out().contains("ready: 6 processes of bash")
    };
    wait_until("6 more processes wait for slots", waits);
    assert_eq!(count(), 12);

    grow("-12").code(1).says(&["these are all running ranks", "mpdkilljob ends the job"]);
    grow("-13").code(1).says(&["only 12 ranks of the job run"]);
    grow("-0").code(2).says(&["-1 to -"]);
    ring.tool(2, "mpdgrow", &["lake", "-1"]).output().code(1).says(&["lake"]);
    grow("-6").code(0).quiet();
    wait_until("the 6 others and 6 further processes run", || count() == 12 && !waits());
    let running = |world: &str| {
        let all = states(&ring);
        all.iter().filter(|line| line.ends_with(&format!(",{world} running"))).count()
    };
    wait_until("the highest ranks have ended", || {
        [0, 1, 2].map(|n| running(&n.to_string())) == [6, 0, 6]
    });
    let ended: Vec<_> = states(&ring).into_iter().filter(|line| line.ends_with("ended")).collect();
    assert_eq!(ended, ["6,0 ended", "7,0 ended"]);
    grow("-6").code(0).quiet();
    wait_until("6 processes are left", || count() == 6);
    wait_until("they are the first ranks", || {
        [0, 1, 2].map(|n| running(&n.to_string())) == [6, 0, 0]
    });

    work.stop();
    job.wait().code(0).quiet();
    ring.all_is_free(1);
}

#[test]
fn retired_ranks_leave_their_slots_to_the_allocation() {
    let ring = Members::with_slots(1, 4);
    let work = Work::of(&ring);
    let count = || work.count();
    let words = ["-q", "-n", "4", "mpirun", "-a", "lake", "bash", "-c", &work.script()];
    let holder = ring.alloc(1, &words).deadline(60).start();
    wait_until("4 ranks run", || count() == 4);
    ring.tool(1, "mpdgrow", &["lake", "-3"]).output().code(0).quiet();
    wait_until("one rank runs", || count() == 1);
    assert_eq!(ring.slots(1), ["d1 4 4 0"]);
    work.stop();
    holder.wait().code(0).quiet();
    ring.all_is_free(1);
}
