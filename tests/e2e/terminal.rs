//! mpirun at a terminal, with a real shell that does job control.

use std::io::Write;

use nix::sys::signal::Signal;

use crate::process::Process;
use crate::pty::{self, END_OF_FILE, INTERRUPT, SUSPEND, Terminal};
use crate::run::wait_until;
use crate::signals::Recorders;
use crate::suite::Suite;

#[test]
fn ctrl_c_ends_the_job_and_the_shell_prompts_again() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter("$MPIRUN -n 4 sleep 60");
    wait_until("four ranks", || suite.running("sleep").len() == 4);
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    suite.no_job_is_left_but(&["bash"]);
    terminal.leave();
}

#[test]
fn ctrl_c_sends_one_sigint_and_a_second_ctrl_c_kills() {
    let suite = Suite::new();
    let recorders = Recorders::new(&suite, 3, "d");
    let mut terminal = Terminal::with_shell(&suite, &suite.path("d").display().to_string());
    terminal.enter("$MPIRUN -n 3 $T/t-signals $D 60 child");
    recorders.wait_until_ready();
    terminal.press(INTERRUPT);
    recorders.wait_until_ranks_got(Signal::SIGINT);
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    assert!(recorders.ranks_got().iter().all(|got| got["SIGINT"] == 1));
    recorders.are_gone_alone();
    terminal.leave();
}

#[test]
fn ctrl_z_stops_every_process_and_fg_continues_them() {
    let suite = Suite::new();
    suite.start_daemon();
    let recorders = Recorders::new(&suite, 3, "d");
    let mut terminal = Terminal::with_shell(&suite, &suite.path("d").display().to_string());
    terminal.enter("$MPIRUN -n 3 $T/t-signals $D 60 child");
    recorders.wait_until_ready();
    for _ in 0..2 {
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        assert!(
            recorders.processes().iter().all(Process::is_stopped),
            "all processes must be stopped"
        );
        assert!(suite.running("mpirun").iter().all(Process::is_stopped));
        terminal.enter("fg");
        wait_until("all processes continue", || {
            !recorders.processes().iter().any(Process::is_stopped)
                && !suite.running("mpirun").iter().any(Process::is_stopped)
        });
    }
    assert_eq!(recorders.processes().len(), 6);
    recorders.stop();
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 0);
    terminal.leave();
}

#[test]
fn closing_the_terminal_leaves_no_process() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let recorders = Recorders::new(&suite, 2, "d");
    let mut terminal = Terminal::with_shell(&suite, &suite.path("d").display().to_string());
    terminal.enter("$MPIRUN -n 2 $T/t-tree 2 5 40 stay &");
    wait_until("the trees have begun", || suite.running("t-tree").len() >= 6);
    terminal.enter("$MPIRUN -n 2 $T/t-signals $D 60 child");
    recorders.wait_until_ready();
    terminal.hang_up();
    suite.gone(&[daemon.pid]);
}

#[test]
fn closing_the_terminal_does_not_end_a_job_under_nohup() {
    let suite = Suite::new();
    let recorders = Recorders::new(&suite, 2, "d");
    let mut terminal = Terminal::with_shell(&suite, &suite.path("d").display().to_string());
    terminal.enter("nohup $MPIRUN -n 2 $T/t-signals $D 60 child >out 2>&1 </dev/null &");
    recorders.wait_until_ready();
    terminal.hang_up();
    assert_eq!(recorders.processes().len(), 4);
    recorders.stop();
    suite.gone(&[]);
}

/// Runs a background job in which only `rank` has standard input; no rank takes the shell's lines.
pub(crate) fn check_only_the_foreground_job_reads_the_terminal(
    suite: &Suite,
    mut terminal: Terminal,
    options: &str,
    rank: usize,
) {
    terminal.enter(&format!("$MPIRUN {options} $T/t-stdin lines &"));
    // The other ranks, if any, end at once.
    wait_until("the rank", || suite.running("t-stdin").len() == 1);
    // The shell receives this line although the background job also waits for input.
    terminal.enter("echo mine | tr a-z A-Z");
    terminal.shows("MINE");
    terminal.enter("jobs");
    terminal.shows("Running");
    assert!(!suite.running("mpirun").iter().any(Process::is_stopped));
    terminal.enter("fg");
    terminal.shows("t-stdin lines");
    terminal.enter("yours");
    terminal.shows(&format!("{rank} got yours"));
    terminal.press(END_OF_FILE);
    terminal.shows(&format!("{rank} end"));
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 0);
    assert!(!terminal.screen().contains("tty input"), "{}", terminal.screen());
    terminal.leave();
}

#[test]
fn a_background_job_is_never_stopped_for_terminal_input() {
    let suite = Suite::new();
    let terminal = Terminal::with_shell(&suite, "");
    check_only_the_foreground_job_reads_the_terminal(&suite, terminal, "-n 1", 0);
}

#[test]
fn a_prompt_of_a_rank_can_be_answered_at_the_terminal() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter("$MPIRUN -n 2 $T/t-prompt colour?");
    terminal.shows("t-prompt colour?\n");
    terminal.shows("colour?");
    terminal.enter("blue");
    terminal.shows("answer: blue");
    terminal.shows_prompt();
    terminal.leave();
}

#[test]
fn mpirun_leaves_the_terminal_settings_unchanged() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter("stty -g > before; $MPIRUN -n 2 true; stty -g > after");
    terminal.shows_prompt();
    terminal.enter("cmp before after && echo \"un\"changed");
    terminal.shows("unchanged");
    terminal.leave();
}

#[test]
fn without_a_job_control_shell_ctrl_z_does_not_stop_mpirun() {
    let suite = Suite::new();
    let (mut keys, name) = pty::open();
    let recorders = Recorders::new(&suite, 2, "d");
    // It leads the session, like the only program of a terminal emulator or a container.
    let run = suite.command(suite.program("t-run")).arg(format!("tty={name}"));
    let run = run.arg(suite.program("mpirun")).args(["-n", "2", &suite.program("t-signals")]);
    let job = run.args([&recorders.directory.display().to_string(), "60", "child"]).start();
    recorders.wait_until_ready();
    keys.write_all(SUSPEND.as_bytes()).expect("writing to a terminal");
    job.send(Signal::SIGTSTP);
    // Signals are taken in the order of their numbers: SIGUSR1 may overtake, SIGWINCH does not.
    job.send(Signal::SIGWINCH);
    recorders.wait_until_ranks_got(Signal::SIGWINCH);
    assert!(!job.process().is_stopped());
    keys.write_all(INTERRUPT.as_bytes()).expect("writing to a terminal");
    recorders.wait_until_ranks_got(Signal::SIGINT);
    keys.write_all(INTERRUPT.as_bytes()).expect("writing to a terminal");
    job.wait().code(130);
    recorders.are_gone();
}
