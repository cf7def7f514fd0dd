//! Decoded data. Structures stay lists of fields until they are converted to a typed view.

use super::types::{DataType, Field, Shape};

/// A datum. Its type determines the variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// No datum, of type [`DataType::UNDEFINED`].
    Nothing,
    /// A byte or an unsigned number.
    Unsigned(u64),
    Signed(i64),
    /// A string without its zero byte. A number with a fraction is a string too.
    Text(Option<Vec<u8>>),
    Bytes(Vec<u8>),
    /// A datum with its type.
    Value(Box<Value>),
    /// Data of one type, with that type.
    Array(DataType, Vec<Self>),
    /// The fields of a structure.
    Record(Vec<Self>),
    /// Several data in one field of a structure.
    Run(Vec<Self>),
}

impl Data {
    /// The estimated memory in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Nothing | Self::Unsigned(_) | Self::Signed(_) | Self::Text(None) => 0,
                Self::Text(Some(bytes)) | Self::Bytes(bytes) => bytes.len(),
                Self::Value(value) => value.data.size(),
                Self::Array(_, data) | Self::Record(data) | Self::Run(data) => {
                    data.iter().map(Self::size).sum()
                }
            }
    }
}

/// A datum with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    kind: DataType,
    data: Data,
}

impl Value {
    /// A value; `None` if the datum does not have the form of the type.
    pub fn new(kind: DataType, data: Data) -> Option<Self> {
        fits(kind, &data).then_some(Self { kind, data })
    }

    /// The value of a datum that was decoded as this type.
    pub(super) const fn decoded(kind: DataType, data: Data) -> Self {
        Self { kind, data }
    }

    /// No value.
    pub const fn nothing() -> Self {
        Self { kind: DataType::UNDEFINED, data: Data::Nothing }
    }

    /// A string.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self { kind: DataType::STRING, data: Data::Text(Some(text.into())) }
    }

    /// A boolean.
    pub fn bool(value: bool) -> Self {
        Self { kind: DataType::BOOL, data: Data::Unsigned(value.into()) }
    }

    /// A number of 16 bits.
    pub fn u16(value: u16) -> Self {
        Self { kind: DataType::U16, data: Data::Unsigned(value.into()) }
    }

    /// A number of 32 bits.
    pub fn u32(value: u32) -> Self {
        Self { kind: DataType::U32, data: Data::Unsigned(value.into()) }
    }

    pub const fn size(value: u64) -> Self {
        Self { kind: DataType::SIZE, data: Data::Unsigned(value) }
    }

    pub fn rank(value: u32) -> Self {
        Self { kind: DataType::RANK, data: Data::Unsigned(value.into()) }
    }

    /// A signed number of the size of C's `int`.
    pub fn int(value: i32) -> Self {
        Self { kind: DataType::INT, data: Data::Signed(value.into()) }
    }

    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { kind: DataType::BYTE_OBJECT, data: Data::Bytes(bytes.into()) }
    }

    /// An array. The elements must have the form of their type.
    pub(crate) const fn array(kind: DataType, elements: Vec<Data>) -> Self {
        Self { kind: DataType::ARRAY, data: Data::Array(kind, elements) }
    }

    pub const fn kind(&self) -> DataType {
        self.kind
    }

    /// The datum.
    pub const fn data(&self) -> &Data {
        &self.data
    }

    /// The string, if the value is a string.
    pub fn as_text(&self) -> Option<&[u8]> {
        match (&self.data, self.kind) {
            (Data::Text(Some(text)), DataType::STRING | DataType::NAMESPACE) => Some(text),
            _ => None,
        }
    }

    /// The number, if the value is a number and not negative.
    pub fn as_number(&self) -> Option<u64> {
        match self.data {
            Data::Unsigned(number) => Some(number),
            Data::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// Whether the value means true: the boolean, a number other than 0, a string for true, or no value.
    pub fn is_true(&self) -> bool {
        match &self.data {
            Data::Nothing => true,
            Data::Unsigned(number) => *number != 0,
            Data::Signed(number) => *number != 0,
            Data::Text(Some(text)) => [&b"true"[..], b"t", b"yes", b"y", b"1"]
                .iter()
                .any(|word| text.eq_ignore_ascii_case(word)),
            _ => false,
        }
    }
}

/// Whether a datum has the form of a type, with every number within its bounds.
fn fits(kind: DataType, data: &Data) -> bool {
    let Some(shape) = kind.shape() else { return false };
    match (shape, data) {
        (Shape::Nothing, Data::Nothing)
        | (Shape::Text, Data::Text(_))
        | (Shape::Bytes, Data::Bytes(_)) => true,
        (Shape::Byte, Data::Unsigned(number)) => *number <= DataType::largest(1),
        (Shape::Unsigned(bytes), Data::Unsigned(number)) => *number <= DataType::largest(bytes),
        (Shape::Signed(bytes), Data::Signed(number)) => {
            let bits = 8 * u32::from(bytes.min(8)) - 1;
            (*number >> bits.min(63)) == 0 || (*number >> bits.min(63)) == -1
        }
        (Shape::Value, Data::Value(value)) => fits(value.kind, &value.data),
        (Shape::Array, Data::Array(kind, elements)) => {
            (*kind != DataType::UNDEFINED || elements.is_empty())
                && kind.shape().is_some()
                && elements.iter().all(|element| fits(*kind, element))
        }
        (Shape::Record(fields), Data::Record(data)) => {
            fields.len() == data.len()
                && fields.iter().zip(data).all(|(field, data)| match (field, data) {
                    (Field::One(kind), data) => fits(*kind, data),
                    (Field::Run(_, kind), Data::Run(run)) => run.iter().all(|one| fits(*kind, one)),
                    (Field::Run(..), _) => false,
                })
        }
        _ => false,
    }
}
