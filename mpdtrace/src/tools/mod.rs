//! The tools, one file each: its request and its output.

use std::process::ExitCode;

mod mpdallexit;
mod mpdalloc;
mod mpdcancel;
mod mpdcheck;
mod mpdcleanup;
mod mpdcon;
mod mpddrain;
mod mpdexit;
mod mpdfarm;
mod mpdgrow;
mod mpdhelp;
mod mpdkilljob;
mod mpdlabels;
mod mpdlistjobs;
mod mpdnames;
mod mpdping;
mod mpdqueue;
mod mpdringtest;
mod mpdsigjob;
mod mpdsite;
mod mpdslots;
mod mpdstate;
mod mpdstdin;
mod mpdtop;
mod mpdtrace;
mod mpdwatch;

/// A tool, from its command line to its exit code.
pub(crate) type Tool = fn() -> ExitCode;

/// The tool for an unknown program name.
pub(crate) const DEFAULT: Tool = mpdtrace::main;

pub(crate) fn called(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(tool, _)| *tool == name).map(|(_, tool)| *tool)
}

const TOOLS: [(&str, Tool); 26] = [
    ("mpdtrace", mpdtrace::main),
    ("mpdringtest", mpdringtest::main),
    ("mpdwatch", mpdwatch::main),
    ("mpdping", mpdping::main),
    ("mpdexit", mpdexit::main),
    ("mpdallexit", mpdallexit::main),
    ("mpddrain", mpddrain::main),
    ("mpdlistjobs", mpdlistjobs::main),
    ("mpdnames", mpdnames::main),
    ("mpdslots", mpdslots::main),
    ("mpdalloc", mpdalloc::main),
    ("mpdqueue", mpdqueue::main),
    ("mpdcancel", mpdcancel::main),
    ("mpdtop", mpdtop::main),
    ("mpdkilljob", mpdkilljob::main),
    ("mpdsigjob", mpdsigjob::main),
    ("mpdgrow", mpdgrow::main),
    ("mpdstdin", mpdstdin::main),
    ("mpdlabels", mpdlabels::main),
    ("mpdfarm", mpdfarm::main),
    ("mpdstate", mpdstate::main),
    ("mpdcleanup", mpdcleanup::main),
    ("mpdcheck", mpdcheck::main),
    ("mpdsite", mpdsite::main),
    ("mpdcon", mpdcon::main),
    ("mpdhelp", mpdhelp::main),
];

#[cfg(test)]
mod tests {
    use super::TOOLS;

    #[test]
    fn every_name_that_the_build_makes_is_a_tool() {
        assert_eq!(TOOLS.map(|(name, _)| name), ::mpdtrace::NAMES);
    }
}
