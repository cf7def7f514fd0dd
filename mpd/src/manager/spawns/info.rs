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

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mpd_io::logging::plain;
use mpd_placement::hosts;
use mpd_placement::hosts::HostEntry;
use mpd_placement::soft::{InvalidSoft, Soft};
use mpd_wire::job::{Argset, Bytes, HostChoice, MAX_HOSTS};
use mpd_wire::job::{SpawnBlock, SpawnPolicy};
use pmi_proto::SpawnCommand;

/// Longest file of hints or of hosts.
const MAX_FILE: u64 = 1 << 20;

/// One program of a spawn, with its hints applied.
#[derive(Debug)]
pub(super) struct SpawnProgram {
    pub(super) argset: Argset,
    pub(super) block: SpawnBlock,
    pub(super) variables: Vec<Bytes>,
    pub(super) appnum: Option<i32>,
}

/// Applies the hints of `command`, which a rank that runs `parent` has spawned.
///
/// # Errors
/// A hint that cannot be followed; a text for people.
pub(super) fn program_of(command: &SpawnCommand, parent: &Argset) -> Result<SpawnProgram, String> {
    let mut search = b".:".to_vec();
    search.extend_from_slice(&parent.search);
    let mut wanted = SpawnProgram {
        argset: Argset {
            size: command.size,
            program: command.program.clone(),
            args: command.args.clone(),
            substitute: false,
            environment: 0,
            directory: parent.directory.clone(),
            search,
            umask: parent.umask,
            limits: parent.limits.clone(),
            hosts: None,
            pty: None,
        },
        block: SpawnBlock { size: command.size, hosts: None, policy: None },
        variables: Vec::new(),
        appnum: None,
    };
    for (key, value) in &command.info {
        wanted.follow(key, value, parent)?;
        if key == b"file" {
            for line in read(&below(&parent.directory, value))?.split(|&byte| byte == b'\n') {
                if let Some(at) = line.iter().position(|&byte| byte == b'=') {
                    let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
                    wanted.follow(key, value, parent)?;
                }
            }
        }
    }
    let sets_pwd = wanted.variables.iter().any(|variable| variable.starts_with(b"PWD="));
    if wanted.argset.directory != parent.directory && !sets_pwd {
        wanted.variables.push([b"PWD=", &wanted.argset.directory[..]].concat());
    }
    Ok(wanted)
}

impl SpawnProgram {
    fn follow(&mut self, key: &[u8], value: &[u8], parent: &Argset) -> Result<(), String> {
        let text = String::from_utf8_lossy(value);
        let invalid = |problem: &str| format!("{}={text}: {problem}", String::from_utf8_lossy(key));
        match key {
            b"wdir" => {
                let directory = below(&parent.directory, value);
                self.argset.directory = directory.into_os_string().into_encoded_bytes();
            }
            b"path" => {
                self.argset.search = [value, b":.:", &parent.search].concat();
            }
            b"host" | b"hosts" => {
                let listed = hosts::parse_list(text.trim()).map_err(|e| invalid(&e.to_string()))?;
                self.block.hosts = Some(choices(listed).map_err(|e| invalid(&e))?);
            }
            b"hostfile" | b"machinefile" => {
                let path = below(&parent.directory, value);
                let file = read(&path)?;
                let listed =
                    hosts::parse_file(&file).map_err(|e| format!("{}: {e}", path.display()))?;
                let listed = choices(listed).map_err(|e| format!("{}: {e}", path.display()))?;
                self.block.hosts = Some(listed);
            }
            b"soft" => {
                let soft: Soft = text.parse().map_err(|e: InvalidSoft| invalid(&e.to_string()))?;
                let most = self.block.size;
                let size = soft.largest_up_to(most);
                let size = size.ok_or_else(|| invalid(&format!("no number up to {most}")))?;
                (self.block.size, self.argset.size) = (size, size);
            }
            b"env" => self.variables = variables_of(value),
            b"appnum" => {
                self.appnum = Some(text.trim().parse().map_err(|_| invalid("no number"))?);
            }
            b"rankfile" | b"rank_file" | b"rmaps_rank_file_path" => {
                let reason = "a rank file is for the first ranks; name the hosts with host, and their CPUs with -bind-to";
                return Err(invalid(reason));
            }
            b"arch" if !text.contains(std::env::consts::ARCH) => {
                let here = std::env::consts::ARCH;
                return Err(invalid(&format!("the hosts of this ring are {here}")));
            }
            b"mpd_policy" => {
                let policy = SpawnPolicy::of_name(&text);
                self.block.policy = Some(policy.ok_or_else(|| invalid("not rr, load or pack"))?);
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

fn below(directory: &[u8], path: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(path))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    file.map_err(|e| format!("{}: {}", path.display(), plain(&e)))?;
    Ok(bytes)
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
