//! Finds the program of an argset and reports its problem before any process starts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use mpd_wire::job::{ARCHITECTURE, Argset, Program, Unusable, names_architecture};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

use crate::files::logging::plain;

/// The name for this host, with its architecture as `uname -m` prints it.
fn of_this_host(program: &[u8]) -> Vec<u8> {
    let names = nix::sys::utsname::uname();
    let machine = names.as_ref().map_or(OsStr::new(""), |names| names.machine());
    let mut rest = program;
    let mut name = Vec::new();
    while let Some((first, others)) = rest.split_first() {
        match rest.strip_prefix(ARCHITECTURE.as_bytes()) {
            Some(behind) => {
                name.extend_from_slice(machine.as_bytes());
                rest = behind;
            }
            None => {
                name.push(*first);
                rest = others;
            }
        }
    }
    name
}

/// The program to execute on this host. `%a` in its name is the architecture, unless a program has this very name.
///
/// # Errors
/// [`Unusable`], about the first existing candidate if there is one.
pub fn program(argset: &Argset) -> Result<Program, Unusable> {
    if !names_architecture(&argset.program) {
        return literal(argset);
    }
    literal(argset).or_else(|_| {
        let program = of_this_host(&argset.program);
        literal(&Argset { program: program.clone(), ..argset.clone() }).map_err(|unusable| {
            let problem = format!("{}: {}", String::from_utf8_lossy(&program), unusable.problem);
            Unusable { problem, ..unusable }
        })
    })
}

fn literal(argset: &Argset) -> Result<Program, Unusable> {
    let directory = Path::new(OsStr::from_bytes(&argset.directory));
    if argset.program.contains(&b'/') {
        let path = directory.join(OsStr::from_bytes(&argset.program));
        let script = check(&path).map_err(|unusable| with_hint(unusable, source_hint(&path)))?;
        return Ok(Program { path: argset.program.clone(), script });
    }
    let mut found = None;
    for place in argset.search.split(|&b| b == b':') {
        let place = if place.is_empty() { b"." } else { place };
        let candidate =
            Path::new(OsStr::from_bytes(place)).join(OsStr::from_bytes(&argset.program));
        match check(&directory.join(&candidate)) {
            Ok(script) => {
                let path = candidate.into_os_string().into_vec();
                return Ok(Program { path, script });
            }
            Err(e) if e.missing => {}
            Err(e) => found = found.or(Some(e)),
        }
    }
    let here = directory.join(OsStr::from_bytes(&argset.program));
    let source = source_hint(&here);
    Err(match (found, source) {
        (Some(unusable), source) => with_hint(unusable, source),
        (None, source @ Some(_)) => with_hint(not_in_path(), source),
        (None, None) => with_hint(
            not_in_path(),
            check(&here).is_ok().then(|| {
                let name = String::from_utf8_lossy(&argset.program);
                format!("write ./{name} for {name} in {}", directory.display())
            }),
        ),
    })
}

/// Adds advice.
fn with_hint(mut unusable: Unusable, hint: Option<String>) -> Unusable {
    if let Some(hint) = hint {
        unusable.problem += &format!("; {hint}");
    }
    unusable
}

fn not_in_path() -> Unusable {
    let problem = "No such file or directory (in the search path)".to_owned();
    Unusable { problem, missing: true }
}

/// Advice for a file that is source code by its name.
fn source_hint(path: &Path) -> Option<String> {
    let compiler = match path.extension()?.to_str()? {
        "c" => "mpicc",
        "C" | "cc" | "cp" | "cpp" | "cxx" | "c++" => "mpicxx",
        "f" | "F" | "for" | "f77" | "f90" | "F90" | "f95" | "F95" | "f03" | "F03" | "f08"
        | "F08" => "mpifort",
        _ => return None,
    };
    let (name, program) = (path.file_name()?.to_str()?, path.file_stem()?.to_str()?);
    let advice =
        || format!("{name} is source code: compile it, as by {compiler} -o {program} {name}");
    path.is_file().then(advice)
}

/// The program at a given path.
///
/// # Errors
/// [`Unusable`].
pub fn at(path: &Path) -> Result<Program, Unusable> {
    let script = check(path).map_err(|unusable| {
        let problem = format!("its copy {}: {}", path.display(), unusable.problem);
        Unusable { problem, ..unusable }
    })?;
    Ok(Program { path: path.as_os_str().as_bytes().to_vec(), script })
}

/// Checks whether the program may be executed. Returns whether it is a script without interpreter line.
fn check(path: &Path) -> Result<bool, Unusable> {
    let unusable = |e: Errno| Unusable {
        problem: plain(&e.into()),
        missing: matches!(e, Errno::ENOENT | Errno::ENOTDIR),
    };
    let metadata = fs::metadata(path)
        .map_err(|e| unusable(Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO))))?;
    if metadata.is_dir() {
        return Err(unusable(Errno::EISDIR));
    }
    if !metadata.is_file() {
        // The error that the kernel would give. Opening a pipe to look into it would wait for a writer.
        return Err(unusable(Errno::EACCES));
    }
    faccessat(nix::fcntl::AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS)
        .map_err(unusable)?;
    let start = beginning(path);
    if start.starts_with(b"#!")
        && start.split(|&b| b == b'\n').next().is_some_and(|l| l.ends_with(b"\r"))
    {
        let problem = "its lines end as on Windows (CRLF); convert it, as by sed -i 's/\\r$//'";
        return Err(Unusable { problem: problem.to_owned(), missing: false });
    }
    let Some(interpreter) = interpreter(&start) else {
        return Ok(!start.is_empty() && !start.contains(&0));
    };
    match check_interpreter(path, &interpreter) {
        Some(problem) => Err(Unusable { problem, missing: false }),
        None => Ok(false),
    }
}

/// The first bytes of a file; empty if it cannot be read. Execution does not need the permission to read.
fn beginning(path: &Path) -> Vec<u8> {
    // A regular file gives all these bytes to one read.
    let mut start = vec![0; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    start.truncate(read.unwrap_or(0));
    start
}

/// The interpreter that the first line of a script names.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let word = line.trim_ascii().split(|b| b.is_ascii_whitespace()).next()?;
    (!word.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(word)))
}

fn check_interpreter(script: &Path, interpreter: &Path) -> Option<String> {
    // A relative interpreter is relative to the directory at exec: the kernel decides.
    if !interpreter.is_absolute() || script == interpreter {
        return None;
    }
    let error = match fs::metadata(interpreter) {
        Err(e) => Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
        Ok(_) => {
            faccessat(nix::fcntl::AT_FDCWD, interpreter, AccessFlags::X_OK, AtFlags::AT_EACCESS)
                .err()?
        }
    };
    Some(format!("its interpreter {}: {}", interpreter.display(), plain(&error.into())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn argset(directory: &Path, program: &str, search: &str) -> Argset {
        Argset {
            size: 1,
            program: program.into(),
            directory: directory.as_os_str().as_bytes().to_vec(),
            search: search.into(),
            ..Argset::default()
        }
    }

    fn file(directory: &Path, name: &str, text: &str, mode: u32) {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_chosen_by_the_architecture_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let names = nix::sys::utsname::uname().unwrap();
        let name = format!("a.{}", names.machine().to_str().unwrap());
        let found = |program: &str, search: &str| program_of(dir, program, search);
        let missing = found("./a.%a", "").unwrap_err();
        assert!(missing.missing && missing.problem.starts_with(&format!("./{name}: ")));
        file(dir, &name, "#!/bin/sh\n", 0o755);
        assert_eq!(found("./a.%a", "").unwrap(), format!("./{name}").as_bytes());
        assert!(found("a.%a", dir.to_str().unwrap()).unwrap().ends_with(name.as_bytes()));
        file(dir, "a.%a", "#!/bin/sh\n", 0o755);
        assert_eq!(found("./a.%a", "").unwrap(), b"./a.%a");
    }

    #[test]
    fn programs_are_found_as_execvp_would_and_refused_with_the_systems_text() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        file(dir, "good", "#!/bin/sh\n", 0o755);
        file(dir, "plain", "x", 0o644);
        file(dir, "windows", "#!/bin/sh\r\necho\r\n", 0o755);
        file(dir, "orphan", "#!/no/such/interpreter -x\n", 0o755);
        fs::create_dir(dir.join("sub")).unwrap();
        let problem = |program: &str, search: &str| {
            program_of(dir, program, search).map_err(|e| (e.problem, e.missing))
        };
        let failed = |text: &str, missing| Err((text.to_owned(), missing));
        assert_eq!(problem("./good", ""), Ok(b"./good".to_vec()));
        assert_eq!(problem("good", "/no/such::/bin"), Ok(b"./good".to_vec()));
        assert_eq!(problem("sh", "/no/such:/bin"), Ok(b"/bin/sh".to_vec()));
        assert_eq!(problem("./cpio", ""), failed("No such file or directory", true));
        assert_eq!(
            problem("cpio-x", "/bin"),
            failed("No such file or directory (in the search path)", true)
        );
        let beside = problem("good", "/bin").unwrap_err().0;
        assert!(beside.contains("in the search path); write ./good for good in /"), "{beside}");
        let windows = problem("./windows", "").unwrap_err();
        assert!(windows.0.contains("CRLF") && !windows.1, "{windows:?}");
        assert_eq!(problem("./sub", ""), failed("Is a directory", false));
        let interpreter = "its interpreter /no/such/interpreter: No such file or directory";
        assert_eq!(problem("./orphan", ""), failed(interpreter, false));
        assert_eq!(problem("./good/x", ""), failed("Not a directory", true));
        assert_eq!(problem("./plain", ""), failed("Permission denied", false));
    }

    #[test]
    fn source_code_is_refused_with_the_advice_to_compile_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for (name, mode, compiler) in
            [("a.c", 0o644, "mpicc"), ("b.cpp", 0o755, "mpicxx"), ("d.f90", 0o644, "mpifort")]
        {
            file(dir, name, "int x;\n", mode);
            let problem = program_of(dir, name, "/bin").unwrap_err().problem;
            let advice = format!(
                "{name} is source code: compile it, as by {compiler} -o {} {name}",
                &name[..1]
            );
            assert_eq!(
                problem,
                format!("No such file or directory (in the search path); {advice}")
            );
            if mode == 0o644 {
                let problem = program_of(dir, &format!("./{name}"), "").unwrap_err().problem;
                assert_eq!(problem, format!("Permission denied; {advice}"));
                let problem = program_of(dir, name, &dir.display().to_string()).unwrap_err();
                assert_eq!(problem.problem, format!("Permission denied; {advice}"));
            }
        }
        let absent = program_of(dir, "none.c", "/bin").unwrap_err().problem;
        assert_eq!(absent, "No such file or directory (in the search path)");
    }

    fn program_of(directory: &Path, name: &str, search: &str) -> Result<Vec<u8>, Unusable> {
        program(&argset(directory, name, search)).map(|program| program.path)
    }

    #[test]
    fn only_text_without_an_interpreter_line_is_for_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, script) in [
            ("a", "echo\n", true),
            ("b", "#!/bin/sh\n", false),
            ("c", "\x7fELF\0\0", false),
            ("d", "", false),
        ] {
            file(dir.path(), name, text, 0o755);
            let argset = argset(dir.path(), &format!("./{name}"), "");
            assert_eq!(program(&argset).unwrap().script, script, "{name}");
        }
    }
}
