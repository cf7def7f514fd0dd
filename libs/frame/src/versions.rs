//! The versions of messages that a program reads, and the one that two programs share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The versions of a stream's messages that one side reads. The first message of each side states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct Versions {
    lowest: u32,
    highest: u32,
}

/// The bytes: one number, or the lowest and the highest one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stated {
    One(u32),
    Range([u32; 2]),
}

impl Versions {
    /// One version alone.
    pub const fn only(version: u32) -> Self {
        Self { lowest: version, highest: version }
    }

    /// Each version from `lowest` to `highest`; `None` if there is none.
    pub const fn range(lowest: u32, highest: u32) -> Option<Self> {
        if lowest <= highest { Some(Self { lowest, highest }) } else { None }
    }

    /// The lowest and the highest version.
    pub const fn bounds(self) -> (u32, u32) {
        (self.lowest, self.highest)
    }

    /// The version that both sides use: the highest one that both read.
    pub fn common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl From<Versions> for Stated {
    fn from(versions: Versions) -> Self {
        match versions {
            Versions { lowest, highest } if lowest == highest => Self::One(highest),
            Versions { lowest, highest } => Self::Range([lowest, highest]),
        }
    }
}

impl TryFrom<Stated> for Versions {
    type Error = &'static str;

    fn try_from(stated: Stated) -> Result<Self, Self::Error> {
        match stated {
            Stated::One(version) => Ok(Self::only(version)),
            Stated::Range([lowest, highest]) => {
                Self::range(lowest, highest).ok_or("the lowest version is above the highest one")
            }
        }
    }
}

/// `10`, or `10 to 12`.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lowest == self.highest {
            write!(f, "{}", self.highest)
        } else {
            write!(f, "{} to {}", self.lowest, self.highest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lowest: u32, highest: u32) -> Versions {
        Versions::range(lowest, highest).unwrap()
    }

    #[test]
    fn two_sides_use_the_highest_version_that_both_read() {
        assert_eq!(range(3, 5).common(range(4, 9)), Some(5));
        assert_eq!(range(4, 9).common(range(3, 5)), Some(5));
        assert_eq!(range(3, 5).common(Versions::only(3)), Some(3));
        assert_eq!(range(3, 5).common(range(6, 9)), None);
        assert_eq!(Versions::only(9).common(Versions::only(10)), None);
    }

    #[test]
    fn one_version_is_a_number_as_in_the_first_release() {
        let text = |versions: Versions| serde_json::to_string(&versions).unwrap();
        assert_eq!(text(Versions::only(10)), "10");
        assert_eq!(text(range(10, 12)), "[10,12]");
        let read = |text: &str| serde_json::from_str::<Versions>(text).ok();
        assert_eq!(read("9"), Some(Versions::only(9)));
        assert_eq!(read("[9,10]"), Some(range(9, 10)));
        for bad in ["[10,9]", "[1]", "\"9\"", "-1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(range(10, 12).to_string(), "10 to 12");
    }
}
