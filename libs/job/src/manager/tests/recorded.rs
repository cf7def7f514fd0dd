//! The parts of an input that a recording has, and those that it must not have.

use mpd_recording::Recorded;
use mpd_wire::message::Placing;
use pmi_proto::Ticket;

use super::*;
use crate::manager::spawns::order::tests::small_order;

fn start(hosts: usize, tree_index: usize, size: u32) -> Config {
    Config { tree_index, debugged: true, ..config(&host_slices(hosts, 2), size) }
}

#[test]
fn a_recording_has_the_length_of_a_debugger_command_and_not_its_text() {
    let manager = Manager::begin(Time::ZERO, start(2, 0, 4)).unwrap();
    let (ranks, line) = (RankSet::below(2), "set environment TOKEN=hush".to_owned());
    let down = Down::Debug { ranks: ranks.clone(), line: line.clone() };
    for input in [Input::Debug(ranks.clone(), line.clone()), Input::FromParent(down.clone())] {
        let text = serde_json::to_string(&manager.entry(&input)).unwrap();
        assert!(!text.contains("hush"), "{text}");
        let again = Manager::input(serde_json::from_str(&text).unwrap());
        let lengths = [&input, &again].map(|input| format!("{input:?}").len());
        assert_eq!(lengths[0], lengths[1]);
    }
    for output in [
        Output::Debug(ranks, line),
        Output::ToSome(vec![1], down.clone()),
        Output::ToChildren(down),
    ] {
        let mut text = String::new();
        Manager::write_output(&output, &mut text).unwrap();
        assert!(!text.contains("hush") && text.contains("xxx"), "{text}");
    }
}

#[test]
fn a_configuration_that_no_manager_has_is_refused() {
    let is_refused = |start| Manager::begin(Time::ZERO, start).is_err();
    assert!(!is_refused(start(2, 1, 4)));
    assert!(is_refused(start(2, 2, 4)), "there is no such place");
    assert!(is_refused(start(2, 0, 5)), "a rank has no host");
    assert!(is_refused(start(2, 0, u32::MAX)), "too many ranks");
}

#[test]
fn every_input_reads_back_what_it_prints() {
    let crash =
        Crash { signal: 11, stacks: vec!["main at a.c:1".into()], problem: None, held: false };
    for input in [
        Input::Ready,
        Input::Exited(Rank(1), RankEnd::Signaled { signal: 9, core: false }),
        Input::Crashed(Rank(1), crash),
        Input::Resize(80, 25),
        Input::ChildLost(1, "silence".into()),
        Input::Missing(vec![(name(1), "no".into())]),
        Input::Spawn(SpawnInput::Asked {
            caller: (Rank(0), Ticket::FIRST),
            order: small_order(1, true).encode(),
            errors: vec![0],
        }),
        Input::Spawn(SpawnInput::Piece(LinkEnd::Child(3), vec![1, 2])),
        Input::Spawn(SpawnInput::Placed(1, Placing::Full)),
        Input::WorldConnection { from: Rank(1), number: 1, joined: false },
    ] {
        let text = serde_json::to_string(&input).unwrap();
        assert_eq!(serde_json::from_str::<Input>(&text).unwrap(), input);
    }
}
