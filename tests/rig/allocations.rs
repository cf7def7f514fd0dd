//! Random requests for slots on eight hosts whose daemons are killed, the dispenser's most of all.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_tests::slots::{COUNTING, was_made};
use mpd_tests::surroundings::tell;

use crate::rig::{Rig, RigOptions, number, up_as};
use crate::run::{Run, Running, comes_true, sample, wait_until};

const HOSTS: usize = 8;
const SLOTS: usize = 3;
/// Most requests at a time.
const WIDTH: usize = 24;

/// The time after which no slot is lost, from the end of the last request.
const FREE: Duration = Duration::from_secs(30);

/// A request that was made.
struct Request {
    number: usize,
    host: String,
    running: Running,
    is_withdrawn: bool,
}

impl Rig {
    fn place(&self) -> PathBuf {
        self.share().join("slots")
    }

    /// `mpdalloc` on a host, in the directory of the counts.
    fn request(&self, random: &mut Random, number: usize) -> Request {
        let host = format!("h{}", random.below(HOSTS) + 1);
        let patterns = format!("h{},*", random.below(HOSTS) + 1);
        let slots = (random.below(6) + 1).to_string();
        let mut words = vec!["-q", "-n", &slots];
        match random.below(5) {
            0 => words.push("-soft"),
            1 => words.extend(["--hosts", &patterns]),
            2 => words.extend(["-t", "60"]),
            _ => {}
        }
        let (pause, name) = (format!("0.0{}", random.below(10)), number.to_string());
        words.extend(["sh", "-c", COUNTING, "sh", &pause, &name]);
        let place = self.place().display().to_string();
        let begin = format!(
            "cd {place}; echo $$ >pid.{number}; export SLOTS={SLOTS}; exec mpdalloc \"$@\""
        );
        let mut script = self.script();
        script.args(["exec", &host, "sh", "-c", &begin, "mpdalloc"]).args(words);
        let running = Run::new(script).deadline(240).start();
        Request { number, host, running, is_withdrawn: false }
    }

    /// Ends a request by a signal to its `mpdalloc`.
    fn withdraw(&self, request: &mut Request) {
        let file = self.place().join(format!("pid.{}", request.number));
        // It may not have begun, or may have ended.
        if let Ok(pid) = fs::read_to_string(file) {
            self.exec(&request.host, &["kill", "-TERM", pid.trim()]);
            request.is_withdrawn = true;
        }
    }

    /// Cancels a request for all slots, which waits for the others, or has them and uses none.
    fn cancel_a_large_one(&self, host: &str) {
        let all = (HOSTS * SLOTS).to_string();
        let mut script = self.script();
        script.args(["exec", host, "mpdalloc", "-n", &all, "sleep", "600"]);
        let running = Run::new(script).deadline(240).start();
        let named = |text: &str| {
            text.split_whitespace().find(|word| word.contains("@h")).map(str::to_owned)
        };
        let mut id = None;
        wait_until("the request has a name or is refused", || {
            let told = running.stderr();
            id = named(&told);
            id.is_some() || !was_made(&told)
        });
        if let Some(id) = id {
            self.exec(host, &["mpdcancel", &id]);
        }
        let output = running.wait();
        assert_ne!(output.exit_code(), Some(0), "{}", output.err());
    }

    /// Kills the daemon of a host and starts the next one.
    fn replace_daemon(&self, host: &str, other: &str) {
        self.kill_daemon(host);
        let file = self.file("one", &format!("{host}:{SLOTS}\n"));
        self.run(other, &["mpdboot", "--add", "-f", &file]);
    }

    fn used_slots(&self, host: &str) -> Option<u32> {
        let output = self.exec(host, &["mpdslots", "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let hosts = value["hosts"].as_array()?;
        let used = hosts.iter().map(|host| host["used"].as_u64()).sum::<Option<u64>>()?;
        (hosts.len() == HOSTS).then(|| u32::try_from(used).ok())?
    }
}

/// Waits for the end of a request. Returns whether its command has run to its end.
fn ends(request: Request) -> bool {
    let output = request.running.wait();
    let succeeded = output.exit_code() == Some(0);
    assert!(
        succeeded || request.is_withdrawn || !was_made(&output.err()),
        "request {}: {:?} {}",
        request.number,
        output.exit_code(),
        output.err()
    );
    succeeded
}

#[test]
fn no_slot_is_held_twice_and_every_request_ends_although_dispensers_die() {
    let Some(rig) = up_as(RigOptions { hosts: Some(HOSTS), ..RigOptions::default() }) else {
        return;
    };
    let hosts = rig.all();
    let lines: String = hosts.iter().map(|host| format!("{host}:{SLOTS}\n")).collect();
    let file = rig.file("hosts", &lines);
    rig.run(&hosts[0], &["mpdboot", "-f", &file]);
    rig.heals("booted", &hosts);
    fs::create_dir(rig.place()).expect("a directory");
    hosts.iter().for_each(|host| {
        fs::write(rig.place().join(format!("used.{host}")), "0\n").expect("a file")
    });
    let (count, seed) = (sample(60, 1_000), number("MPD_RIG_SEED", 1));
    tell(&format!("rig: {count} requests, MPD_RIG_SEED={seed}"));
    let mut random = Random::new(seed);
    let mut running: Vec<Request> = Vec::new();
    let (mut ended, mut kills) = (0, 0);
    for number in 0..count {
        running.push(rig.request(&mut random, number));
        if random.one_in(8) {
            let chosen = random.below(running.len());
            rig.withdraw(&mut running[chosen]);
        }
        if random.one_in(20) {
            rig.cancel_a_large_one(&hosts[random.below(HOSTS)]);
        }
        if random.one_in(15) {
            // The lowest ordinal dispenses: that of the first host, until its daemon is replaced.
            let at = if random.one_in(2) { 0 } else { random.below(HOSTS) };
            rig.replace_daemon(&hosts[at], &hosts[(at + 1) % HOSTS]);
            kills += 1;
        }
        if running.len() > WIDTH {
            ended += usize::from(ends(running.remove(0)));
        }
    }
    ended += running.into_iter().map(ends).filter(|succeeded| *succeeded).count();
    let calm = Instant::now();
    let mut slots = String::new();
    let are_free = comes_true(FREE, || {
        slots = rig.run(&hosts[0], &["mpdslots"]);
        rig.used_slots(&hosts[0]) == Some(0)
    });
    assert!(are_free, "slots are lost:\n{slots}\n{}", rig.run(&hosts[0], &["mpdqueue"]));
    let calm = calm.elapsed().as_secs_f64();
    let read = |name: &str| fs::read_to_string(rig.place().join(name)).unwrap_or_default();
    let mut done: Vec<String> = read("done").lines().map(str::to_owned).collect();
    let lines = done.len();
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), lines, "a command ran twice");
    assert!(lines >= ended, "{lines} commands ended, and {ended} requests with success");
    assert_eq!(read("violations"), "", "a slot was held twice");
    assert!(hosts.iter().all(|host| read(&format!("used.{host}")) == "0\n"));
    rig.figure(&format!("{count} requests, {ended} with success, {kills} daemons killed; all slots free {calm:.1} s after the last end"));
    rig.heals("at the end", &hosts);
    rig.is_clean("after the requests", &hosts);
    rig.ends(&hosts[0]);
}
