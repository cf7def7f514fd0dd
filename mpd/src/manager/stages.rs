//! One turn of the manager's loop: which owner is served, in which order.

use std::time::Duration;

use mpd_job::manager::Input;

use super::Process;

/// Control first, then PMI, then output; then what is due, and what is sent. All that one stage reports is delivered
/// and handled before the next.
pub(super) const STAGES: [fn(&mut Process); 29] = [
    |p| p.upstream.serve_console(&mut p.common.turn()),
    |p| p.upstream.serve_daemon(&mut p.common.turn()),
    |p| p.links.serve(&mut p.common.turn()),
    |p| p.links.stage(&mut p.common.turn()),
    Process::look_after_adopted,
    |p| p.ranks.hear_watchers(&mut p.common.turn()),
    |p| p.ending.hear_helper(&mut p.common.turn(), &mut p.ranks),
    |p| p.ranks.hear_of_loners(&mut p.common.turn()),
    take_signals,
    |p| p.ranks.start_some(&mut p.common.turn(), p.ending.is_stopping()),
    |p| p.stdio.feed_ready(&mut p.common.turn()),
    |p| p.pmi.serve(&mut p.common.turn()),
    |p| p.pmi.flush(&mut p.common.turn()),
    |p| p.spawns.place_next(&mut p.common.turn(), p.pump.machine()),
    |p| p.stdio.serve_sources(&mut p.common.turn()),
    |p| p.pump.handle_timeout(p.common.clock.now()),
    |p| p.ending.expire(&mut p.common.turn(), &mut p.ranks),
    |p| p.ranks.expire(&mut p.common.turn(), !p.ending.is_busy()),
    |p| p.pmi.expire(&mut p.common.turn()),
    |p| p.spawns.expire(&mut p.common.turn(), p.pump.machine()),
    |p| p.upstream.expire(&mut p.common.turn()),
    |p| p.stdio.expire(&mut p.common.turn()),
    |p| p.stdio.serve_flows(&mut p.common.turn()),
    flush_machine,
    // Behind all that was read, expired or sent: it may have opened a gate.
    |p| p.stdio.flush(&mut p.common.turn()),
    |p| p.links.flush(),
    review_drain,
    flush_machine,
    flush_links,
];

/// How long the next turn may wait for events; without end if nothing is due.
pub(super) fn wait(process: &Process) -> Option<Duration> {
    let busy = (process.ranks.is_any_starting() && !process.ending.is_stopping())
        || process.stdio.has_work()
        || process.pmi.has_work()
        || process.upstream.has_work()
        || process.links.has_work();
    if busy {
        return Some(Duration::ZERO);
    }
    let deadlines = [
        process.pump.machine().poll_timeout(),
        process.ending.next_deadline(),
        process.ranks.next_deadline(),
        process.pmi.next_deadline(),
        process.spawns.next_deadline(),
        process.upstream.next_deadline(),
        process.stdio.next_deadline(),
        process.links.next_deadline(),
    ];
    deadlines.into_iter().flatten().min().map(|at| process.common.clock.until(at))
}

fn take_signals(process: &mut Process) {
    let signalled = std::mem::take(&mut process.signalled);
    let signals = if signalled { process.signals.pending() } else { Vec::new() };
    if signals.contains(&libc::SIGCHLD) || process.ending.is_kill() {
        process.reap();
    }
    // A manager that is told to end takes its job along.
    if signals.iter().any(|&s| s != libc::SIGCHLD) {
        process.common.turn().post(Input::Kill);
    }
}

/// Lets the machine say what ranks did, and writes the answers that ranks get for it. A rank may have
/// its next request in the buffer already.
fn flush_machine(process: &mut Process) {
    loop {
        let now = process.common.clock.now();
        process.pump.advance(|machine| machine.flush(now));
        process.settle();
        if !process.pmi.has_answers() {
            break;
        }
        process.pmi.flush(&mut process.common.turn());
        process.settle();
    }
    process.stdio.pass_up(&mut process.common.turn());
}

fn review_drain(process: &mut Process) {
    let is_all_up = process.links.is_all_up(&process.common.job);
    process.stdio.review_drain(&mut process.common.turn(), is_all_up);
}

fn flush_links(process: &mut Process) {
    process.links.flush();
    process.upstream.flush();
}
