//! Golden transcripts: bytes of clients and events of the job in, bytes for clients and outputs out.
//!
//! A line that begins with `>` or `!` is an input. The lines below it are what the machine does.
//!
//! | line | meaning |
//! |---|---|
//! | `> R text` | rank R sends this line of PMI-1 |
//! | `>> R text` | rank R sends this frame of PMI-2 |
//! | `! event` | an event of the job, see [`Transcript::event`] |
//! | `< R text` | the bytes for rank R, escaped |
//! | `= output` | an output |
//! | `# text` | a comment |

mod admission;
mod fixture;
mod net;
mod pmix;
mod transcript;

use self::transcript::plays;

#[test]
fn ranks_put_fence_get_and_finalize_by_pmi_1() {
    plays(include_str!("pmi1.txt"));
}

#[test]
fn ranks_put_fence_get_and_finalize_by_pmi_2() {
    plays(include_str!("pmi2.txt"));
}

#[test]
fn ranks_publish_and_look_up_names() {
    plays(include_str!("names.txt"));
}

#[test]
fn ranks_that_abort_break_the_protocol_or_close_early_are_reported() {
    plays(include_str!("failures.txt"));
}

#[test]
fn keys_of_other_hosts_are_stored_and_those_of_this_host_precede_the_release() {
    plays(include_str!("hosts.txt"));
}
