//! Process numbers, as machines know them and as the system does.

use mpd_ending as machine;
use nix::unistd::Pid;

pub(super) fn number_of(process: Pid) -> machine::Pid {
    machine::Pid(process.as_raw())
}

pub(super) const fn process_of(machine::Pid(number): machine::Pid) -> Pid {
    Pid::from_raw(number)
}
