//! The attacks of `scripts/rig-site`. The attacker is another user, a stolen run host or a removed host. Each test
//! names an attack of the script and the reason of its refusal, so that an attack that fails for another reason is noticed.
//! `scripts/rig-site --weak` takes protections away, one at a time.

use super::run;

/// The attack was tried and refused for this reason.
#[track_caller]
fn refused(attack: &str, reason: &str) {
    let Some(text) = run() else { return };
    let found = text.lines().find_map(|line| {
        let rest = line.strip_prefix("rig-site: refused: ")?.strip_prefix(attack)?;
        rest.strip_prefix(" (")
    });
    let Some(found) = found else { panic!("'{attack}' was not refused:\n{text}") };
    assert!(found.contains(reason), "'{attack}' was refused for another reason: {found}");
}

/// No attack of the script lacks a test here.
#[test]
fn each_attack_of_the_script_is_a_test() {
    let Some(text) = run() else { return };
    let tests = include_str!("attacks.rs");
    let lines = text.lines().filter_map(|line| line.strip_prefix("rig-site: refused: "));
    let attack = |line: &str| line.split(" (").next().unwrap_or_default().to_owned();
    let is_tool = |attack: &str| attack.ends_with(" in alice's run directory");
    let others = lines.map(attack).filter(|attack| !is_tool(attack));
    let unknown: Vec<String> =
        others.filter(|attack| !tests.contains(&format!("\"{attack}\""))).collect();
    assert_eq!(unknown, Vec::<String>::new());
}

const OF_ALICE: &str = "belongs to user alice";
const DENIED: &str = "Permission denied";
const NOT_PERMITTED: &str = "Operation not permitted";
const HOSTBASED: &str = "Permission denied (hostbased)";
const ONLY_AGENT: &str = "the starter of this site runs only the boot agent of mpd-suite, not ";

// ----- another user, at the processes and files of a user -----

#[test]
fn another_user_gets_nothing_from_the_tools_in_a_users_run_directory() {
    let tools = ["mpdlistjobs", "mpdtrace", "mpdtop", "mpdallexit", "mpdstdin 1 0"];
    let acts = ["mpdkilljob 1", "mpdsigjob KILL 1", "mpdgrow 1 +1"];
    for tool in tools.into_iter().chain(acts) {
        refused(&format!("bob: {tool} in alice's run directory"), OF_ALICE);
    }
}

#[test]
fn another_user_cannot_submit_a_job_to_a_users_ring() {
    refused("bob: mpirun into alice's ring", OF_ALICE);
}

#[test]
fn another_user_cannot_connect_to_a_users_socket() {
    refused("bob: a connection to alice's socket", DENIED);
}

#[test]
fn another_user_cannot_read_the_key_of_a_users_ring() {
    refused("bob: alice's key", DENIED);
}

#[test]
fn the_key_of_a_ring_is_in_no_command_line_and_no_environment() {
    refused("alice's key in command lines and environments", "no process has it");
}

#[test]
fn another_user_cannot_signal_a_users_daemon() {
    refused("bob: a signal to alice's daemon", NOT_PERMITTED);
}

#[test]
fn another_user_cannot_signal_a_users_rank() {
    refused("bob: a signal to alice's rank", NOT_PERMITTED);
}

#[test]
fn another_user_cannot_debug_a_users_rank() {
    refused("bob: gdb on alice's rank", NOT_PERMITTED);
}

#[test]
fn another_user_cannot_read_the_environment_of_a_users_rank() {
    refused("bob: the environment of alice's rank", DENIED);
}

#[test]
fn another_user_cannot_read_the_memory_of_a_users_daemon() {
    refused("bob: the memory of alice's daemon", DENIED);
}

#[test]
fn a_daemon_of_another_user_cannot_enter_a_users_ring() {
    refused("bob: a daemon of his own into alice's ring", "another key");
}

#[test]
fn the_key_of_another_users_ring_opens_no_other_ring() {
    refused("bob: a member by the key of his own ring", "another key");
}

#[test]
fn a_run_directory_that_another_user_has_made_is_not_used() {
    refused("bob: a run directory that waits for alice", "belongs to user bob");
}

// ----- another user, at the starters -----

#[test]
fn a_starter_gives_no_user_the_account_of_another_user() {
    refused("bob: alice's account at a starter", HOSTBASED);
}

#[test]
fn a_starter_gives_no_user_the_account_of_root() {
    refused("bob: root's account at a starter", HOSTBASED);
}

#[test]
fn a_starter_gives_root_of_a_submit_host_no_account_of_root() {
    refused("root of a submit host: root's account at a starter", HOSTBASED);
}

#[test]
fn a_starter_gives_no_shell() {
    refused("bob: a shell from a starter", "the starter of this site needs a command");
}

#[test]
fn a_starter_runs_no_command() {
    refused("bob: a command from a starter", ONLY_AGENT);
}

#[test]
fn a_starter_runs_no_program_of_the_user_in_the_place_of_the_agent() {
    refused("bob: a daemon of his own from a starter", ONLY_AGENT);
}

#[test]
fn a_starter_runs_no_other_role_of_mpd() {
    refused("bob: another role of mpd from a starter", ONLY_AGENT);
}

#[test]
fn a_starter_runs_no_second_command_after_an_allowed_one() {
    refused("bob: two commands from a starter", ONLY_AGENT);
}

#[test]
fn a_starter_has_no_sftp() {
    refused("bob: sftp from a starter", "subsystem request failed");
}

#[test]
fn a_starter_forwards_no_port() {
    refused("bob: a forwarded port through a starter", "port forwarding failed");
}

#[test]
fn a_users_own_list_of_trusted_hosts_does_not_count() {
    refused("bob: his own .shosts on a run host", HOSTBASED);
}

#[test]
fn a_starter_accepts_neither_a_password_nor_a_users_key() {
    refused("bob: a password or key of his own at a starter", HOSTBASED);
}

/// The answer is the list of versions: a preloaded library would make the loader complain.
#[test]
fn a_starter_accepts_no_variable_of_the_user() {
    refused("bob: a variable through a starter", env!("CARGO_PKG_VERSION"));
}

// ----- another user acts as root -----

#[test]
fn a_user_cannot_change_the_list_of_hosts() {
    refused("bob: the list of hosts", DENIED);
}

#[test]
fn a_user_cannot_see_the_jobs_of_all_users() {
    refused("bob: the jobs of all users", "--all-users is for root");
}

#[test]
fn a_user_cannot_drain_a_host_for_all_users() {
    refused("bob: a mark that drains the host", DENIED);
}

#[test]
fn a_user_cannot_end_the_drain_of_root() {
    refused("alice: the end of root's drain", "h4: root has drained this host");
}

// ----- stolen and removed hosts -----

#[test]
fn a_stolen_run_host_starts_nothing_on_a_submit_host() {
    refused("a stolen run host: alice's account on a submit host", HOSTBASED);
}

#[test]
fn a_stolen_run_host_starts_nothing_on_a_run_host() {
    refused("a stolen run host: alice's account on a run host", HOSTBASED);
}

#[test]
fn a_stolen_run_host_cannot_pose_as_a_submit_host() {
    refused("a stolen run host by the name of a submit host", HOSTBASED);
}

#[test]
fn a_stolen_run_host_cannot_enter_a_users_ring_that_does_not_contain_it() {
    refused("a stolen run host: a ring of alice that does not contain it", "another key");
}

#[test]
fn a_removed_host_starts_nothing() {
    refused("the removed host: alice's account at a starter", HOSTBASED);
}

#[test]
fn a_removed_host_cannot_enter_later_rings_by_the_key_of_an_ended_one() {
    refused("the removed host: a member by the key of an ended ring", "another key");
}
