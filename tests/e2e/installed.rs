//! `scripts/install` into a directory of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::Run;
use crate::suite::Suite;

/// The names of other launchers, and a word that each version has.
const ALIASES: [(&str, &str); 13] = [
    ("mpiexec.hydra", "HYDRA"),
    ("mpirun.hydra", "HYDRA"),
    ("mpiexec.mpich", "HYDRA"),
    ("mpirun.mpich", "HYDRA"),
    ("mpiexec.openmpi", "OpenRTE"),
    ("mpirun.openmpi", "OpenRTE"),
    ("orterun", "OpenRTE"),
    ("prterun", "PRRTE"),
    ("mpirun_rsh", "MVAPICH"),
    ("mpirun.lam", "LAM"),
    ("mpiexec.lam", "LAM"),
    ("mpdrun", "original MPD"),
    ("mpiexec.mpd", "original MPD"),
];

struct Installation {
    suite: Suite,
    prefix: PathBuf,
}

impl Installation {
    fn new() -> Self {
        let suite = Suite::new();
        let prefix = suite.path("prefix");
        fs::create_dir(&prefix).expect("a directory");
        Self { suite, prefix }
    }

    fn script(&self, arguments: &[&str]) -> Run {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/install");
        let programs = PathBuf::from(self.suite.program("mpirun"));
        let run = self.suite.command(script).args(arguments).arg("--prefix").arg(&self.prefix);
        run.env("MPD_BIN_DIR", programs.parent().expect("a directory")).deadline(120)
    }

    /// All files and links below the prefix.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut directories = vec![self.prefix.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                match path.is_dir() && !path.is_symlink() {
                    true => directories.push(path),
                    false => drop(found.insert(path)),
                }
            }
        }
        found
    }

    fn program(&self, name: &str) -> Run {
        self.suite.command(self.prefix.join("bin").join(name))
    }
}

#[test]
fn an_installation_has_the_names_of_other_launchers_and_leaves_nothing() {
    let at = Installation::new();
    at.script(&["--with-aliases"]).output().code(0);
    let files = at.files();
    for (name, word) in ALIASES {
        let link = at.prefix.join("bin").join(name);
        assert_eq!(fs::read_link(&link).expect(name), Path::new("mpirun"), "{name}");
        let version = at.program(name).arg("--version").output();
        assert!(version.code(0).quiet().out().contains(word), "{name}: {version}");
    }
    // The dialect of the name reads this option, which means something else to others.
    let labelled = at.program("mpiexec.hydra").args(["-l", "-n", "1", "echo", "a"]).output();
    assert_eq!(labelled.code(0).quiet().out(), "[0] a\n");
    let labelled = at.program("mpdrun").args(["-l", "-n", "1", "echo", "a"]).output();
    assert_eq!(labelled.code(0).quiet().out(), "0: a\n");
    at.program("mpdhelp").output().code(0).quiet();

    at.script(&["--with-aliases"]).output().code(0);
    assert_eq!(at.files(), files, "a second installation changes the list of files");
    at.script(&[]).output().code(0);
    let fewer = files.difference(&at.files()).count();
    assert_eq!(fewer, ALIASES.len(), "an installation without aliases removes them");
    fs::write(at.prefix.join("bin/orterun"), "another one").expect("a file");
    at.script(&["--with-aliases"])
        .output()
        .code(1)
        .says(&["orterun exists and is not part of MPD"]);
    fs::remove_file(at.prefix.join("bin/orterun")).expect("it is there");
    at.script(&["--uninstall"]).output().code(0);
    assert_eq!(at.files(), BTreeSet::new());
}
