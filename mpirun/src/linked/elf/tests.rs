//! Files that are made here, and damaged ones.

use proptest::prelude::*;

use super::*;

/// Address of the one loaded segment.
const BASE: u64 = 0x40_0000;

/// A little-endian 64-bit file with a dynamic section: `entries` and a string table.
fn file(entries: &[(u64, u64)], strings: &[u8], has_interpreter: bool) -> Vec<u8> {
    let (headers, at) = (2 + u16::from(has_interpreter), 64 + 3 * 56_u64);
    let dynamic: Vec<u8> =
        entries.iter().flat_map(|(tag, value)| [*tag, *value]).flat_map(u64::to_le_bytes).collect();
    let size = at + dynamic.len() as u64 + strings.len() as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    for half in [3_u16, 62] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(1_u32.to_le_bytes());
    for word in [0, 64, 0_u64] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0_u32.to_le_bytes());
    for half in [64, 56, headers, 64, 0, 0_u16] {
        bytes.extend(half.to_le_bytes());
    }
    let mut segment = |kind: u32, offset: u64, size: u64| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(4_u32.to_le_bytes());
        for word in [offset, BASE + offset, BASE + offset, size, size, 8] {
            bytes.extend(word.to_le_bytes());
        }
    };
    segment(1, 0, size);
    segment(2, at, dynamic.len() as u64);
    segment(3, 0, 4);
    bytes.extend(dynamic);
    bytes.extend(strings);
    bytes
}

const STRINGS: &[u8] = b"\0libmpi.so.40\0/run\0/r\0I_MPI_x\0";

/// A program that needs `libmpi.so.40`; the string table begins after six entries.
fn program(has_interpreter: bool) -> Vec<u8> {
    let strings = BASE + 64 + 3 * 56 + 6 * 16;
    let size = STRINGS.len() as u64;
    let entries = [(1, 1), (29, 14), (15, 19), (5, strings), (10, size), (0, 0)];
    file(&entries, STRINGS, has_interpreter)
}

#[test]
fn a_dynamic_section_gives_names_and_paths() {
    let expected = Parts {
        needed: vec![b"libmpi.so.40".to_vec()],
        rpath: b"/r".to_vec(),
        runpath: b"/run".to_vec(),
        marks: 0b10,
    };
    let marks: [&[u8]; 2] = [b"ompi_", b"I_MPI_"];
    assert_eq!(read(program(true).as_slice(), &marks), Some(Elf::Dynamic(expected)));
}

#[test]
fn a_file_without_names_and_interpreter_is_static() {
    let strings = BASE + 64 + 3 * 56 + 3 * 16;
    let entries = [(5, strings), (10, 1), (0, 0)];
    assert_eq!(read(file(&entries, b"\0", false).as_slice(), &[]), Some(Elf::Static));
    assert_eq!(
        read(file(&entries, b"\0", true).as_slice(), &[]),
        Some(Elf::Dynamic(Parts::default()))
    );
    assert_eq!(read(file(&[(0, 0)], b"", false).as_slice(), &[]), Some(Elf::Static));
}

#[test]
fn names_outside_the_table_are_left_out() {
    let strings = BASE + 64 + 3 * 56 + 5 * 16;
    let entries = [(1, 1), (1, u64::MAX), (5, strings), (10, u64::MAX), (0, 0)];
    assert_eq!(read(file(&entries, b"\0a\0", true).as_slice(), &[]), None);
    let entries = [(1, 1), (1, 1000), (5, strings), (10, 3), (0, 0)];
    let Some(Elf::Dynamic(parts)) = read(file(&entries, b"\0a\0", true).as_slice(), &[]) else {
        panic!()
    };
    assert_eq!(parts.needed, [b"a"]);
}

#[test]
fn other_files_have_no_parts() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x03\x01\x01"] {
        assert_eq!(read(bytes, &[]), None);
    }
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        cut in 0_usize..500,
        damage in proptest::collection::vec((0_usize..400, any::<u8>()), 0..8),
    ) {
        let mut bytes = program(true);
        for (at, byte) in damage {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(cut.max(4));
        if let Some(Elf::Dynamic(parts)) = read(bytes.as_slice(), &[b"x"]) {
            prop_assert!(parts.needed.len() <= MAX_NEEDED);
        }
    }
}
