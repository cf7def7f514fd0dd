//! Reads and writes packs in the order of the table.

use crate::encoding::{Data, DataType, Reader, Writer};
use crate::error::DecodeError;
use crate::status::Status;
use crate::view::View;

/// One entry of a list of packs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pack {
    /// A pack of one datum.
    One(DataType, &'static str),
    /// The number of data, and a pack of them if the number is not 0.
    Counted(DataType, &'static str),
    /// The number of data, and a pack for each datum.
    Each(DataType, &'static str),
    /// A pack of one datum, or the end of the message.
    Maybe(DataType, &'static str),
    /// Packs of one datum each, up to the end. Their types alternate.
    Rest(&'static [(DataType, &'static str)]),
    /// Packs of one key and its value each, up to the end. They stay encoded.
    Encoded(&'static str),
}

/// The data of each pack of a list, read or to be written.
#[derive(Debug)]
pub(crate) struct Packs(std::vec::IntoIter<Vec<Data>>);

impl Packs {
    /// Reads the packs of a list. An error has the name of its pack.
    pub(crate) fn read(
        list: &[Pack],
        reader: &mut Reader<'_>,
    ) -> Result<Self, (&'static str, DecodeError)> {
        let read = |pack: &Pack| pack.read(reader).map_err(|error| (pack.name(), error));
        let packs: Result<Vec<_>, _> = list.iter().map(read).collect();
        Ok(Self(packs?.into_iter()))
    }

    fn next(&mut self) -> Vec<Data> {
        self.0.next().unwrap_or_default()
    }

    pub(crate) fn data(&mut self) -> Result<Data, DecodeError> {
        self.next().pop().ok_or(DecodeError::Form("a field"))
    }

    pub(crate) fn all(&mut self) -> Vec<Data> {
        self.next()
    }

    pub(crate) fn one<T: View>(&mut self) -> Result<T, DecodeError> {
        T::view(self.data()?)
    }

    pub(crate) fn many<T: View>(&mut self) -> Result<Vec<T>, DecodeError> {
        self.next().into_iter().map(T::view).collect()
    }

    pub(crate) fn text(&mut self) -> Result<Vec<u8>, DecodeError> {
        Ok(self.optional_text()?.unwrap_or_default())
    }

    /// A string that may be missing.
    pub(crate) fn optional_text(&mut self) -> Result<Option<Vec<u8>>, DecodeError> {
        match self.next().pop() {
            None => Ok(None),
            Some(Data::Text(text)) => Ok(text),
            Some(_) => Err(DecodeError::Form("a string")),
        }
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<Vec<u8>>, DecodeError> {
        let text = |data| match data {
            Data::Text(text) => Ok(text.unwrap_or_default()),
            _ => Err(DecodeError::Form("a string")),
        };
        self.next().into_iter().map(text).collect()
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, DecodeError> {
        match self.data()? {
            Data::Unsigned(number) => {
                T::try_from(number).map_err(|_| DecodeError::Form("a number"))
            }
            _ => Err(DecodeError::Form("a number")),
        }
    }

    pub(crate) fn status(&mut self) -> Result<Status, DecodeError> {
        status(&self.data()?)
    }

    pub(crate) fn statuses(&mut self) -> Result<Vec<Status>, DecodeError> {
        self.next().iter().map(status).collect()
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.data()? {
            Data::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::Form("bytes")),
        }
    }
}

fn status(data: &Data) -> Result<Status, DecodeError> {
    match data {
        Data::Signed(number) => {
            i32::try_from(*number).map(Status).map_err(|_| DecodeError::Form("a status"))
        }
        _ => Err(DecodeError::Form("a status")),
    }
}

/// Writes packs in the order of a list.
#[derive(Debug, Default)]
pub(crate) struct Packing(Vec<Vec<Data>>);

impl Packing {
    pub(crate) fn data(mut self, data: Data) -> Self {
        self.0.push(vec![data]);
        self
    }

    pub(crate) fn all(mut self, data: Vec<Data>) -> Self {
        self.0.push(data);
        self
    }

    pub(crate) fn one<T: View>(self, view: &T) -> Self {
        self.data(view.data())
    }

    pub(crate) fn many<T: View>(self, views: &[T]) -> Self {
        self.all(views.iter().map(View::data).collect())
    }

    pub(crate) fn text(self, text: &[u8]) -> Self {
        self.data(Data::Text(Some(text.to_vec())))
    }

    pub(crate) fn optional_text(self, text: Option<&[u8]>) -> Self {
        self.data(Data::Text(text.map(<[u8]>::to_vec)))
    }

    pub(crate) fn texts(self, texts: &[Vec<u8>]) -> Self {
        self.all(texts.iter().map(|text| Data::Text(Some(text.clone()))).collect())
    }

    pub(crate) fn number(self, number: impl Into<u64>) -> Self {
        self.data(Data::Unsigned(number.into()))
    }

    pub(crate) fn status(self, status: Status) -> Self {
        self.data(Data::Signed(status.0.into()))
    }

    pub(crate) fn statuses(self, statuses: &[Status]) -> Self {
        self.all(statuses.iter().map(|status| Data::Signed(status.0.into())).collect())
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.data(Data::Bytes(bytes.to_vec()))
    }

    pub(crate) fn write(self, list: &[Pack], writer: &mut Writer) {
        debug_assert!(self.0.len() <= list.len(), "{list:?} has no place for all");
        for (pack, data) in list.iter().zip(&self.0) {
            pack.write(data, writer);
        }
    }
}

impl Pack {
    const fn name(&self) -> &'static str {
        match *self {
            Self::One(_, name)
            | Self::Counted(_, name)
            | Self::Each(_, name)
            | Self::Maybe(_, name)
            | Self::Encoded(name) => name,
            Self::Rest([(_, name), ..]) => name,
            Self::Rest([]) => "",
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<Data>, DecodeError> {
        match *self {
            Self::One(kind, _) => Ok(vec![reader.one(kind)?]),
            Self::Counted(kind, _) => match number(reader)? {
                0 => Ok(Vec::new()),
                number => reader.some(kind, number),
            },
            Self::Each(kind, _) => {
                let mut data = Vec::new();
                for _ in 0..number(reader)? {
                    data.push(reader.one(kind)?);
                }
                Ok(data)
            }
            Self::Maybe(..) if reader.is_empty() => Ok(Vec::new()),
            Self::Maybe(kind, _) => Ok(vec![reader.one(kind)?]),
            Self::Rest(kinds) => {
                let mut data = Vec::new();
                while !reader.is_empty() {
                    for (kind, _) in kinds {
                        data.push(reader.one(*kind)?);
                    }
                }
                Ok(data)
            }
            Self::Encoded(..) => Ok(vec![Data::Bytes(reader.rest().to_vec())]),
        }
    }

    fn write(&self, data: &[Data], writer: &mut Writer) {
        match *self {
            Self::One(kind, _) | Self::Maybe(kind, _) => {
                for data in data {
                    writer.one(kind, data);
                }
            }
            Self::Counted(kind, _) => {
                writer.one(DataType::SIZE, &Data::Unsigned(data.len() as u64));
                if !data.is_empty() {
                    writer.pack(kind, data);
                }
            }
            Self::Each(kind, _) => {
                writer.one(DataType::SIZE, &Data::Unsigned(data.len() as u64));
                for data in data {
                    writer.one(kind, data);
                }
            }
            Self::Rest(kinds) => {
                for (data, (kind, _)) in data.iter().zip(kinds.iter().cycle()) {
                    writer.one(*kind, data);
                }
            }
            Self::Encoded(..) => {
                for data in data {
                    if let Data::Bytes(bytes) = data {
                        writer.encoded(bytes);
                    }
                }
            }
        }
    }
}

fn number(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    match reader.one(DataType::SIZE)? {
        Data::Unsigned(number) => usize::try_from(number).map_err(|_| DecodeError::Truncated),
        _ => Err(DecodeError::Form("a number")),
    }
}
