//! The key file of a ring: where it is, the checks of it, reading it, and creating it if it is missing.
//!
//! A reader of the key can command the ring. So a file that other users could have read or written is refused, with
//! a message that says how to repair it. [`mpd_channel::keytext`] defines the format of the text.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, RawFd};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use crypto::rand::SystemRandom;
use mpd_channel::keytext::InvalidKeyText;
use mpd_channel::{Key, KeyText};
use nix::libc;
use nix::unistd::geteuid;

use crate::adopt_inherited;
use crate::files::logging::plain;
use crate::host::names;
use crate::host::random;

/// Variable that names the key file.
pub const VARIABLE: &str = "MPD_KEY_FILE";

/// Instead of a path: the key is on standard input, not in a file.
pub const STANDARD_INPUT: &str = "-";

/// The key file of root.
pub const ROOT_PATH: &str = "/etc/mpd/key";

/// The key file of every other user, below the home directory.
pub const USER_FILE: &str = ".mpd.key";

/// Largest key file: two keys, a name, and room for comments.
pub const MAX_SIZE: u64 = 4096;

/// The key file of this process, existing or not.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

/// Whether the key file existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file existed.
    Found,
    /// The file was created by this call.
    Created,
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file is not safe, or is no key file.
    #[error("{path}: {problem}; {}", .problem.repair(.path))]
    Refused {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The name of the ring contains a character that a key file cannot hold.
    #[error("'{0}' cannot be the name of a ring: a name has letters, digits and . _ - :")]
    RingName(String),
    /// The user has no known home directory.
    #[error("no home directory is known for the key file; {ELSEWHERE}")]
    NoHome,
    /// The file cannot be read or created at its place.
    #[error("{path}: {}; {ELSEWHERE}", plain(.error))]
    Place {
        /// The key file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// Another system error.
    #[error("{path}: {error}")]
    System {
        /// The file concerned.
        path: String,
        /// The system's error.
        error: io::Error,
    },
}

/// The advice for a key file that cannot be used at its place.
const ELSEWHERE: &str = "name another key file with --key or MPD_KEY_FILE";

/// What is wrong with a key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A symbolic link.
    #[error("is a symbolic link")]
    Symlink,
    /// A directory, FIFO, socket or device.
    #[error("is not a regular file")]
    NotRegular,
    /// Another user owns the file.
    #[error("belongs to {0}")]
    Owner(String),
    /// Other users may read or write the file.
    #[error("is open to other users (mode {0:o})")]
    Mode(u32),
    /// The file has further names.
    #[error("has {0} hard links")]
    Links(u64),
    /// Larger than [`MAX_SIZE`].
    #[error("is larger than {MAX_SIZE} bytes")]
    Size,
    /// The text is not that of a key file.
    #[error("is not a key file: {0}")]
    Text(InvalidKeyText),
}

impl Problem {
    /// What the user can do about the problem.
    fn repair(&self, path: &str) -> String {
        match self {
            Self::Symlink => "put the file itself there".to_owned(),
            Self::NotRegular => "remove it, and mpdboot makes a key".to_owned(),
            Self::Owner(_) => "remove it and put a copy of your own there".to_owned(),
            Self::Mode(_) => format!(
                "run 'chmod 600 {path}'; if others may have read it, remove it on all hosts, and \
                 mpdboot makes a new key"
            ),
            Self::Links(_) => format!(
                "run 'cp {path} {path}.copy && chmod 600 {path}.copy && mv {path}.copy {path}', and \
                 remove its other names"
            ),
            Self::Size | Self::Text(_) => {
                "copy it again from another host of the ring, or remove it \
                 on all hosts, and mpdboot makes a new key"
                    .to_owned()
            }
        }
    }
}

impl KeyFile {
    /// The key file at `path`.
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The key file in force: `option` if the user named one, else the file that the environment names, else the file
    /// of the effective user.
    ///
    /// # Errors
    /// [`KeyFileError::NoHome`].
    pub fn resolve(option: Option<PathBuf>) -> Result<Self, KeyFileError> {
        option.or_else(in_environment).map_or_else(Self::of_user, |path| Ok(Self::at(path)))
    }

    /// The key file of the ring `ring` alone, beside this file. Such a ring has, or had, daemons in accounts of other
    /// users, and these must not get the key of all rings of this user.
    #[must_use]
    pub fn of_ring_alone(&self, ring: &str) -> Self {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{}", name_of(ring)));
        Self::at(self.path.with_file_name(name))
    }

    /// The key file that the daemons of `ring` use: the one of this ring alone if it exists, else this file.
    #[must_use]
    pub fn in_force(self, ring: &str) -> Self {
        let alone = self.of_ring_alone(ring);
        if fs::symlink_metadata(alone.path()).is_ok() { alone } else { self }
    }

    /// Puts this text into the file, in the place of a former one.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn replace(&self, text: &KeyText) -> Result<(), KeyFileError> {
        // Agents of one boot may share a home directory.
        let same = |found: &KeyText| found.to_text() == text.to_text();
        if self.load().is_ok_and(|found| found.as_ref().is_some_and(same)) {
            return Ok(());
        }
        // If the file cannot be written, the former one stays.
        self.write_beside(text, |temporary, _| fs::rename(temporary, &self.path))
            .map_err(|error| with_advice(system(&self.path, error)))?;
        if self.load()?.as_ref().is_some_and(same) {
            return Ok(());
        }
        Err(system(&self.path, io::Error::other("another process has just written another key")))
    }

    /// Removes the file, if it exists.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn remove(&self) -> Result<(), KeyFileError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(system(&self.path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn of_user() -> Result<Self, KeyFileError> {
        if geteuid().is_root() {
            return Ok(Self::at(ROOT_PATH.into()));
        }
        let passwd = || names::account(geteuid().as_raw()).map(|account| account.home);
        std::env::var_os("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
            .or_else(passwd)
            .map(|home| Self::at(home.join(USER_FILE)))
            .ok_or(KeyFileError::NoHome)
    }

    /// The file itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the key; `None` when there is no file.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn load(&self) -> Result<Option<KeyText>, KeyFileError> {
        let Some(text) = read_private(&self.path).map_err(with_advice)? else { return Ok(None) };
        let key = KeyText::parse(text).map_err(|e| refused(&self.path, Problem::Text(e)))?;
        Ok(Some(key))
    }

    /// Reads the key; if there is no file, creates one with a new key for `ring`. If several processes do this at
    /// once, also on hosts that share the directory, one of them makes the key and all of them return it.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn load_or_create(&self, ring: &str) -> Result<(KeyText, Origin), KeyFileError> {
        if let Some(key) = self.load()? {
            return Ok((key, Origin::Found));
        }
        self.load_or_store(&generate(ring)?)
    }

    /// Reads the key; if there is no file, creates one with this text, which another host has sent.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn load_or_store(&self, text: &KeyText) -> Result<(KeyText, Origin), KeyFileError> {
        if let Some(key) = self.load()? {
            return Ok((key, Origin::Found));
        }
        let created = self.create(text).map_err(|error| with_advice(system(&self.path, error)))?;
        let origin = if created { Origin::Created } else { Origin::Found };
        match self.load()? {
            Some(key) => Ok((key, origin)),
            None => Err(system(&self.path, io::Error::other("removed by another process"))),
        }
    }

    /// Creates the file with this text, whole or not at all; `false` if another file is there. `O_EXCL` is not reliable
    /// over NFS. `link` is, even if its answer is lost.
    fn create(&self, text: &KeyText) -> io::Result<bool> {
        self.write_beside(text, |temporary, file| {
            let linked = fs::hard_link(temporary, &self.path);
            let there = fs::symlink_metadata(&self.path);
            match (linked, there) {
                (Ok(()), _) => Ok(true),
                (Err(_), Ok(there)) => Ok(same_file(&there, &file.metadata()?)),
                (Err(error), Err(_)) => Err(error),
            }
        })
    }

    /// Writes the text to a temporary file in the same directory, which is made if it is missing, and has the file put in
    /// place.
    fn write_beside<T>(
        &self,
        text: &KeyText,
        put: impl FnOnce(&Path, &File) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(directory) = self.path.parent()
            && !directory.as_os_str().is_empty()
            && !directory.exists()
        {
            DirBuilder::new().mode(0o755).create(directory)?;
            // The file mode mask may have taken permissions from the owner.
            let mode = fs::metadata(directory)?.permissions().mode();
            fs::set_permissions(directory, Permissions::from_mode(mode | 0o700))?;
        }
        let mut name = self.temporary_prefix();
        name.push(format!("{}-{}", std::process::id(), random::hex128()?));
        let temporary = self.path.with_file_name(name);
        let result = write_new(&temporary, text).and_then(|file| put(&temporary, &file));
        // A reader that saw both names may have removed this one already.
        let _ = fs::remove_file(&temporary);
        result
    }

    /// The common beginning of the names of temporary files that will become this file.
    fn temporary_prefix(&self) -> OsString {
        let mut prefix = self.path.file_name().unwrap_or_default().to_owned();
        prefix.push(".new-");
        prefix
    }

    /// Removes the temporary name of this file. Its maker is about to remove it, or has died.
    fn forget_temporary(&self, metadata: &Metadata) {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let prefix = self.temporary_prefix();
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let ours = entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes())
                && entry.metadata().is_ok_and(|other| same_file(&other, metadata));
            if ours {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A new file with this text, which only its user may read.
fn write_new(path: &Path, text: &KeyText) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // The file mode mask may have taken permissions away.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.to_text().as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

/// The name of a ring in its key file, and in the name of the file. The ring without a name has one there.
pub const fn name_of(ring: &str) -> &str {
    if ring.is_empty() { "default" } else { ring }
}

/// A new key for `ring`, not written to a file.
///
/// # Errors
/// [`KeyFileError`] if a ring cannot have this name, or the system has no randomness.
pub fn generate(ring: &str) -> Result<KeyText, KeyFileError> {
    let key = Key::generate(&SystemRandom::new())
        .map_err(|e| system(Path::new("a new key"), io::Error::other(e)))?;
    KeyText::new(ring, key.into())
        .ok_or_else(|| KeyFileError::RingName(ring.escape_default().to_string()))
}

/// Reads a key from standard input up to its end.
///
/// # Errors
/// [`KeyFileError`].
pub fn from_standard_input() -> Result<KeyText, KeyFileError> {
    let path = Path::new("the key on standard input");
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(|error| system(path, error))?;
    let text = read(path, &File::from(stdin))?;
    KeyText::parse(text).map_err(|e| refused(path, Problem::Text(e)))
}

/// The key that an inherited descriptor has up to its end.
///
/// # Errors
/// [`KeyFileError`].
pub fn from_descriptor(number: RawFd) -> Result<KeyText, KeyFileError> {
    let path = Path::new("the key on an inherited descriptor");
    let input = adopt_inherited(number).map_err(|error| system(path, error))?;
    KeyText::parse(read(path, &File::from(input))?).map_err(|e| refused(path, Problem::Text(e)))
}

pub fn in_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Reads a small file that only this user may read; `None` if there is no file.
///
/// # Errors
/// [`KeyFileError`] unless it is a regular file of this user or of root, with one name, closed to other users, and at
/// most [`MAX_SIZE`] bytes long.
pub fn read_private(path: &Path) -> Result<Option<Vec<u8>>, KeyFileError> {
    for attempt in 0.. {
        let Some(file) = open(path)? else { return Ok(None) };
        let metadata = file.metadata().map_err(|error| system(path, error))?;
        match check(&Facts::of(&metadata), geteuid().as_raw()) {
            Ok(()) => return read(path, &file).map(Some),
            Err(Problem::Links(_)) if attempt < 2 => {
                KeyFile::at(path.to_owned()).forget_temporary(&metadata);
            }
            Err(problem) => return Err(refused(path, problem)),
        }
    }
    unreachable!("the third attempt returns")
}

/// Opens the file. Does not follow a symbolic link, and does not wait for the other end of a FIFO.
fn open(path: &Path) -> Result<Option<File>, KeyFileError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let error = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => return Ok(Some(file)),
        Err(error) => error,
    };
    match error.raw_os_error() {
        Some(libc::ENOENT) => Ok(None),
        Some(libc::ELOOP) => Err(refused(path, Problem::Symlink)),
        Some(libc::ENXIO) => Err(refused(path, Problem::NotRegular)),
        // The file cannot be read; its owner or mode may explain why.
        Some(libc::EACCES) => match fs::symlink_metadata(path) {
            Ok(there) if there.uid() != geteuid().as_raw() => {
                Err(refused(path, Problem::Owner(user_name(there.uid()))))
            }
            _ => Err(system(path, error)),
        },
        _ => Err(system(path, error)),
    }
}

fn read(path: &Path, file: &File) -> Result<Vec<u8>, KeyFileError> {
    // Large enough from the start: growing the buffer would leave copies of the key in memory.
    let mut text = Vec::with_capacity(usize::try_from(MAX_SIZE).unwrap_or(0) + 64);
    file.take(MAX_SIZE + 1).read_to_end(&mut text).map_err(|error| system(path, error))?;
    if text.len() as u64 > MAX_SIZE {
        return Err(refused(path, Problem::Size));
    }
    Ok(text)
}

/// The status of an open file.
#[derive(Clone, Copy, Debug)]
struct Facts {
    regular: bool,
    owner: u32,
    mode: u32,
    links: u64,
    size: u64,
}

impl Facts {
    fn of(metadata: &Metadata) -> Self {
        Self {
            regular: metadata.is_file(),
            owner: metadata.uid(),
            mode: metadata.mode() & 0o7777,
            links: metadata.nlink(),
            size: metadata.len(),
        }
    }
}

fn check(facts: &Facts, euid: u32) -> Result<(), Problem> {
    if !facts.regular {
        Err(Problem::NotRegular)
    } else if facts.owner != euid && facts.owner != 0 {
        Err(Problem::Owner(user_name(facts.owner)))
    } else if facts.mode & 0o077 != 0 {
        Err(Problem::Mode(facts.mode))
    } else if facts.links != 1 {
        Err(Problem::Links(facts.links))
    } else if facts.size > MAX_SIZE {
        Err(Problem::Size)
    } else {
        Ok(())
    }
}

fn same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn refused(path: &Path, problem: Problem) -> KeyFileError {
    KeyFileError::Refused { path: path.display().to_string(), problem }
}

fn system(path: &Path, error: io::Error) -> KeyFileError {
    KeyFileError::System { path: path.display().to_string(), error }
}

/// The same error with the advice to name another key file.
fn with_advice(error: KeyFileError) -> KeyFileError {
    match error {
        KeyFileError::System { path, error } => KeyFileError::Place { path, error },
        other => other,
    }
}

fn user_name(uid: u32) -> String {
    names::account(uid)
        .map_or_else(|| format!("user {uid}"), |account| format!("user {}", account.name))
}
