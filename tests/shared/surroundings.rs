//! What this machine has for the tests, and what to say where it has not.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A line that is seen although the test passes.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says visibly why a test does nothing here.
///
/// # Panics
/// With `MPD_TEST_NO_SKIP=1`.
pub fn skip(why: &str) {
    let forbidden = std::env::var_os("MPD_TEST_NO_SKIP").is_some_and(|value| value == "1");
    assert!(!forbidden, "nothing may be skipped, and this cannot run: {why}");
    tell(&format!("SKIP: {why}"));
}

/// Where a program of ours is, or a helper: beside this executable, or beside the directory of a test's;
/// ours are where `MPD_BIN_DIR` says, if it does.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("its own path");
    let directory = here.parent().expect("a directory");
    let directory = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
    let directory = directory.expect("a directory").to_owned();
    let elsewhere = std::env::var_os("MPD_BIN_DIR").filter(|_| !name.starts_with("t-"));
    elsewhere.map_or(directory, PathBuf::from).join(name)
}

/// A setting of target/test-env/env.sh, unless the environment has one.
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    if let Ok(value) = std::env::var(name) {
        return Some(value);
    }
    let text = env_files().into_iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let prefix = format!("{name}=");
    text.lines().find_map(|line| Some(line.strip_prefix(&prefix)?.to_owned()))
}

/// Where scripts/prepare-test-env may have written: below the target directory in use, or the
/// ordinary one.
fn env_files() -> Vec<PathBuf> {
    let name = "test-env/env.sh";
    let here = std::env::current_exe().expect("its own path");
    let mut files: Vec<_> = here.ancestors().take(5).map(|above| above.join(name)).collect();
    files.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(name));
    files
}
