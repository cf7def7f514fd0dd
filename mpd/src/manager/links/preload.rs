//! The turns of a manager while programs are on their way (`-preload`); see [`super::staging`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mpd_io::files::digest::Hashing;
use mpd_io::files::logging::plain;
use mpd_io::process::locate;
use mpd_job::manager::Input;
use mpd_manager::News;
use mpd_wire::Rank;
use mpd_wire::job::{Digest, Failure, Unusable};
use mpd_wire::message::{Class, Down, MAX_PRELOADS, Phase, Preload, TreeKind, Up};

use super::Links;
use super::branches::LinkEnd;
use super::staging::{DIRECTORY, Reading, Sender, Staged, Staging, cannot_write, create};
use crate::manager::context::{Job, Turn};
use crate::manager::event::Event;

/// Most bytes of files that wait for one link.
const WINDOW: usize = 256 * 1024;

/// Most pieces that are read, or sent to one child, in one turn.
const PIECES_PER_TURN: usize = 16;

impl Links {
    /// Begins the first phase: brings the programs if the job preloads them. `problem`: why nothing can be started
    /// here. `early`: news of the parent that arrived before the specification.
    pub(in crate::manager) fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        problem: Option<String>,
        early: Vec<News>,
    ) {
        let job = turn.job;
        if job.joined_late() {
            if let Some(problem) = problem {
                // The problem is reported for each world.
                log::error!("{problem}");
            }
            return early.into_iter().for_each(|news| turn.report(Event::News(news)));
        }
        if !job.spec.preload || job.order.host_slices.len() == 1 || problem.is_some() {
            return begin_checks(turn, problem);
        }
        turn.begin(Phase::Preload, None);
        let mut staging = Staging::default();
        if job.is_root() {
            staging.unread = (0..job.spec.argsets.len()).collect();
        }
        self.staging = Some(staging);
        early.into_iter().for_each(|news| turn.report(Event::News(news)));
    }

    /// Whether pieces can be read or sent without waiting.
    pub(super) fn has_staging_work(&self) -> bool {
        let Some(staging) = &self.staging else { return false };
        let sends = |(tree_index, sender): (&usize, &Sender)| {
            staging.has_piece(sender)
                && self.branches.queued(LinkEnd::Child(*tree_index), Class::File) < WINDOW
        };
        staging.reading.is_some() || !staging.unread.is_empty() || staging.senders.iter().any(sends)
    }

    /// Reads, receives and sends pieces for one turn.
    pub(in crate::manager) fn stage(&mut self, turn: &mut Turn<'_>) {
        // The job may end during this turn.
        let Some(mut staging) = self.staging.take() else { return };
        let done = self.read_some(turn, &mut staging).and_then(|()| self.send_some(&mut staging));
        if turn.job.is_root()
            && let Some(news) = staging.report(turn.now())
        {
            turn.report(news);
        }
        let is_over = staging.has_all_files() && !std::mem::replace(&mut staging.complete, true);
        self.staging = Some(staging);
        match done {
            Err(failure) => self.give_up_staging(turn, failure),
            Ok(()) if is_over => {
                turn.end(Phase::Preload, None);
                begin_checks(turn, None);
            }
            Ok(()) => {}
        }
    }

    /// Ends the bringing of programs to this host and from it, and fails the start.
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
                    // An unreadable file does not have that content.
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

    /// Sends a list after all programs of this host are read. The root announces its programs; another manager
    /// requests the files that it lacks.
    fn all_read(&mut self, turn: &Turn<'_>, staging: &mut Staging) -> Result<(), Failure> {
        if turn.job.is_root() {
            self.report_list(staging);
            return Ok(());
        }
        let lacking: Vec<u32> = (0..)
            .zip(&staging.files)
            .filter(|(_, file)| file.lacking)
            .map(|(index, _)| index)
            .collect();
        for index in &lacking {
            // An empty file has no pieces.
            let file = &mut staging.files[*index as usize];
            create(&file.path).map_err(|e| cannot_write(&file.path, &e))?;
            file.lacking = file.bytes > 0;
        }
        if !lacking.is_empty() {
            self.branches.send_up(&Up::Lacks { files: lacking });
        }
        Ok(())
    }

    fn report_list(&mut self, staging: &Staging) {
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

    /// Takes a part of the list from the parent, passes it on to the children, and looks for needed files here.
    pub(in crate::manager) fn take_list(
        &mut self,
        turn: &Turn<'_>,
        files: Vec<Preload>,
        more: bool,
    ) {
        let Some(mut staging) = self.staging.take() else { return };
        let tmpdir = turn.job.directory.as_deref().unwrap_or(Path::new(""));
        self.branches.send_down_all(&Down::Preloads { files: files.clone(), more });
        for Preload { argset, file, digest, bytes } in files {
            let (argset, index) = (argset as usize, file as usize);
            let Some(spec) = turn.job.spec.argsets.get(argset) else { continue };
            let name = Path::new(OsStr::from_bytes(&spec.program)).file_name();
            let path =
                tmpdir.join(DIRECTORY).join(digest.to_string()).join(name.unwrap_or_default());
            // Files are listed in the order of their numbers, and argsets share them.
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
            let wanted: Vec<usize> = argsets_of_subtree(turn.job);
            for argset in &wanted {
                if let Some(index) = staging.of_argset.get(argset) {
                    staging.files[*index].lacking = true;
                }
            }
            staging.unread = wanted.into();
        }
        self.staging = Some(staging);
    }

    /// Queues the files that a child lacks.
    pub(in crate::manager) fn take_lacks(&mut self, tree_index: usize, files: Vec<u32>) {
        let Some(staging) = &mut self.staging else { return };
        let known = staging.files.len();
        let sender = staging.senders.entry(tree_index).or_default();
        if sender.queue.is_empty() {
            sender.queue = files.into_iter().map(|f| f as usize).filter(|f| *f < known).collect();
            let bytes = sender.queue.iter().map(|&index| staging.files[index].bytes);
            staging.progress.bytes += bytes.sum::<u64>();
        }
    }

    fn send_some(&mut self, staging: &mut Staging) -> Result<(), Failure> {
        let tree_indices: Vec<usize> = staging.senders.keys().copied().collect();
        for tree_index in tree_indices {
            for _ in 0..PIECES_PER_TURN {
                if self.branches.queued(LinkEnd::Child(tree_index), Class::File) >= WINDOW {
                    break;
                }
                match staging.next_piece(tree_index, &mut self.buffer[4..]) {
                    Ok(None) => break,
                    Ok(Some((index, n))) => {
                        let number = u32::try_from(index).unwrap_or(u32::MAX);
                        self.buffer[..4].copy_from_slice(&number.to_be_bytes());
                        let piece = &self.buffer[..4 + n];
                        self.branches.send_bytes(LinkEnd::Child(tree_index), TreeKind::File, piece);
                    }
                    Err(e) => {
                        let file = staging.senders[&tree_index].queue.front();
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

    /// Writes a piece of a file from the parent.
    pub(in crate::manager) fn take_piece(&mut self, turn: &mut Turn<'_>, frame: &[u8]) {
        let Some(staging) = &mut self.staging else { return };
        let Some((number, piece)) = frame.split_first_chunk() else { return };
        let index = u32::from_be_bytes(*number) as usize;
        if let Err(failure) = staging.write(index, piece) {
            self.give_up_staging(turn, failure);
        }
    }
}

/// Opens the program that an argset would run here. Fails if the root does not have it.
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

/// The argsets that run in this subtree.
fn argsets_of_subtree(job: &Job) -> Vec<usize> {
    let ranks = job.order.host_slices.subtree_ranks(job.tree_index());
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

/// The programs to be brought have arrived; or why nothing can be started.
fn begin_checks(turn: &mut Turn<'_>, problem: Option<String>) {
    turn.begin(Phase::Checks, None);
    turn.report(mpd_ranks::Input::Check(problem));
}

fn cannot_run(job: &Job, argset: usize, unusable: Unusable) -> Failure {
    let before = job.spec.argsets.iter().take(argset).map(|argset| argset.size);
    Failure::CannotExecute {
        rank: Rank(before.sum()),
        program: String::from_utf8_lossy(&job.spec.argsets[argset].program).into_owned(),
        problem: unusable.problem,
        missing: unusable.missing,
    }
}

fn unreadable(job: &Job, argset: usize, error: &io::Error) -> Failure {
    let problem = format!("cannot be read, but -preload needs that: {}", plain(error));
    cannot_run(job, argset, Unusable { problem, missing: false })
}
