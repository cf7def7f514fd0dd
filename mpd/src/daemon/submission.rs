//! A job as its console submitted it.

use std::os::fd::OwnedFd;

use mpd_wire::job::JobSpec;

/// A submitted job.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) spec: JobSpec,
    pub(crate) handed: Handed,
    /// A line for the job's user.
    pub(crate) notice: Option<String>,
}

/// What the root manager of a job gets from its console.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The encoded specification.
    pub(crate) encoded: Vec<u8>,
    /// Standard output and error of the console.
    pub(crate) outputs: [OwnedFd; 2],
    /// PMI connection and pidfd of the process that becomes the job's one rank.
    pub(crate) adopted: Option<[OwnedFd; 2]>,
}

impl Submission {
    /// Lets crashed ranks end, since a debugger would not find the job.
    pub(crate) fn never_hold(&mut self) {
        let Some(on_crash) = self.spec.on_crash.as_mut().filter(|on_crash| on_crash.hold) else {
            return;
        };
        on_crash.hold = false;
        self.handed.encoded = self.spec.encode();
        let text = "no debugger will open at a crash: the run directory cannot be used, so it would not find the job";
        self.notice = Some(text.to_owned());
    }
}
