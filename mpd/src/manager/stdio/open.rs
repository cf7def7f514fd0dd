//! Which outputs a job has, and which of them takes what: from the specification and the list of hosts.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use mpd_stdio::feed::{Feed, Receiver, WINDOW};
use mpd_stdio::hostlabel::HostLabels;
use mpd_wire::job::{JobSpec, LabelFormat, OutputSpec};
use mpd_wire::message::StartJob;
use mpd_wire::{Rank, RankSet, Stream};

use super::files::Wanted;
use super::outputs::Outputs;

/// A pattern filled for a rank of that name at that place of the job.
pub(super) fn fill(
    format: &LabelFormat,
    (spec, order): (&JobSpec, &StartJob),
    (name, place): (&str, usize),
    pid: u32,
) -> Vec<u8> {
    format.fill(|field| match field {
        b'r' => name.as_bytes().to_vec(),
        b'h' => host(order, place).into_bytes(),
        b'p' => pid.to_string().into_bytes(),
        b'j' => order.job.to_string().into_bytes(),
        _ => alias_of(spec),
    })
}

fn host(order: &StartJob, place: usize) -> String {
    order.shares.get(place).map_or_else(|| order.host.clone(), |share| share.member.to_string())
}

fn alias_of(spec: &JobSpec) -> Vec<u8> {
    spec.alias.clone().unwrap_or_default().into_bytes()
}

/// Who takes input for `ranks` here: some of this host, and managers directly below.
pub(super) fn receivers(order: &StartJob, ranks: &RankSet) -> Vec<Receiver> {
    let place = order.place as usize;
    let here = order.shares.get(place).map(|share| share.ranks.clone()).unwrap_or_default();
    let below: Vec<(usize, RankSet)> =
        order.shares.children(place).map(|p| (p, order.shares.ranks_below(p))).collect();
    Receiver::of(ranks, &here, below.iter().map(|(place, ranks)| (*place, ranks)))
}

/// The input of this manager's ranks and of the managers below.
pub(super) fn feed_of(spec: &JobSpec, order: &StartJob) -> Feed {
    let below = order.shares.children(order.place as usize).map(Receiver::Below);
    let mut others: Vec<Receiver> = below.collect();
    if spec.stdin_switch {
        // Those that do not receive yet are to hear of the end.
        others.extend(receivers(order, &RankSet::all()));
    }
    Feed::new(receivers(order, &spec.stdin), others, WINDOW)
}

/// The outputs of this manager. Trouble with those of the console is told by way of what is left.
///
/// # Errors
/// Not even `/dev/null` can be opened.
pub(super) fn outputs_of(
    spec: &JobSpec,
    order: &StartJob,
    console: [OwnedFd; 2],
) -> Result<(Outputs, Option<String>)> {
    if order.place != 0 {
        return Ok((Outputs::above(spec, order), None));
    }
    let files = (0..spec.size()).map(Rank).flat_map(|rank| {
        let place = order.shares.place_of_rank(rank).unwrap_or(0);
        files_of((spec, order), rank, (&rank.to_string(), place))
    });
    let (size, levels) = (spec.size(), order.shares.depth_below(0));
    match Outputs::open(console, &spec.output, (size, levels), files) {
        Ok(mut outputs) => {
            let called = (order.job.to_string().into_bytes(), alias_of(spec));
            let hosts = order.shares.iter();
            let hosts = hosts.map(|share| (share.ranks.clone(), share.member.to_string()));
            if let Some(labels) = HostLabels::new(spec.output.label.as_ref(), called, hosts) {
                outputs.label_by_host(&Rc::new(labels));
            }
            Ok((outputs, None))
        }
        Err(e) => {
            let null = || OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from);
            let plain = OutputSpec::default();
            let silent = Outputs::open([null()?, null()?], &plain, (size, levels), []);
            let outputs = silent.map_err(anyhow::Error::msg)?;
            Ok((outputs, Some(format!("cannot open output {e}"))))
        }
    }
}

/// The files that the streams of a rank go to instead of the console's output, for a rank of that name at that place.
/// Relative names are seen from the directory of the first program, which is where `mpirun` was started unless told
/// otherwise.
pub(super) fn files_of(
    (spec, order): (&JobSpec, &StartJob),
    rank: Rank,
    called: (&str, usize),
) -> Vec<Wanted> {
    let patterns = [(Stream::Out, &spec.output.outfile), (Stream::Err, &spec.output.errfile)];
    let file = |(stream, pattern): (Stream, &Option<LabelFormat>)| {
        let pattern = pattern.as_ref()?;
        let name = fill(pattern, (spec, order), called, 0);
        // Those that are spawned are at home where the job is.
        let argset = if rank.0 < spec.size() { spec.argset_of(rank) } else { 0 };
        let argset = spec.argsets.get(argset)?;
        Some(Wanted {
            rank,
            stream,
            path: Path::new(OsStr::from_bytes(&argset.directory)).join(OsStr::from_bytes(&name)),
            mode: 0o666 & !argset.umask,
            is_own: pattern.names(b'r'),
        })
    };
    patterns.into_iter().filter_map(file).collect()
}
