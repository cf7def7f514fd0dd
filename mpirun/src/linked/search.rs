//! The libraries of a program, as the loader searches for them: which of them are MPI libraries, and where.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use mpd_io::files::logging::one_line;
use mpd_wire::job::MpiLibrary;

use super::elf::{Elf, Parts};
use super::family::{family, is_interface, kind};

/// Largest number of libraries that are searched for.
const MAX_LIBRARIES: usize = 256;
/// Largest number of directories that are searched for one library.
const MAX_DIRECTORIES: usize = 64;
/// Directories of the system, as common loaders have them.
const SYSTEM: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// An MPI library of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The implementation.
    pub family: &'static str,
    /// The same more exactly, if its file was found.
    pub kind: Option<MpiLibrary>,
    /// The name in the program, as in `libmpi.so.40`.
    pub name: String,
    /// Its file, if it was found on this host.
    pub path: Option<PathBuf>,
    /// The library that needs it, if it is not the program itself.
    pub by: Option<String>,
}

/// The result for one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Its MPI libraries, without those that are interfaces to others of them.
    pub libraries: Vec<Library>,
    /// The first other library that was not found.
    pub missing: Option<String>,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.family, self.name)?;
        match self.path.as_deref().and_then(Path::parent) {
            Some(directory) => write!(f, " in {}", shown(directory.as_os_str().as_bytes()))?,
            None => f.write_str(", which is not found on this host")?,
        }
        if let Some(by) = &self.by {
            write!(f, ", needed by {by}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.libraries.is_empty() {
            f.write_str("not visible: no MPI library is linked")?;
            return match &self.missing {
                Some(name) => write!(f, ", but {name} is not found on this host"),
                None => Ok(()),
            };
        }
        for (i, library) in self.libraries.iter().enumerate() {
            let and = if i == 0 { "" } else { " and " };
            write!(f, "{and}{library}")?;
        }
        let differs = |pair: &[Library]| pair[0].family != pair[1].family;
        match self.libraries.windows(2).any(differs) {
            true => f.write_str("; a program can use only one of them"),
            false => Ok(()),
        }
    }
}

/// A file whose libraries are still to be searched.
struct Loaded {
    /// Its name; `None` for the program.
    name: Option<String>,
    parts: Parts,
    /// Its directory.
    origin: PathBuf,
    /// The search paths of the files that needed it.
    inherited: Vec<PathBuf>,
}

/// Searches the libraries of the program at `path`, nearest first; `read` reads a file. Libraries of an MPI library
/// do not count.
pub(super) fn walk(
    path: &Path,
    parts: Parts,
    library_path: &[u8],
    mut read: impl FnMut(&Path) -> Option<Elf>,
) -> Linked {
    let mut linked = Linked::default();
    let mut seen = BTreeSet::new();
    let origin = path.parent().unwrap_or(Path::new("/")).to_owned();
    let mut queue = VecDeque::from([Loaded { name: None, parts, origin, inherited: vec![] }]);
    while let Some(loaded) = queue.pop_front() {
        let rpath = rpath(&loaded);
        let directories = directories(&loaded, &rpath, library_path);
        for name in &loaded.parts.needed {
            if seen.len() == MAX_LIBRARIES || !seen.insert(name.clone()) {
                continue;
            }
            let found = find(name, &directories, &mut read);
            if let Some(family) = family(name, found.as_ref().map(|(_, parts)| parts.marks)) {
                let kind = found.as_ref().and_then(|(_, parts)| kind(family, parts.marks));
                let (name, path) = (shown(name), found.map(|(path, _)| path));
                let by = loaded.name.clone();
                linked.libraries.push(Library { family, kind, name, path, by });
            } else if let Some((path, parts)) = found {
                let origin = path.parent().unwrap_or(Path::new("/")).to_owned();
                let (name, inherited) = (Some(shown(name)), rpath.clone());
                queue.push_back(Loaded { name, parts, origin, inherited });
            } else {
                linked.missing = linked.missing.or_else(|| Some(shown(name)));
            }
        }
    }
    let has_core = linked.libraries.iter().any(|l| !is_interface(l.name.as_bytes()));
    linked.libraries.retain(|l| !has_core || !is_interface(l.name.as_bytes()));
    linked
}

/// The directories that the libraries of this file inherit. RUNPATH switches RPATH off.
fn rpath(loaded: &Loaded) -> Vec<PathBuf> {
    if !loaded.parts.runpath.is_empty() {
        return vec![];
    }
    let mut rpath = split(&loaded.parts.rpath, &loaded.origin);
    rpath.extend(loaded.inherited.iter().cloned());
    rpath.truncate(MAX_DIRECTORIES);
    rpath
}

fn directories(loaded: &Loaded, rpath: &[PathBuf], library_path: &[u8]) -> Vec<PathBuf> {
    let architecture = std::env::consts::ARCH;
    let mut directories = rpath.to_vec();
    directories.extend(split(library_path, &loaded.origin));
    directories.extend(split(&loaded.parts.runpath, &loaded.origin));
    directories.truncate(MAX_DIRECTORIES);
    for parent in ["/lib", "/usr/lib", "/usr/local/lib"] {
        directories.push(format!("{parent}/{architecture}-linux-gnu").into());
    }
    directories.extend(SYSTEM.map(PathBuf::from));
    directories.push("/usr/local/lib".into());
    directories
}

/// The directories of a search path. Relative ones, which count from the directory of the rank, are left out.
fn split(list: &[u8], origin: &Path) -> Vec<PathBuf> {
    let expanded = |entry: &[u8]| {
        let rest =
            [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|name| entry.strip_prefix(*name));
        let Some(rest) = rest else { return PathBuf::from(OsStr::from_bytes(entry)) };
        let path = [origin.as_os_str().as_bytes(), rest].concat();
        std::ffi::OsString::from_vec(path).into()
    };
    let entries = list.split(|&b| b == b':' || b == b';').take(MAX_DIRECTORIES);
    entries.map(expanded).filter(|path: &PathBuf| path.is_absolute()).collect()
}

fn find(
    name: &[u8],
    directories: &[PathBuf],
    read: &mut impl FnMut(&Path) -> Option<Elf>,
) -> Option<(PathBuf, Parts)> {
    let name = Path::new(OsStr::from_bytes(name));
    directories.iter().find_map(|directory| {
        // An absolute name replaces the directory.
        let path = directory.join(name);
        let parts = match read(&path)? {
            Elf::Dynamic(parts) => parts,
            Elf::Static => Parts::default(),
        };
        Some((path, parts))
    })
}

fn shown(bytes: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(needed: &[&str], rpath: &str, runpath: &str) -> Parts {
        Parts {
            needed: needed.iter().map(|n| n.as_bytes().to_vec()).collect(),
            rpath: rpath.into(),
            runpath: runpath.into(),
            marks: 0,
        }
    }

    /// The result for `/app/bin/p` with these files on the host.
    fn result(program: Parts, library_path: &str, files: &[(&str, Parts)]) -> Linked {
        walk(Path::new("/app/bin/p"), program, library_path.as_bytes(), |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, parts)| Elf::Dynamic(parts.clone()))
        })
    }

    #[test]
    fn a_library_is_found_as_the_loader_finds_it() {
        let (app, env) = ("/app/lib/libmpi.so.40", "/env/libmpi.so.40");
        let both = [(app, Parts::default()), (env, Parts::default())];
        let directory = |rpath, runpath, library_path| {
            let linked = result(parts(&["libmpi.so.40"], rpath, runpath), library_path, &both);
            linked.libraries[0].path.as_ref().map(|path| path.display().to_string())
        };
        assert_eq!(directory("", "", "").as_deref(), None);
        assert_eq!(directory("", "", "/env").as_deref(), Some(env));
        assert_eq!(directory("/app/lib", "", "/env").as_deref(), Some(app));
        assert_eq!(directory("", "/app/lib", "/env").as_deref(), Some(env));
        assert_eq!(
            directory("/app/lib", "/x", "/env").as_deref(),
            Some(env),
            "RPATH does not count"
        );
        assert_eq!(directory("", "/x:relative:/app/lib", "").as_deref(), Some(app));
    }

    #[test]
    fn the_origin_is_the_directory_of_the_file_that_needs_the_library() {
        let files = [
            ("/app/bin/../lib/liba.so", parts(&["libmpi.so.40"], "", "${ORIGIN}/mpi")),
            ("/app/bin/../lib/mpi/libmpi.so.40", Parts::default()),
        ];
        let linked = result(parts(&["liba.so"], "$ORIGIN/../lib", ""), "", &files);
        assert_eq!(
            linked.to_string(),
            "Open MPI (libmpi.so.40 in /app/bin/../lib/mpi, needed by liba.so)"
        );
    }

    #[test]
    fn libraries_of_libraries_inherit_the_rpath() {
        let files = [
            ("/r/liba.so", parts(&["libmpich.so.12"], "", "")),
            ("/r/libmpich.so.12", Parts::default()),
        ];
        let linked = result(parts(&["liba.so"], "/r", ""), "", &files);
        assert_eq!(linked.to_string(), "MPICH (libmpich.so.12 in /r, needed by liba.so)");
        let linked = result(parts(&["liba.so"], "", "/r"), "", &files);
        assert!(linked.to_string().contains("not found"), "RUNPATH is not inherited: {linked}");
    }

    #[test]
    fn two_implementations_in_one_program_are_reported() {
        let linked = result(parts(&["libmpi.so.40", "libmpich.so.12"], "", ""), "", &[]);
        assert_eq!(
            linked.to_string(),
            "Open MPI (libmpi.so.40, which is not found on this host) and MPICH (libmpich.so.12, which is \
             not found on this host); a program can use only one of them"
        );
    }

    #[test]
    fn an_interface_for_fortran_is_left_out_beside_the_library() {
        let linked = result(parts(&["libmpi_mpifh.so.40", "libmpi.so.40"], "", ""), "", &[]);
        assert_eq!(linked.libraries.len(), 1);
        assert_eq!(linked.libraries[0].name, "libmpi.so.40");
        assert_eq!(result(parts(&["libmpi_mpifh.so.40"], "", ""), "", &[]).libraries.len(), 1);
    }

    #[test]
    fn a_missing_library_is_named_if_no_mpi_library_was_found() {
        let linked = result(parts(&["libx.so"], "", ""), "", &[]);
        assert_eq!(
            linked.to_string(),
            "not visible: no MPI library is linked, but libx.so is not found on this host"
        );
    }

    #[test]
    fn circles_and_masses_of_libraries_end() {
        let files = [
            ("/r/liba.so", parts(&["libb.so"], "", "")),
            ("/r/libb.so", parts(&["liba.so"], "", "")),
        ];
        assert_eq!(result(parts(&["liba.so"], "/r", ""), "", &files), Linked::default());
        let mut reads = 0;
        let endless = |_: &Path| {
            reads += 1;
            let names: Vec<String> = (0..100).map(|i| format!("lib{reads}-{i}.so")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Some(Elf::Dynamic(parts(&names, "", "")))
        };
        walk(Path::new("/p"), parts(&["liba.so"], "", ""), b"", endless);
        assert_eq!(reads, MAX_LIBRARIES);
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        let linked = result(parts(&["lib\x1b[2J.so"], "", ""), "", &[]);
        assert!(!linked.to_string().contains('\x1b'), "{linked:?}");
    }
}
