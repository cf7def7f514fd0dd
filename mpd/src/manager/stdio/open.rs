//! Chooses the outputs of a job and the routes of its streams, by the specification and the list of hosts.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use mpd_stdio::feed::{Feed, Receiver, WINDOW};
use mpd_stdio::hostlabel::HostLabels;
use mpd_wire::job::{JobSpec, LabelFormat, OutputSpec};
use mpd_wire::message::StartJob;
use mpd_wire::{Rank, RankSet, Stream};

use super::files::OutputFile;
use super::outputs::Outputs;

/// Fills a pattern for the rank `name` on the host at `tree_index`.
pub(super) fn fill(
    format: &LabelFormat,
    (spec, order): (&JobSpec, &StartJob),
    (name, tree_index): (&str, usize),
    (pid, stream): (u32, Stream),
) -> Vec<u8> {
    format.fill(|field| match field {
        b'r' => name.as_bytes().to_vec(),
        b'R' => format!("{name:0>width$}", width = digits(spec.size())).into_bytes(),
        b'n' => number_of_host(order, tree_index).to_string().into_bytes(),
        b'h' => host(order, tree_index).into_bytes(),
        b'p' => pid.to_string().into_bytes(),
        b'j' => order.job.to_string().into_bytes(),
        b'o' => stream_name(stream).as_bytes().to_vec(),
        b'w' => in_world(name).into_bytes(),
        _ => alias_of(spec),
    })
}

/// The name of a stream in labels and in names of files.
const fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Out => "out",
        Stream::Err => "err",
    }
}

/// The world, counted from 1, and the rank in it. The name `3` is rank 3 of the first world. The name `0,1` is rank 0 of the
/// first spawned world.
fn in_world(name: &str) -> String {
    let (rank, world) = name.split_once(',').unwrap_or((name, "0"));
    let world = world.parse::<u64>().unwrap_or(0) + 1;
    format!("{world},{rank}")
}

/// The digits of the last rank of a job of that size.
fn digits(size: u32) -> usize {
    size.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1
}

/// The number of a host among those of the job, which are ordered by their lowest ranks.
fn number_of_host(order: &StartJob, tree_index: usize) -> usize {
    let lowest = |at: usize| {
        let host_slice = order.host_slices.get(at)?;
        Some((host_slice.ranks.ranks().next().map_or(u32::MAX, |rank| rank.0), at))
    };
    let own = lowest(tree_index);
    let all = (0..order.host_slices.iter().count()).map(lowest);
    all.filter(|other| *other < own).count()
}

fn host(order: &StartJob, tree_index: usize) -> String {
    order
        .host_slices
        .get(tree_index)
        .map_or_else(|| order.host.clone(), |host_slice| host_slice.member.to_string())
}

fn alias_of(spec: &JobSpec) -> Vec<u8> {
    spec.alias.clone().unwrap_or_default().into_bytes()
}

/// The receivers of input for `ranks` here: ranks of this host, and child managers.
pub(super) fn receivers(order: &StartJob, ranks: &RankSet) -> Vec<Receiver> {
    let tree_index = order.tree_index as usize;
    let here = order
        .host_slices
        .get(tree_index)
        .map(|host_slice| host_slice.ranks.clone())
        .unwrap_or_default();
    let children: Vec<(usize, RankSet)> = order
        .host_slices
        .children(tree_index)
        .map(|p| (p, order.host_slices.subtree_ranks(p)))
        .collect();
    Receiver::of(ranks, &here, children.iter().map(|(tree_index, ranks)| (*tree_index, ranks)))
}

/// The input of this manager's ranks and of the child managers.
pub(super) fn feed_of(spec: &JobSpec, order: &StartJob) -> Feed {
    let children = order.host_slices.children(order.tree_index as usize).map(Receiver::Child);
    let mut others: Vec<Receiver> = children.collect();
    if spec.stdin_switch {
        // Ranks that do not receive input yet must get its end.
        others.extend(receivers(order, &RankSet::all()));
    }
    Feed::new(receivers(order, &spec.stdin), others, WINDOW)
}

/// The outputs of this manager. A problem of the console's outputs is returned as text; then output is discarded.
///
/// # Errors
/// When not even `/dev/null` can be opened.
pub(super) fn outputs_of(
    spec: &JobSpec,
    order: &StartJob,
    console: Option<[OwnedFd; 2]>,
) -> Result<(Outputs, Option<String>)> {
    let Some(console) = console else { return Ok((Outputs::parent(spec, order), None)) };
    let files = (0..spec.size()).map(Rank).flat_map(|rank| {
        let tree_index = order.host_slices.tree_index_of_rank(rank).unwrap_or(0);
        files_of((spec, order), rank, (&rank.to_string(), tree_index))
    });
    let (size, levels) = (spec.size(), order.host_slices.subtree_depth(0));
    match Outputs::open(console, &spec.output, (size, levels), files) {
        Ok(mut outputs) => {
            let label = spec.output.label.as_ref();
            outputs.label(label.is_some(), host_labels(spec, order, label));
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

/// The labels of merged lines by host, unless the label distinguishes ranks.
pub(super) fn host_labels(
    spec: &JobSpec,
    order: &StartJob,
    label: Option<&LabelFormat>,
) -> Option<HostLabels> {
    let names = (order.job.to_string().into_bytes(), alias_of(spec));
    let hosts = order.host_slices.iter();
    HostLabels::new(label, names, hosts.map(|it| (it.ranks.clone(), it.member.to_string())))
}

/// The files for the streams of a rank that do not go to the console; `names` is the name of the rank and its tree
/// index. Relative names start at the directory of the first program. That is the directory of `mpirun`, unless an
/// option changes it.
pub(super) fn files_of(
    (spec, order): (&JobSpec, &StartJob),
    rank: Rank,
    names: (&str, usize),
) -> Vec<OutputFile> {
    let patterns = [(Stream::Out, &spec.output.outfile), (Stream::Err, &spec.output.errfile)];
    let patterns = patterns.into_iter().filter(|(stream, _)| {
        // The pipe of standard error is not used then.
        *stream == Stream::Out || !spec.output.joined
    });
    let file = |(stream, pattern): (Stream, &Option<LabelFormat>)| {
        let pattern = pattern.as_ref()?;
        let name = fill(pattern, (spec, order), names, (0, stream));
        // Spawned ranks use the directory of the job.
        let argset = if rank.0 < spec.size() { spec.argset_of(rank) } else { 0 };
        let argset = spec.argsets.get(argset)?;
        Some(OutputFile {
            rank,
            stream,
            path: Path::new(OsStr::from_bytes(&argset.directory)).join(OsStr::from_bytes(&name)),
            mode: 0o666 & !argset.umask,
            is_own: pattern.names_rank(),
        })
    };
    patterns.filter_map(file).collect()
}
