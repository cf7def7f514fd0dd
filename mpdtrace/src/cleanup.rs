//! Cleans up on this host and on other hosts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mpd_io::files::logging::one_line;
use mpd_io::parallel;
use mpd_io::ring::rundir::RunDir;
use serde::{Deserialize, Serialize};

use crate::remote::Shell;

/// Deadline for one host, connection included.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most hosts cleaned up at a time.
const WIDTH: usize = 16;

/// The result on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    pub host: String,
    /// Paths of the removed files.
    pub removed: Vec<String>,
    /// Why the clean-up failed.
    pub problem: Option<String>,
}

/// Cleans up on this host.
pub fn local(host: String, rundir: &RunDir) -> Cleaned {
    match rundir.clean() {
        Ok(removed) => {
            let removed = removed.iter().map(|path| path.display().to_string()).collect();
            Cleaned { host, removed, problem: None }
        }
        Err(error) => Cleaned { host, removed: Vec::new(), problem: Some(error.to_string()) },
    }
}

/// Cleans up on `hosts`; each host runs the command `arguments`. Calls `count` with the number of finished hosts.
pub fn remote(
    shell: &Shell,
    hosts: &[String],
    arguments: &[String],
    count: impl FnMut(usize) + Send,
) -> Vec<Cleaned> {
    let finished = Mutex::new((0, count));
    parallel::each(hosts, WIDTH, |host| {
        let result = shell.run(host, arguments, PATIENCE);
        // A host that refuses reports the reason in its answer and exits with code 1.
        let answer = result.and_then(|ended| {
            parse(host, &ended.out).ok_or_else(|| shell.complaint(&ended, arguments))
        });
        let failed =
            |problem| Cleaned { host: host.clone(), removed: vec![], problem: Some(problem) };
        let cleaned = answer.unwrap_or_else(failed);
        let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.0 += 1;
        let number = finished.0;
        (finished.1)(number);
        cleaned
    })
}

/// The answer of a host, under the name by which this host knows it.
fn parse(host: &str, out: &str) -> Option<Cleaned> {
    let line = out.lines().rfind(|line| !line.is_empty())?;
    let [cleaned]: [Cleaned; 1] = serde_json::from_str(line).ok()?;
    Some(Cleaned { host: host.to_owned(), ..cleaned })
}

/// The removed files as text for people.
pub fn text(all: &[Cleaned]) -> String {
    let line = |host: &str, what: &str| one_line(&format!("{host}: {what}")) + "\n";
    let mut text = String::new();
    for cleaned in all.iter().filter(|c| c.problem.is_none()) {
        if cleaned.removed.is_empty() {
            text += &line(&cleaned.host, "nothing to remove");
        }
        for path in &cleaned.removed {
            text += &line(&cleaned.host, &format!("removed {path}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(removed: &[&str], problem: Option<&str>) -> Cleaned {
        Cleaned {
            host: "h".into(),
            removed: removed.iter().map(|r| (*r).to_owned()).collect(),
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn an_answer_is_found_behind_the_lines_of_a_login_shell() {
        let out = format!("Welcome!\n{}", crate::render::json(&[cleaned(&["/a"], None)]));
        assert_eq!(parse("h", &out), Some(cleaned(&["/a"], None)));
        assert_eq!(parse("h", "Welcome!\n"), None);
        assert_eq!(parse("h", ""), None);
    }

    #[test]
    fn the_text_names_removed_files_and_hosts_without_files() {
        let all = [cleaned(&["/a\n"], None), cleaned(&[], None), cleaned(&[], Some("x"))];
        assert_eq!(text(&all), "h: removed /a\\n\nh: nothing to remove\n");
    }
}
