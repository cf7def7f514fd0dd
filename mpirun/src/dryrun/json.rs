//! The answer as one JSON object. The man page documents it; `format` changes when a member changes its meaning.

use std::os::unix::ffi::OsStrExt as _;

use mpd_wire::Rank;
use mpd_wire::job::Argset;
use serde_json::{Map, Value, json};

use super::environment::{self, Difference, Variable};
use super::outlook::{Bound, HostOutlook, Outlook};
use super::shown::Shown;
use super::text;
use crate::limits;
use crate::linked::Found;
use crate::surroundings::RingKind;

/// The version of the object.
const FORMAT: u32 = 1;

/// The object in one line per member, and a newline.
pub(super) fn render(shown: &Shown<'_>) -> String {
    let Shown { spec, exits, trace, .. } = shown;
    let mut object = Map::new();
    let mut member = |name: &str, value: Value| object.insert(name.to_owned(), value);
    member("format", FORMAT.into());
    member("processes", spec.size().into());
    member("options", text::options(spec, exits, trace).into_iter().map(named).collect());
    member("remarks", shown.remarks.clone().into());
    let programs = spec.argsets.iter().zip(&shown.found);
    member("programs", programs.map(|(argset, found)| program(shown, argset, found)).collect());
    match &shown.outlook {
        Ok(outlook) => {
            let daemons = match outlook.kind {
                RingKind::Standing => "standing",
                RingKind::Private => "started",
            };
            member("daemons", daemons.into());
            member("hosts", outlook.hosts.iter().map(host).collect());
            member("notices", outlook.notices.clone().into());
            member("ranks", ranks(shown, outlook));
        }
        Err(problem) => {
            member("problem", problem.as_str().into());
        }
    }
    // A map of values can always be written.
    let mut text = serde_json::to_string_pretty(&object).unwrap_or_default();
    text.push('\n');
    text
}

fn named((name, value): (&'static str, String)) -> (String, Value) {
    (name.to_owned(), value.into())
}

fn host(host: &HostOutlook) -> Value {
    let (addresses, problem) = match &host.addresses {
        Some(Ok(addresses)) => (json!(addresses), None),
        Some(Err(problem)) => (Value::Null, Some(problem)),
        None => (Value::Null, None),
    };
    let mut value = json!({
        "name": host.name.as_str(),
        "here": host.is_here,
        "cpus": host.cpus,
        "assumed": host.is_assumed,
        "addresses": addresses,
        "ranks": host.ranks.ranks().map(|rank| rank.0).collect::<Vec<u32>>(),
    });
    if let Some(problem) = problem {
        value["problem"] = problem.as_str().into();
    }
    value
}

/// The ranks in their order.
fn ranks(shown: &Shown<'_>, outlook: &Outlook) -> Value {
    let of_host = |host: &'_ HostOutlook| {
        let bound = host.bound.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let gpus = |local: usize| {
            let (gpus, each) = host.gpus?;
            gpus.variables(local, each).into_iter().next().map(|(_, value)| value)
        };
        let entry = |(local, (rank, bound)): (usize, (Rank, Option<&Bound>))| {
            let value = json!({
                "rank": rank.0,
                "host": host.name.as_str(),
                "program": shown.spec.argset_of(rank),
                "cpus": bound.map(|(_, cpus)| cpus),
                "bound_to": bound.map(|(text, _)| text),
                "gpus": gpus(local),
            });
            (rank, value)
        };
        host.ranks.ranks().zip(bound).enumerate().map(entry).collect::<Vec<_>>()
    };
    let mut ranks: Vec<_> = outlook.hosts.iter().flat_map(of_host).collect();
    ranks.sort_by_key(|&(rank, _)| rank);
    ranks.into_iter().map(|(_, value)| value).collect()
}

fn program(shown: &Shown<'_>, argset: &Argset, found: &Found) -> Value {
    let (file, library, problem) = match found {
        Found::Unusable(problem) => (Value::Null, Value::Null, json!(problem)),
        Found::Program(path, visible) => {
            (bytes(path.as_os_str().as_bytes()), json!(visible.to_string()), Value::Null)
        }
    };
    let limits = argset.limits.iter().filter(|limit| !shown.caller.limits.contains(limit));
    let limit = |limit: &mpd_wire::job::Limit| {
        let value = json!([limits::shown(limit.soft), limits::shown(limit.hard)]);
        (limits::name_of(limit.resource).to_owned(), value)
    };
    json!({
        "program": bytes(&argset.program),
        "arguments": argset.args.iter().map(|argument| bytes(argument)).collect::<Value>(),
        "substitute": argset.substitute,
        "file": file,
        "problem": problem,
        "mpi_library": library,
        "directory": bytes(&argset.directory),
        "search": bytes(&argset.search),
        "umask": format!("{:04o}", argset.umask),
        "terminal": argset.pty.map(|(columns, lines)| [columns, lines]),
        "limits": limits.map(limit).collect::<Map<String, Value>>(),
        "environment": environment(&Difference::new(
            environment::of(shown.spec, argset),
            shown.caller,
        )),
    })
}

fn environment(difference: &Difference<'_>) -> Value {
    let set = |all: &[Variable<'_>]| {
        let one = |(name, value): &Variable<'_>| {
            (String::from_utf8_lossy(name).into_owned(), bytes(value))
        };
        all.iter().map(one).collect::<Map<String, Value>>()
    };
    match difference {
        Difference::Callers { without, with } => json!({
            "base": "caller",
            "without": without.iter().map(|name| bytes(name)).collect::<Value>(),
            "with": set(with),
        }),
        Difference::Only(with) => json!({"base": "empty", "without": [], "with": set(with)}),
    }
}

/// A text, or its bytes if it is not UTF-8.
fn bytes(text: &[u8]) -> Value {
    match str::from_utf8(text) {
        Ok(text) => text.into(),
        Err(_) => json!({"bytes": text}),
    }
}
