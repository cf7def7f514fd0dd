//! A terminal with a shell: tests press keys and read the screen.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::run::{Running, comes_true};
use crate::suite::Suite;

pub(crate) const INTERRUPT: &str = "\x03";
pub(crate) const END_OF_FILE: &str = "\x04";
pub(crate) const SUSPEND: &str = "\x1a";

/// What the shell prints when it waits for a command.
const PROMPT: &str = "READY> ";

/// An interactive shell on its own terminal.
pub(crate) struct Terminal {
    master: Option<PtyMaster>,
    shell: Running,
    screen: Arc<Mutex<Vec<u8>>>,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    seen: usize,
}

impl Terminal {
    /// bash with job control. `$MPIRUN` is the program, `$T` the directory of the helpers, `$D` the directory
    /// argument.
    pub(crate) fn with_shell(suite: &Suite, directory: &str) -> Self {
        let (master, name) = open();
        let helpers = suite.program("t-run").trim_end_matches("/t-run").to_owned();
        let shell = suite
            .command(suite.program("t-run"))
            .arg(format!("tty={name}"))
            .args(["bash", "--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", PROMPT)
            .env("TERM", "dumb")
            .env("MPIRUN", suite.program("mpirun"))
            .env("T", helpers)
            .env("D", directory)
            .start();
        let screen = Arc::default();
        let closing = Arc::default();
        let copy = master.as_fd().try_clone_to_owned().expect("a descriptor");
        let reader = spawn_reader(copy.into(), Arc::clone(&screen), Arc::clone(&closing));
        let (master, reader) = (Some(master), Some(reader));
        let mut terminal = Self { master, shell, screen, closing, reader, seen: 0 };
        terminal.shows(PROMPT);
        terminal
    }

    /// Presses these keys.
    pub(crate) fn press(&mut self, keys: &str) {
        let master = self.master.as_mut().expect("the terminal is there until the end");
        master.write_all(keys.as_bytes()).expect("writing to a terminal");
    }

    /// Changes the size of its window.
    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        let master = self.master.as_ref().expect("the terminal is there until the end");
        mpd_io::terminal::pty::resize(master.as_fd(), (columns, lines))
            .expect("the size of a terminal");
    }

    /// Types a command and the return key.
    pub(crate) fn enter(&mut self, command: &str) {
        self.press(&format!("{command}\n"));
    }

    /// Waits until this text is on the screen, after all texts of earlier waits.
    pub(crate) fn shows(&mut self, text: &str) {
        let mut found = None;
        comes_true(Duration::from_secs(20), || {
            let screen = self.screen();
            found = screen[self.seen.min(screen.len())..].find(text);
            found.is_some()
        });
        let screen = self.screen();
        let at = found.unwrap_or_else(|| panic!("'{text}' is not on the screen:\n{screen}"));
        self.seen += at + text.len();
    }

    /// Waits for the shell's prompt.
    pub(crate) fn shows_prompt(&mut self) {
        self.shows(PROMPT);
    }

    /// What is on the screen from this command to the next prompt, without carriage returns.
    pub(crate) fn ran(&mut self, command: &str) -> String {
        let before = self.screen().len();
        self.enter(command);
        self.shows_prompt();
        // The terminal has echoed the command.
        let text = self.screen().split_off(before);
        text.split_once('\n').map_or(String::new(), |(_, output)| output.to_owned())
    }

    /// The exit code of the last command in the view of the shell. Call it after `shows_prompt`.
    pub(crate) fn exit_code(&mut self) -> i32 {
        self.enter("echo \"code\"=$?.");
        self.shows("code=");
        let mut code = None;
        comes_true(Duration::from_secs(20), || {
            let rest = self.screen().split_off(self.seen);
            code = rest.split_once('.').and_then(|(number, _)| number.parse().ok());
            code.is_some()
        });
        self.shows_prompt();
        code.expect("an exit code on the screen")
    }

    /// The whole text that was ever on the screen, without carriage returns.
    pub(crate) fn screen(&self) -> String {
        let bytes = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    /// Ends the shell by its own command.
    pub(crate) fn leave(mut self) {
        self.enter("exit");
        let ended = comes_true(Duration::from_secs(10), || self.shell.has_ended());
        assert!(ended, "the shell does not exit:\n{}", self.screen());
    }

    /// Closes the terminal while programs run in it.
    pub(crate) fn hang_up(mut self) {
        self.close();
        let ended = comes_true(Duration::from_secs(10), || self.shell.has_ended());
        assert!(ended, "the shell has outlived its terminal");
    }

    fn close(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
    }
}

/// A new terminal: its master side, and the name of its slave side.
pub(crate) fn open() -> (PtyMaster, String) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC);
    let master = master.expect("a terminal");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname_r(&master).expect("the name of a terminal");
    (master, name)
}

/// Never blocks in a read, so that it can close the terminal.
fn spawn_reader(
    mut terminal: std::fs::File,
    screen: Arc<Mutex<Vec<u8>>>,
    closing: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while !closing.load(Ordering::Relaxed) {
            let mut waiting = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
            if poll(&mut waiting, PollTimeout::from(10_u8)) != Ok(1) {
                continue;
            }
            let Ok(count @ 1..) = terminal.read(&mut buffer) else {
                // No process has the slave side open: not yet, or no longer.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
            screen.extend_from_slice(&buffer[..count]);
        }
    })
}
