//! The labels of lines, the names of files, and the receivers of input, by the specification and the list of hosts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mpd_wire::job::{JobSpec, LabelFormat, Parts, World};
use mpd_wire::message::StartJob;
use mpd_wire::{Rank, RankSet, Stream};

use super::facts::{Facts, Here};
use super::files::OutputFile;
use crate::feed::{Feed, Receiver, WINDOW};
use crate::hostlabel::HostLabels;

/// The labels of the lines of a rank, by stream.
pub(super) fn labels_of(
    (facts, here): (&Facts<'_>, &dyn Here),
    label: Option<&LabelFormat>,
    (rank, pid): (Rank, u32),
) -> [Vec<u8>; 2] {
    Stream::BOTH.map(|stream| label_of((facts, here), label, rank, (pid, stream)))
}

fn label_of(
    (facts, here): (&Facts<'_>, &dyn Here),
    label: Option<&LabelFormat>,
    rank: Rank,
    of: (u32, Stream),
) -> Vec<u8> {
    if facts.spec.debug.is_some() && !facts.is_first(rank) {
        // The prompt knows spawned ranks by their numbers in the job.
        return format!("{rank}: ").into_bytes();
    }
    let name = here.name_of(rank);
    match label {
        Some(format) => {
            let tree_index = here.tree_index_of(rank).unwrap_or(0);
            fill(format, (facts.spec, facts.order), (&name, tree_index), of)
        }
        None if !facts.is_first(rank) => format!("{name}: ").into_bytes(),
        None => Vec::new(),
    }
}

/// Fills a pattern for the rank `name` on the host at `tree_index`.
fn fill(
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

/// The files for the streams of the ranks with which a job begins.
pub fn files_of_job(spec: &JobSpec, order: &StartJob) -> Vec<OutputFile> {
    let files = |rank: Rank| {
        let tree_index = order.host_slices.tree_index_of_rank(rank).unwrap_or(0);
        files_of((spec, order), rank, (&rank.to_string(), tree_index))
    };
    (0..spec.size()).map(Rank).flat_map(files).collect()
}

/// The files for the streams of a spawned world.
pub fn files_of_world(job: (&JobSpec, &StartJob), world: &World, parts: &Parts) -> Vec<OutputFile> {
    let files = parts.0.iter().flat_map(|(tree_index, ranks)| {
        let tree_index = *tree_index as usize;
        ranks.ranks().flat_map(move |rank| {
            let name = World::name(Some(world), rank);
            files_of(job, rank, (&name, tree_index))
        })
    });
    files.collect()
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
fn files_of(
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
