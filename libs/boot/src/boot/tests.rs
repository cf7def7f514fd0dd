use super::*;
use crate::failure::Ending;

const SECOND: Duration = Duration::from_secs(1);

fn way() -> Way {
    Way { rsh: "ssh".into(), agent: "/x/mpdboot".into(), is_ssh: true }
}

fn boot(hosts: usize, window: usize) -> Boot {
    let settings = Settings {
        window,
        timeout: 30 * SECOND,
        shells: Shells::Groups,
        retry: true,
        lasting: false,
        introduces: true,
    };
    let target =
        |n| Target { name: format!("h{n}"), host: format!("h{n}"), way: way(), alone: false };
    Boot::new(Time::ZERO, settings, (0..hosts).map(target).collect())
}

/// The requests to the owner, without events.
fn duties(boot: &mut Boot) -> Vec<Output> {
    std::iter::from_fn(|| boot.poll_output()).filter(|o| !matches!(o, Output::Report(_))).collect()
}

fn start(head: usize, carried: &[usize]) -> Output {
    Output::Start(Group { head, carried: carried.to_vec() })
}

fn reached(name: &str, host_id: Option<&str>) -> Report {
    let host_id = host_id.and_then(|id| HostId::new(id.to_owned()));
    Report::Reached { name: name.into(), host_id }
}

fn in_ring(name: &str) -> Report {
    Report::Host { name: name.into(), outcome: Outcome::InRing { addresses: Vec::new() } }
}

fn failed(name: &str, step: Step) -> Report {
    let failure = Failure::new(step, "no", "");
    Report::Host { name: name.into(), outcome: Outcome::Failed(failure) }
}

fn say(boot: &mut Boot, link: usize, report: Report) {
    boot.handle(Time::ZERO + SECOND, Input::Reported { link, report });
}

fn gone(boot: &mut Boot, link: usize) {
    let ended =
        Ended { ending: Ending::Exited(0), stderr_tail: String::new(), chatter: String::new() };
    boot.handle(Time::ZERO + SECOND, Input::Ended { link, ended });
}

fn step_of(boot: &Boot, host: usize) -> Option<Step> {
    match boot.states().nth(host) {
        Some(State::Failed { failure, .. }) => Some(failure.step),
        _ => None,
    }
}

#[test]
fn each_host_gets_a_shell_which_ends_when_its_daemon_is_in_the_ring() {
    let mut boot = boot(2, 32);
    assert_eq!(duties(&mut boot), [start(0, &[]), start(1, &[])]);
    for (link, name) in [(0, "h0"), (1, "h1")] {
        say(&mut boot, link, reached(name, None));
        say(&mut boot, link, Report::Joining);
        say(&mut boot, link, in_ring(name));
        assert_eq!(duties(&mut boot), [Output::End(link)]);
        assert!(!boot.is_over());
        gone(&mut boot, link);
    }
    assert!(boot.is_over());
    assert!(boot.states().all(|state| *state == State::InRing { took: SECOND }));
}

#[test]
fn shells_that_stay_do_not_end_or_count_or_time_out() {
    let settings = Settings {
        window: 1,
        timeout: 30 * SECOND,
        shells: Shells::OnePerHost,
        retry: true,
        lasting: true,
        introduces: true,
    };
    let target =
        |n| Target { name: format!("h{n}"), host: format!("h{n}"), way: way(), alone: false };
    let mut boot = Boot::new(Time::ZERO, settings, (0..2).map(target).collect());
    assert_eq!(duties(&mut boot), [start(0, &[])]);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, Report::Done);
    assert_eq!(
        duties(&mut boot),
        [start(1, &[])],
        "the first stays, and the next shell has started"
    );
    assert!(!boot.is_over());
    say(&mut boot, 1, in_ring("h1"));
    say(&mut boot, 1, Report::Done);
    assert_eq!(duties(&mut boot), []);
    assert!(boot.is_over() && boot.poll_timeout().is_none());
}

#[test]
fn with_more_hosts_than_the_window_heads_start_the_others() {
    let mut boot = boot(5, 2);
    assert_eq!(duties(&mut boot), [start(0, &[1, 2]), start(3, &[4])]);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, in_ring("h1"));
    say(&mut boot, 0, failed("h2", Step::Key));
    assert_eq!(duties(&mut boot), []);
    say(&mut boot, 0, Report::Done);
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    assert_eq!(step_of(&boot, 2), Some(Step::Key));
}

#[test]
fn the_carried_hosts_of_a_failed_head_are_started_by_another_head() {
    let mut boot = boot(5, 2);
    duties(&mut boot);
    say(&mut boot, 0, failed("h0", Step::Key));
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    gone(&mut boot, 0);
    assert_eq!(duties(&mut boot), [start(1, &[2])]);
}

#[test]
fn the_carried_hosts_of_an_agent_that_was_lost_later_are_started_from_here_one_by_one() {
    let mut boot = boot(5, 2);
    duties(&mut boot);
    say(&mut boot, 0, in_ring("h0"));
    gone(&mut boot, 0);
    assert_eq!(duties(&mut boot), [start(1, &[])]);
    gone(&mut boot, 1);
    assert_eq!(step_of(&boot, 1), Some(Step::Exec));
    assert_eq!(duties(&mut boot), [start(2, &[])]);
}

#[test]
fn a_host_that_an_agent_cannot_reach_is_tried_from_here_once() {
    let mut boot = boot(3, 1);
    assert_eq!(duties(&mut boot), [start(0, &[1, 2])]);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, failed("h1", Step::Ssh));
    say(&mut boot, 0, in_ring("h2"));
    say(&mut boot, 0, Report::Done);
    gone(&mut boot, 0);
    assert_eq!(duties(&mut boot), [Output::End(0), start(1, &[])]);
    say(&mut boot, 1, failed("h1", Step::Ssh));
    gone(&mut boot, 1);
    assert!(boot.is_over());
    assert_eq!(step_of(&boot, 1), Some(Step::Ssh));
}

#[test]
fn a_silent_host_fails_at_its_last_reported_step() {
    let mut boot = boot(2, 32);
    duties(&mut boot);
    say(&mut boot, 1, reached("h1", None));
    say(&mut boot, 1, Report::Joining);
    let due = boot.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + 30 * SECOND);
    boot.handle_timeout(due);
    assert_eq!(duties(&mut boot), [Output::End(0), Output::End(1)]);
    assert_eq!((step_of(&boot, 0), step_of(&boot, 1)), (Some(Step::Ssh), Some(Step::Join)));
    assert_eq!(boot.poll_timeout(), None);
}

#[test]
fn an_agent_with_carried_hosts_is_lost_when_it_sends_no_alive_report() {
    let mut boot = boot(2, 1);
    duties(&mut boot);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, Report::Alive);
    let due = boot.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + SECOND + ALIVE_PATIENCE);
    boot.handle_timeout(due);
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    gone(&mut boot, 0);
    assert_eq!(duties(&mut boot), [start(1, &[])]);
}

#[test]
fn an_agent_cannot_report_on_hosts_of_other_agents_or_revoke_a_report() {
    let mut boot = boot(4, 2);
    duties(&mut boot);
    say(&mut boot, 0, in_ring("h1"));
    say(&mut boot, 0, in_ring("h3"));
    say(&mut boot, 0, in_ring("nobody"));
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, failed("h0", Step::Join));
    let done: Vec<bool> = boot.states().map(|s| matches!(s, State::InRing { .. })).collect();
    assert_eq!(done, [true, true, false, false]);
}

#[test]
fn every_host_is_settled_once_in_any_order_of_inputs() {
    // A small pseudo-random generator with the same sequence in every run.
    let mut state = 7_u64;
    let mut chance = move |n: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for round in 0..300 {
        let mut boot = boot(20, 1 + (round % 5) as usize);
        let (mut links, mut shells, mut now) = (Vec::<Group>::new(), 0, Time::ZERO);
        while !boot.is_over() {
            while let Some(output) = boot.poll_output() {
                if let Output::Start(group) = output {
                    links.push(group);
                    shells += 1;
                }
            }
            assert!(links.len() <= 5 && shells <= 60);
            let link = links[chance(links.len() as u64) as usize].clone();
            now = now + SECOND;
            let some = [vec![link.head], link.carried].concat();
            let name = format!("h{}", some[chance(some.len() as u64) as usize]);
            let report = match chance(6) {
                0 | 1 => in_ring(&name),
                2 => failed(&name, Step::Ssh),
                3 => failed(&name, Step::Join),
                4 => Report::Done,
                _ => {
                    links.retain(|other| other.head != link.head);
                    let ended = Ended {
                        ending: Ending::Exited(255),
                        stderr_tail: String::new(),
                        chatter: String::new(),
                    };
                    boot.handle(now, Input::Ended { link: link.head, ended });
                    continue;
                }
            };
            boot.handle(now, Input::Reported { link: link.head, report });
        }
        let settled = |s: &State| matches!(s, State::InRing { .. } | State::Failed { .. });
        assert!(boot.states().all(settled));
    }
}

fn ready(name: &str) -> Report {
    Report::Daemon(DaemonReport::Ready(newcomer(name)))
}

fn newcomer(name: &str) -> Newcomer {
    Newcomer {
        name: mpd_wire::DaemonName::new(name).unwrap(),
        instance: mpd_wire::Instance::from_bytes([1; 16]),
        ordinal: None,
        ncpus: 1,
        addresses: Vec::new(),
    }
}

fn introduced(boot: &mut Boot, names: &[&str]) {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    boot.handle(Time::ZERO + SECOND, Input::Introduced { names, others_refused: true });
}

#[test]
fn daemons_are_introduced_when_the_last_one_is_ready_or_has_failed() {
    let mut boot = boot(3, 32);
    duties(&mut boot);
    say(&mut boot, 0, ready("h0"));
    say(&mut boot, 2, failed("h2", Step::Key));
    assert_eq!(duties(&mut boot), [Output::End(2)]);
    say(&mut boot, 1, ready("h1"));
    assert_eq!(duties(&mut boot), [Output::Introduce(vec![newcomer("h0"), newcomer("h1")])]);
    introduced(&mut boot, &["h0", "h1"]);
    say(&mut boot, 0, Report::Daemon(DaemonReport::Entered { addresses: Vec::new() }));
    assert_eq!(duties(&mut boot), [Output::End(0)]);
}

#[test]
fn daemons_that_are_ready_wait_two_seconds_for_others_and_these_get_a_later_list() {
    let mut boot = boot(2, 32);
    duties(&mut boot);
    say(&mut boot, 0, ready("h0"));
    let due = boot.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + SECOND + LATE);
    boot.handle_timeout(due);
    assert_eq!(duties(&mut boot), [Output::Introduce(vec![newcomer("h0")])]);
    introduced(&mut boot, &["h0"]);
    say(&mut boot, 1, ready("h1"));
    assert_eq!(duties(&mut boot), [Output::Introduce(vec![newcomer("h1")])]);
}

#[test]
fn a_daemon_whose_name_the_ring_has_fails_and_one_that_never_enters_fails_at_its_deadline() {
    let mut boot = boot(2, 32);
    duties(&mut boot);
    say(&mut boot, 0, ready("h0"));
    say(&mut boot, 1, ready("h1"));
    duties(&mut boot);
    introduced(&mut boot, &["h1"]);
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    boot.handle_timeout(boot.poll_timeout().unwrap());
    assert_eq!((step_of(&boot, 0), step_of(&boot, 1)), (Some(Step::Join), Some(Step::Join)));
}

/// A boot whose remote shells run the agents of many hosts and stay.
fn together(hosts: usize) -> Boot {
    let settings = Settings {
        window: 32,
        timeout: 30 * SECOND,
        shells: Shells::Together,
        retry: true,
        lasting: true,
        introduces: true,
    };
    let target =
        |n| Target { name: format!("h{n}"), host: format!("h{n}"), way: way(), alone: false };
    Boot::new(Time::ZERO, settings, (0..hosts).map(target).collect())
}

#[test]
fn a_shell_of_many_agents_stays_whichever_of_them_is_done_or_fails() {
    let mut boot = together(3);
    assert_eq!(duties(&mut boot), [start(0, &[1, 2])]);
    for host in ["h2", "h1", "h0"] {
        say(&mut boot, 0, ready(host));
    }
    assert!(matches!(duties(&mut boot)[..], [Output::Introduce(_)]));
    introduced(&mut boot, &["h0", "h1", "h2"]);
    say(&mut boot, 0, in_ring("h1"));
    say(&mut boot, 0, Report::Done);
    say(&mut boot, 0, failed("h0", Step::Join));
    assert_eq!(duties(&mut boot), []);
    assert!(!boot.is_over());
    say(&mut boot, 0, in_ring("h2"));
    assert_eq!(duties(&mut boot), []);
    assert!(boot.is_over() && boot.poll_timeout().is_none());
    assert_eq!(step_of(&boot, 0), Some(Step::Join));
}

#[test]
fn hosts_whose_common_shell_ends_at_once_are_tried_one_by_one() {
    let mut boot = together(3);
    duties(&mut boot);
    gone(&mut boot, 0);
    assert_eq!(duties(&mut boot), [start(0, &[]), start(1, &[]), start(2, &[])]);
    gone(&mut boot, 1);
    assert_eq!((step_of(&boot, 0), step_of(&boot, 1)), (None, Some(Step::Exec)));
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 2, in_ring("h2"));
    assert!(boot.is_over());
}

#[test]
fn a_silent_host_of_a_common_shell_is_tried_alone_and_the_shell_stays() {
    let mut boot = together(3);
    duties(&mut boot);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, in_ring("h2"));
    let due = boot.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + 31 * SECOND);
    boot.handle_timeout(due);
    assert_eq!(duties(&mut boot), [start(1, &[])]);
    gone(&mut boot, 1);
    assert!(boot.is_over());
    // A common shell without any daemon in the ring has no reason to stay.
    let mut boot = together(2);
    duties(&mut boot);
    boot.handle_timeout(Time::ZERO + 30 * SECOND);
    assert_eq!(duties(&mut boot), [Output::End(0), start(1, &[])]);
}

/// The host's failure as text, if it has failed.
fn problem_of(boot: &Boot, host: usize) -> Option<&str> {
    match boot.states().nth(host) {
        Some(State::Failed { failure, .. }) => Some(&failure.problem),
        _ => None,
    }
}

#[test]
fn of_two_names_of_one_host_the_one_that_is_reported_first_stays() {
    for order in [["h0", "h1"], ["h1", "h0"]] {
        let mut boot = boot(3, 32);
        duties(&mut boot);
        say(&mut boot, 2, reached("h2", Some("other")));
        for name in order {
            let link = usize::from(name == "h1");
            say(&mut boot, link, reached(name, Some("same")));
        }
        let [kept, refused] = order;
        let second = usize::from(refused == "h1");
        assert_eq!(duties(&mut boot), [Output::End(second)]);
        let problem = format!("{refused} is the same host as {kept}");
        assert_eq!(problem_of(&boot, second), Some(problem.as_str()));
        say(&mut boot, 0, ready("h0"));
        say(&mut boot, 1, ready("h1"));
        say(&mut boot, 2, ready("h2"));
        assert_eq!(duties(&mut boot), [Output::Introduce(vec![newcomer(kept), newcomer("h2")])]);
    }
}

#[test]
fn a_daemon_that_was_introduced_stays_and_the_other_name_of_its_host_is_refused() {
    let mut boot = boot(2, 32);
    duties(&mut boot);
    say(&mut boot, 1, reached("h1", Some("same")));
    say(&mut boot, 1, ready("h1"));
    boot.handle_timeout(boot.poll_timeout().unwrap());
    introduced(&mut boot, &["h1"]);
    duties(&mut boot);
    say(&mut boot, 0, reached("h0", Some("same")));
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    assert_eq!(problem_of(&boot, 0), Some("h0 is the same host as h1"));
    // A report that comes late revokes nothing.
    say(&mut boot, 1, in_ring("h1"));
    say(&mut boot, 1, reached("h1", Some("same")));
    assert_eq!(problem_of(&boot, 1), None);
}

#[test]
fn several_daemons_under_one_name_and_hosts_without_an_identity_are_not_refused() {
    let mut boot = boot(4, 32);
    boot.hosts[1].target.host = "H0".into();
    duties(&mut boot);
    say(&mut boot, 0, reached("h0", Some("same")));
    say(&mut boot, 1, reached("h1", Some("same")));
    say(&mut boot, 2, reached("h2", None));
    say(&mut boot, 3, reached("h3", None));
    assert_eq!(duties(&mut boot), []);
}

#[test]
fn a_name_is_free_again_when_the_other_name_of_its_host_has_failed() {
    let mut boot = boot(2, 32);
    duties(&mut boot);
    say(&mut boot, 0, reached("h0", Some("same")));
    say(&mut boot, 0, failed("h0", Step::Key));
    say(&mut boot, 1, reached("h1", Some("same")));
    assert_eq!(duties(&mut boot), [Output::End(0)]);
}

#[test]
fn an_agent_that_has_only_a_refused_host_left_is_ended() {
    let mut boot = boot(4, 2);
    assert_eq!(duties(&mut boot), [start(0, &[1]), start(2, &[3])]);
    say(&mut boot, 0, reached("h0", Some("a")));
    say(&mut boot, 2, reached("h2", Some("b")));
    say(&mut boot, 2, reached("h3", Some("a")));
    assert_eq!(problem_of(&boot, 3), Some("h3 is the same host as h0"));
    // An agent does not report on hosts of others.
    say(&mut boot, 2, reached("h1", Some("b")));
    assert_eq!(duties(&mut boot), []);
    say(&mut boot, 2, in_ring("h2"));
    assert_eq!(duties(&mut boot), [Output::End(2)]);
    say(&mut boot, 0, in_ring("h0"));
    say(&mut boot, 0, in_ring("h1"));
    say(&mut boot, 0, Report::Done);
    assert_eq!(duties(&mut boot), [Output::End(0)]);
    gone(&mut boot, 0);
    gone(&mut boot, 2);
    assert!(boot.is_over());
}
