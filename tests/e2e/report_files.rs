//! The files that `mpirun` writes for its user, when they cannot be written.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;

use crate::suite::Suite;

const OPTIONS: [&str; 4] = ["-status-file", "-ecfn", "-trace-startup", "-proctable"];

fn fifo(suite: &Suite) -> PathBuf {
    let path = suite.path("fifo");
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("mkfifo");
    path
}

/// A reader that does not read, of a FIFO that is full.
fn full(path: &Path) -> File {
    let flags = libc::O_NONBLOCK;
    let mut file =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    loop {
        match file.write(&[b'x'; 4096]) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return file,
            Err(e) => panic!("cannot fill the FIFO: {e}"),
        }
    }
}

#[test]
fn an_unwritable_report_file_gives_one_line_and_125() {
    let suite = Suite::new();
    for (file, reason) in
        [("/dev/full", "No space left on device"), ("/no/such/file", "No such file or directory")]
    {
        for option in OPTIONS {
            let output = suite.mpirun([option, file, "echo", "ran"]).output();
            output.code(125).prints("ran\n");
            assert_eq!(output.err(), format!("mpirun: cannot write {file}: {reason}\n"));
        }
    }
}

#[test]
fn a_failed_job_keeps_its_code_with_a_line_for_each_unwritable_file() {
    let suite = Suite::new();
    let options = OPTIONS.map(|option| [option, "/dev/full"]).concat();
    let output = suite.mpirun(options).args(["sh", "-c", "exit 3"]).output();
    let lines = output.err();
    let count = lines.lines().filter(|line| line.contains("cannot write /dev/full: ")).count();
    assert_eq!(count, OPTIONS.len(), "{output}");
    output.code(3);
}

#[test]
fn a_fifo_without_a_reader_is_refused_as_a_report_file() {
    let suite = Suite::new();
    let path = fifo(&suite);
    for option in OPTIONS {
        let output = suite.mpirun([option, &path.display().to_string(), "true"]).output();
        let said = format!("mpirun: cannot write {}: no process reads this FIFO\n", path.display());
        assert_eq!(output.code(125).err(), said);
    }
}

#[test]
fn mpirun_does_not_wait_forever_for_the_reader_of_a_fifo() {
    let suite = Suite::new();
    let path = fifo(&suite);
    let _reader = full(&path);
    let options = OPTIONS.map(|option| vec![option.to_owned(), path.display().to_string()]);
    // Ranks continue to run while the process table waits for its reader.
    let output = suite.mpirun(options.concat()).args(["echo", "ran"]).output();
    output.code(125).prints("ran\n");
    let said = format!("cannot write {}: its reader did not read all of it", path.display());
    let count = output.err().lines().filter(|line| line.contains(&said)).count();
    assert_eq!(count, OPTIONS.len(), "{output}");
}
