//! The decoder of data. Every length is compared with the remaining bytes before memory is allocated.

use super::Encoding;
use super::data::{Data, Value};
use super::types::{DataType, Field, Shape};
use crate::error::DecodeError;
use crate::limits::{MAX_DEPTH, MAX_ITEMS};

/// Decodes one message from its beginning to its end.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
    items_left: usize,
    depth: usize,
}

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Reader<'a> {
    /// A reader of a whole message.
    pub const fn new(encoding: Encoding, bytes: &'a [u8]) -> Self {
        Self { bytes, encoding, items_left: MAX_ITEMS, depth: 0 }
    }

    /// The estimated memory of the decoded data, without the bytes of texts.
    pub(crate) const fn decoded(&self) -> usize {
        (MAX_ITEMS - self.items_left) * size_of::<Data>()
    }

    /// Whether all bytes are read.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the decoding.
    ///
    /// # Errors
    ///
    /// Bytes remain.
    pub const fn finish(&self) -> Result<()> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    /// The remaining bytes, which are not decoded.
    pub const fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.bytes = &[];
        rest
    }

    /// A pack of one datum.
    ///
    /// # Errors
    ///
    /// The bytes are not such a pack.
    pub fn one(&mut self, kind: DataType) -> Result<Data> {
        let mut data = self.some(kind, 1)?;
        data.pop().ok_or(DecodeError::Truncated)
    }

    /// A pack of `number` data.
    ///
    /// # Errors
    ///
    /// The bytes are not such a pack.
    pub fn some(&mut self, kind: DataType, number: usize) -> Result<Vec<Data>> {
        let count = self.count()?;
        if usize::try_from(count) != Ok(number) {
            return Err(DecodeError::Count(count, number));
        }
        self.run(kind, number)
    }

    /// A pack of any number of data.
    ///
    /// # Errors
    ///
    /// The bytes are not such a pack.
    pub fn pack(&mut self, kind: DataType) -> Result<Vec<Data>> {
        let count = self.count()?;
        let number = usize::try_from(count).map_err(|_| DecodeError::Length(count.into()))?;
        self.run(kind, number)
    }

    fn count(&mut self) -> Result<i32> {
        let count = self.signed(4, DataType::I32)?;
        i32::try_from(count).map_err(|_| DecodeError::Length(count))
    }

    /// A run of `number` data, with one tag before it if the type has a tag.
    fn run(&mut self, kind: DataType, number: usize) -> Result<Vec<Data>> {
        if kind == DataType::UNDEFINED {
            return Err(DecodeError::Type(kind));
        }
        // Each datum has at least one byte.
        if number > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        self.items_left = self.items_left.checked_sub(number).ok_or(DecodeError::TooMany)?;
        if self.encoding.tags(kind) && number > 0 {
            let (found, expected) = (self.data_type()?, self.encoding.tag(kind));
            if found != expected {
                return Err(DecodeError::Tag { found, expected });
            }
        }
        let mut data = Vec::with_capacity(number);
        for _ in 0..number {
            data.push(self.datum(kind)?);
        }
        Ok(data)
    }

    /// One datum within another, with its tag if the type has a tag.
    fn inner(&mut self, kind: DataType) -> Result<Data> {
        self.run(kind, 1)?.pop().ok_or(DecodeError::Truncated)
    }

    fn datum(&mut self, kind: DataType) -> Result<Data> {
        let shape =
            kind.shape().filter(|_| self.encoding.has(kind)).ok_or(DecodeError::Type(kind))?;
        Ok(match shape {
            Shape::Nothing => Data::Nothing,
            Shape::Byte => Data::Unsigned(self.byte()?.into()),
            Shape::Unsigned(bytes) => Data::Unsigned(self.unsigned(bytes, kind)?),
            Shape::Signed(bytes) => Data::Signed(self.signed(bytes, kind)?),
            Shape::Text => Data::Text(self.text()?),
            Shape::Bytes => {
                let size = self.size()?;
                Data::Bytes(self.take(size)?.to_vec())
            }
            Shape::Value => self.deeper(|reader| Ok(Data::Value(Box::new(reader.value()?))))?,
            Shape::Array => self.deeper(Self::array)?,
            Shape::Record(fields) => self.deeper(|reader| reader.record(fields))?,
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn value(&mut self) -> Result<Value> {
        let kind = self.data_type()?;
        if kind == DataType::UNDEFINED {
            return Ok(Value::nothing());
        }
        Ok(Value::decoded(kind, self.inner(kind)?))
    }

    fn array(&mut self) -> Result<Data> {
        let kind = self.data_type()?;
        // PMIx 6.1 sends only this type for an array without elements. Earlier versions also send a size of 0. They
        // never send this type with another size.
        if kind == DataType::UNDEFINED {
            let mut ahead = Self { bytes: self.bytes, ..*self };
            if ahead.size() == Ok(0) {
                *self = ahead;
            }
            return Ok(Data::Array(kind, Vec::new()));
        }
        let size = self.size()?;
        Ok(Data::Array(kind, self.run(kind, size)?))
    }

    fn record(&mut self, fields: &[Field]) -> Result<Data> {
        let mut data = Vec::with_capacity(fields.len());
        for field in fields {
            data.push(match *field {
                Field::One(kind) => self.inner(kind)?,
                Field::Run(count, kind) => {
                    let number = match self.inner(count)? {
                        Data::Unsigned(number) => usize::try_from(number).ok(),
                        Data::Signed(number) => usize::try_from(number).ok(),
                        _ => None,
                    };
                    let number = number.ok_or(DecodeError::Length(-1))?;
                    Data::Run(self.run(kind, number)?)
                }
            });
        }
        Ok(Data::Record(data))
    }

    fn text(&mut self) -> Result<Option<Vec<u8>>> {
        let length = self.signed(4, DataType::I32)?;
        let bytes = usize::try_from(length).map_err(|_| DecodeError::Length(length))?;
        match self.take(bytes)? {
            [] => Ok(None),
            [text @ .., 0] => Ok(Some(text.to_vec())),
            _ => Err(DecodeError::NotTerminated),
        }
    }

    /// A size within a datum. It is at most the number of remaining bytes.
    fn size(&mut self) -> Result<usize> {
        match self.inner(DataType::SIZE)? {
            Data::Unsigned(size) => match usize::try_from(size) {
                Ok(size) if size <= self.bytes.len() => Ok(size),
                _ => Err(DecodeError::Truncated),
            },
            _ => Err(DecodeError::Form("a size")),
        }
    }

    fn data_type(&mut self) -> Result<DataType> {
        let number = self.unsigned(2, DataType::DATA_TYPE)?;
        u16::try_from(number).map(DataType).map_err(|_| DecodeError::Overflow(DataType::DATA_TYPE))
    }

    fn unsigned(&mut self, bytes: u8, kind: DataType) -> Result<u64> {
        match self.encoding {
            Encoding::Fixed => self.big_endian(bytes),
            Encoding::Flexible => match self.flexible()? {
                number if number <= DataType::largest(bytes) => Ok(number),
                _ => Err(DecodeError::Overflow(kind)),
            },
        }
    }

    #[expect(clippy::cast_possible_wrap, reason = "the bits are the number")]
    fn signed(&mut self, bytes: u8, kind: DataType) -> Result<i64> {
        match self.encoding {
            Encoding::Fixed => {
                let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
                Ok(((self.big_endian(bytes)? << unused) as i64) >> unused)
            }
            Encoding::Flexible => {
                let zigzag = self.flexible()?;
                if zigzag > DataType::largest(bytes) {
                    return Err(DecodeError::Overflow(kind));
                }
                Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
            }
        }
    }

    fn big_endian(&mut self, bytes: u8) -> Result<u64> {
        let bytes = self.take(bytes.into())?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Seven bits in each byte, the lowest first; the ninth byte has eight.
    fn flexible(&mut self) -> Result<u64> {
        let mut number = 0;
        for place in 0..8 {
            let byte = u64::from(self.byte()?);
            number |= (byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Ok(number | u64::from(self.byte()?) << 56)
    }

    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.bytes.split_first().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn take(&mut self, number: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(number).ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }
}
