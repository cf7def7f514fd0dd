//! New jobs: their ids and data, and the handing over to their managers.

use std::fmt::Display;

use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_wire::job::{Cookie, HostSlices, JobKey, JobSpec, Notice};
use mpd_wire::message::{Launch, ManagerOrder, StartJob, launch_tmpdir};
use mpd_wire::{JobId, Pid};

use crate::errand::{Asked, Starting};
use crate::input::Given;
use crate::job::{Job, Part};
use crate::line::Line;
use crate::output::{Action, Event, Question};
use crate::table::JobTable;

/// The random bits of a job.
#[derive(Debug)]
pub struct Secrets {
    pub key: [u8; 32],
    pub cookie: [u8; 16],
    pub kvsname: [u8; 16],
}

/// A new job with the data that its managers need, and a line for its user if the directory for temporary files is
/// not the one that the user wants.
pub fn planned(
    job: JobId,
    spec: &JobSpec,
    (host_slices, universe): (HostSlices, Option<u32>),
    Secrets { key, cookie, kvsname }: Secrets,
) -> (Launch, Option<Notice>) {
    let (tmpdir, problem) = launch_tmpdir(&spec.tmpdir);
    let launch = Launch {
        job,
        key: JobKey::from_bytes(key),
        cookie: Cookie::from_bytes(cookie),
        kvsname: format!("kvs_{}", mpd_wire::hex::encode(&kvsname)),
        tmpdir,
        host_slices,
        universe,
        first: 0,
    };
    let notice = problem.map(|problem| {
        Notice::major(format!("{problem}; the job's directories are in {}", launch.tmpdir))
    });
    (launch, notice)
}

impl JobTable {
    /// The id of a new job. In a private ring, `console` is the process that submits it.
    ///
    /// # Errors
    /// A text for people.
    pub fn new_id(&self, console: Option<u32>) -> Result<JobId, String> {
        let made = match console {
            None => JobId::new(self.last + 1, &self.name),
            Some(console) => JobId::private(console, &self.name),
        };
        let id = made.map_err(|invalid| invalid.to_string())?.of(self.instance);
        match console.is_some() && self.jobs.contains_key(&id) {
            true => Err(format!("job {id} is running already")),
            false => Ok(id),
        }
    }

    /// Starts the manager of our host slice of a job that another daemon accepted. Does nothing if it runs already.
    pub(crate) fn start_branch(&mut self, launch: Box<Launch>, tree_index: usize, is_again: bool) {
        let starting =
            Starting { launch, tree_index, given: Given::default(), record: None, is_again };
        let launch = &starting.launch;
        if let Err(invalid) = launch.check() {
            return self.refuse_start(&starting, invalid);
        }
        let Some(known) = self.jobs.get(&launch.job) else { return self.start(starting) };
        let record = &known.record;
        if (&record.cookie, record.tree_index as usize) == (&launch.cookie, tree_index) {
            return self.tell(Event::Started(Ok(())));
        }
        let problem =
            format!("the leftovers of an earlier job {} are still being removed", launch.job);
        self.refuse_start(&starting, problem);
    }

    /// Starts the manager of a host slice.
    pub(crate) fn start(&mut self, starting: Starting) {
        if starting.launch.host_slices.get(starting.tree_index).is_none() {
            return self.refuse_start(&starting, "no host slice with this tree index");
        }
        self.ask(Question::MakeGroup, Asked::Group(Box::new(starting)));
    }

    pub(crate) fn write_record(&mut self, mut starting: Box<Starting>, cgroup: Option<String>) {
        let Launch { job, cookie, .. } = &*starting.launch;
        // A job has fewer than 2^32 host slices.
        let tree_index = u32::try_from(starting.tree_index).unwrap_or(u32::MAX);
        let record = JobRecord { job: job.clone(), cookie: cookie.clone(), tree_index, cgroup };
        starting.record = Some(record.clone());
        self.ask(Question::WriteRecord(record), Asked::Written(starting));
    }

    /// Gives a job to a manager in waiting, or else to a new one.
    pub(crate) fn hand_over(&mut self, now: Time, starting: Box<Starting>) {
        let waiting = self.waiting.take(now);
        let job = starting.launch.job.clone();
        let order = Box::new(self.start_order(&starting));
        let asked = Asked::HandOver(starting, waiting.is_some());
        self.ask(Question::HandOver { job, waiting, order }, asked);
    }

    fn start_order(
        &self,
        Starting { launch, tree_index, given, record, .. }: &Starting,
    ) -> ManagerOrder {
        ManagerOrder::Start(Box::new(StartJob {
            job: launch.job.clone(),
            cookie: launch.cookie.clone(),
            kvsname: launch.kvsname.clone(),
            host: self.host.clone(),
            cgroup: record.as_ref().and_then(|record| record.cgroup.clone()),
            rundir: self.rundir.clone(),
            tmpdir: launch.tmpdir.clone(),
            key: launch.key.clone(),
            host_slices: launch.host_slices.clone(),
            universe: launch.universe,
            limits: self.limits,
            tree_index: u32::try_from(*tree_index).unwrap_or(u32::MAX),
            spec_bytes: given.spec_bytes,
            adopts: given.adopts,
            notices: given.notices.clone(),
            spans: given.spans.clone(),
        }))
    }

    /// A manager has the whole job.
    pub(crate) fn enter(&mut self, now: Time, starting: Starting, pid: Pid) {
        let Starting { launch, tree_index, given, record, is_again } = starting;
        let id = launch.job.clone();
        let host_slice = launch.host_slices.get(tree_index);
        // The start has checked the slice and made the record.
        let (Some(host_slice), Some(record)) = (host_slice, record) else { return };
        self.silent.add(id.clone(), pid, now);
        self.log(Line::info(format!("job {id} started, manager {pid}")));
        let part = Part {
            tree_index: record.tree_index,
            manager: host_slice.manager,
            key: launch.key.clone(),
        };
        let mut job = Job::started(record, part, pid);
        if tree_index == 0 {
            job.alias = given.alias;
            if !id.is_private() {
                self.last = self.last.max(id.number());
            }
        } else {
            self.silent.set_launch(launch, tree_index);
        }
        self.jobs.insert(id, job);
        if !is_again {
            self.tell(Event::Started(Ok(())));
        }
    }

    pub(crate) fn fail_start(&mut self, starting: Starting, problem: String) {
        self.perform(Action::RemoveRecord(starting.launch.job.clone()));
        if let Some(group) = starting.record.as_ref().and_then(|record| record.cgroup.clone()) {
            self.perform(Action::RemoveGroup(group));
        }
        self.refuse_start(&starting, problem);
    }

    fn refuse_start(&mut self, starting: &Starting, problem: impl Display) {
        match starting.is_again {
            true => self.log(Line::error(format!("job {}: {problem}", starting.launch.job))),
            false => self.tell(Event::Started(Err(problem.to_string()))),
        }
    }
}
