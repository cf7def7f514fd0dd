//! `-rlimit NAME=SOFT[:HARD]`: resource limits by the names of shells and manuals. Values are in
//! the kernel's units (bytes, seconds, counts); `K`, `M` and `G` are powers of 1024.

use std::str::FromStr;

use mpd_wire::job::Limit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    resource: u8,
    soft: u64,
    hard: Option<u64>,
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimit {
    /// The `=` is missing.
    #[error("it must be NAME=SOFT or NAME=SOFT:HARD")]
    Form,
    /// No resource has this name.
    #[error("there is no limit {0:?}; known are {known}", known = names())]
    Name(String),
    /// A value is not a number.
    #[error("{0:?} is neither a number (K, M, G may follow) nor 'unlimited'")]
    Value(String),
    /// The soft limit is above the given hard limit.
    #[error("the soft limit is above the hard limit")]
    Order,
    /// The soft limit is above the current hard limit.
    #[error(
        "the soft limit is above the hard limit of {hard}; \
         SOFT:HARD sets both, and only root may raise the hard limit"
    )]
    AboveHard {
        /// The current hard limit.
        hard: u64,
    },
}

impl LimitChange {
    /// Whether both change the same limit.
    pub fn same_resource(&self, other: &Self) -> bool {
        self.resource == other.resource
    }

    /// Makes the change in `limits`.
    ///
    /// # Errors
    /// The current hard limit is lower than the new soft limit.
    pub fn apply(&self, limits: &mut Vec<Limit>) -> Result<(), InvalidLimit> {
        let position = limits.iter().position(|l| l.resource == self.resource);
        let in_force = position.map_or(u64::MAX, |at| limits[at].hard);
        let hard = self.hard.unwrap_or(in_force);
        if self.soft > hard {
            return Err(InvalidLimit::AboveHard { hard });
        }
        let limit = Limit { resource: self.resource, soft: self.soft, hard };
        match position {
            Some(at) => limits[at] = limit,
            None => limits.push(limit),
        }
        Ok(())
    }
}

impl FromStr for LimitChange {
    type Err = InvalidLimit;
    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        let (name, values) = text.split_once('=').ok_or(InvalidLimit::Form)?;
        let resource = number_of(name).ok_or_else(|| InvalidLimit::Name(name.to_owned()))?;
        let (soft, hard) = match values.split_once(':') {
            Some((soft, hard)) => (value(soft)?, Some(value(hard)?)),
            None => (value(values)?, None),
        };
        if hard.is_some_and(|hard| soft > hard) {
            return Err(InvalidLimit::Order);
        }
        Ok(Self { resource, soft, hard })
    }
}

/// The usual name of the limit with the kernel's number `resource`.
pub fn name_of(resource: u8) -> &'static str {
    NAMES.iter().find(|&&(_, number)| number == resource).map_or("?", |&(name, _)| name)
}

/// The value of a limit in the option's notation.
pub fn shown(value: u64) -> String {
    if value == u64::MAX { "unlimited".into() } else { value.to_string() }
}

fn number_of(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("rlimit_").unwrap_or(&name);
    NAMES.iter().find(|&&(known, _)| known == name).map(|&(_, number)| number)
}

fn value(text: &str) -> Result<u64, InvalidLimit> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    bytes(text).ok_or_else(|| InvalidLimit::Value(text.to_owned()))
}

/// A number, of which `K`, `M` and `G` are powers of 1024.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    // u64::MAX means "unlimited", so the largest number is one less.
    number.checked_mul(1 << shift).filter(|&n| n != u64::MAX)
}

fn names() -> String {
    NAMES.map(|(name, _)| name).join(" ")
}

/// Linux's numbers of the limits. The preferred name of a number is first.
const NAMES: [(&str, u8); 17] = [
    ("core", 4),
    ("cpu", 0),
    ("fsize", 1),
    ("data", 2),
    ("stack", 3),
    ("rss", 5),
    ("nproc", 6),
    ("nofile", 7),
    ("memlock", 8),
    ("as", 9),
    ("vmem", 9),
    ("locks", 10),
    ("sigpending", 11),
    ("msgqueue", 12),
    ("nice", 13),
    ("rtprio", 14),
    ("rttime", 15),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<Limit, InvalidLimit> {
        let mut limits = vec![
            Limit { resource: 3, soft: 10, hard: 20 },
            Limit { resource: 7, soft: 1024, hard: u64::MAX },
        ];
        let change: LimitChange = text.parse()?;
        change.apply(&mut limits)?;
        Ok(*limits.iter().find(|l| l.resource == change.resource).unwrap())
    }

    #[test]
    fn the_hard_limit_stays_unless_it_is_given() {
        assert_eq!(applied("stack=5").unwrap(), Limit { resource: 3, soft: 5, hard: 20 });
        assert_eq!(applied("stack=5:8").unwrap(), Limit { resource: 3, soft: 5, hard: 8 });
        assert_eq!(applied("core=0").unwrap(), Limit { resource: 4, soft: 0, hard: u64::MAX });
    }

    #[test]
    fn every_name_has_the_kernels_number() {
        use nix::sys::resource::Resource as R;
        for (name, resource) in [
            ("core", R::RLIMIT_CORE),
            ("cpu", R::RLIMIT_CPU),
            ("fsize", R::RLIMIT_FSIZE),
            ("data", R::RLIMIT_DATA),
            ("stack", R::RLIMIT_STACK),
            ("rss", R::RLIMIT_RSS),
            ("nproc", R::RLIMIT_NPROC),
            ("nofile", R::RLIMIT_NOFILE),
            ("memlock", R::RLIMIT_MEMLOCK),
            ("as", R::RLIMIT_AS),
            ("vmem", R::RLIMIT_AS),
            ("locks", R::RLIMIT_LOCKS),
            ("sigpending", R::RLIMIT_SIGPENDING),
            ("msgqueue", R::RLIMIT_MSGQUEUE),
            ("nice", R::RLIMIT_NICE),
            ("rtprio", R::RLIMIT_RTPRIO),
            ("rttime", R::RLIMIT_RTTIME),
            ("RLIMIT_NOFILE", R::RLIMIT_NOFILE),
        ] {
            assert_eq!(number_of(name), Some(resource as u8), "{name}");
        }
        assert_eq!(name_of(9), "as");
    }

    #[test]
    fn values_have_suffixes_or_are_unlimited() {
        for (text, soft) in [
            ("nofile=4096", 4096),
            ("nofile=4k", 4096),
            ("nofile=2M", 2 << 20),
            ("nofile=3G", 3 << 30),
            ("nofile=unlimited", u64::MAX),
        ] {
            assert_eq!(applied(text).unwrap().soft, soft, "{text}");
        }
    }

    #[test]
    fn invalid_limits_are_quoted_in_the_error() {
        assert_eq!(applied("stack"), Err(InvalidLimit::Form));
        assert_eq!(applied("heap=1"), Err(InvalidLimit::Name("heap".into())));
        for bad in ["", "x", "-1", "+1", "1.5G", "K", "1T", "99999999999999999999", "17179869184G"]
        {
            assert_eq!(applied(&format!("stack={bad}")), Err(InvalidLimit::Value(bad.into())));
        }
        assert_eq!(applied("stack=2:1"), Err(InvalidLimit::Order));
        assert_eq!(applied("stack=21"), Err(InvalidLimit::AboveHard { hard: 20 }));
        assert!(applied("heap=1").unwrap_err().to_string().contains("core cpu fsize"));
    }
}
