//! The dynamic section of an ELF file: the names and search paths that the loader would use. Any file may be
//! given; a file that is damaged has no parts.

use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader32, FileHeader64, PT_DYNAMIC,
    PT_INTERP,
};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, ReadRef};

/// Largest number of needed libraries that are read.
const MAX_NEEDED: usize = 256;
/// Largest number of entries of the dynamic section that are read.
const MAX_ENTRIES: usize = 4096;
/// Largest part of the string table that is searched for marks.
const MAX_STRINGS: u64 = 4 << 20;
/// Longest name or search path.
const MAX_NAME: u64 = 4096;

/// An ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elf {
    /// It needs no loader.
    Static,
    /// It is loaded with other libraries.
    Dynamic(Parts),
}

/// What a dynamic section says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Names of needed libraries.
    pub needed: Vec<Vec<u8>>,
    /// Directories that count before `LD_LIBRARY_PATH`, for the whole program.
    pub rpath: Vec<u8>,
    /// Directories that count after `LD_LIBRARY_PATH`, for this file.
    pub runpath: Vec<u8>,
    /// Which of the `marks` occur among the names of symbols, as bits.
    pub marks: u8,
}

/// Reads a file; `marks` are texts that are searched among the names of symbols. `None` if it is no ELF file or a
/// damaged one.
pub fn read<'d>(data: impl ReadRef<'d>, marks: &[&[u8]]) -> Option<Elf> {
    let identity = data.read_bytes_at(0, 5).ok()?;
    match identity {
        [0x7f, b'E', b'L', b'F', 1] => {
            of(FileHeader32::<Endianness>::parse(data).ok()?, data, marks)
        }
        [0x7f, b'E', b'L', b'F', 2] => {
            of(FileHeader64::<Endianness>::parse(data).ok()?, data, marks)
        }
        _ => None,
    }
}

fn of<'d, H, R>(header: &'d H, data: R, marks: &[&[u8]]) -> Option<Elf>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let with_type = |wanted| segments.iter().find(|s| s.p_type(endian) == wanted);
    let Some(dynamic) = with_type(PT_DYNAMIC) else { return Some(Elf::Static) };
    let entries = dynamic.dynamic(endian, data).ok()??;
    let end = |entry: &&H::Dyn| entry.d_tag(endian) != object::elf::DT_NULL;
    let entries: Vec<&H::Dyn> = entries.iter().take(MAX_ENTRIES).take_while(end).collect();
    let value = |tag| {
        let entry = entries.iter().find(|e| e.d_tag(endian) == tag);
        entry.map(|e| -> u64 { e.d_val(endian).into() })
    };
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        return Some(of_nothing(with_type(PT_INTERP).is_some()));
    };
    // The table is given by its address in memory.
    let start = segments.iter().find_map(|segment| {
        let (from, size): (u64, u64) =
            (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
        let inside = segment.p_type(endian) == object::elf::PT_LOAD
            && address >= from
            && address - from < size;
        let offset: u64 = segment.p_offset(endian).into();
        inside.then(|| offset.checked_add(address - from)).flatten()
    })?;
    let strings = Strings { data, start, end: start.checked_add(size)?.min(data.len().ok()?) };
    let text = |tag| value(tag).and_then(|at| strings.at(at)).unwrap_or_default();
    let needed: Vec<Vec<u8>> = entries
        .iter()
        .filter(|e| e.d_tag(endian) == DT_NEEDED)
        .take(MAX_NEEDED)
        .filter_map(|e| strings.at(e.d_val(endian).into()))
        .collect();
    if needed.is_empty() && with_type(PT_INTERP).is_none() {
        // Static programs that can be loaded at any address have a dynamic section as well.
        return Some(Elf::Static);
    }
    let (rpath, runpath) = (text(DT_RPATH), text(DT_RUNPATH));
    Some(Elf::Dynamic(Parts { needed, rpath, runpath, marks: strings.marks(marks) }))
}

fn of_nothing(is_loaded: bool) -> Elf {
    if is_loaded { Elf::Dynamic(Parts::default()) } else { Elf::Static }
}

/// The string table of a dynamic section.
struct Strings<R> {
    data: R,
    start: u64,
    end: u64,
}

impl<'d, R: ReadRef<'d>> Strings<R> {
    fn at(&self, offset: u64) -> Option<Vec<u8>> {
        let from = self.start.checked_add(offset).filter(|from| *from < self.end)?;
        let to = self.end.min(from.saturating_add(MAX_NAME));
        let name = self.data.read_bytes_at_until(from..to, 0).ok()?;
        (!name.is_empty()).then(|| name.to_vec())
    }

    fn marks(&self, marks: &[&[u8]]) -> u8 {
        if marks.is_empty() {
            return 0;
        }
        let size = self.end.saturating_sub(self.start).min(MAX_STRINGS);
        let Ok(table) = self.data.read_bytes_at(self.start, size) else { return 0 };
        let found = |mark: &&[u8]| memchr::memmem::find(table, mark).is_some();
        marks.iter().take(8).enumerate().map(|(bit, mark)| u8::from(found(mark)) << bit).sum()
    }
}

#[cfg(test)]
mod tests;
