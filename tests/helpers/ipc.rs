//! Creates objects that outlive a process: System V shared memory, a semaphore set, a message queue, and a
//! POSIX shared memory object.
//!
//!     t-ipc exit|kill|wait [SECONDS]
//!     t-ipc renew|insist
//!
//! Prints "shm ID sem ID msg ID posix NAME", keeps the memory mapped, and then exits with 0, kills itself by
//! SIGKILL, or waits to be killed. Removes nothing.
//!
//! The second form prints "renewing PID". Every millisecond for a minute it creates a POSIX object and removes the
//! previous one. The names are the name of the first form followed by a number. With `insist` it ignores SIGINT and
//! SIGTERM.
#![expect(unsafe_code, reason = "System V IPC and mmap have no safe form")]

use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, raise};

const SIZE: usize = 4096;
const MODE: c_int = libc::IPC_CREAT | 0o600;

fn main() {
    let how: String = mpd_tests::argument(0, "exit".to_owned());
    mpd_tests::bound(mpd_tests::argument(1, 60));
    if how == "insist" {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            // SAFETY: ignoring a signal installs no handler.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }.expect("sigaction");
        }
    }
    if ["renew", "insist"].contains(&how.as_str()) {
        return renew();
    }
    let (shm, sem, msg) = (make_shm(), make_sem(), make_msg());
    let posix = format!("/dev/shm/t-ipc.{}", std::process::id());
    make_posix(&posix);
    mpd_tests::say(&format!("shm {shm} sem {sem} msg {msg} posix {posix}")).expect("stdout");
    match how.as_str() {
        "exit" => {}
        "kill" => raise(Signal::SIGKILL).expect("raise"),
        "wait" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        other => panic!("unknown way '{other}'"),
    }
}

fn make_shm() -> c_int {
    // SAFETY: plain system calls; the kernel chooses the address and nothing is written there.
    let (id, at) = unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, SIZE, MODE);
        (id, libc::shmat(id, ptr::null(), 0))
    };
    assert!(id >= 0 && at.addr() != usize::MAX, "shm: {}", std::io::Error::last_os_error());
    id
}

/// With one operation done, so that the kernel records this process as the last user.
fn make_sem() -> c_int {
    let mut raise_by_one = libc::sembuf { sem_num: 0, sem_op: 1, sem_flg: 0 };
    // SAFETY: the one operation is in a live buffer that is as long as the count says.
    let (id, done) = unsafe {
        let id = libc::semget(libc::IPC_PRIVATE, 1, MODE);
        (id, libc::semop(id, &raw mut raise_by_one, 1))
    };
    assert!(id >= 0 && done == 0, "sem: {}", std::io::Error::last_os_error());
    id
}

fn make_msg() -> c_int {
    let message: [libc::c_long; 2] = [1, 0];
    // SAFETY: the message is its type and eight bytes of text, in a live buffer of that size.
    let (id, done) = unsafe {
        let id = libc::msgget(libc::IPC_PRIVATE, MODE);
        (id, libc::msgsnd(id, message.as_ptr().cast(), 8, libc::IPC_NOWAIT))
    };
    assert!(id >= 0 && done == 0, "msg: {}", std::io::Error::last_os_error());
    id
}

fn renew() {
    let pid = std::process::id();
    mpd_tests::say(&format!("renewing {pid}")).expect("stdout");
    let mut last: Option<(String, *mut c_void)> = None;
    for number in 0_u64.. {
        let name = format!("/dev/shm/t-ipc.{pid}.{number}");
        let at = make_posix(&name);
        if let Some((name, at)) = last.replace((name, at)) {
            std::fs::remove_file(name).expect("it is there");
            // SAFETY: nothing refers to the mapping, which make_posix created with this size.
            let done = unsafe { libc::munmap(at, SIZE) };
            assert!(done == 0, "munmap: {}", std::io::Error::last_os_error());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn make_posix(name: &str) -> *mut c_void {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(name);
    let file = file.expect("a file in /dev/shm");
    file.set_len(SIZE as u64).expect("ftruncate");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, never read or written.
    let at = unsafe {
        libc::mmap(ptr::null_mut(), SIZE, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    at
}
