//! The process of each rank of the first world, as the manager reports it. Debuggers read it in
//! memory ([`crate::mpir`]) or in a file (`-proctable`).

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};

use mpd_wire::job::{Argset, JobSpec};
use mpd_wire::{Rank, RankSet};
use serde_json::json;

/// The reported processes.
#[derive(Debug)]
pub struct Processes {
    /// Hosts in the order of the reports.
    hosts: Vec<String>,
    /// By rank: the index of the host, and the process id; 0 if it is not known.
    ranks: Vec<(usize, u32)>,
    known: usize,
}

impl Processes {
    /// The table of a job of `size` ranks, with no process known.
    pub fn of(size: u32) -> Self {
        Self { hosts: Vec::new(), ranks: vec![(0, 0); size as usize], known: 0 }
    }

    /// Adds ranks of a host. Returns true once, when all ranks are known.
    pub fn add(&mut self, host: &str, ranks: &RankSet, pids: &[u32]) -> bool {
        let was_whole = self.is_whole();
        let number = self.hosts.iter().rposition(|known| known == host).unwrap_or_else(|| {
            self.hosts.push(host.to_owned());
            self.hosts.len() - 1
        });
        for (rank, &pid) in ranks.ranks().zip(pids).filter(|(_, pid)| **pid != 0) {
            if let Some(entry) = self.ranks.get_mut(rank.index()) {
                self.known += usize::from(entry.1 == 0);
                *entry = (number, pid);
            }
        }
        self.is_whole() && !was_whole
    }

    /// Whether all ranks are known.
    pub const fn is_whole(&self) -> bool {
        self.known == self.ranks.len()
    }

    /// The host of a rank, if it is known.
    pub fn host_of(&self, rank: Rank) -> Option<&str> {
        let &(host, pid) = self.ranks.get(rank.index())?;
        self.hosts.get(host).filter(|_| pid != 0).map(String::as_str)
    }

    /// By rank: the index of its host, the index of its argset, and its process id.
    pub fn table(&self, spec: &JobSpec) -> Vec<(usize, usize, u32)> {
        let argsets = spec.argsets.iter().enumerate();
        let argsets = argsets.flat_map(|(number, a)| std::iter::repeat_n(number, a.size as usize));
        let entries = self.ranks.iter().zip(argsets);
        entries.map(|(&(host, pid), argset)| (host, argset, pid)).collect()
    }

    /// The names of the hosts, by index.
    pub fn hosts(&self) -> Vec<CString> {
        self.hosts.iter().map(|host| text(host.as_bytes())).collect()
    }

    /// The file of `-proctable`; `programs` is indexed by argset.
    pub fn render(&self, spec: &JobSpec, programs: &[CString]) -> String {
        let entries = self.table(spec).into_iter().enumerate();
        let entry = |(rank, (host, argset, pid)): (usize, (usize, usize, u32))| {
            let executable = programs.get(argset).map(|path| path.to_string_lossy());
            let (host, executable) = (json!(self.hosts.get(host)), json!(executable));
            format!(r#"{{"rank":{rank},"host":{host},"executable":{executable},"pid":{pid}}}"#)
        };
        // One row per line, for people and for line-oriented tools.
        let rows: Vec<String> = entries.map(entry).collect();
        format!("[{}]\n", rows.join(",\n "))
    }
}

/// The path of each argset's program, if it is on this host, else the name that the user wrote.
pub fn programs(spec: &JobSpec) -> Vec<CString> {
    let mut found = BTreeMap::new();
    let program = |argset: &Argset| {
        let key = (argset.program.clone(), argset.search.clone(), argset.directory.clone());
        found.entry(key).or_insert_with(|| program(argset)).clone()
    };
    spec.argsets.iter().map(program).collect()
}

fn program(argset: &Argset) -> CString {
    // A path needs no search.
    let found = (!argset.program.contains(&b'/')).then(|| mpd_io::process::locate::program(argset));
    let path = found.and_then(Result::ok).map_or_else(|| argset.program.clone(), |it| it.path);
    let path = Path::new(OsStr::from_bytes(&path));
    if path.components().count() == 1 && path.is_relative() {
        return text(path.as_os_str().as_bytes());
    }
    let whole = Path::new(OsStr::from_bytes(&argset.directory)).join(path);
    // Without the "." of "./a.out", which debuggers would show.
    let whole: std::path::PathBuf =
        whole.components().filter(|c| *c != Component::CurDir).collect();
    text(&whole.into_os_string().into_vec())
}

fn text(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn argset(size: u32, program: &str) -> Argset {
        Argset {
            size,
            program: program.into(),
            directory: b"/".into(),
            search: b"/no/such:/bin".into(),
            umask: 0,
            ..Argset::default()
        }
    }

    fn two_programs() -> JobSpec {
        JobSpec { argsets: vec![argset(1, "sh"), argset(2, "./x y")], ..JobSpec::default() }
    }

    #[test]
    fn the_table_is_complete_once_and_ordered_by_rank() {
        let mut processes = Processes::of(3);
        assert!(!processes.add("h2", &"1-2".parse().unwrap(), &[7, 8]));
        assert!(!processes.add("h2", &"1".parse().unwrap(), &[7]), "again");
        assert!(!processes.add("h9", &"5".parse().unwrap(), &[9]), "no rank of this world");
        assert!(processes.add("h1", &"0".parse().unwrap(), &[6]));
        assert!(!processes.add("h1", &"0".parse().unwrap(), &[6]), "reported before");
        let spec = two_programs();
        assert_eq!(processes.table(&spec), [(2, 0, 6), (0, 1, 7), (0, 1, 8)]);
        assert_eq!(processes.hosts(), [c"h2".into(), c"h9".into(), CString::from(c"h1")]);
    }

    #[test]
    fn the_file_is_json_with_a_line_for_each_rank() {
        let mut processes = Processes::of(3);
        processes.add("h1", &RankSet::below(3), &[6, 7, 8]);
        let spec = two_programs();
        let text = processes.render(&spec, &programs(&spec));
        assert_eq!(text.lines().count(), 3);
        let value: Value = serde_json::from_str(&text).unwrap();
        let entry =
            |rank, path, pid| json!({"rank": rank, "host": "h1", "executable": path, "pid": pid});
        assert_eq!(
            value,
            json!([entry(0, "/bin/sh", 6), entry(1, "/x y", 7), entry(2, "/x y", 8)])
        );
    }

    #[test]
    fn a_program_missing_on_this_host_has_the_name_that_the_user_wrote() {
        let spec = JobSpec { argsets: vec![argset(1, "no-such-program")], ..JobSpec::default() };
        assert_eq!(programs(&spec), [CString::from(c"no-such-program")]);
    }
}
