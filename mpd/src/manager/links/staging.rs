//! Programs on their way to hosts that lack them (`-preload`), before anything else is checked.
//!
//! The root reads its copy of each program and tells the digests down the tree. Who has a program of
//! that content where the job would look for it takes that one. Who does not says so to the manager
//! above, which sends it, in pieces, from its own file and as far as that has come: nothing is held in
//! memory but what waits for a link, a bounded amount. What is brought lies in the job's directory, and
//! goes with it.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mpd_io::digest::{Hasher, Hashing};
use mpd_io::locate;
use mpd_io::logging::plain;
use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::{Digest, Failure};
use mpd_wire::message::{Class, Down, MAX_PRELOADS, Phase, Preload, TreeKind, Up};

use super::Links;
use super::branches::{End, News};
use crate::manager::context::{Job, Turn};
use crate::manager::event::Event;

/// Bytes of a file in one frame: little enough for commands to overtake.
const PIECE: usize = 32 * 1024;

/// Bytes of files that may wait for one link.
const WINDOW: usize = 256 * 1024;

/// Pieces that are read, or sent to one, between two looks at everything else.
const PIECES_PER_TURN: usize = 16;

/// Where in the job's directory programs lie.
const PLACE: &str = "preload";

/// See the module.
#[derive(Debug, Default)]
pub(in crate::manager) struct Staging {
    files: Vec<Staged>,
    /// The file of each argset, of the whole job.
    of_argset: BTreeMap<usize, usize>,
    /// Argsets whose programs here are still to be read: all at the root, else candidates.
    unread: VecDeque<usize>,
    reading: Option<Reading>,
    /// The list from above is whole.
    listed: bool,
    /// What there is on this host is known, and the others know it.
    read: bool,
    /// What comes from above is being written.
    writing: Option<Writing>,
    /// The files that those below wait for, in order, and how much of the first has been sent.
    senders: BTreeMap<usize, Sender>,
    /// Everything that is needed here is there.
    complete: bool,
}

/// A program, by its content and name.
#[derive(Debug)]
struct Staged {
    digest: Digest,
    bytes: u64,
    /// Where it is read, here.
    path: PathBuf,
    /// How much of it is there.
    available: u64,
    /// Wanted here or below, and not there.
    lacking: bool,
}

/// A file of this host that is read for its digest.
#[derive(Debug)]
struct Reading {
    argset: usize,
    path: PathBuf,
    hashing: Hashing,
}

#[derive(Debug)]
struct Writing {
    index: usize,
    file: File,
    hasher: Hasher,
}

#[derive(Debug, Default)]
struct Sender {
    queue: VecDeque<usize>,
    open: Option<File>,
    sent: u64,
}

impl Staging {
    /// The program of an argset, if it is not where the job would look for it.
    pub(in crate::manager) fn path_of(
        &self,
        argset: usize,
        tmpdir: Option<&Path>,
    ) -> Option<&Path> {
        let file = self.files.get(*self.of_argset.get(&argset)?)?;
        tmpdir.filter(|tmpdir| file.path.starts_with(tmpdir.join(PLACE))).map(|_| &*file.path)
    }

    /// The file of this content and name, a new one if there is none.
    fn insert(&mut self, argset: usize, digest: Digest, bytes: u64, path: PathBuf) -> usize {
        let same =
            |file: &Staged| file.digest == digest && file.path.file_name() == path.file_name();
        let known = self.files.iter().position(same);
        let index = known.unwrap_or(self.files.len());
        if known.is_none() {
            let staged = Staged { digest, bytes, path, available: 0, lacking: false };
            self.files.push(staged);
        }
        self.of_argset.insert(argset, index);
        index
    }

    /// The next piece for one below, if it is there.
    fn next_piece(
        &mut self,
        place: usize,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, usize)>> {
        let Some(sender) = self.senders.get_mut(&place) else { return Ok(None) };
        loop {
            let Some(&index) = sender.queue.front() else { return Ok(None) };
            let staged = &self.files[index];
            if sender.sent == staged.bytes {
                sender.queue.pop_front();
                (sender.open, sender.sent) = (None, 0);
                continue;
            }
            let most = usize::try_from(staged.available - sender.sent).unwrap_or(PIECE).min(PIECE);
            if most == 0 {
                return Ok(None);
            }
            let file = match &mut sender.open {
                Some(file) => file,
                none => none.insert(File::open(&staged.path)?),
            };
            let n = file.read_at(&mut buffer[..most], sender.sent)?;
            if n == 0 {
                return Err(io::Error::other("it became shorter while it was read"));
            }
            sender.sent += n as u64;
            return Ok(Some((index, n)));
        }
    }

    /// One below is lost.
    pub(super) fn stop_sending(&mut self, place: usize) {
        self.senders.remove(&place);
    }

    fn has_piece(&self, sender: &Sender) -> bool {
        sender.queue.front().is_some_and(|&index| {
            let staged = &self.files[index];
            sender.sent < staged.available || sender.sent == staged.bytes
        })
    }

    fn is_all_there(&self) -> bool {
        self.read && !self.files.iter().any(|file| file.lacking)
    }
}

impl Links {
    /// The first phase begins: with the programs, if they are to be brought. `problem`: nothing can be started here.
    /// `early` is what came before the specification.
    pub(in crate::manager) fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        problem: Option<String>,
        early: Vec<News>,
    ) {
        let job = turn.job;
        if job.joined_late() {
            if let Some(problem) = problem {
                // Nothing can be started here: that is told of each world.
                log::error!("{problem}");
            }
            return early.into_iter().for_each(|news| self.take_news(turn, news));
        }
        if !job.spec.preload || job.order.shares.len() == 1 || problem.is_some() {
            return turn.report(Event::Staged(problem));
        }
        turn.begin(Phase::Preload, None);
        let mut staging = Staging::default();
        if job.is_root() {
            staging.unread = (0..job.spec.argsets.len()).collect();
        }
        self.staging = Some(staging);
        early.into_iter().for_each(|news| self.take_news(turn, news));
    }

    /// Whether there is something to read or to send without waiting.
    pub(super) fn has_staging_work(&self) -> bool {
        let Some(staging) = &self.staging else { return false };
        let sends = |(place, sender): (&usize, &Sender)| {
            staging.has_piece(sender)
                && self.branches.queued(End::Child(*place), Class::File) < WINDOW
        };
        staging.reading.is_some() || !staging.unread.is_empty() || staging.senders.iter().any(sends)
    }

    /// A turn of all that concerns programs on their way.
    pub(in crate::manager) fn stage(&mut self, turn: &mut Turn<'_>) {
        // The job may end in the middle of it.
        let Some(mut staging) = self.staging.take() else { return };
        let done = self.read_some(turn, &mut staging).and_then(|()| self.send_some(&mut staging));
        let is_over = staging.is_all_there() && !std::mem::replace(&mut staging.complete, true);
        self.staging = Some(staging);
        match done {
            Err(failure) => self.give_up_staging(turn, failure),
            Ok(()) if is_over => {
                turn.end(Phase::Preload, None);
                turn.report(Event::Staged(None));
            }
            Ok(()) => {}
        }
    }

    /// Nothing more is brought to this host, or from it to others.
    fn give_up_staging(&mut self, turn: &mut Turn<'_>, failure: Failure) {
        self.staging = None;
        turn.post(Input::StartFailed(failure));
    }

    /// Reads the programs of this host for their digests.
    fn read_some(&mut self, turn: &Turn<'_>, staging: &mut Staging) -> Result<(), Failure> {
        for _ in 0..PIECES_PER_TURN {
            if let Some(reading) = &mut staging.reading {
                let argset = reading.argset;
                match reading.hashing.step(&mut self.buffer) {
                    Ok(None) => {}
                    Ok(Some((digest, bytes))) => {
                        let path = std::mem::take(&mut reading.path);
                        staging.reading = None;
                        program_read(turn.job, staging, argset, path, (digest, bytes))?;
                    }
                    Err(e) if turn.job.is_root() => return Err(unreadable(turn.job, argset, &e)),
                    // Whatever it is, it is none of that content.
                    Err(_) => staging.reading = None,
                }
            } else if let Some(argset) = staging.unread.pop_front() {
                staging.reading = open_program(turn.job, staging, argset)?;
            } else {
                if (turn.job.is_root() || staging.listed) && !staging.read {
                    staging.read = true;
                    self.all_read(turn, staging)?;
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// What there is on this host is known: the root tells what there is to have, the others what they
    /// lack.
    fn all_read(&mut self, turn: &Turn<'_>, staging: &mut Staging) -> Result<(), Failure> {
        if turn.job.is_root() {
            self.tell_list(staging);
            return Ok(());
        }
        let lacking: Vec<u32> = (0..)
            .zip(&staging.files)
            .filter(|(_, file)| file.lacking)
            .map(|(index, _)| index)
            .collect();
        for index in &lacking {
            // An empty one has no pieces.
            let file = &mut staging.files[*index as usize];
            create(&file.path).map_err(|e| cannot_write(&file.path, &e))?;
            file.lacking = file.bytes > 0;
        }
        if !lacking.is_empty() {
            self.branches.send_up(&Up::Lacks { files: lacking });
        }
        Ok(())
    }

    fn tell_list(&mut self, staging: &Staging) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let all: Vec<Preload> = (staging.of_argset.iter())
            .map(|(&argset, &index)| Preload {
                argset: number(argset),
                file: number(index),
                digest: staging.files[index].digest,
                bytes: staging.files[index].bytes,
            })
            .collect();
        let parts = all.chunks(MAX_PRELOADS);
        let last = parts.len().saturating_sub(1);
        for (part, files) in parts.enumerate() {
            let (files, more) = (files.to_vec(), part < last);
            self.branches.send_down_all(&Down::Preloads { files, more });
        }
    }

    /// The list came from above: it goes on down, and what is needed here is looked for.
    pub(super) fn take_list(&mut self, turn: &Turn<'_>, files: Vec<Preload>, more: bool) {
        let Some(mut staging) = self.staging.take() else { return };
        let tmpdir = turn.job.directory.as_deref().unwrap_or(Path::new(""));
        self.branches.send_down_all(&Down::Preloads { files: files.clone(), more });
        for Preload { argset, file, digest, bytes } in files {
            let (argset, index) = (argset as usize, file as usize);
            let Some(spec) = turn.job.spec.argsets.get(argset) else { continue };
            let name = Path::new(OsStr::from_bytes(&spec.program)).file_name();
            let path = tmpdir.join(PLACE).join(digest.to_string()).join(name.unwrap_or_default());
            // Files come in the order of their numbers, and argsets share them.
            if index == staging.files.len() && index < MAX_PRELOADS {
                let file = Staged { digest, bytes, path, available: 0, lacking: false };
                staging.files.push(file);
            }
            if index < staging.files.len() {
                staging.of_argset.insert(argset, index);
            }
        }
        if !more {
            staging.listed = true;
            let wanted: Vec<usize> = argsets_below(turn.job);
            for argset in &wanted {
                if let Some(index) = staging.of_argset.get(argset) {
                    staging.files[*index].lacking = true;
                }
            }
            staging.unread = wanted.into();
        }
        self.staging = Some(staging);
    }

    /// One below lacks these files.
    pub(super) fn take_lacks(&mut self, place: usize, files: Vec<u32>) {
        let Some(staging) = &mut self.staging else { return };
        let known = staging.files.len();
        let sender = staging.senders.entry(place).or_default();
        if sender.queue.is_empty() {
            sender.queue = files.into_iter().map(|f| f as usize).filter(|f| *f < known).collect();
        }
    }

    fn send_some(&mut self, staging: &mut Staging) -> Result<(), Failure> {
        let places: Vec<usize> = staging.senders.keys().copied().collect();
        for place in places {
            for _ in 0..PIECES_PER_TURN {
                if self.branches.queued(End::Child(place), Class::File) >= WINDOW {
                    break;
                }
                match staging.next_piece(place, &mut self.buffer[4..]) {
                    Ok(None) => break,
                    Ok(Some((index, n))) => {
                        let number = u32::try_from(index).unwrap_or(u32::MAX);
                        self.buffer[..4].copy_from_slice(&number.to_be_bytes());
                        let piece = &self.buffer[..4 + n];
                        self.branches.send_bytes(End::Child(place), TreeKind::File, piece);
                    }
                    Err(e) => {
                        let file = staging.senders[&place].queue.front();
                        let path = file.map(|index| staging.files[*index].path.display());
                        let path = path.map(|path| path.to_string()).unwrap_or_default();
                        let problem = format!("cannot preload {path}: {}", plain(&e));
                        return Err(Failure::Suite { problem });
                    }
                }
            }
        }
        Ok(())
    }

    /// A piece of a file came from above.
    pub(super) fn take_piece(&mut self, turn: &mut Turn<'_>, frame: &[u8]) {
        let Some(staging) = &mut self.staging else { return };
        let Some((number, piece)) = frame.split_first_chunk() else { return };
        let index = u32::from_be_bytes(*number) as usize;
        if let Err(failure) = staging.write(index, piece) {
            self.give_up_staging(turn, failure);
        }
    }
}

/// The program that an argset would run here. The root must have it.
fn open_program(
    job: &Job,
    staging: &mut Staging,
    argset: usize,
) -> Result<Option<Reading>, Failure> {
    let spec = &job.spec.argsets[argset];
    let directory = Path::new(OsStr::from_bytes(&spec.directory));
    let found =
        locate::program(spec).map(|program| directory.join(OsStr::from_bytes(&program.path)));
    if job.is_root() {
        let path = found.map_err(|unusable| cannot_run(job, argset, unusable))?;
        if let Some(index) = staging.files.iter().position(|file| file.path == path) {
            staging.of_argset.insert(argset, index);
            return Ok(None);
        }
        let hashing = Hashing::begin(&path).map_err(|e| unreadable(job, argset, &e))?;
        return Ok(Some(Reading { argset, path, hashing }));
    }
    let wanted = staging.of_argset.get(&argset).and_then(|index| staging.files.get(*index));
    let wanted = wanted.filter(|file| file.lacking);
    let (Ok(path), Some(wanted)) = (found, wanted) else { return Ok(None) };
    let is_as_long = fs::metadata(&path).is_ok_and(|data| data.len() == wanted.bytes);
    let hashing = Hashing::begin(&path).ok().filter(|_| is_as_long);
    Ok(hashing.map(|hashing| Reading { argset, path, hashing }))
}

fn program_read(
    job: &Job,
    staging: &mut Staging,
    argset: usize,
    path: PathBuf,
    (digest, bytes): (Digest, u64),
) -> Result<(), Failure> {
    if job.is_root() {
        let index = staging.insert(argset, digest, bytes, path);
        staging.files[index].available = bytes;
        if staging.files.len() > MAX_PRELOADS {
            let problem = format!("more than {MAX_PRELOADS} programs cannot be preloaded");
            return Err(Failure::Suite { problem });
        }
    } else if let Some(&index) = staging.of_argset.get(&argset) {
        let file = &mut staging.files[index];
        if file.digest == digest {
            *file = Staged { path, available: bytes, lacking: false, ..*file };
        }
    }
    Ok(())
}

/// Argsets that run here or below.
fn argsets_below(job: &Job) -> Vec<usize> {
    let ranks = job.order.shares.ranks_below(job.place());
    let mut first = 0;
    let mut argsets = Vec::new();
    for (number, argset) in job.spec.argsets.iter().enumerate() {
        let end = first + argset.size;
        let at = ranks.ranges().partition_point(|range| range.1 < first);
        if ranks.ranges().get(at).is_some_and(|range| range.0 < end) {
            argsets.push(number);
        }
        first = end;
    }
    argsets
}

fn cannot_run(job: &Job, argset: usize, unusable: locate::Unusable) -> Failure {
    let before = job.spec.argsets.iter().take(argset).map(|argset| argset.size);
    Failure::CannotExecute {
        rank: Rank(before.sum()),
        program: String::from_utf8_lossy(&job.spec.argsets[argset].program).into_owned(),
        problem: unusable.problem,
        missing: unusable.missing,
    }
}

fn unreadable(job: &Job, argset: usize, error: &io::Error) -> Failure {
    let problem = format!("cannot be read, which -preload has to: {}", plain(error));
    cannot_run(job, argset, locate::Unusable { problem, missing: false })
}

impl Staging {
    /// Writes a piece of a file that is lacking here. One that nobody asked for is ignored.
    fn write(&mut self, index: usize, piece: &[u8]) -> Result<(), Failure> {
        let Some(staged) = self.files.get_mut(index).filter(|file| file.lacking) else {
            return Ok(());
        };
        let problem = |e: &io::Error| cannot_write(&staged.path, e);
        let writing = match &mut self.writing {
            Some(writing) if writing.index == index => writing,
            other => {
                let file = OpenOptions::new().write(true).open(&staged.path);
                let file = file.map_err(|e| problem(&e))?;
                other.insert(Writing { index, file, hasher: Hasher::default() })
            }
        };
        writing.file.write_all(piece).map_err(|e| problem(&e))?;
        writing.hasher.update(piece);
        staged.available = writing.hasher.bytes();
        if staged.available < staged.bytes {
            return Ok(());
        }
        staged.lacking = false;
        // Nobody executes a file that is open for writing.
        let hasher = self.writing.take().map(|writing| writing.hasher);
        if staged.available > staged.bytes || hasher.map(Hasher::finish) != Some(staged.digest) {
            let path = staged.path.display();
            let problem = format!("{path}: the program changed while it was being preloaded");
            return Err(Failure::Suite { problem });
        }
        Ok(())
    }
}

/// An empty file that its owner may execute, in a directory of its own.
fn create(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o700).open(path).map(drop)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Suite { problem: format!("cannot write {}: {}", path.display(), plain(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(content: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.finish()
    }

    /// Two managers, the second of which lacks a file that the first has.
    fn pair(directory: &Path, content: &[u8], digest: Digest) -> (Staging, Staging) {
        let there = directory.join("there");
        fs::write(&there, content).unwrap();
        let bytes = content.len() as u64;
        let staged = |path, available, lacking| Staged { digest, bytes, path, available, lacking };
        let mut above = Staging::default();
        above.files.push(staged(there, bytes, false));
        above.senders.entry(1).or_default().queue.push_back(0);
        let mut below = Staging { read: true, ..Staging::default() };
        let here = directory.join("new/here");
        create(&here).unwrap();
        below.files.push(staged(here, 0, true));
        (above, below)
    }

    #[test]
    fn a_file_travels_piece_by_piece_and_is_the_same_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let (mut above, mut below) = pair(directory.path(), &content, digest_of(&content));
        let mut buffer = vec![0; PIECE];
        while let Some((index, n)) = above.next_piece(1, &mut buffer).unwrap() {
            assert!(!below.is_all_there());
            below.write(index, &buffer[..n]).unwrap();
        }
        assert!(below.is_all_there() && !above.has_piece(&above.senders[&1]));
        assert_eq!(fs::read(&below.files[0].path).unwrap(), content);
        below.write(0, b"more").unwrap();
        assert_eq!(fs::read(&below.files[0].path).unwrap(), content, "nobody asked for more");
    }

    #[test]
    fn a_manager_in_the_middle_sends_no_more_than_has_come() {
        let directory = tempfile::tempdir().unwrap();
        let (mut above, _) = pair(directory.path(), &[7; 1000], digest_of(&[7; 1000]));
        above.files[0].available = 300;
        let mut buffer = vec![0; PIECE];
        assert_eq!(above.next_piece(1, &mut buffer).unwrap(), Some((0, 300)));
        assert_eq!(above.next_piece(1, &mut buffer).unwrap(), None);
        above.files[0].available = 1000;
        assert_eq!(above.next_piece(1, &mut buffer).unwrap(), Some((0, 700)));
    }

    #[test]
    fn what_is_not_what_was_announced_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mut above, mut below) = pair(directory.path(), b"other", digest_of(b"wanted"));
        let refused = below.write(0, b"other").unwrap_err();
        assert!(refused.to_string().contains("changed"), "{refused}");
        fs::write(&above.files[0].path, b"").unwrap();
        assert!(above.next_piece(1, &mut [0; 9]).is_err(), "it became shorter");
    }
}
