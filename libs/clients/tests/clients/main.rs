//! Golden transcripts: bytes of clients and events of the job in, bytes for clients and outputs out.
//!
//! A line that begins with `>` or `!` is an input. The lines below it are what the machine does. `UPDATE=1` writes what was
//! played.
//!
//! | line | meaning |
//! |---|---|
//! | `> R text` | rank R sends this line of PMI-1 |
//! | `>> R text` | rank R sends this frame of PMI-2 |
//! | `! event` | an event of the job, see [`Transcript::event`] |
//! | `< R text` | the bytes for rank R, escaped |
//! | `= output` | an output |
//! | `# text` | a comment |
//!
//! `pmix5.txt` and `pmix3.txt` are transcripts of PMIx, see `pmix_golden.rs`. There, R is the number of a rank and of its host, and
//! `~ R kind bytes` are bytes for the manager of the other host.

mod admission;
mod fixture;
mod net;
mod pmix;
mod pmix_golden;
mod transcript;

use std::path::{Path, PathBuf};

use self::transcript::plays;

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Compares a transcript with its file, or writes it.
fn compare(name: &str, played: &str) {
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path_of(name), played).expect("the transcript");
    }
    let expected = std::fs::read_to_string(path_of(name)).expect("a transcript");
    let change = expected.lines().zip(played.lines()).find(|(old, new)| old != new);
    assert!(
        played == expected,
        "{name}: UPDATE=1 writes the new one; the first change: {change:?}"
    );
}

#[test]
fn ranks_put_fence_get_and_finalize_by_pmi_1() {
    plays("pmi1.txt");
}

#[test]
fn ranks_put_fence_get_and_finalize_by_pmi_2() {
    plays("pmi2.txt");
}

#[test]
fn ranks_publish_and_look_up_names() {
    plays("names.txt");
}

#[test]
fn ranks_that_abort_break_the_protocol_or_close_early_are_reported() {
    plays("failures.txt");
}

#[test]
fn keys_of_other_hosts_are_stored_and_those_of_this_host_precede_the_release() {
    plays("hosts.txt");
}
