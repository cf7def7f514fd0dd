//! The encodings of PMIx ("bfrops"). A message is a run of packs. A pack is a count and this number of data of one type.
//!
//! | names in the connect message | encoding | clients |
//! |---|---|---|
//! | `v20`, `v21`, `v3` | [`Encoding::Fixed`]: numbers of fixed width, big-endian | PMIx 2 and 3 |
//! | `v4`, `v41`, `v51`, `v61` | [`Encoding::Flexible`]: numbers of variable length | PMIx 4, 5 and 6 |
//!
//! Some numbers have a tag with their type: in the fixed encoding, numbers whose width depends on the machine; in the
//! flexible encoding, process ids. A run of numbers has only one tag, before the first number.
//!
//! The table in `types` has the composition of each type of data. [`Reader`] and [`Writer`] use it.

mod data;
mod reader;
pub(crate) mod types;
mod writer;

pub use self::data::{Data, Value};
pub use self::reader::Reader;
pub use self::types::DataType;
pub use self::writer::Writer;

/// The encoding of data as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// Numbers of fixed width, of PMIx 2 and 3.
    Fixed,
    /// Numbers of variable length, of PMIx 4 and later.
    Flexible,
}

impl Encoding {
    /// Both encodings.
    pub const ALL: [Self; 2] = [Self::Fixed, Self::Flexible];

    /// The encoding of this name in a connect message.
    pub fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"v20" | b"v21" | b"v3" => Some(Self::Fixed),
            b"v4" | b"v41" | b"v51" | b"v61" => Some(Self::Flexible),
            _ => None,
        }
    }

    /// Whether clients of this encoding may know a type. Clients of PMIx 3 know the types up to 46.
    pub const fn has(self, kind: DataType) -> bool {
        match self {
            Self::Fixed => kind.0 <= DataType::ENVAR.0,
            Self::Flexible => true,
        }
    }

    /// Whether a run of numbers of this type begins with a tag.
    const fn tags(self, kind: DataType) -> bool {
        match self {
            Self::Fixed => {
                matches!(kind, DataType::INT | DataType::UINT | DataType::SIZE | DataType::PID)
            }
            Self::Flexible => matches!(kind, DataType::PID),
        }
    }

    /// The tag of such a run: the type itself, or the type of fixed width that this machine uses for it.
    const fn tag(self, kind: DataType) -> DataType {
        match (self, kind) {
            (Self::Fixed, DataType::INT | DataType::UINT) => DataType::I32,
            (Self::Fixed, DataType::SIZE) => DataType::U64,
            (_, DataType::PID) => DataType::U32,
            (_, kind) => kind,
        }
    }
}
