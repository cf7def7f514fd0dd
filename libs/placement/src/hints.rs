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
    /// The program.
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
    let mut spawned = Spawned(SpawnProgram {
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
        spawned.follow(key, value, around)?;
        if key == b"file" {
            for line in around.file(value)?.1.split(|&byte| byte == b'\n') {
                if let Some(at) = line.iter().position(|&byte| byte == b'=') {
                    let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
                    spawned.follow(key, value, around)?;
                }
            }
        }
    }
    let Spawned(mut spawned) = spawned;
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
struct Spawned(SpawnProgram);

impl Spawned {
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
            _ => {}
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
