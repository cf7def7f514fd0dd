//! Files for the user: `-status-file`, `-ecfn`, `-trace-startup` and `-proctable`. A FIFO or a
//! terminal with a slow reader causes a delay of at most [`PATIENCE`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::clock::Clock;
use mpd_io::files::logging::plain;
use mpd_io::files::own_file::open_behind_links;
use mpd_io::wait::wait;
use mpd_sansio::Time;
use nix::poll::{PollFd, PollFlags};

/// Time for the reader of a file to read all of it.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The files of one job.
#[derive(Debug)]
pub struct Reports {
    clock: Clock,
    unfinished: Vec<Report>,
    problems: Vec<String>,
    failed: bool,
}

impl Default for Reports {
    fn default() -> Self {
        let clock = Clock::start();
        Self { clock, unfinished: Vec::new(), problems: Vec::new(), failed: false }
    }
}

impl Reports {
    /// Writes as much of a file as possible without waiting.
    pub fn write(&mut self, path: &Path, text: String) {
        let until = self.clock.now() + PATIENCE;
        match Report::open(path, text, until) {
            Ok(report) => self.unfinished.push(report),
            Err(error) => self.note(path, &error),
        }
        self.resume();
    }

    /// Continues to write incomplete files.
    pub fn resume(&mut self) {
        let now = self.clock.now();
        for mut report in std::mem::take(&mut self.unfinished) {
            match report.resume(now) {
                Ok(false) => self.unfinished.push(report),
                Ok(true) => {
                    // Some file systems report errors of earlier writes only now.
                    if let Err(error) = nix::unistd::close(report.file) {
                        self.note(&report.path, &error.into());
                    }
                }
                Err(error) => self.note(&report.path, &error),
            }
        }
    }

    /// Whether a file is incomplete, so that [`Self::resume`] should be called soon.
    pub const fn is_waiting(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Waits until all files are complete or given up.
    pub fn finish(&mut self) {
        while let Some(until) = self.unfinished.iter().map(|report| report.until).min() {
            let writable = |report| PollFd::new(File::as_fd(report), PollFlags::POLLOUT);
            let mut files: Vec<_> = self.unfinished.iter().map(|r| writable(&r.file)).collect();
            let _ = wait(&mut files, Some(self.clock.until(until)));
            self.resume();
        }
    }

    /// The new problems: which file cannot be written, and why.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// Whether a file could not be written.
    pub const fn have_failed(&self) -> bool {
        self.failed
    }

    fn note(&mut self, path: &Path, error: &io::Error) {
        self.failed = true;
        self.problems.push(format!("cannot write {}: {}", path.display(), plain(error)));
    }
}

/// A file that is being written.
#[derive(Debug)]
struct Report {
    path: PathBuf,
    file: File,
    text: Vec<u8>,
    written: usize,
    until: Time,
}

impl Report {
    fn open(path: &Path, text: String, until: Time) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = open_behind_links(&mut options, flags, path).map_err(|error| {
            let is_fifo = path.metadata().is_ok_and(|about| about.file_type().is_fifo());
            match error.raw_os_error() {
                Some(libc::ENXIO) if is_fifo => io::Error::other("no process reads this FIFO"),
                _ => error,
            }
        })?;
        Ok(Self { path: path.to_owned(), file, text: text.into_bytes(), written: 0, until })
    }

    /// Continues to write. Returns whether the file is complete.
    fn resume(&mut self, now: Time) -> io::Result<bool> {
        while self.written < self.text.len() {
            match self.file.write(&self.text[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && now < self.until => {
                    return Ok(false);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let seconds = PATIENCE.as_secs();
                    let problem = format!("its reader did not read all of it within {seconds} s");
                    return Err(io::Error::other(problem));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;

    use super::*;

    /// More bytes than a FIFO holds.
    const MUCH: usize = 1 << 20;

    fn problems(path: &Path, text: &str) -> Vec<String> {
        let mut reports = Reports::default();
        reports.write(path, text.to_owned());
        reports.finish();
        let problems = reports.take_problems();
        assert_eq!(reports.have_failed(), !problems.is_empty());
        assert!(reports.take_problems().is_empty(), "once");
        problems
    }

    fn fifo() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        (directory, path)
    }

    fn reader(path: &Path) -> File {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
    }

    #[test]
    fn a_file_is_truncated_before_the_text_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "something longer").unwrap();
        assert_eq!(problems(&path, "text\n"), [""; 0]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text\n");
    }

    #[test]
    fn a_file_that_cannot_be_made_or_written_is_reported_with_the_reason() {
        let cases = [
            ("/no/such/file", "No such file or directory"),
            ("/", "Is a directory"),
            ("/dev/full", "No space left on device"),
        ];
        for (path, reason) in cases {
            let said = format!("cannot write {path}: {reason}");
            assert_eq!(problems(Path::new(path), "text"), [said]);
        }
    }

    #[test]
    fn a_fifo_without_a_reader_is_refused_and_a_socket_has_another_error() {
        let (directory, path) = fifo();
        let said = format!("cannot write {}: no process reads this FIFO", path.display());
        assert_eq!(problems(&path, "text"), [said]);
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let said = format!("cannot write {}: No such device or address", socket.display());
        assert_eq!(problems(&socket, "text"), [said]);
    }

    #[test]
    fn mpirun_does_not_wait_forever_for_the_reader_of_a_fifo() {
        let (_directory, path) = fifo();
        let _reader = reader(&path);
        let said = "its reader did not read all of it within 2 s";
        let said = format!("cannot write {}: {said}", path.display());
        assert_eq!(problems(&path, &"x".repeat(MUCH)), [said]);
    }

    #[test]
    fn a_fifo_whose_reader_leaves_is_reported() {
        let (_directory, path) = fifo();
        let mut reports = Reports::default();
        let reader = reader(&path);
        reports.write(&path, "x".repeat(MUCH));
        assert!(reports.is_waiting());
        drop(reader);
        reports.finish();
        let said = format!("cannot write {}: Broken pipe", path.display());
        assert_eq!(reports.take_problems(), [said]);
    }

    #[test]
    fn a_reader_gets_more_than_a_fifo_holds_while_other_files_are_written() {
        let (directory, path) = fifo();
        let mut reports = Reports::default();
        let text = "0123456789abcdef".repeat(MUCH / 16);
        let reading = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        // The reader opens the FIFO at any time.
        let writer = File::options().write(true).open(&path).unwrap();
        reports.write(&path, text.clone());
        drop(writer);
        let other = directory.path().join("file");
        reports.write(&other, "other".to_owned());
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        reports.finish();
        assert_eq!(reports.take_problems(), [""; 0]);
        assert!(reading.join().unwrap() == text);
    }
}
