//! Converts requests to operations, with the meaning of their infos.

use pmi_proto::limits::MAX_SPAWN_BYTES;
use pmi_proto::{SpawnCommand, SpawnRequest};

use super::operation::{CleanUp, Event, Operation, Persistence, Range, Spawn};
use crate::encoding::Value;
use crate::limits::{MAX_KEY, MAX_MEMBERS};
use crate::status::Status;
use crate::view::{App, Info, Pair, Proc};

/// A request that is not allowed: the status for the client, and the reason for the log.
pub(super) type Refused = (Status, &'static str);

/// The members of a collective operation, sorted. An empty list means all processes of the client's job.
pub(super) fn members(mut procs: Vec<Proc>, own: &Proc) -> Result<Vec<Proc>, Refused> {
    if procs.len() > MAX_MEMBERS {
        return Err((Status::OUT_OF_RESOURCE, "too many members"));
    }
    if procs.is_empty() {
        procs.push(Proc::all(own.namespace.as_slice()));
    }
    procs.sort_unstable();
    procs.dedup();
    Ok(procs)
}

/// The timeout in seconds; `None` without a limit, which the client sends as 0.
pub(super) fn timeout(info: &[Info]) -> Option<u32> {
    let seconds = Info::find(info, "pmix.timeout")?.as_number()?;
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

pub(super) fn fence(procs: Vec<Proc>, info: &[Info], own: &Proc) -> Result<Operation, Refused> {
    let collect = Info::is_set(info, "pmix.collect");
    Ok(Operation::Fence { procs: members(procs, own)?, collect, timeout: timeout(info) })
}

pub(super) fn construct(
    group: Vec<u8>,
    procs: Vec<Proc>,
    info: &[Info],
    own: &Proc,
) -> Result<Operation, Refused> {
    // Leaders that bring their members, and members that are added: libpmix 6.
    let others: [&[u8]; 2] = [b"pmix.grp.btstrp", b"pmix.grp.add"];
    if info.iter().any(|one| others.contains(&one.key.as_slice())) {
        return Err((Status::NOT_SUPPORTED, "a group whose members do not all name each other"));
    }
    let contributions = info.iter().filter(|one| one.key == b"pmix.grp.info");
    let contribution = contributions.filter_map(|one| one.value.as_infos()).flatten().collect();
    Ok(Operation::Construct {
        group,
        procs: members(procs, own)?,
        wants_context: Info::is_set(info, "pmix.grp.actxid"),
        contribution,
        timeout: timeout(info),
    })
}

pub(super) fn publish(info: Vec<Info>) -> Result<Operation, Refused> {
    let range = range(&info);
    let persistence = match Info::find(&info, "pmix.persist").and_then(Value::as_number) {
        None => Persistence::Session,
        Some(number) => {
            Persistence::numbered(number).ok_or((Status::BAD_PARAM, "an unknown persistence"))?
        }
    };
    let mut pairs = Vec::new();
    for info in info {
        if is_directive(&info.key) {
            continue;
        }
        check_key(&info.key)?;
        pairs.push(Pair { key: info.key, value: info.value });
    }
    if pairs.is_empty() {
        return Err((Status::BAD_PARAM, "nothing to publish"));
    }
    Ok(Operation::Publish { pairs, range, persistence })
}

pub(super) fn lookup(keys: Vec<Vec<u8>>, info: &[Info]) -> Result<Operation, Refused> {
    if keys.is_empty() {
        return Err((Status::BAD_PARAM, "nothing to look up"));
    }
    keys.iter().try_for_each(|key| check_key(key))?;
    // The number of keys to wait for; 0 means all. Open MPI sends 0, other programs a boolean.
    let wait = Info::find(info, "pmix.wait").map(|value| {
        let number = value.as_number().and_then(|number| usize::try_from(number).ok());
        number.filter(|number| (1..=keys.len()).contains(number)).unwrap_or(keys.len())
    });
    Ok(Operation::Lookup { range: range(info), wait, timeout: timeout(info), keys })
}

pub(super) fn unpublish(keys: Vec<Vec<u8>>, info: &[Info]) -> Result<Operation, Refused> {
    keys.iter().try_for_each(|key| check_key(key))?;
    Ok(Operation::Unpublish { keys, range: range(info) })
}

pub(super) fn notify(
    status: Status,
    number: u8,
    info: Vec<Info>,
    own: &Proc,
) -> Result<Operation, Refused> {
    let range = Range::numbered(number.into()).ok_or((Status::BAD_PARAM, "an unknown range"))?;
    let targets = match (range, Info::find(&info, "pmix.evrange")) {
        (Range::Custom, Some(targets)) => {
            targets.as_procs().ok_or((Status::BAD_PARAM, "targets that are no processes"))?
        }
        (Range::Custom, None) => return Err((Status::BAD_PARAM, "a range without targets")),
        (_, None) => Vec::new(),
        (_, Some(_)) => return Err((Status::BAD_PARAM, "targets for a range without")),
    };
    Ok(Operation::Notify(Event { status, source: own.clone(), range, targets, info }))
}

/// The supported part of a request to control a job: the registration of files for removal.
pub(super) fn job_control(info: &[Info]) -> Result<Operation, Refused> {
    let mut clean_up = CleanUp::default();
    for info in info {
        let paths = || -> Vec<Vec<u8>> {
            let text = info.value.as_text().unwrap_or_default();
            text.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect()
        };
        match info.key.as_slice() {
            b"pmix.reg.cleanup" => clean_up.files.extend(paths()),
            b"pmix.reg.cleanupdir" => clean_up.directories.extend(paths()),
            b"pmix.clnup.recurse" => clean_up.is_recursive = info.value.is_true(),
            b"pmix.clnup.ignore" => clean_up.ignored.extend(paths()),
            b"pmix.clnup.lvtop" => clean_up.keeps_top = info.value.is_true(),
            _of_no_interest => {}
        }
    }
    let is_path = |path: &Vec<u8>| path.starts_with(b"/") && !path.contains(&0);
    if clean_up.files.is_empty() && clean_up.directories.is_empty() {
        return Err((Status::NOT_SUPPORTED, "a control of jobs that is not offered"));
    }
    if !clean_up.files.iter().chain(&clean_up.directories).all(is_path) {
        return Err((Status::BAD_PARAM, "a relative path to remove"));
    }
    Ok(Operation::CleanUp(clean_up))
}

/// The first text for the user. Other destinations are not supported.
pub(super) fn log(info: &[Info]) -> Result<Operation, Refused> {
    let find = |key| Info::find(info, key).and_then(Value::as_text).map(<[u8]>::to_vec);
    match (find("pmix.log.estderr").or_else(|| find("pmix.log.stderr")), find("pmix.log.stdout")) {
        (Some(text), _) => Ok(Operation::Log { to_stderr: true, text }),
        (None, Some(text)) => Ok(Operation::Log { to_stderr: false, text }),
        (None, None) => Err((Status::NOT_SUPPORTED, "a log that is not offered")),
    }
}

pub(super) fn spawn(info: &[Info], apps: Vec<App>) -> Result<Operation, Refused> {
    if apps.is_empty() {
        return Err((Status::BAD_PARAM, "a spawn of nothing"));
    }
    let mut spawn = Spawn {
        request: SpawnRequest::default(),
        environments: Vec::new(),
        hints: info.iter().filter_map(hint).collect(),
    };
    let mut bytes = 0;
    for app in apps {
        let size = u32::try_from(app.processes).ok().filter(|size| *size > 0);
        let size = size.ok_or((Status::BAD_PARAM, "a spawn of no processes"))?;
        if app.command.is_empty() {
            return Err((Status::EXE_NOT_FOUND, "a spawn without a program"));
        }
        let mut hints: Vec<_> = app.info.iter().filter_map(hint).collect();
        let has_directory = hints.iter().any(|(key, _)| key == b"wdir");
        if let Some(directory) = app.directory.filter(|_| !has_directory) {
            hints.push((b"wdir".to_vec(), directory));
        }
        let texts = app.arguments.iter().chain(&app.environment);
        bytes += app.command.len() + texts.map(|text| text.len() + 1).sum::<usize>();
        bytes += hints.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if bytes > MAX_SPAWN_BYTES {
            return Err((Status::OUT_OF_RESOURCE, "more arguments and hints than are allowed"));
        }
        spawn.request.commands.push(SpawnCommand {
            program: app.command,
            args: app.arguments.into_iter().skip(1).collect(),
            size,
            info: hints,
        });
        spawn.environments.push(app.environment);
    }
    Ok(Operation::Spawn(spawn))
}

/// A hint with the key that PMI-1 and PMI-2 use.
fn hint(info: &Info) -> Option<(Vec<u8>, Vec<u8>)> {
    let key = match info.key.strip_prefix(b"pmix.")? {
        b"host" => "host",
        b"hostfile" => "hostfile",
        b"addhost" => "add-host",
        b"addhostfile" => "add-hostfile",
        b"wdir" => "wdir",
        b"prefix" => "prefix",
        b"mapper" => "mapper",
        b"mapby" => "map_by",
        b"rankby" => "rank_by",
        b"bindto" => "bind_to",
        b"ppr" => "ppr",
        b"pers" => "personality",
        _ => return None,
    };
    info.value.as_text().map(|value| (key.into(), value.to_vec()))
}

/// The range of a request. An unknown number means the default range: Open MPI 5.0.8 sends a lookup with a range that
/// was never set.
fn range(info: &[Info]) -> Range {
    let number = Info::find(info, "pmix.range").and_then(Value::as_number);
    number.and_then(Range::numbered).unwrap_or(Range::Session)
}

/// Whether an info of a publication is an option, not a pair to publish.
fn is_directive(key: &[u8]) -> bool {
    let directives: [&[u8]; 6] = [
        b"pmix.range",
        b"pmix.persist",
        b"pmix.timeout",
        b"pmix.euid",
        b"pmix.egid",
        b"pmix.access",
    ];
    directives.contains(&key)
}

fn check_key(key: &[u8]) -> Result<(), Refused> {
    match key.len() {
        0 => Err((Status::BAD_PARAM, "an empty key")),
        length if length > MAX_KEY => Err((Status::BAD_PARAM, "a key that is too long")),
        _ => Ok(()),
    }
}
