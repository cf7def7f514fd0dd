//! A rank of a group (`-g`) that creates one object of each kind with the names of its group.
//!
//!     t-group exit|wait
//!
//! With the group's name it creates a POSIX object, another one with a longer name, and a semaphore's file, and in the
//! group's directory a file. With the group's key it creates a System V segment, a semaphore set and a message
//! queue. All objects are closed to other users. Prints "made", and exits or waits to be killed. Removes nothing.
#![expect(unsafe_code, reason = "System V IPC has no safe form")]

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

const MODE: libc::c_int = libc::IPC_CREAT | 0o600;

fn main() {
    let how: String = mpd_tests::argument(0, "exit".to_owned());
    mpd_tests::bound(60);
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    let name = variable("MPD_GROUP_KEY");
    let paths = [
        format!("/dev/shm{name}"),
        format!("/dev/shm{name}.more"),
        format!("/dev/shm/sem.{}", &name[1..]),
        format!("{}/file", variable("MPD_GROUP_DIR")),
    ];
    for path in paths {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let key: libc::key_t = variable("MPD_GROUP_IPC_KEY").parse().expect("a number");
    // SAFETY: plain system calls that take no pointer.
    let ids = unsafe {
        [libc::shmget(key, 4096, MODE), libc::semget(key, 1, MODE), libc::msgget(key, MODE)]
    };
    assert!(ids.iter().all(|&id| id >= 0), "{ids:?}: {}", std::io::Error::last_os_error());
    mpd_tests::say("made").expect("stdout");
    if how == "wait" {
        std::thread::sleep(Duration::from_secs(60));
    }
}
