//! The hints of a spawn: the meaning of the keys of an `MPI_Info`. Unknown keys are ignored.
//!
//! | key | value |
//! |---|---|
//! | `host`, `hosts` | hosts for these processes, separated by commas, each with or without a colon and slots |
//! | `hostfile`, `machinefile` | a file of hosts |
//! | `wdir` | the working directory; if it is relative, below the spawner's |
//! | `path` | directories to search for the program, separated by colons, before those of the spawner |
//! | `soft` | acceptable numbers of processes, as `LOW:HIGH:STEP,…` |
//! | `env` | variables for the processes, `NAME=VALUE`, separated by spaces or newlines |
//! | `appnum` | the value of `MPI_APPNUM` |
//! | `arch` | the architecture; every host of a ring has the same |
//! | `file` | a file with further hints, `KEY=VALUE` on each line |
//! | `mpd_policy` | `rr`, `load` or `pack` |
//! | `rankfile`, `rank_file` | refused: a rank file is for the first ranks only |

use mpd_wire::job::{Argset, Bytes, HostChoice, MAX_HOSTS};
use mpd_wire::job::{SpawnBlock, SpawnPolicy, SpawnProgram};

use crate::hosts::{self, HostEntry};
use crate::soft::{InvalidSoft, Soft};

/// A program that a rank spawns, as its library passes it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub program: &'a [u8],
    /// Its arguments.
    pub args: &'a [Bytes],
    /// The number of processes.
    pub size: u32,
    /// The hints: keys and values.
    pub info: &'a [(Bytes, Bytes)],
}

/// What the hints refer to.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The program of the rank that spawns.
    pub parent: &'a Argset,
    /// The architecture of the hosts of the ring, as Rust names it.
    pub architecture: &'a str,
    /// Reads the file at an absolute path. The error is a text for people without the path.
    pub read: &'a dyn Fn(&[u8]) -> Result<Bytes, String>,
}

/// Applies the hints of a program that a rank spawns.
///
/// # Errors
/// A hint that cannot be followed; a text for people.
pub fn program_of(wanted: Wanted<'_>, around: Surroundings<'_>) -> Result<SpawnProgram, String> {
    let Wanted { program, args, size, info } = wanted;
    let parent = around.parent;
    let mut search = b".:".to_vec();
    search.extend_from_slice(&parent.search);
    let mut hinted = Hinted(SpawnProgram {
        argset: Argset {
            size,
            program: program.to_vec(),
            args: args.to_vec(),
            substitute: false,
            environment: 0,
            directory: parent.directory.clone(),
            search,
            umask: parent.umask,
            limits: parent.limits.clone(),
            hosts: None,
            pty: None,
        },
        block: SpawnBlock { size, hosts: None, policy: None },
        variables: Vec::new(),
        appnum: None,
    });
    for (key, value) in info {
        hinted.follow(key, value, around)?;
        if key == b"file" {
            for line in around.file(value)?.1.split(|&byte| byte == b'\n') {
                if let Some(at) = line.iter().position(|&byte| byte == b'=') {
                    let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
                    hinted.follow(key, value, around)?;
                }
            }
        }
    }
    let Hinted(mut spawned) = hinted;
    let sets_pwd = spawned.variables.iter().any(|variable| variable.starts_with(b"PWD="));
    if spawned.argset.directory != parent.directory && !sets_pwd {
        spawned.variables.push([b"PWD=", &spawned.argset.directory[..]].concat());
    }
    Ok(spawned)
}

impl Surroundings<'_> {
    /// The name and the content of a file below the spawner's directory.
    fn file(&self, path: &[u8]) -> Result<(String, Bytes), String> {
        let path = below(&self.parent.directory, path);
        let name = String::from_utf8_lossy(&path).into_owned();
        match (self.read)(&path) {
            Ok(content) => Ok((name, content)),
            Err(problem) => Err(format!("{name}: {problem}")),
        }
    }
}

/// A program to which hints are applied.
struct Hinted(SpawnProgram);

impl Hinted {
    fn follow(&mut self, key: &[u8], value: &[u8], around: Surroundings<'_>) -> Result<(), String> {
        let text = String::from_utf8_lossy(value);
        let invalid = |problem: &str| format!("{}={text}: {problem}", String::from_utf8_lossy(key));
        let (Self(spawned), parent) = (self, around.parent);
        match key {
            b"wdir" => spawned.argset.directory = below(&parent.directory, value),
            b"path" => {
                spawned.argset.search = [value, b":.:", &parent.search].concat();
            }
            b"host" | b"hosts" => {
                let listed = hosts::parse_list(text.trim()).map_err(|e| invalid(&e.to_string()))?;
                spawned.block.hosts = Some(choices(listed).map_err(|e| invalid(&e))?);
            }
            b"hostfile" | b"machinefile" => {
                let (name, file) = around.file(value)?;
                let listed = hosts::parse_file(&file).map_err(|e| format!("{name}: {e}"))?;
                spawned.block.hosts = Some(choices(listed).map_err(|e| format!("{name}: {e}"))?);
            }
            b"soft" => {
                let soft: Soft = text.parse().map_err(|e: InvalidSoft| invalid(&e.to_string()))?;
                let most = spawned.block.size;
                let size = soft.largest_up_to(most);
                let size = size.ok_or_else(|| invalid(&format!("no number up to {most}")))?;
                (spawned.block.size, spawned.argset.size) = (size, size);
            }
            b"env" => spawned.variables = variables_of(value),
            b"appnum" => {
                spawned.appnum = Some(text.trim().parse().map_err(|_| invalid("no number"))?);
            }
            b"rankfile" | b"rank_file" | b"rmaps_rank_file_path" => {
                let reason = "a rank file is for the first ranks; name the hosts with host, and their CPUs with -bind-to";
                return Err(invalid(reason));
            }
            b"arch" if !text.contains(around.architecture) => {
                let here = around.architecture;
                return Err(invalid(&format!("the hosts of this ring are {here}")));
            }
            b"mpd_policy" => {
                let policy = SpawnPolicy::of_name(&text);
                spawned.block.policy = Some(policy.ok_or_else(|| invalid("not rr, load or pack"))?);
            }
            _for_the_library => {}
        }
        Ok(())
    }
}

fn choices(listed: Vec<HostEntry>) -> Result<Vec<HostChoice>, String> {
    match listed.len() {
        0..=MAX_HOSTS => Ok(listed.into_iter().map(host_choice).collect()),
        _ => Err(format!("more than {MAX_HOSTS} hosts")),
    }
}

/// A path, below `directory` if it is relative.
fn below(directory: &[u8], path: &[u8]) -> Bytes {
    match (path, directory) {
        ([b'/', ..], _) | (_, []) => path.to_vec(),
        (_, [.., b'/']) => [directory, path].concat(),
        _ => [directory, b"/", path].concat(),
    }
}

fn host_choice(host: HostEntry) -> HostChoice {
    HostChoice { gpus: host.gpus, speed: host.speed, ..HostChoice::new(host.host, host.ncpus) }
}

/// Splits the value of `env`. A part without a name continues the part before it.
fn variables_of(value: &[u8]) -> Vec<Bytes> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let separators: &[u8] = if value.contains(&b'\n') { b"\n" } else { b" " };
    let mut variables: Vec<Bytes> = Vec::new();
    for part in value.split(|byte| separators.contains(byte)) {
        let name = part.iter().take_while(|byte| is_name(byte)).count();
        match (variables.last_mut(), part.get(name)) {
            (_, Some(b'=')) if name > 0 => variables.push(part.to_vec()),
            (Some(last), _) => {
                last.push(separators[0]);
                last.extend_from_slice(part);
            }
            (None, _) => {}
        }
    }
    variables.into_iter().map(|v| v.trim_ascii_end().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> Argset {
        Argset {
            size: 1,
            program: b"./a".into(),
            directory: b"/home/user/run".into(),
            search: b"/bin".into(),
            umask: 0o22,
            ..Argset::default()
        }
    }

    /// Two processes of `./child`, spawned with these hints beside these files.
    fn spawned(hints: &[(&str, &str)], files: &[(&str, &str)]) -> Result<SpawnProgram, String> {
        let info: Vec<(Bytes, Bytes)> = hints
            .iter()
            .map(|(key, value)| (key.as_bytes().into(), value.as_bytes().into()))
            .collect();
        let read = |path: &[u8]| {
            let file = files.iter().find(|(name, _)| name.as_bytes() == path);
            file.map(|(_, text)| text.as_bytes().into()).ok_or_else(|| "no such file".to_owned())
        };
        let wanted = Wanted { program: b"./child", args: &[], size: 2, info: &info };
        program_of(wanted, Surroundings { parent: &parent(), architecture: "x86_64", read: &read })
    }

    fn refused(hints: &[(&str, &str)]) -> String {
        spawned(hints, &[]).unwrap_err()
    }

    fn hosts_of(program: &SpawnProgram) -> Vec<&str> {
        program.block.hosts.iter().flatten().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn without_hints_a_child_has_the_directory_of_its_parent_and_is_searched_there_first() {
        let child = spawned(&[("colour", "blue")], &[]).unwrap();
        assert_eq!(child.argset.directory, b"/home/user/run");
        assert_eq!(child.argset.search, b".:/bin");
        assert_eq!((child.block.size, child.block.hosts), (2, None));
        assert!(child.variables.is_empty() && child.appnum.is_none());
    }

    #[test]
    fn a_relative_directory_is_below_that_of_the_parent_and_is_in_pwd_unless_the_user_sets_it() {
        for (wdir, directory) in [("sub", "/home/user/run/sub"), ("/tmp", "/tmp")] {
            let child = spawned(&[("wdir", wdir)], &[]).unwrap();
            assert_eq!(child.argset.directory, directory.as_bytes());
            assert_eq!(child.variables, [format!("PWD={directory}").into_bytes()]);
        }
        let own = spawned(&[("wdir", "sub"), ("env", "PWD=/mine")], &[]).unwrap();
        assert_eq!(own.variables, [b"PWD=/mine".to_vec()]);
    }

    #[test]
    fn a_file_of_hints_may_name_a_file_of_hosts() {
        let files = [
            ("/home/user/run/hints", "# none\nhostfile = list\nappnum=7\n"),
            ("/home/user/run/list", "h1:2\nh2\n"),
        ];
        let child = spawned(&[("file", "hints")], &files).unwrap();
        assert_eq!((hosts_of(&child), child.appnum), (vec!["h1", "h2"], Some(7)));
    }

    #[test]
    fn a_hint_that_cannot_be_followed_is_named() {
        for (hint, value, problem) in [
            ("hostfile", "list", "/home/user/run/list: no such file"),
            ("file", "/etc/hints", "/etc/hints: no such file"),
            ("soft", "5:9", "soft=5:9: no number up to 2"),
            ("appnum", "one", "appnum=one: no number"),
            ("arch", "sparc", "arch=sparc: the hosts of this ring are x86_64"),
            ("mpd_policy", "odd", "mpd_policy=odd: not rr, load or pack"),
            ("rankfile", "r", "rankfile=r: a rank file is for the first ranks"),
        ] {
            let refusal = refused(&[(hint, value)]);
            assert!(refusal.starts_with(problem), "{refusal}");
        }
        assert!(refused(&[("hosts", "h1,,")]).starts_with("hosts=h1,,: "));
    }

    #[test]
    fn soft_takes_the_largest_number_and_an_architecture_of_the_ring_is_right() {
        let child = spawned(&[("soft", "1,9"), ("arch", "linux-x86_64")], &[]).unwrap();
        assert_eq!((child.block.size, child.argset.size), (1, 1));
    }

    #[test]
    fn variables_are_separated_by_newlines_or_spaces_and_a_part_without_a_name_continues_one() {
        let variables = |value| {
            let child = spawned(&[("env", value)], &[]).unwrap();
            child.variables.into_iter().map(|v| String::from_utf8(v).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(variables("A=1 B=two words"), ["A=1", "B=two words"]);
        assert_eq!(variables("A=1 2\nB=3"), ["A=1 2", "B=3"]);
    }
}
