//! Spawns at a manager that is not the root, and their recordings.

use mpd_wire::job::Limit;

use super::order::tests::{order, small_order};
use super::queue::SpawnQueue;
use super::request::Request;
use super::*;

const FIRST: Ticket = Ticket::FIRST;

fn outputs(spawns: &mut Spawns) -> Vec<SpawnOutput> {
    let emitted = |act: SpawnAct| match act {
        SpawnAct::Emit(output) => output,
        act => panic!("{act:?}"),
    };
    std::iter::from_fn(|| spawns.poll_act()).map(emitted).collect()
}

/// The bytes of the pieces of outputs for that end.
fn whole(outputs: &[SpawnOutput], end: LinkEnd) -> Bytes {
    let piece = |output: &SpawnOutput| match output {
        SpawnOutput::Piece(to, payload) if *to == end => payload[5..].to_vec(),
        output => panic!("{output:?}"),
    };
    outputs.iter().flat_map(piece).collect()
}

#[test]
fn a_request_goes_to_the_parent_in_pieces_and_further_threads_wait_for_its_answer() {
    let mut spawns = Spawns::new(false);
    spawns.ask((Rank(3), FIRST), vec![7; 200_000], vec![0, 42]);
    let sent = outputs(&mut spawns);
    assert!(sent.len() > 1);
    assert_eq!(whole(&sent, LinkEnd::Parent), vec![7; 200_000]);
    spawns.ask((Rank(3), FIRST.next()), vec![8], vec![0]);
    assert_eq!(outputs(&mut spawns), []);
    spawns.answered(Rank(3), SpawnOutcome::Done { kvsname: "kvs_1".to_owned() });
    let answered = outputs(&mut spawns);
    let success = SpawnOutput::Answer((Rank(3), FIRST), Ok(("kvs_1".to_owned(), vec![0, 42])));
    assert_eq!(answered[0], success);
    assert_eq!(whole(&answered[1..], LinkEnd::Parent), [8]);
    spawns.answered(Rank(3), SpawnOutcome::Failed { rank: None });
    let failure = SpawnOutput::Answer((Rank(3), FIRST.next()), Err("cannot_spawn"));
    assert_eq!(outputs(&mut spawns), [failure]);
    spawns.answered(Rank(3), SpawnOutcome::Failed { rank: None });
    assert_eq!(outputs(&mut spawns), [], "nobody asks");
}

#[test]
fn the_text_of_waiting_orders_has_their_lengths_only() {
    let mut spawns = Spawns::new(false);
    for ticket in [FIRST, FIRST.next()] {
        spawns.ask((Rank(3), ticket), vec![199; 200_000], Vec::new());
    }
    outputs(&mut spawns);
    let order = vec![199; 60_000];
    let payloads: Vec<Bytes> = pieces(Rank(9), &order).collect();
    spawns.take_piece(LinkEnd::Parent, payloads[0].clone());
    pieces(Rank(8), &order).for_each(|piece| spawns.take_piece(LinkEnd::Parent, piece));
    let text = format!("{spawns:?}");
    assert!(text.contains("200000 bytes") && text.contains("60000 bytes"), "{text}");
    assert!(!text.contains("199"), "{text}");
}

#[test]
fn a_rank_that_has_ended_gets_no_answer() {
    let mut spawns = Spawns::new(false);
    for ticket in [FIRST, FIRST.next()] {
        spawns.ask((Rank(3), ticket), vec![7], Vec::new());
    }
    spawns.forget(Rank(3));
    outputs(&mut spawns);
    spawns.answered(Rank(3), SpawnOutcome::Failed { rank: None });
    assert_eq!(outputs(&mut spawns), []);
}

#[test]
fn an_order_is_passed_to_the_children_and_a_world_without_one_of_its_size_is_not_known() {
    let mut spawns = Spawns::new(false);
    let world = |number, size| World { number, first: Rank(10 * number), size };
    for piece in pieces(Rank(10), &small_order(2, false).encode()) {
        spawns.take_piece(LinkEnd::Parent, piece);
    }
    let sent = spawns.announce(&[17], world(1, 2));
    assert_eq!(whole(&sent, LinkEnd::Child(17)), small_order(2, false).encode());
    let announced = spawns.prepare(world(1, 2), Parts::default());
    assert_eq!(announced.order, Some(small_order(2, false)));
    assert_eq!(spawns.prepare(world(1, 2), Parts::default()).order, None, "it was taken");
    for piece in pieces(Rank(20), &small_order(2, false).encode()) {
        spawns.take_piece(LinkEnd::Parent, piece);
    }
    assert_eq!(spawns.prepare(world(2, 3), Parts::default()).order, None, "another size");
    spawns.take_piece(LinkEnd::Parent, vec![1]);
    assert_eq!(outputs(&mut spawns), [], "no piece");
}

#[test]
fn a_recorded_order_has_no_values_and_the_same_meaning() {
    let spawns = Spawns::new(true);
    let payloads: Vec<Bytes> = pieces(Rank(1), &small_order(2, true).encode()).collect();
    let asked = SpawnInput::Asked {
        caller: (Rank(0), FIRST),
        order: small_order(2, true).encode(),
        errors: vec![0],
    };
    let grow = SpawnInput::Grow(small_order(2, true).encode());
    let piece = SpawnInput::Piece(LinkEnd::Child(1), payloads[0].clone());
    for input in [asked, grow, piece] {
        let order = match spawns.blanked(&input) {
            SpawnInput::Asked { order, .. } | SpawnInput::Grow(order) => order,
            SpawnInput::Piece(_, payload) => payload[5..].to_vec(),
            SpawnInput::Placed(..) => unreachable!(),
        };
        let decoded = SpawnOrder::decode(&order).unwrap();
        assert!(!String::from_utf8_lossy(&order).contains("hush"));
        assert_eq!(order.len(), small_order(2, true).encode().len());
        assert!(decoded.is_of_mpi() && decoded.spec.size() == 2);
    }
    let unreadable = SpawnInput::Grow(b"hush".to_vec());
    assert_eq!(spawns.blanked(&unreadable), SpawnInput::Grow(vec![0; 4]));
}

#[test]
fn a_hundred_thousand_queued_spawns_of_an_mpi_program_take_less_than_a_hundred_mebibytes() {
    let limit = |resource| Limit { resource, soft: u64::MAX, hard: u64::MAX };
    let mut order = order();
    order.inherits.truncate(1);
    order.appnums.truncate(1);
    order.blocks.truncate(1);
    order.spec.argsets.truncate(1);
    let argset = &mut order.spec.argsets[0];
    argset.program = b"/home/user/projects/solver/fib".to_vec();
    argset.args = vec![b"13".to_vec()];
    argset.directory = b"/home/user/projects/solver/run-0001".to_vec();
    argset.search =
        b".:/opt/mpi/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_vec();
    argset.limits = (0..16).map(limit).collect();
    // MPICH passes the address of the spawner.
    let port = format!("PARENT_ROOT_PORT_NAME=tag#0$connentry#{}$", "0".repeat(96));
    order.spec.environments = vec![Vec::new(), vec![port.into_bytes()]];
    let mut queue = SpawnQueue::new(1);
    let mut bytes = 0;
    for rank in 0..100_000 {
        let order = Waiting(order.encode().into());
        let request = Request { order, size: 1, is_awaited: true };
        bytes += request.order.0.len() + 2 * size_of::<(Option<Rank>, Request)>();
        assert!(queue.push(Some(Rank(rank)), request));
    }
    assert!(bytes < 100_000 * 1024, "a request takes {} bytes", bytes / 100_000);
    assert!(SpawnOrder::decode(&queue.waiting().next().unwrap().1.order.0).is_ok());
}
