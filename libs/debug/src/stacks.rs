//! The stacks of all threads of a job as one tree: each call with the ranks that are in it.
//!
//! After D. C. Arnold et al., "Stack trace analysis for large scale debugging" (2007). A few lines
//! show the state of thousands of ranks, since most of them wait at one place.

use std::collections::BTreeMap;

use serde::Serialize;

use mpd_wire::RankSet;

/// Most calls of one stack that are used; deeper ones are left out.
pub const MAX_DEPTH: usize = 256;

/// The beginning of the stack of a thread that could not be read.
const UNREAD: &str = "?? (thread ";

/// The replacement for the stack of a thread that could not be read: its number and the reason, on
/// one line.
pub fn unread(thread: u32, why: &str) -> String {
    let why = why.split(['\t', '\n', '\r']).map(str::trim).filter(|part| !part.is_empty());
    format!("{UNREAD}{thread}: {})", why.collect::<Vec<_>>().join(" "))
}

/// The number of the thread that could not be read, and the reason, if the stack is such a
/// replacement.
pub fn why_unread(stack: &str) -> Option<&str> {
    stack.strip_prefix(UNREAD)?.strip_suffix(')')
}

/// A call, the ranks that are in it, and the calls made from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The function and its place, as `FUNC at FILE:LINE`, `FUNC in LIBRARY` or `FUNC`. For a
    /// thread that could not be read: `?? (thread NUMBER: WHY)`.
    pub call: String,
    /// The ranks with a thread in it, as a set.
    #[serde(serialize_with = "as_text")]
    pub ranks: RankSet,
    /// The number of these threads.
    pub threads: u32,
    /// The calls made from there, those of the lowest ranks first.
    pub calls: Vec<Self>,
}

fn as_text<S: serde::Serializer>(ranks: &RankSet, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(ranks)
}

/// The stacks of a job.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    top: Branch,
}

#[derive(Clone, Debug, Default)]
struct Branch {
    ranks: RankSet,
    threads: u32,
    calls: BTreeMap<String, Self>,
}

impl Stacks {
    /// Adds the stack of a thread of each of `ranks`: calls from the outermost to the innermost,
    /// with tabs between them.
    pub fn add(&mut self, ranks: &RankSet, stack: &str) {
        let calls = stack.split('\t').filter(|call| !call.is_empty()).take(MAX_DEPTH);
        self.put(calls, ranks, ranks.count());
    }

    fn put<'a>(&mut self, calls: impl Iterator<Item = &'a str>, ranks: &RankSet, threads: u32) {
        let mut at = &mut self.top;
        for call in calls {
            at = at.calls.entry(call.to_owned()).or_default();
            at.ranks.join(ranks);
            at.threads = at.threads.saturating_add(threads);
        }
    }

    /// The whole tree.
    pub fn calls(&self) -> Vec<Call> {
        self.top.calls()
    }

    /// The tree for the user. Calls that lead to `main` or to a thread's first function are left
    /// out, and so are calls inside of a library. Each call has a line, with its ranks before it.
    /// Threads that are only in the C library, such as those that just begin, are shown for ranks
    /// without other threads.
    pub fn text(&self) -> String {
        let (mut shown, mut nowhere) = (Self::default(), Vec::new());
        self.top.walk(&mut Vec::new(), &mut |stack, ranks, threads| {
            if stack.iter().all(|call| is_of_c_library(call)) {
                return nowhere.push((stack[0].to_owned(), ranks.clone()));
            }
            shown.put(essential(stack).iter().copied(), ranks, threads);
        });
        let reported = shown.top.calls.values().fold(RankSet::none(), |mut reported, branch| {
            reported.join(&branch.ranks);
            reported
        });
        for (call, mut ranks) in nowhere {
            ranks.remove(&reported);
            if !ranks.is_empty() {
                shown.put(std::iter::once(&call[..]), &ranks, ranks.count());
            }
        }
        let mut text = String::new();
        for call in shown.calls() {
            call.write(&mut text, "", "");
        }
        text
    }
}

impl Branch {
    fn calls(&self) -> Vec<Call> {
        let call = |(call, branch): (&String, &Self)| Call {
            call: call.clone(),
            ranks: branch.ranks.clone(),
            threads: branch.threads,
            calls: branch.calls(),
        };
        let mut calls: Vec<Call> = self.calls.iter().map(call).collect();
        calls.sort_by_key(|call| call.ranks.ranks().next());
        calls
    }

    /// Calls `see` with each stack, the ranks with threads at its end, and the number of these
    /// threads.
    fn walk<'a>(&'a self, stack: &mut Vec<&'a str>, see: &mut impl FnMut(&[&str], &RankSet, u32)) {
        let mut here = self.ranks.clone();
        for (call, branch) in &self.calls {
            stack.push(call);
            branch.walk(stack, see);
            stack.pop();
            here.remove(&branch.ranks);
        }
        let called: u32 = self.calls.values().map(|branch| branch.threads).sum();
        if self.threads > called {
            // If other threads of these ranks are further inside, the ranks with threads here are
            // not known: perhaps all.
            let ranks = if here.is_empty() { &self.ranks } else { &here };
            see(stack, ranks, self.threads - called);
        }
    }
}

impl Call {
    fn write(&self, text: &mut String, first: &str, rest: &str) {
        let several = if self.threads > self.ranks.count() {
            format!(" ({} threads)", self.threads)
        } else {
            String::new()
        };
        text.push_str(&format!("{first}{}: {}{several}\n", self.ranks, self.call));
        let Some((last, others)) = self.calls.split_last() else { return };
        if others.is_empty() {
            // A chain is written straight down.
            return last.write(text, &format!("{rest}  "), &format!("{rest}  "));
        }
        for call in others {
            call.write(text, &format!("{rest}|-"), &format!("{rest}| "));
        }
        last.write(text, &format!("{rest}`-"), &format!("{rest}  "));
    }
}

/// The essential part of a stack. It begins at `main`. Without `main` it begins at the first call
/// that is not inside of a library, otherwise at the first call of a library other than C's. It ends
/// at the first call inside of a library.
fn essential<'a>(stack: &[&'a str]) -> Vec<&'a str> {
    let is_main = |call: &&str| call.split(' ').next() == Some("main");
    let begin = stack.iter().position(is_main);
    let begin = begin.or_else(|| stack.iter().position(|call| !is_inside(call)));
    let begin = begin.or_else(|| stack.iter().position(|call| !is_of_c_library(call)));
    let own = &stack[begin.unwrap_or(0)..];
    let end = own.iter().position(|call| is_inside(call)).map_or(own.len(), |at| at + 1);
    own[..end].to_vec()
}

/// The source directories of the C library at its build. They may be known, and are of no use to
/// the user. Names of directories that other programs may have as well are left out.
const C_SOURCES: [&str; 12] = [
    "./assert/",
    "./csu/",
    "./dlfcn/",
    "./elf/",
    "./libio/",
    "./malloc/",
    "./nptl/",
    "./posix/",
    "./signal/",
    "./stdio-common/",
    "./stdlib/",
    "./string/",
];

/// The names of the C library's files: the library, its former threads library, the loader, and
/// musl's.
const C_LIBRARIES: [&str; 5] = ["libc.so", "libc-", "libpthread", "ld-", "libc.musl"];

/// Whether a call is inside of a library without sources, or of the C library.
fn is_inside(call: &str) -> bool {
    is_of_c_library(call) || (!call.contains(" at ") && call.contains(" in "))
}

fn is_of_c_library(call: &str) -> bool {
    if why_unread(call).is_some() {
        return false;
    }
    if let Some((_, place)) = call.split_once(" at ") {
        let begins = C_SOURCES.iter().any(|directory| place.starts_with(directory));
        return begins || place.contains("/sysdeps/") || place.contains("/glibc");
    }
    call.split_once(" in ").is_some_and(|(_, library)| {
        let name = library.rsplit('/').next().unwrap_or(library);
        C_LIBRARIES.iter().any(|begin| name.starts_with(begin))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks(text: &str) -> RankSet {
        text.parse().unwrap()
    }

    #[test]
    fn ranks_that_wait_at_one_place_share_a_line_and_the_rank_they_wait_for_has_another() {
        let mut stacks = Stacks::default();
        let below = "_start\t__libc_start_main in libc.so.6\tmain at ring.c:40";
        let receive = "\texchange at ring.c:22\tMPI_Recv in libmpi.so.12\tpoll in libmpi.so.12";
        stacks.add(&ranks("0-61"), &format!("{below}{receive}"));
        stacks.add(&ranks("62"), &format!("{below}{receive}\tspin in libmpi.so.12"));
        stacks.add(&ranks("63"), &format!("{below}\tcompute at ring.c:30"));
        let expected = "\
0-63: main at ring.c:40
|-0-62: exchange at ring.c:22
|   0-62: MPI_Recv in libmpi.so.12
`-63: compute at ring.c:30
";
        assert_eq!(stacks.text(), expected);
        assert_eq!(stacks.calls()[0].call, "_start", "nothing is left out of the whole");
    }

    #[test]
    fn calls_inside_of_the_c_library_are_left_out() {
        let mut stacks = Stacks::default();
        let abort = "abort at ./stdlib/abort.c:79\traise at ../sysdeps/posix/raise.c:26";
        stacks.add(&ranks("0"), &format!("main at a.c:9\twork at ./a/b.c:3\t{abort}"));
        let expected = "\
0: main at a.c:9
  0: work at ./a/b.c:3
    0: abort at ./stdlib/abort.c:79
";
        assert_eq!(stacks.text(), expected);
    }

    #[test]
    fn a_thread_only_in_the_c_library_is_shown_if_its_rank_has_no_other() {
        let mut stacks = Stacks::default();
        let begins = "clone3 at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:82";
        stacks.add(&ranks("0-1"), "main at a.c:9");
        stacks.add(&ranks("0-1"), begins);
        stacks.add(&ranks("1"), "clone3 in /lib/libc.so.6\tstart_thread at ./nptl/create.c:447");
        let library = "progress in /opt/mpi/libmpi.so.12\tepoll_wait in /lib/libc.so.6";
        stacks.add(&ranks("0-1"), &format!("{begins}\t{library}"));
        stacks
            .add(&ranks("2-3"), "_start in /lib64/ld-linux-x86-64.so.2\tmmap in /lib64/ld-2.31.so");
        let expected = "\
0-1: main at a.c:9
0-1: progress in /opt/mpi/libmpi.so.12
2-3: _start in /lib64/ld-linux-x86-64.so.2
";
        assert_eq!(stacks.text(), expected);
        stacks.add(&ranks("2"), "main at a.c:9");
        stacks.add(&ranks("3"), begins);
        let expected = "\
0-2: main at a.c:9
0-1: progress in /opt/mpi/libmpi.so.12
3: _start in /lib64/ld-linux-x86-64.so.2
3: clone3 at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:82
";
        assert_eq!(stacks.text(), expected);
        assert_eq!(stacks.calls().len(), 4, "nothing is left out of the whole");
    }

    #[test]
    fn a_thread_that_could_not_be_read_has_a_line_of_its_own_with_any_reason() {
        let mut stacks = Stacks::default();
        stacks.add(&ranks("0-1"), "main at a.c:9");
        let unread = unread(2, "Cannot read\tit in\n/lib/libc.so.6\n");
        assert_eq!(unread, "?? (thread 2: Cannot read it in /lib/libc.so.6)");
        assert_eq!(why_unread(&unread), Some("2: Cannot read it in /lib/libc.so.6"));
        stacks.add(&ranks("1"), &unread);
        assert_eq!(stacks.text(), format!("0-1: main at a.c:9\n1: {unread}\n"));
        let json = serde_json::to_value(stacks.calls()).unwrap();
        assert_eq!((&json[1]["call"], &json[1]["ranks"]), (&unread.into(), &"1".into()));
        assert_eq!(why_unread("?? in libc.so.6"), None);
    }

    #[test]
    fn several_threads_of_a_rank_are_counted() {
        let mut stacks = Stacks::default();
        stacks.add(&ranks("0-1"), "main at a.c:9\tjoin in libc.so.6");
        for _ in 0..2 {
            stacks.add(&ranks("0-1"), "clone3 in libc.so.6\twork at a.c:3");
        }
        let expected =
            "0-1: main at a.c:9\n  0-1: join in libc.so.6\n0-1: work at a.c:3 (4 threads)\n";
        assert_eq!(stacks.text(), expected);
        let json = serde_json::to_value(stacks.calls()).unwrap();
        assert_eq!(json[0]["ranks"], "0-1");
        assert_eq!(json[0]["calls"][0]["threads"], 4);
    }

    proptest! {
        #[test]
        fn every_call_has_its_ranks_in_any_order_of_arrival(
            mut stacks in proptest::collection::vec((0_u32..6, "[abm]{1,3}"), 1..12),
        ) {
            let build = |stacks: &[(u32, String)]| {
                let mut all = Stacks::default();
                for (rank, calls) in stacks {
                    let calls: Vec<String> = calls.chars().map(String::from).collect();
                    all.add(&RankSet::from_ranges(vec![(*rank, *rank)]), &calls.join("\t"));
                }
                all
            };
            let tree = build(&stacks);
            for (rank, calls) in &stacks {
                let mut level = tree.calls();
                for call in calls.chars() {
                    let next = level.into_iter().find(|c| c.call == call.to_string()).unwrap();
                    prop_assert!(next.ranks.contains(mpd_wire::Rank(*rank)));
                    level = next.calls;
                }
            }
            stacks.reverse();
            prop_assert_eq!(build(&stacks).calls(), tree.calls());
            prop_assert_eq!(build(&stacks).text(), tree.text());
        }
    }
}
