//! The encoder of data.

use super::Encoding;
use super::data::{Data, Value};
use super::types::{DataType, Field, Shape};

/// Encodes one message.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    encoding: Encoding,
}

impl Writer {
    /// A writer of an empty message.
    pub const fn new(encoding: Encoding) -> Self {
        Self { bytes: Vec::new(), encoding }
    }

    /// The encoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Writes a pack of one datum, which must have the form of its type.
    pub fn one(&mut self, kind: DataType, data: &Data) {
        self.count(1);
        self.run(kind, [data].into_iter());
    }

    /// Writes a pack of several data.
    pub fn pack<'a, I>(&mut self, kind: DataType, data: I)
    where
        I: IntoIterator<Item = &'a Data, IntoIter: ExactSizeIterator>,
    {
        let data = data.into_iter();
        self.count(data.len());
        self.run(kind, data);
    }

    /// Writes bytes that are encoded already.
    pub fn encoded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn count(&mut self, number: usize) {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        self.signed(4, number.into());
    }

    fn run<'a>(&mut self, kind: DataType, data: impl ExactSizeIterator<Item = &'a Data>) {
        if self.encoding.tags(kind) && data.len() > 0 {
            self.data_type(self.encoding.tag(kind));
        }
        for datum in data {
            self.datum(kind, datum);
        }
    }

    fn inner(&mut self, kind: DataType, data: &Data) {
        self.run(kind, [data].into_iter());
    }

    fn datum(&mut self, kind: DataType, data: &Data) {
        match (kind.shape(), data) {
            (Some(Shape::Nothing), Data::Nothing) => {}
            (Some(Shape::Byte), Data::Unsigned(byte)) => {
                self.bytes.push(u8::try_from(*byte).unwrap_or(u8::MAX));
            }
            (Some(Shape::Unsigned(bytes)), Data::Unsigned(number)) => self.unsigned(bytes, *number),
            (Some(Shape::Signed(bytes)), Data::Signed(number)) => self.signed(bytes, *number),
            (Some(Shape::Text), Data::Text(text)) => self.text(text.as_deref()),
            (Some(Shape::Bytes), Data::Bytes(bytes)) => {
                self.size(bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
            (Some(Shape::Value), Data::Value(value)) => self.value(value),
            (Some(Shape::Array), Data::Array(kind, elements)) => {
                self.data_type(*kind);
                self.size(elements.len());
                self.run(*kind, elements.iter());
            }
            (Some(Shape::Record(fields)), Data::Record(data)) => self.record(fields, data),
            (_, data) => debug_assert!(false, "{data:?} has not the form of {kind}"),
        }
    }

    fn value(&mut self, value: &Value) {
        self.data_type(value.kind());
        if value.kind() != DataType::UNDEFINED {
            self.inner(value.kind(), value.data());
        }
    }

    fn record(&mut self, fields: &[Field], data: &[Data]) {
        for (field, data) in fields.iter().zip(data) {
            match (field, data) {
                (Field::One(kind), data) => self.inner(*kind, data),
                (Field::Run(count, kind), Data::Run(run)) => {
                    let number = match count.shape() {
                        Some(Shape::Signed(_)) => {
                            Data::Signed(i64::try_from(run.len()).unwrap_or(i64::MAX))
                        }
                        _ => Data::Unsigned(run.len() as u64),
                    };
                    self.inner(*count, &number);
                    self.run(*kind, run.iter());
                }
                (Field::Run(..), data) => debug_assert!(false, "{data:?} is not a run"),
            }
        }
    }

    fn text(&mut self, text: Option<&[u8]>) {
        let length = text.map_or(0, |text| text.len() + 1);
        self.signed(4, i64::try_from(length).unwrap_or(i64::MAX));
        if let Some(text) = text {
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
        }
    }

    fn size(&mut self, size: usize) {
        self.inner(DataType::SIZE, &Data::Unsigned(size as u64));
    }

    fn data_type(&mut self, kind: DataType) {
        self.unsigned(2, kind.0.into());
    }

    fn unsigned(&mut self, bytes: u8, number: u64) {
        match self.encoding {
            Encoding::Fixed => {
                let all = number.to_be_bytes();
                let skipped = all.len().saturating_sub(bytes.into());
                self.bytes.extend_from_slice(&all[skipped..]);
            }
            Encoding::Flexible => self.flexible(number),
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "the bits are the number")]
    fn signed(&mut self, bytes: u8, number: i64) {
        match self.encoding {
            Encoding::Fixed => self.unsigned(bytes, number as u64),
            Encoding::Flexible => self.flexible(((number << 1) ^ (number >> 63)) as u64),
        }
    }

    fn flexible(&mut self, mut number: u64) {
        for _ in 0..8 {
            let byte = number.to_le_bytes()[0] & 0x7f;
            number >>= 7;
            if number == 0 {
                self.bytes.push(byte);
                return;
            }
            self.bytes.push(byte | 0x80);
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }
}
