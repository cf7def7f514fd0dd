//! The specification of a job, resolved: no later step looks anything up again.
//!
//! Paths, arguments and environments are bytes, as in the kernel's interface. They are never
//! converted to UTF-8. The receiver of a specification checks it with [`JobSpec::check`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::binary;
use crate::bounded::{at_most, at_most_if_any};
use crate::job::allowance::Allowance;
use crate::job::bounds::{Bytes, MAX_ARGSETS, MAX_HOST_ENTRIES, MAX_RANKS, Misfit};
use crate::job::crash::OnCrash;
use crate::job::debug::Debug;
use crate::job::placement_options::{HostChoice, PlacementSpec, check_hosts};
use crate::job::spawn_options::SpawnOptions;
use crate::{Rank, RankSet};

/// Most resource limits of an argset: as many as there can be resources.
const MAX_LIMITS: usize = 256;

/// A whole job. The default one has no programs and default options. On the wire, default options are left out.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// The programs, in rank order.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ARGSETS>")]
    pub argsets: Vec<Argset>,
    /// Environments that argsets refer to, each a list of `NAME=VALUE`.
    #[serde(with = "binary")]
    pub environments: Vec<Vec<Bytes>>,
    /// The user's own name for the job.
    #[serde(skip_serializing_if = "is_default")]
    pub alias: Option<String>,
    /// The directory in which the job's private directory is made.
    #[serde(with = "binary")]
    pub tmpdir: Bytes,
    /// The ranks that receive standard input.
    #[serde(skip_serializing_if = "is_default")]
    pub stdin: RankSet,
    /// Whether the user can switch standard input to other ranks later. Every rank then has a pipe.
    #[serde(skip_serializing_if = "is_default")]
    pub stdin_switch: bool,
    /// The options for the ranks' output.
    #[serde(skip_serializing_if = "is_default")]
    pub output: OutputSpec,
    /// The effect of the first failure.
    #[serde(skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// Whether a rank may end with 0 at any time, which is then no failure.
    #[serde(skip_serializing_if = "is_default")]
    pub elastic: bool,
    /// Whether a rank that publishes a taken name gets another name.
    #[serde(skip_serializing_if = "is_default")]
    pub unique_names: bool,
    /// Whether the failure of a connected job ends this one.
    #[serde(skip_serializing_if = "is_default")]
    pub abort_scope: AbortScope,
    /// How long the job may run.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<Duration>,
    /// The size of the universe, if the user gives it; 0: without a bound.
    #[serde(skip_serializing_if = "is_default")]
    pub universe_size: Option<u32>,
    /// The kinds of memory that MPI libraries are asked to support, as PMI passes them.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_kinds: Option<String>,
    /// Whether the console wants the ends of all ranks.
    #[serde(skip_serializing_if = "is_default")]
    pub report_ends: bool,
    /// Whether programs are copied to hosts that lack them.
    #[serde(skip_serializing_if = "is_default")]
    pub preload: bool,
    /// Whether the console wants the timeline of the launch.
    #[serde(skip_serializing_if = "is_default")]
    pub trace: bool,
    /// Where the ranks run.
    #[serde(skip_serializing_if = "is_default")]
    pub placement: PlacementSpec,
    /// The options for spawned processes.
    #[serde(skip_serializing_if = "is_default")]
    pub spawn: SpawnOptions,
    /// Whether the only rank is a running process that was passed with the specification.
    #[serde(skip_serializing_if = "is_default")]
    pub adopted: bool,
    /// The debugger that the ranks run under.
    #[serde(skip_serializing_if = "is_default")]
    pub debug: Option<Debug>,
    /// How crashes are handled; `None`: not at all.
    #[serde(skip_serializing_if = "is_default")]
    pub on_crash: Option<OnCrash>,
    /// Which of the descriptors 0, 1 and 2 were closed in the console, see [`JobSpec::closed_in`].
    #[serde(skip_serializing_if = "is_default")]
    pub closed: [bool; 3],
    /// The niceness of the ranks; `None`: that of their daemon.
    #[serde(skip_serializing_if = "is_default")]
    pub niceness: Option<i8>,
    /// Whether the ranks may use an MPI library without PMI, for which each of them is rank 0 of 1.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_alone: bool,
    /// After so many seconds without a message from the manager of a host, the host is lost; `None`: 8.
    #[serde(skip_serializing_if = "is_default")]
    pub host_timeout: Option<u32>,
    /// What the job may use on each host.
    #[serde(skip_serializing_if = "is_default")]
    pub allowance: Allowance,
    /// Whether the managers offer no PMIx, so that they listen at no port.
    #[serde(skip_serializing_if = "is_default")]
    pub no_pmix: bool,
    /// Whether the ranks get no answer to PMI requests until the console continues the job. A
    /// debugger attaches meanwhile.
    #[serde(skip_serializing_if = "is_default")]
    pub hold: bool,
    /// The directory in which each manager records its inputs, on its host; `None`: no recording.
    #[serde(with = "binary", skip_serializing_if = "is_default")]
    pub record: Option<Bytes>,
}

/// One program and the ranks that run it. The default one has no rank and no program.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argset {
    /// How many ranks.
    pub size: u32,
    /// The program: a path (relative to `directory`) if it has a `/`, else searched in `search`.
    #[serde(with = "binary")]
    pub program: Bytes,
    /// Its arguments, without the program.
    #[serde(with = "binary")]
    pub args: Vec<Bytes>,
    /// Whether the arguments are patterns with the fields of [`ArgumentFormat`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub substitute: bool,
    /// Index into [`JobSpec::environments`].
    pub environment: u32,
    /// The working directory.
    #[serde(with = "binary")]
    pub directory: Bytes,
    /// Directories that are searched for the program, in the form of `PATH`.
    #[serde(with = "binary")]
    pub search: Bytes,
    /// The file mode creation mask.
    pub umask: u32,
    /// Resource limits.
    #[serde(deserialize_with = "at_most::<_, _, MAX_LIMITS>")]
    pub limits: Vec<Limit>,
    /// Hosts for this program alone, in this order, as in [`PlacementSpec::hosts`]; `None`: the
    /// job's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(deserialize_with = "at_most_if_any::<_, _, MAX_HOST_ENTRIES>")]
    pub hosts: Option<Vec<HostChoice>>,
    /// Columns and lines of each rank's terminal; `None`: no terminals.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pty: Option<(u16, u16)>,
}

/// A resource limit, by the kernel's number for the resource. `u64::MAX` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u8, u64, u64)", into = "(u8, u64, u64)")]
pub struct Limit {
    /// The `RLIMIT_` number of Linux.
    pub resource: u8,
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

impl From<(u8, u64, u64)> for Limit {
    fn from((resource, soft, hard): (u8, u64, u64)) -> Self {
        Self { resource, soft, hard }
    }
}

impl From<Limit> for (u8, u64, u64) {
    fn from(Limit { resource, soft, hard }: Limit) -> Self {
        (resource, soft, hard)
    }
}

/// The options for the ranks' output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputSpec {
    /// The label before each line.
    pub label: Option<LabelFormat>,
    /// Whether identical lines of several ranks are merged, under a label with the set of ranks.
    pub merge: bool,
    /// Whether the time of reading precedes each line.
    pub timestamp: bool,
    /// Files for stdout instead of the console's.
    pub outfile: Option<LabelFormat>,
    /// Files for stderr instead of the console's.
    pub errfile: Option<LabelFormat>,
    /// Whether output that goes to files is also written to the console.
    pub copy: bool,
    /// Whether the standard error of each rank is its standard output.
    pub joined: bool,
    /// The ranks of the first world whose output is kept; `None`: all.
    pub only: Option<RankSet>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl OutputSpec {
    /// Whether the output of a rank of the first world is kept.
    pub fn keeps(&self, rank: Rank) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(rank))
    }
}

/// The effect of the first failing rank on the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The job ends.
    #[default]
    End,
    /// The other ranks continue.
    Continue,
}

/// What ends with a rank that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortScope {
    /// Its job, without worlds that have disconnected from its own.
    #[default]
    Job,
    /// Its world, and worlds that its library has connected with it. A spawn alone connects none.
    World,
    /// Its job, as with [`AbortScope::Job`]. This job also ends if a job fails that is connected to it.
    Connected,
}

impl AbortScope {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Job, Self::World, Self::Connected];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::World => "world",
            Self::Connected => "connected",
        }
    }
}

/// A pattern with fields: `%r` rank, `%h` host, `%p` process id, `%j` job id, `%a` alias, `%%`. `%R` is the rank with as
/// many digits as the job's last rank has, and `%n` the number of the host. `%3r` and `%3n` have at least three digits. `%o` is
/// the stream, `out` or `err`, and `%w` the number of the world, from 1, and the rank in it, as `1,0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Pattern", into = "Pattern")]
pub struct LabelFormat(Bytes);

/// A pattern on the wire.
#[derive(Serialize, Deserialize)]
struct Pattern(#[serde(with = "binary")] Bytes);

/// Most bytes of a pattern in an order to a job.
const MAX_LABEL: usize = 256;

const KNOWN: &str = "known are %r rank, %R rank with leading zeros, %h host, %n number of the host, %p process id, %j job id, \
                     %a alias, %o stream (out or err), %w world and rank (1,0), %% percent sign; %3r and %3n have at least three digits";

/// The letter after a `%` that is not a field of a [`LabelFormat`]; `None` for a `%` at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {KNOWN}", .0.map_or("the % at the end has no letter".to_owned(), |field| format!("there is no field %{field}")), KNOWN = KNOWN)]
pub struct InvalidLabel(pub Option<char>);

/// A label of an order to a job, which every rank gets: bounded.
impl TryFrom<String> for LabelFormat {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, String> {
        if pattern.len() > MAX_LABEL {
            return Err(format!("longer than {MAX_LABEL} bytes"));
        }
        Self::new(pattern.as_bytes()).map_err(|problem| problem.to_string())
    }
}

impl TryFrom<Pattern> for LabelFormat {
    type Error = InvalidLabel;

    fn try_from(pattern: Pattern) -> Result<Self, InvalidLabel> {
        Self::new(&pattern.0)
    }
}

impl From<LabelFormat> for Pattern {
    fn from(format: LabelFormat) -> Self {
        Self(format.0)
    }
}

impl LabelFormat {
    /// The fields that a pattern may name.
    pub const FIELDS: &'static str = "rRhnpjaow%";
    /// The fields that may have a width before the letter.
    const WIDE: &'static str = "rn";

    /// Checks a pattern.
    ///
    /// # Errors
    /// [`InvalidLabel`].
    pub fn new(pattern: &[u8]) -> Result<Self, InvalidLabel> {
        check_pattern(pattern, Self::FIELDS, Self::WIDE).map_err(InvalidLabel)?;
        Ok(Self(pattern.to_vec()))
    }

    /// The pattern.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the pattern contains `field`.
    pub fn names(&self, field: u8) -> bool {
        let mut is_there = false;
        self.fill(|found| {
            is_there |= found == field;
            Bytes::new()
        });
        is_there
    }

    /// Whether the pattern contains the rank.
    pub fn names_rank(&self) -> bool {
        self.names(b'r') || self.names(b'R') || self.names(b'w')
    }

    /// Replaces the fields; `value` returns the text of each.
    pub fn fill(&self, value: impl FnMut(u8) -> Bytes) -> Bytes {
        fill_pattern(&self.0, Self::WIDE, value)
    }
}

/// An argument with fields: `%r` rank, `%l` rank on its host, `%h` host, `%j` job id, `%s` ranks of the world, `%%`. The
/// process id is not a field, since arguments are made before the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentFormat<'a>(&'a [u8]);

impl<'a> ArgumentFormat<'a> {
    /// The fields that an argument may name.
    pub const FIELDS: &'static str = "rlhjs%";

    /// Checks an argument.
    ///
    /// # Errors
    /// The first letter after a `%` that is not a field; `None` for a `%` at the end.
    pub fn new(argument: &'a [u8]) -> Result<Self, Option<char>> {
        check_pattern(argument, Self::FIELDS, "").map(|()| Self(argument))
    }

    /// Replaces the fields; `value` returns the text of each.
    pub fn fill(self, value: impl FnMut(u8) -> Bytes) -> Bytes {
        fill_pattern(self.0, "", value)
    }
}

/// The width after a `%`, the field, and the length of both. Only the fields `wide` have a width.
fn field(rest: &[u8], wide: &str) -> Option<(usize, u8, usize)> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let width = str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse().ok());
    match (width, rest.get(digits)) {
        (Some(width @ 1..=10), Some(&field)) if wide.as_bytes().contains(&field) => {
            Some((width, field, digits + 1))
        }
        _ => Some((0, *rest.first()?, 1)),
    }
}

/// Checks that each `%` precedes one of these letters. The error is the first other letter, `None`
/// for no letter.
fn check_pattern(mut rest: &[u8], fields: &str, wide: &str) -> Result<(), Option<char>> {
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        let (_, field, length) = field(&rest[at + 1..], wide).ok_or(None)?;
        if !fields.as_bytes().contains(&field) {
            return Err(Some(char::from(field)));
        }
        rest = &rest[at + 1 + length..];
    }
    Ok(())
}

fn fill_pattern(mut rest: &[u8], wide: &str, mut value: impl FnMut(u8) -> Bytes) -> Bytes {
    let mut text = Vec::with_capacity(rest.len() + 8);
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        text.extend_from_slice(&rest[..at]);
        let (width, field, length) = field(&rest[at + 1..], wide).unwrap_or((0, b'%', 0));
        let filled = if field == b'%' { b"%".to_vec() } else { value(field) };
        text.extend(std::iter::repeat_n(b'0', width.saturating_sub(filled.len())));
        text.extend_from_slice(&filled);
        rest = &rest[at + 1 + length..];
    }
    text.extend_from_slice(rest);
    text
}

impl JobSpec {
    /// The number of ranks. Call after [`JobSpec::check`], which bounds the sum.
    pub fn size(&self) -> u32 {
        self.argsets.iter().map(|a| a.size).sum()
    }

    /// The size of the universe that the user gives, if it is bounded.
    pub fn given_universe(&self) -> Option<u32> {
        self.universe_size.filter(|size| *size > 0)
    }

    /// The hosts that the user or an allocation names, for all programs and for single ones.
    pub fn named_hosts(&self) -> impl Iterator<Item = &HostChoice> {
        let of_programs = self.argsets.iter().flat_map(|argset| argset.hosts.iter().flatten());
        self.placement.hosts.iter().chain(of_programs)
    }

    /// The index of the argset of `rank`.
    pub fn argset_of(&self, rank: Rank) -> usize {
        let mut end = 0;
        self.argsets
            .iter()
            .position(|a| {
                end += a.size;
                rank.0 < end
            })
            .unwrap_or(0)
    }

    /// Which of the descriptors 0, 1 and 2 are closed in the ranks of `argset`; `receives`: the
    /// rank receives standard input. These are the descriptors closed in the console, unless a
    /// terminal, a file or a debugger takes their place in the rank.
    pub fn closed_in(&self, argset: &Argset, receives: bool) -> [bool; 3] {
        let [input, out, err] = self.closed;
        let host_slices = self.debug.is_none() && argset.pty.is_none();
        let out = host_slices && out && self.output.outfile.is_none();
        let err = match self.output.joined {
            true => out,
            false => host_slices && err && self.output.errfile.is_none(),
        };
        [host_slices && input && receives && !self.stdin_switch, out, err]
    }

    /// Checks whether the job can be tried.
    ///
    /// # Errors
    /// The first [`Misfit`].
    pub fn check(&self) -> Result<(), Misfit> {
        if self.argsets.is_empty() {
            return Err(Misfit::Empty);
        }
        let size: u64 = self.argsets.iter().map(|a| u64::from(a.size)).sum();
        if size > u64::from(MAX_RANKS) {
            return Err(Misfit::TooManyRanks(size));
        }
        let text = |what, bytes: &[u8]| match bytes.contains(&0) || bytes.is_empty() {
            true => Err(Misfit::Text(what)),
            false => Ok(()),
        };
        for argset in &self.argsets {
            if argset.size == 0 {
                return Err(Misfit::NoRanks);
            }
            text("the program", &argset.program)?;
            text("the working directory", &argset.directory)?;
            if argset.args.iter().any(|a| a.contains(&0)) || argset.search.contains(&0) {
                return Err(Misfit::Text("an argument"));
            }
            let is_wrong = |arg: &&Bytes| argset.substitute && ArgumentFormat::new(arg).is_err();
            if let Some(arg) = argset.args.iter().find(is_wrong) {
                return Err(Misfit::Argument(String::from_utf8_lossy(arg).into_owned()));
            }
            if argset.environment as usize >= self.environments.len() {
                return Err(Misfit::Environment(argset.environment));
            }
            check_hosts(argset.hosts.as_deref().unwrap_or_default())?;
        }
        self.placement.check()?;
        if self.environments.iter().flatten().any(|variable| variable.contains(&0)) {
            return Err(Misfit::Text("an environment variable"));
        }
        text("the directory for temporary files", &self.tmpdir)?;
        if let Some(directory) = &self.record {
            text("the directory for recordings", directory)?;
        }
        let size = self.size();
        let is_fed = self.stdin.greatest().is_some() || self.stdin_switch;
        if self.adopted && (size != 1 || is_fed || self.preload) {
            return Err(Misfit::Adopted);
        }
        let attached = self.debug.as_ref().map_or(0, |debug| debug.attach.len());
        let one_each = self.argsets.len() == size as usize;
        if attached != 0 && (attached != size as usize || !one_each) {
            return Err(Misfit::Attach(attached, size));
        }
        if let Some(rank) = self.stdin.greatest().filter(|rank| rank.0 >= size) {
            return Err(Misfit::StdinRank(rank, size));
        }
        match self.output.only.as_ref().and_then(RankSet::greatest) {
            Some(rank) if rank.0 >= size => Err(Misfit::OutputRank(rank, size)),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for JobSpec {
    /// Shows the outline only: arguments and environments may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobSpec")
            .field("argsets", &self.argsets)
            .field("environments", &self.environments.len())
            .field("alias", &self.alias)
            .field("spawn", &self.spawn)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Argset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Argset")
            .field("size", &self.size)
            .field("program", &String::from_utf8_lossy(&self.program))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fills_its_fields_and_keeps_the_rest() {
        let format = LabelFormat::new(b"100%% %r@%h").unwrap();
        let text = format.fill(|f| if f == b'r' { b"7".to_vec() } else { b"h1".to_vec() });
        assert_eq!(text, b"100% 7@h1");
        assert!(format.names(b'r') && !format.names(b'p'));
    }

    #[test]
    fn a_number_in_a_pattern_has_at_least_the_digits_that_it_asks_for() {
        let format = LabelFormat::new(b"%3r.%2n.%10r.%%3r").unwrap();
        assert_eq!(format.fill(|field| vec![field; 2]), b"0rr.nn.00000000rr.%3r");
        assert!(format.names_rank() && !LabelFormat::new(b"%%3r").unwrap().names_rank());
        assert_eq!(LabelFormat::new(b"%3h"), Err(InvalidLabel(Some('3'))));
        assert_eq!(LabelFormat::new(b"%11r"), Err(InvalidLabel(Some('1'))));
    }

    #[test]
    fn a_descriptor_closed_in_the_console_is_closed_in_ranks_unless_replaced() {
        let argset = || Argset {
            size: 1,
            program: b"p".to_vec(),
            directory: b"/".to_vec(),
            search: Vec::new(),
            umask: 0,
            ..Argset::default()
        };
        let closed = JobSpec { closed: [true; 3], ..JobSpec::default() };
        assert_eq!(JobSpec::default().closed_in(&argset(), true), [false; 3]);
        assert_eq!(closed.closed_in(&argset(), true), [true; 3]);
        assert_eq!(closed.closed_in(&argset(), false), [false, true, true]);
        let on_terminal = Argset { pty: Some((80, 24)), ..argset() };
        assert_eq!(closed.closed_in(&on_terminal, true), [false; 3]);
        let mut other = JobSpec { stdin_switch: true, ..closed };
        other.output.errfile = LabelFormat::new(b"err").ok();
        assert_eq!(other.closed_in(&argset(), true), [false, true, false]);
        other.output.joined = true;
        assert_eq!(other.closed_in(&argset(), true), [false, true, true]);
        other.debug = Some(Debug { gdb: b"gdb".to_vec(), attach: Vec::new() });
        assert_eq!(other.closed_in(&argset(), true), [false; 3]);
    }

    #[test]
    fn an_error_names_the_unknown_field_of_a_pattern() {
        assert_eq!(LabelFormat::new(b"%r %x"), Err(InvalidLabel(Some('x'))));
        assert_eq!(LabelFormat::new(b"%"), Err(InvalidLabel(None)));
    }

    #[test]
    fn an_argument_has_fields_of_its_own() {
        let format = ArgumentFormat::new(b"out.%r-of-%s%%").unwrap();
        assert_eq!(format.fill(|field| vec![field]), b"out.r-of-s%");
        assert_eq!(ArgumentFormat::new(b"%p"), Err(Some('p')));
        assert_eq!(ArgumentFormat::new(b"100%"), Err(None));
    }
}
