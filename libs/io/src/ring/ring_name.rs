//! The name of a ring: which of a user's rings on this host is meant.
//!
//! The name is that of `--ring`, else `MPD_RING`, else `MPD_CON_EXT` (the variable of the original MPD), else the id of
//! the batch job that contains this process, else empty. So two batch jobs of one user on one host never share a ring.

use std::fmt;
use std::io;

use mpd_wire::hex;

use crate::host::random;

/// Variable that names the ring.
pub const VARIABLE: &str = "MPD_RING";

/// Longest name: it becomes part of the path of a socket.
pub const MAX_LENGTH: usize = 40;

/// Variables in which batch systems set the id of the job: Slurm, PBS, LSF, Grid Engine, Flux, Cobalt.
const BATCH_JOBS: [&str; 6] =
    ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "COBALT_JOBID"];

/// The name of a ring; empty for the ring without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingName(String);

/// The text cannot be the name of a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} ({origin}) cannot be the name of a ring: 1 to {MAX_LENGTH} letters, digits and . _ - can"
)]
pub struct InvalidRingName {
    text: String,
    origin: String,
}

impl RingName {
    /// The name in force; `option` is the user's choice.
    ///
    /// # Errors
    /// [`InvalidRingName`], which says where the name came from.
    pub fn resolve(option: Option<&str>) -> Result<Self, InvalidRingName> {
        Self::choose(option, |name| std::env::var(name).ok())
    }

    fn choose(
        option: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidRingName> {
        if let Some(text) = option {
            return Self::new(text, "--ring");
        }
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        for name in [VARIABLE, "MPD_CON_EXT"] {
            if let Some(text) = set(name) {
                return Self::new(&text, name);
            }
        }
        // The user does not choose the id of a batch job. So characters that cannot be in a path are replaced instead
        // of refused.
        let job = BATCH_JOBS.iter().find_map(|name| set(name)).unwrap_or_default();
        let fits = |c: char| if is_word(c) { c } else { '_' };
        Ok(Self(job.chars().take(MAX_LENGTH).map(fits).collect()))
    }

    fn new(text: &str, origin: &str) -> Result<Self, InvalidRingName> {
        let fits = (1..=MAX_LENGTH).contains(&text.len())
            && text.chars().all(is_word)
            && !text.starts_with(['.', '-']);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRingName { text: text.to_owned(), origin: origin.to_owned() })
        }
    }

    /// A new random name, for a ring that is made for a single job.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn private() -> io::Result<Self> {
        Ok(Self(format!("job-{}", hex::encode(&random::bytes::<8>()?))))
    }

    /// The name of the ring that a user of a site begins on `host`.
    pub fn of_site(host: &str) -> Self {
        let fits = |c: char| if is_word(c) { c } else { '_' };
        Self("site-".chars().chain(host.chars().map(fits)).take(MAX_LENGTH).collect())
    }

    /// The name; empty for the ring without a name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The variables that set the name if no option does. A program that starts a daemon for a certain ring removes
    /// them from its environment.
    pub fn variables() -> impl Iterator<Item = &'static str> {
        [VARIABLE, "MPD_CON_EXT"].into_iter().chain(BATCH_JOBS)
    }

    /// The suffix of a directory's name for this ring.
    pub fn suffix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("-{}", self.0) }
    }
}

impl fmt::Display for RingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, variables: &[(&str, &str)]) -> Result<String, String> {
        let find = |name: &str| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        RingName::choose(option, find).map(|name| name.0).map_err(|e| e.to_string())
    }

    #[test]
    fn the_option_wins_then_our_variables_then_the_batch_job() {
        let all = [("SLURM_JOB_ID", "77"), ("MPD_CON_EXT", "ext"), ("MPD_RING", "mine")];
        assert_eq!(chosen(Some("opt"), &all), Ok("opt".into()));
        assert_eq!(chosen(None, &all), Ok("mine".into()));
        assert_eq!(chosen(None, &all[..2]), Ok("ext".into()));
        assert_eq!(chosen(None, &all[..1]), Ok("77".into()));
        assert_eq!(
            chosen(None, &[("MPD_RING", ""), ("PBS_JOBID", "8[1].srv/x")]),
            Ok("8_1_.srv_x".into())
        );
        assert_eq!(chosen(None, &[]), Ok(String::new()));
    }

    #[test]
    fn a_name_that_could_leave_the_directory_is_refused_with_its_origin() {
        for bad in ["", "../x", "a/b", "-x", "a b", &"x".repeat(41)] {
            assert!(chosen(Some(bad), &[]).is_err_and(|text| text.contains("--ring")), "{bad}");
        }
        let refused = chosen(None, &[("MPD_CON_EXT", "a/b")]);
        assert!(refused.is_err_and(|text| text.contains("MPD_CON_EXT")));
    }
}
