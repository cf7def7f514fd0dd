//! Frames of an open channel: chunking, order, bounds, and the end.

use mpd_channel::Sealer;
use mpd_channel::seal::{MAX_FRAME, OVERHEAD};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Each text in a frame of its own.
fn frames(sealer: &mut Sealer, texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let seal = |text: &Vec<u8>| {
        let mut frame = Vec::new();
        sealer.seal(&[text], &mut frame).unwrap();
        frame
    };
    texts.iter().map(seal).collect()
}

fn bye(sealer: Sealer) -> Vec<u8> {
    let mut frame = Vec::new();
    sealer.bye(&mut frame);
    frame
}

#[test]
fn a_length_out_of_bounds_is_refused_with_its_header() {
    for length in [u32::MAX, MAX_FRAME as u32 + 1] {
        let mut opener = handshake().bob.opener;
        opener.push(&length.to_be_bytes());
        assert_eq!(opener.next_frame(), Err(ChannelError::Length(length)));
        opener.push(&[0; 100_000]);
        assert_eq!(opener.next_frame(), Err(ChannelError::Length(length)));
        assert_eq!(opener.peer_closed(), Err(ChannelError::Length(length)));
    }
}

#[test]
fn the_largest_frame_fits() {
    let mut ends = handshake();
    let text = vec![0x5a; MAX_FRAME];
    let frame = frames(&mut ends.alice.sealer, std::slice::from_ref(&text)).concat();
    assert_eq!(frame.len(), MAX_FRAME + OVERHEAD);
    assert_eq!(receive(&mut ends.bob.opener, &frame, 65_536).0, [text]);
}

#[test]
fn the_end_of_the_stream_without_bye_is_a_cut() {
    let mut ends = handshake();
    let sent = frames(&mut ends.alice.sealer, &[b"output".to_vec()]).concat();
    assert_eq!(ends.bob.opener.peer_closed(), Err(ChannelError::Truncated));

    let mut ends = handshake();
    let sent_again = frames(&mut ends.alice.sealer, &[b"output".to_vec()]).concat();
    assert_ne!(sent, sent_again, "each channel has its own keys");
    let received = receive(&mut ends.bob.opener, &sent_again, 100);
    assert_eq!(received, (vec![b"output".to_vec()], Err(ChannelError::Truncated)));

    let mut ends = handshake();
    let sent =
        [frames(&mut ends.alice.sealer, &[b"output".to_vec()]).concat(), bye(ends.alice.sealer)];
    let sent = sent.concat();
    let received = receive(&mut ends.bob.opener, &sent[..sent.len() - 1], 100);
    assert_eq!(received, (vec![b"output".to_vec()], Err(ChannelError::Truncated)));
}

#[test]
fn nothing_may_follow_bye() {
    let ends = handshake();
    let (mut opener, mut sent) = (ends.bob.opener, bye(ends.alice.sealer));
    sent.push(0);
    assert_eq!(receive(&mut opener, &sent, 100), (vec![], Err(ChannelError::AfterBye)));

    let ends = handshake();
    let (mut opener, sent) = (ends.bob.opener, bye(ends.alice.sealer));
    opener.push(&sent);
    assert_eq!(opener.next_frame(), Ok(Some(Opened::Bye)));
    assert_eq!(opener.next_frame(), Ok(None));
    opener.push(b"x");
    assert_eq!(opener.next_frame(), Err(ChannelError::AfterBye));
    assert_eq!(opener.peer_closed(), Err(ChannelError::AfterBye));
}

#[test]
fn after_a_failure_the_channel_stays_closed() {
    let mut ends = handshake();
    let mut sent = frames(&mut ends.alice.sealer, &[b"one".to_vec(), b"two".to_vec()]);
    sent[0][5] ^= 1;
    ends.bob.opener.push(&sent[0]);
    assert_eq!(ends.bob.opener.next_frame(), Err(ChannelError::Forged));
    ends.bob.opener.push(&sent[1]);
    assert_eq!(ends.bob.opener.next_frame(), Err(ChannelError::Forged));
    assert_eq!(ends.bob.opener.peer_closed(), Err(ChannelError::Forged));
}

#[test]
fn machines_do_not_print_keys() {
    let Handshake { alice, .. } = handshake();
    assert!(format!("{alice:?}").contains("sealer: Sealer(0 frames), opener: Opener(0 frames)"));
}

#[derive(Clone, Debug)]
enum Edit {
    Drop(usize),
    Duplicate(usize),
    Swap(usize, usize),
    Flip(usize),
    Foreign(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        any::<usize>().prop_map(Edit::Drop),
        any::<usize>().prop_map(Edit::Duplicate),
        any::<(usize, usize)>().prop_map(|(one, other)| Edit::Swap(one, other)),
        any::<usize>().prop_map(Edit::Flip),
        any::<usize>().prop_map(Edit::Foreign),
    ]
}

proptest! {
    #[test]
    fn every_chunking_gives_the_same_texts(
        texts in vec(vec(any::<u8>(), 1..300), 0..8),
        chunk in 1_usize..400,
    ) {
        let mut ends = handshake();
        let mut sent = frames(&mut ends.alice.sealer, &texts).concat();
        sent.extend(bye(ends.alice.sealer));
        prop_assert_eq!(receive(&mut ends.bob.opener, &sent, chunk), (texts, Ok(())));
    }

    #[test]
    fn frames_dropped_swapped_repeated_or_mixed_close_the_channel_without_a_wrong_text(
        texts in vec(vec(any::<u8>(), 1..40), 2..8),
        edits in vec(edit(), 1..4),
        chunk in 1_usize..100,
    ) {
        let (mut ends, mut others) = (handshake(), handshake());
        let mut sent = frames(&mut ends.alice.sealer, &texts);
        sent.push(bye(ends.alice.sealer));
        let foreign = frames(&mut others.alice.sealer, &texts);
        let original = sent.clone();
        for edit in edits {
            let count = sent.len().max(1);
            match edit {
                Edit::Drop(at) if !sent.is_empty() => drop(sent.remove(at % count)),
                Edit::Duplicate(at) if !sent.is_empty() => {
                    sent.insert(at % count, sent[at % count].clone());
                }
                Edit::Swap(one, other) if !sent.is_empty() => sent.swap(one % count, other % count),
                Edit::Flip(bit) if !sent.is_empty() => {
                    let frame = &mut sent[bit % count];
                    let bit = (bit / 64) % (8 * frame.len());
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
                Edit::Foreign(at) if !sent.is_empty() => {
                    sent[at % count] = foreign[at % foreign.len()].clone();
                }
                Edit::Drop(_) | Edit::Duplicate(_) | Edit::Swap(..) | Edit::Flip(_)
                | Edit::Foreign(_) => {}
            }
        }
        let (received, end) = receive(&mut ends.bob.opener, &sent.concat(), chunk);
        prop_assert!(texts.starts_with(&received));
        prop_assert_eq!(end.is_ok(), sent == original);
    }

    #[test]
    fn garbage_never_panics(bytes in vec(any::<u8>(), 0..400), chunk in 1_usize..50) {
        let (texts, end) = receive(&mut handshake().bob.opener, &bytes, chunk);
        prop_assert!(texts.is_empty() && end.is_err());
        send_responder(&mut daemon(BOB), &bytes);
        let mut alice = initiator(opening());
        initiator_outputs(&mut alice);
        send_initiator(&mut alice, &bytes);
    }
}
