//! The orders of a user to a job. A console, the ring and a daemon pass the same value on, each in a message of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::RankSet;
use crate::job::LabelFormat;

/// An order of a user to a job. The root manager carries it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOrder {
    /// End the job.
    Kill,
    /// Send the signal to every rank.
    Signal {
        signal: u8,
        /// Whether only the rank's own process gets the signal, not its process group.
        single: bool,
    },
    /// Start further processes of the last program, as a world of their own.
    Grow {
        /// How many.
        count: u32,
    },
    /// The highest running ranks are to end, and their end is then no failure. Refused if no rank would remain, or if not
    /// all ranks have started.
    Retire {
        /// How many.
        count: u32,
    },
    /// Label the lines of the output from now on; `None`: without labels. Ignored by a debugged job.
    Label {
        /// The label before each line.
        #[serde(with = "label")]
        format: Option<LabelFormat>,
    },
    /// These ranks receive standard input from now on. Refused if one of them cannot receive it.
    SwitchStdin { ranks: RankSet },
}

/// For the log.
impl fmt::Display for JobOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Signal { signal, .. } => write!(f, "signal {signal}"),
            Self::Grow { count } => write!(f, "start {count} more processes"),
            Self::Retire { count } => write!(f, "retire {count} ranks"),
            Self::Label { format: Some(_) } => f.write_str("label the output"),
            Self::Label { format: None } => f.write_str("output without labels"),
            Self::SwitchStdin { ranks } => write!(f, "input to ranks {ranks}"),
        }
    }
}

/// A label as text.
mod label {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::job::LabelFormat;

    pub(super) fn serialize<S: Serializer>(
        format: &Option<LabelFormat>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        format
            .as_ref()
            .map(|format| String::from_utf8_lossy(format.as_bytes()))
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LabelFormat>, D::Error> {
        let pattern = Option::<String>::deserialize(deserializer)?;
        pattern.map(|pattern| pattern.try_into().map_err(D::Error::custom)).transpose()
    }
}
