//! The fields of an encoded specification: big-endian numbers, and bytes preceded by their length.
//! The types and `codec` define the sequence of fields.

use crate::job::bounds::Bytes;

/// The bytes are not a job specification of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed job specification at byte {at}")]
pub struct InvalidSpec {
    /// Offset of the invalid field.
    pub at: usize,
}

/// Writes fields one after the other.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, n: u8) {
        self.0.push(n);
    }

    pub(super) fn flag(&mut self, yes: bool) {
        self.u8(u8::from(yes));
    }

    pub(super) fn u16(&mut self, n: u16) {
        self.0.extend_from_slice(&n.to_be_bytes());
    }

    /// Lengths and counts. A specification cannot have 4 GiB, because its sender bounds it.
    pub(super) fn u32(&mut self, n: usize) {
        self.0.extend_from_slice(&u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes());
    }

    pub(super) fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_be_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn option(&mut self, bytes: Option<&[u8]>) {
        self.flag(bytes.is_some());
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    pub(super) fn list(&mut self, list: &[Bytes]) {
        self.u32(list.len());
        for bytes in list {
            self.bytes(bytes);
        }
    }

    pub(super) fn number(&mut self, number: Option<u32>) {
        self.flag(number.is_some());
        if let Some(number) = number {
            self.u32(number as usize);
        }
    }

    /// One of a few values, as its index among them.
    pub(super) fn choice<T: PartialEq>(&mut self, all: &[T], chosen: T) {
        let at = all.iter().position(|one| *one == chosen).unwrap_or(0);
        self.u8(u8::try_from(at).unwrap_or(0));
    }
}

/// Reads the same fields.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether every byte was read.
    pub(super) const fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn invalid(&self) -> InvalidSpec {
        InvalidSpec { at: self.at }
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], InvalidSpec> {
        let array = self.bytes[self.at..].first_chunk::<N>().ok_or(self.invalid())?;
        self.at += N;
        Ok(*array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, InvalidSpec> {
        self.take::<1>().map(|[n]| n)
    }

    pub(super) fn flag(&mut self) -> Result<bool, InvalidSpec> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid()),
        }
    }

    pub(super) fn u16(&mut self) -> Result<u16, InvalidSpec> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, InvalidSpec> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, InvalidSpec> {
        self.take().map(u64::from_be_bytes)
    }

    /// A count of items of at least `each` bytes. It is at most what the remaining bytes can hold.
    pub(super) fn count(&mut self, each: usize) -> Result<usize, InvalidSpec> {
        let count = self.u32()? as usize;
        match count.checked_mul(each) {
            Some(need) if need <= self.bytes.len() - self.at => Ok(count),
            _ => Err(self.invalid()),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, InvalidSpec> {
        let length = self.count(1)?;
        let bytes = self.bytes[self.at..self.at + length].to_vec();
        self.at += length;
        Ok(bytes)
    }

    pub(super) fn option(&mut self) -> Result<Option<Bytes>, InvalidSpec> {
        if self.flag()? { self.bytes().map(Some) } else { Ok(None) }
    }

    pub(super) fn list(&mut self) -> Result<Vec<Bytes>, InvalidSpec> {
        let count = self.count(4)?;
        (0..count).map(|_| self.bytes()).collect()
    }

    pub(super) fn text(&mut self) -> Result<String, InvalidSpec> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|_| self.invalid())
    }

    pub(super) fn number(&mut self) -> Result<Option<u32>, InvalidSpec> {
        if self.flag()? { self.u32().map(Some) } else { Ok(None) }
    }

    pub(super) fn choice<T: Copy>(&mut self, all: &[T]) -> Result<T, InvalidSpec> {
        let at = usize::from(self.u8()?);
        all.get(at).copied().ok_or(self.invalid())
    }
}
