//! Files and directories that clients register for removal at the end of the job.

use std::collections::BTreeSet;

use mpd_leftovers::record::Registered;
use mpd_wire::job::Bytes;
use pmix_proto::{CleanUp, Status};

use crate::job::Job;
use crate::output::Output;
use crate::turn::Turn;

/// Most paths that are kept.
const MAX_PATHS: usize = 16 * 1024;

/// The registrations so far.
#[derive(Debug, Default)]
pub(super) struct CleanUps {
    known: Vec<CleanUp>,
    paths: usize,
}

impl CleanUps {
    /// Reports paths to remove, if there is room for them.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn register(
        &mut self,
        turn: &mut Turn<'_>,
        clean_up: CleanUp,
    ) -> Result<Addition, Status> {
        let addition = self.add(&clean_up).ok_or(Status::OUT_OF_RESOURCE)?;
        if addition == Addition::New {
            let registered = registered(turn.job, clean_up);
            turn.report(Output::ToRemove(registered));
        }
        Ok(addition)
    }

    /// `None`: there is no room.
    fn add(&mut self, clean_up: &CleanUp) -> Option<Addition> {
        // Ranks register the same shared file again and again.
        if self.known.contains(clean_up) {
            return Some(Addition::Known);
        }
        let paths = clean_up.files.len() + clean_up.directories.len() + clean_up.ignored.len();
        if self.paths + paths > MAX_PATHS {
            return None;
        }
        self.paths += paths;
        self.known.push(clean_up.clone());
        Some(Addition::New)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addition {
    New,
    Known,
}

/// The estimated memory of a registration: it is kept here, for the clean-up, and in the record of the job, where each byte
/// is a number.
pub(super) fn cost(clean_up: &CleanUp) -> usize {
    const ENTRY: usize = 1024;
    const COPIES: usize = 6;
    let CleanUp { files, directories, ignored, .. } = clean_up;
    let paths = files.iter().chain(directories).chain(ignored);
    ENTRY + COPIES * paths.map(|path| size_of::<Vec<u8>>() + path.len()).sum::<usize>()
}

fn registered(job: &Job, clean_up: CleanUp) -> Registered {
    let CleanUp { files, directories, is_recursive, ignored, keeps_top } = clean_up;
    let kept = kept(job);
    // The clean-up knows the time.
    Registered { files, directories, is_recursive, ignored, keeps_top, kept, since: u64::MAX }
}

/// The homes in the environments of the job, the working directories of its programs, and the directory in which the
/// job has its own.
fn kept(job: &Job) -> Vec<Bytes> {
    let variables = job.spec.environments.iter().flatten();
    let homes = variables.filter_map(|variable| variable.strip_prefix(b"HOME="));
    let argsets = job.worlds.all().flat_map(|world| &world.spec.argsets);
    let directories = argsets.map(|argset| argset.directory.as_slice());
    let above = [job.order.tmpdir.as_bytes()];
    let kept: BTreeSet<&[u8]> = homes.chain(directories).chain(above).collect();
    kept.into_iter().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_registration_counts_once_and_the_number_of_paths_is_bounded() {
        let of = |files: Vec<Vec<u8>>| CleanUp { files, ..CleanUp::default() };
        let mut clean_ups = CleanUps::default();
        let many = of(vec![b"/f".to_vec(); MAX_PATHS]);
        assert_eq!(clean_ups.add(&many), Some(Addition::New));
        assert_eq!(clean_ups.add(&many), Some(Addition::Known));
        assert_eq!(clean_ups.add(&of(vec![b"/g".into()])), None);
    }
}
