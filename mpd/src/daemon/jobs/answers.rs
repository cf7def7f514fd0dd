//! Answers to the questions of the table: system calls, and reads of `/proc` and of records.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, Result};
use mpd_io::host::random;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::identity::{number_of, process_of};
use mpd_io::process::oom;
use mpd_io::process::sweep;
use mpd_io::process::tree;
use mpd_jobtable::{Answer, DeadManager, Question, RecordState};
use mpd_leftovers::record::JobRecord;
use mpd_wire::frame::Kind;
use mpd_wire::message::ManagerOrder;
use mpd_wire::{JobId, Pid};
use nix::unistd::getsid;

use super::fork_server::ForkServer;
use super::{Jobs, Lent, start, text};

impl Jobs {
    /// Answers a question of the table.
    pub(crate) fn answer(&mut self, question: Question, lent: &Lent<'_>) -> Answer {
        match question {
            Question::MakeGroup => {
                // All users can read the name.
                let name = random::hex128().map(|random| format!("mpd-{random}"));
                self.group = name.ok().and_then(|name| Cgroup::create(&name));
                let path = self.group.as_ref().map(|group| group.path().display().to_string());
                Answer::Group(path)
            }
            Question::WriteRecord(record) => Answer::Done(self.write(record).map_err(text)),
            Question::HandOver { job, waiting, order } => {
                Answer::Started(self.hand_over(job, waiting, &order, lent).map_err(text))
            }
            Question::StartForkServer => Answer::Started(self.start_fork_server().map_err(text)),
            Question::RequestCopy => {
                let server = self.fork_server.as_mut().context("there is no fork server");
                Answer::Done(server.and_then(ForkServer::request).map_err(text))
            }
            Question::Copies => Answer::Copies(self.copies()),
            Question::IsStopped(pid) => {
                Answer::Is(tree::is_suspended(process_of(pid)) == Some(true))
            }
            Question::RanOutOfMemory(pid) => {
                Answer::Is(oom::is_victim(process_of(pid), self.last_fate))
            }
            Question::Record(job) => Answer::Record(self.state_of(&job)),
            Question::Sweep { job, just_died } => {
                Answer::Started(self.sweep(&job, just_died).map_err(text))
            }
            Question::Children => pids(tree::own_children()),
            Question::Orphans(mut unknown, managers) => {
                let all = nix::unistd::Pid::this().as_raw() != FIRST_PROCESS;
                unknown.retain(|pid| all || managers.iter().any(|manager| had(manager, *pid)));
                Answer::Pids(unknown)
            }
            Question::KillChildren(spared) => pids(kill_children(&spared)),
        }
    }

    fn write(&mut self, record: JobRecord) -> Result<()> {
        let file = self.records.write(&record)?;
        self.files.insert(record.job, file);
        Ok(())
    }

    /// Gives a job to a manager in waiting, or else to a new one. Returns its process.
    fn hand_over(
        &mut self,
        job: JobId,
        waiting: Option<Pid>,
        order: &ManagerOrder,
        lent: &Lent<'_>,
    ) -> Result<Pid> {
        let (pid, mut manager) = match waiting {
            Some(pid) => (pid, self.reserve.remove(&pid).context("its connection is closed")?),
            None => {
                let (pid, manager) = start::manager(&job)?;
                (number_of(pid), manager)
            }
        };
        let file = self.files.get(&job).context("it has no record")?;
        let of_job = std::iter::once(file.as_fd()).chain(self.group.iter().map(Cgroup::as_fd));
        let all: Vec<BorrowedFd<'_>> = of_job.chain(lent.descriptors.iter().copied()).collect();
        let before = manager.queued();
        // Another member has made the order of a branch, so its texts may be long.
        manager.try_send(order).context("the order for its manager is too long")?;
        manager.send_bulk(Kind::Spec, lent.spec);
        manager.flush_lending(before, &all).context("cannot give the job to its manager")?;
        self.connections.push((job, manager));
        self.group = None;
        Ok(pid)
    }

    fn start_fork_server(&mut self) -> Result<Pid> {
        let server = ForkServer::start()?;
        let pid = number_of(server.pid());
        self.fork_server = Some(server);
        Ok(pid)
    }

    /// The managers in waiting that the fork server has made, or why it made none.
    fn copies(&mut self) -> Vec<Result<Pid, String>> {
        let mut copies = Vec::new();
        while let Some(copied) = self.fork_server.as_mut().and_then(ForkServer::next_manager) {
            copies.push(copied.map_err(text).map(|(pid, connection)| {
                let pid = number_of(pid);
                self.reserve.insert(pid, connection);
                pid
            }));
        }
        copies
    }

    fn state_of(&self, job: &JobId) -> RecordState {
        if !self.records.has(job) {
            RecordState::Gone
        } else if self.records.is_free(job) {
            RecordState::Free
        } else {
            RecordState::Held
        }
    }

    /// Starts the helper that removes the leftovers of a job.
    fn sweep(&mut self, job: &JobId, just_died: bool) -> Result<Pid> {
        let record = self.files.remove(job).context("it has no record")?;
        let pid = start::sweeper(&record, self.records.path(job), just_died)?;
        Ok(number_of(pid))
    }
}

/// The number of the first process of a process namespace, which gets all orphans of the namespace.
const FIRST_PROCESS: i32 = 1;

/// Whether this process comes from that manager.
fn had(manager: &DeadManager, pid: Pid) -> bool {
    let pid = process_of(pid);
    getsid(Some(pid)) == Ok(process_of(manager.session)) || sweep::carries(pid, &manager.cookie)
}

/// Kills all children but these. Returns the living children of other users.
fn kill_children(spared: &BTreeSet<Pid>) -> Vec<nix::unistd::Pid> {
    tree::kill_children(|pid| spared.contains(&number_of(pid))).immune
}

fn pids(pids: Vec<nix::unistd::Pid>) -> Answer {
    Answer::Pids(pids.into_iter().map(number_of).collect())
}
