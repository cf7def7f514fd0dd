//! Programs and settings of this machine for the tests, and notes about missing ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Prints a line that is visible although the test passes.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints the reason why a test does nothing here.
///
/// # Panics
/// With `MPD_TEST_NO_SKIP=1`.
pub fn skip(why: &str) {
    let forbidden = std::env::var_os("MPD_TEST_NO_SKIP").is_some_and(|value| value == "1");
    assert!(!forbidden, "no test may be skipped, but this one cannot run: {why}");
    tell(&format!("SKIP: {why}"));
}

/// The path of one of our programs or a helper: in the directory of this executable, or in its parent if a test
/// runs. `MPD_BIN_DIR` overrides the directory of our programs.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("its own path");
    let directory = here.parent().expect("a directory");
    let directory = if directory.ends_with("deps") { directory.parent() } else { Some(directory) };
    let directory = directory.expect("a directory").to_owned();
    let elsewhere = std::env::var_os("MPD_BIN_DIR").filter(|_| !name.starts_with("t-"));
    elsewhere.map_or(directory, PathBuf::from).join(name)
}

/// A variable of the environment, or else a setting of target/test-env/env.sh.
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    if let Ok(value) = std::env::var(name) {
        return Some(value);
    }
    let text = env_files().into_iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let prefix = format!("{name}=");
    text.lines().find_map(|line| Some(line.strip_prefix(&prefix)?.to_owned()))
}

/// Where scripts/prepare-test-env may have written: below the target directory in use, or the default one.
fn env_files() -> Vec<PathBuf> {
    let name = "test-env/env.sh";
    let here = std::env::current_exe().expect("its own path");
    let mut files: Vec<_> = here.ancestors().take(5).map(|above| above.join(name)).collect();
    files.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(name));
    files
}
