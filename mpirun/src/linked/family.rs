//! The MPI implementations, by the names of their libraries and by the names of symbols inside.

use mpd_wire::job::MpiLibrary;

/// Texts among the names of a library's symbols, each with the implementation that has them. The first text that is
/// found counts.
const MARKS: [(&[u8], &str); FAMILIES] = [
    (b"I_MPI_", "Intel MPI"),
    (b"MPIDI_CRAY", "Cray MPICH"),
    (b"mv2_", "MVAPICH"),
    (b"mvp_", "MVAPICH"),
    (b"ompi_mpi_", "Open MPI"),
];

const FAMILIES: usize = 5;

/// Functions that show the age of a library. The first one is of MPI 4.0, which Open MPI 5 has and Open MPI 4 has not. The
/// second one is of MPI 4.1, which MPICH 4.2 has and MPICH 4.1 has not. An MPICH that speaks PMIx has the third one.
const AGES: [&[u8]; 3] = [b"MPI_Session_init", b"MPI_Remove_error_class", b"PMIx_Init"];

/// The texts of [`MARKS`] and then of [`AGES`], for the reading.
pub(super) fn marks() -> [&'static [u8]; FAMILIES + AGES.len()] {
    let [a, b, c, d, e] = MARKS.map(|(mark, _)| mark);
    let [f, g, h] = AGES;
    [a, b, c, d, e, f, g, h]
}

/// The kind of a library of this family, by the marks inside it.
pub(super) fn kind(family: &str, marks: u8) -> Option<MpiLibrary> {
    let has = |age: usize| marks & (1 << (FAMILIES + age)) != 0;
    Some(match family {
        "Open MPI" if has(0) => MpiLibrary::OpenMpi5,
        "Open MPI" => MpiLibrary::OpenMpi4,
        "MPICH" if has(2) => MpiLibrary::PmixMpich,
        "MPICH" if has(1) => MpiLibrary::LateMpich,
        "MPICH" => MpiLibrary::Mpich,
        "Intel MPI" => MpiLibrary::Intel,
        "MVAPICH" => MpiLibrary::Mvapich,
        "Cray MPICH" => MpiLibrary::Cray,
        _ => return None,
    })
}

/// The implementation that has a library called `name`; `marks` are the marks inside the library if it was found.
/// `None` if the name is not that of an MPI library.
pub(super) fn family(name: &[u8], marks: Option<u8>) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok()?;
    let (stem, version) = name.split_once(".so").unwrap_or((name, ""));
    let version = version.trim_start_matches('.').split('.').next().unwrap_or_default();
    let marked = marks.and_then(|found| {
        let is_set = |bit: usize| found & (1 << bit) != 0;
        MARKS.iter().enumerate().find(|(bit, _)| is_set(*bit)).map(|(_, (_, family))| *family)
    });
    let by_name = match (stem, version) {
        ("libmpi", "12") => match marks {
            Some(_) => "MPICH",
            None => "MPICH, Intel MPI or MVAPICH",
        },
        ("libmpich", _) => "MPICH",
        ("libmpi_ilp64" | "libmpi_mt" | "libmpigi", _) => "Intel MPI",
        ("libmpi_abi", _) => match marks {
            Some(_) => "MPICH",
            None => "any MPI library with the standard ABI",
        },
        ("libmpi", "0" | "1" | "20" | "40") => "Open MPI",
        ("libmpi", _) => "an unknown MPI library",
        ("libmpi_mpifh" | "libmpi_usempif08" | "libmpi_usempi_ignore_tkr", _)
        | ("libmpi_cxx" | "liboshmem", _) => "Open MPI",
        _ if stem.starts_with("libmpi_cray") || stem.starts_with("libmpi_gnu_") => "Cray MPICH",
        _ => return None,
    };
    // Texts of Open MPI inside do not make an MPICH one.
    Some(
        marked
            .filter(|marked| *marked != "Open MPI" || !by_name.contains("MPICH"))
            .unwrap_or(by_name),
    )
}

/// Whether a library is only an interface to `libmpi` for another language, so that the file of `libmpi` says more.
pub(super) fn is_interface(name: &[u8]) -> bool {
    [&b"libmpi_mpifh"[..], b"libmpi_usempi", b"libmpi_cxx", b"liboshmem"]
        .iter()
        .any(|stem| name.starts_with(stem))
}

/// The interpreter of a script, without `env`; `None` if the file is no script.
pub(super) fn interpreter(start: &[u8]) -> Option<String> {
    let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(mpd_io::files::logging::one_line(first));
    }
    let is_program = |word: &&str| !word.starts_with('-') && !word.contains('=');
    Some(mpd_io::files::logging::one_line(words.find(is_program).unwrap_or(first)))
}

/// Whether a path is that of Python, by its name.
pub(super) fn is_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries_show_the_implementation() {
        let named = |name: &str| family(name.as_bytes(), None);
        for (name, expected) in [
            ("libmpi.so.40", "Open MPI"),
            ("libmpi.so.20", "Open MPI"),
            ("libmpi_mpifh.so.40", "Open MPI"),
            ("libmpich.so.12", "MPICH"),
            ("libmpi.so.12", "MPICH, Intel MPI or MVAPICH"),
            ("libmpi_abi.so.1", "any MPI library with the standard ABI"),
            ("libmpi.so", "an unknown MPI library"),
            ("libmpi_gnu_123.so.12", "Cray MPICH"),
        ] {
            assert_eq!(named(name), Some(expected), "{name}");
        }
        for name in ["libc.so.6", "libmpfr.so.6", "libmpifort.so.12", "mpi", ""] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(family(b"\xff.so", None), None);
    }

    #[test]
    fn symbols_distinguish_libraries_of_one_name() {
        let bit = |family: &str| 1 << MARKS.iter().position(|(_, f)| *f == family).unwrap();
        let found = |marks| family(b"libmpi.so.12", Some(marks));
        assert_eq!(found(bit("Intel MPI")), Some("Intel MPI"));
        assert_eq!(found(bit("MVAPICH")), Some("MVAPICH"));
        assert_eq!(found(bit("Intel MPI") | bit("Open MPI")), Some("Intel MPI"));
        assert_eq!(found(0), Some("MPICH"));
        assert_eq!(found(bit("Open MPI")), Some("MPICH"), "with PMIx");
        assert_eq!(family(b"libmpi.so.40", Some(bit("Open MPI"))), Some("Open MPI"));
        assert_eq!(family(b"libc.so.6", Some(bit("Intel MPI"))), None);
    }

    #[test]
    fn functions_of_mpi_show_the_age_of_a_library() {
        let age = |age: usize| 1 << (FAMILIES + age);
        assert_eq!(kind("Open MPI", 0), Some(MpiLibrary::OpenMpi4));
        assert_eq!(kind("Open MPI", age(0)), Some(MpiLibrary::OpenMpi5));
        assert_eq!(kind("MPICH", age(0)), Some(MpiLibrary::Mpich));
        assert_eq!(kind("MPICH", age(0) | age(1)), Some(MpiLibrary::LateMpich));
        assert_eq!(kind("MPICH", age(0) | age(1) | age(2)), Some(MpiLibrary::PmixMpich));
        assert_eq!(kind("Intel MPI", age(0) | age(1)), Some(MpiLibrary::Intel));
        assert_eq!(kind("any MPI library with the standard ABI", 0), None);
        assert_eq!(marks().len(), 8, "the marks are the bits of one byte");
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let named = |line: &str| interpreter(line.as_bytes());
        assert_eq!(named("#!/bin/sh -e\nx"), Some("/bin/sh".into()));
        assert_eq!(named("#! /usr/bin/env -S A=1 python3 -u\n"), Some("python3".into()));
        assert_eq!(named("#!/usr/bin/env\n"), Some("/usr/bin/env".into()));
        assert_eq!(named("#!\n"), None);
        assert_eq!(named("\x7fELF"), None);
    }

    #[test]
    fn python_is_known_by_its_name() {
        for path in ["/usr/bin/python3", "python3.11", "/x/pypy3", "python"] {
            assert!(is_python(path), "{path}");
        }
        for path in ["/usr/bin/pythonic", "/python3/sh", "", "ipython"] {
            assert!(!is_python(path), "{path}");
        }
    }
}
