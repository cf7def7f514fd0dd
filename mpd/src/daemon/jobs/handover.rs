//! Gives a job to its manager: the record, the order, and the descriptors.

use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context, Result};
use mpd_io::process::cgroup::Cgroup;
use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::frame::Kind;
use mpd_wire::message::{Launch, ManagerOrder, StartJob};
use nix::unistd::Pid;

use crate::daemon::jobs::job::{Given, Job, Part};
use crate::daemon::jobs::{Jobs, start, top};

/// The descriptors of a console: its connection, its standard output and its standard error.
const CONSOLE_DESCRIPTORS: usize = 3;

impl Jobs {
    /// Starts the manager of a host slice, and enters its job in the table.
    pub(super) fn start(
        &mut self,
        launch: &Launch,
        tree_index: usize,
        given: Given<'_>,
        now: Time,
    ) -> Result<()> {
        let host_slice =
            launch.host_slices.get(tree_index).context("no host slice with this tree index")?;
        let part = Part {
            tree_index: u32::try_from(tree_index)?,
            manager: host_slice.manager,
            key: launch.key.clone(),
        };
        // All users can read the name.
        let cgroup = Cgroup::create(&format!("mpd-{}", mpd_io::host::random::hex128()?));
        let record = JobRecord {
            job: launch.job.clone(),
            cookie: launch.cookie.clone(),
            tree_index: part.tree_index,
            cgroup: cgroup.as_ref().map(|g| g.path().display().to_string()),
        };
        let written = self.records.write(&record);
        let started = written.and_then(|file| {
            let order = self.order(launch, &record, &given)?;
            let of_job = std::iter::once(file.as_fd()).chain(cgroup.iter().map(Cgroup::as_fd));
            let lent: Vec<_> = of_job.chain(given.descriptors.iter().copied()).collect();
            let pid = self.hand_over(&record.job, &order, (given.spec, &lent), now)?;
            Ok((pid, file))
        });
        let (pid, file) = match started {
            Ok(started) => started,
            Err(e) => {
                self.records.remove(&record.job);
                cgroup.iter().for_each(|g| drop(g.remove()));
                return Err(e);
            }
        };
        log::info!("job {} started, manager {pid}", record.job);
        let job = Job {
            record,
            file,
            part: Some(part),
            connected: true,
            manager: Some(pid),
            alias: None,
            held: false,
            runs: Vec::new(),
            spawns: None,
            receivers: None,
            written: top::Written::default(),
            is_child: true,
            ended: false,
        };
        self.jobs.insert(launch.job.clone(), job);
        Ok(())
    }

    fn order(
        &self,
        launch: &Launch,
        record: &JobRecord,
        given: &Given<'_>,
    ) -> Result<ManagerOrder> {
        Ok(ManagerOrder::Start(Box::new(StartJob {
            job: record.job.clone(),
            cookie: record.cookie.clone(),
            kvsname: launch.kvsname.clone(),
            host: self.host.clone(),
            cgroup: record.cgroup.clone(),
            rundir: self.records.rundir(),
            tmpdir: launch.tmpdir.clone(),
            key: launch.key.clone(),
            host_slices: launch.host_slices.clone(),
            universe: launch.universe,
            limits: self.limits,
            tree_index: record.tree_index,
            spec_bytes: u32::try_from(given.spec.len())?,
            adopts: given.descriptors.len() > CONSOLE_DESCRIPTORS,
            notices: given.notices.clone(),
            spans: given.spans.clone(),
        })))
    }

    /// Gives a job to a manager in waiting, or else to a new one. Returns its process.
    fn hand_over(
        &mut self,
        job: &JobId,
        order: &ManagerOrder,
        (spec, lent): (&[u8], &[BorrowedFd<'_>]),
        now: Time,
    ) -> Result<Pid> {
        loop {
            let ready = self.waiting.take(now);
            let is_new = ready.is_none();
            let (pid, mut manager) = ready.map_or_else(|| start::manager(job), Ok)?;
            let before = manager.queued();
            manager.send(order);
            manager.send_bulk(Kind::Spec, spec);
            match manager.flush_lending(before, lent) {
                // It has died in waiting, or ends with its connection: it does not have the whole job.
                Err(_) if !is_new => continue,
                Err(e) => return Err(e).context("cannot give the job to its manager"),
                Ok(()) => {}
            }
            self.connections.push((job.clone(), manager));
            self.silent.add(job.clone(), pid, now);
            return Ok(pid);
        }
    }
}
