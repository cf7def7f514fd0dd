use proptest::prelude::*;

use super::*;

const END: u8 = 4;
const LINES: Mode = Mode { lines: true, signals: true, end: Some(END), suspend: Some(26) };
const KEYS: Mode = Mode { lines: false, ..LINES };
const RAW: Mode = Mode { lines: false, signals: false, ..LINES };

fn piped(input: &[u8]) -> Relay {
    let mut relay = Relay::new(false);
    relay.input(input);
    relay.end_input();
    relay
}

/// All that a program in `mode` is given which reads at once, until something else is.
fn given(relay: &mut Relay, mode: Mode) -> Vec<u8> {
    let mut all = Vec::new();
    while let Feed::Bytes(bytes) = relay.feed(mode, false, || true) {
        all.extend_from_slice(bytes);
        let count = bytes.len();
        relay.fed(count);
    }
    all
}

#[test]
fn where_lines_are_read_a_chunk_waits_until_the_one_before_was_read() {
    let mut relay = piped(&[b'x'; CHUNK + 1]);
    assert_eq!(relay.feed(LINES, false, || false), Feed::WhenRead);
    assert_eq!(relay.feed(LINES, false, || true), Feed::Bytes(&[b'x'; CHUNK]));
    relay.fed(CHUNK);
    assert_eq!(relay.feed(LINES, false, || false), Feed::WhenRead);
    assert_eq!(relay.feed(LINES, false, || true), Feed::Bytes(b"x"));
    assert_eq!(relay.feed(RAW, false, || unreachable!()), Feed::Bytes(b"x"));
}

#[test]
fn the_end_comes_behind_the_last_byte_and_again_after_each_read_of_it() {
    let mut relay = piped(b"ab");
    assert_eq!(given(&mut relay, LINES), b"ab");
    for _ in 0..3 {
        assert_eq!(relay.feed(LINES, false, || false), Feed::WhenRead);
        assert_eq!(relay.feed(LINES, false, || true), Feed::End(END));
        relay.ended();
    }
    relay.end_program();
    assert_eq!(relay.feed(LINES, false, || true), Feed::Nothing);
}

#[test]
fn a_program_that_reads_keys_gets_the_end_as_a_repeated_key_and_its_last_line_ended() {
    let mut relay = piped(b"ab");
    assert_eq!(given(&mut relay, KEYS), b"ab");
    assert_eq!(relay.feed(KEYS, false, || true), Feed::Later);
    assert_eq!(relay.feed(KEYS, true, || true), Feed::End(b'\n'));
    relay.ended();
    assert_eq!(relay.feed(KEYS, true, || true), Feed::End(END));
}

#[test]
fn a_program_in_raw_mode_gets_no_end_until_it_reads_lines() {
    let mut relay = piped(b"ab");
    assert_eq!(given(&mut relay, RAW), b"ab");
    assert_eq!(relay.feed(RAW, true, || true), Feed::Later);
    assert_eq!(relay.feed(Mode { end: None, ..LINES }, true, || true), Feed::Later);
    assert_eq!(relay.feed(LINES, false, || true), Feed::End(END));
}

#[test]
fn typed_bytes_move_at_once_and_have_no_end() {
    let mut relay = Relay::new(true);
    relay.input(&[END; 9000]);
    assert_eq!(relay.feed(LINES, false, || unreachable!()), Feed::Bytes(&[END; 9000]));
    relay.fed(9000);
    relay.end_input();
    assert_eq!(relay.feed(LINES, true, || unreachable!()), Feed::Nothing);
}

#[test]
fn after_the_program_as_much_is_read_as_a_terminal_can_hold_or_until_it_has_no_more() {
    let mut relay = Relay::new(false);
    relay.output(b"first");
    relay.end_program();
    assert!(!relay.is_over());
    relay.no_output();
    assert!(!relay.is_over());
    relay.showed(5);
    assert!(relay.is_over());

    let mut relay = Relay::new(false);
    relay.end_program();
    let mut total = 0;
    while relay.room_for_output() > 0 {
        let count = relay.room_for_output();
        relay.output(&vec![0; count]);
        relay.showed(count);
        total += count;
    }
    assert!(relay.is_over());
    assert_eq!(total, HELD);
}

#[test]
fn without_a_terminal_or_a_reader_nothing_is_kept() {
    let mut relay = piped(b"ab");
    relay.output(b"cd");
    relay.hang_up();
    assert_eq!((relay.room_for_input(), relay.room_for_output()), (0, 0));
    assert!(!relay.has_feed());
    assert_eq!(relay.shown(), b"cd");
    relay.lose_reader();
    relay.end_program();
    assert!(relay.is_over());
}

#[derive(Clone, Debug)]
enum Step {
    Input(usize),
    Feed(Mode, usize),
    Output(usize),
    Show(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let count = 1..20_000_usize;
    let mode = prop_oneof![Just(LINES), Just(KEYS), Just(RAW)];
    prop_oneof![
        count.clone().prop_map(Step::Input),
        (mode, count.clone()).prop_map(|(mode, count)| Step::Feed(mode, count)),
        count.clone().prop_map(Step::Output),
        count.prop_map(Step::Show),
    ]
}

proptest! {
    #[test]
    fn both_directions_are_exact_and_bounded_whatever_happens_when(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut relay = Relay::new(false);
        let mut counters = [0_u8; 2];
        let mut next = |which: usize, count: usize| -> Vec<u8> {
            let byte = |_| { counters[which] = counters[which].wrapping_mul(5).wrapping_add(1); counters[which] };
            (0..count).map(byte).collect()
        };
        let (mut sent, mut got, mut written, mut shown) = (vec![], vec![], vec![], vec![]);
        for step in steps {
            match step {
                Step::Input(count) => {
                    let bytes = next(0, count.min(relay.room_for_input()));
                    relay.input(&bytes);
                    sent.extend(bytes);
                }
                Step::Feed(mode, most) => {
                    if let Feed::Bytes(bytes) = relay.feed(mode, true, || true) {
                        let count = bytes.len().min(most);
                        prop_assert!(mode == RAW || bytes.len() <= CHUNK);
                        got.extend_from_slice(&bytes[..count]);
                        relay.fed(count);
                    }
                }
                Step::Output(count) => {
                    let bytes = next(1, count.min(relay.room_for_output()));
                    relay.output(&bytes);
                    written.extend(bytes);
                }
                Step::Show(most) => {
                    let count = relay.shown().len().min(most);
                    shown.extend_from_slice(&relay.shown()[..count]);
                    relay.showed(count);
                }
            }
            prop_assert!(relay.input.bytes.len() <= 2 * CAPACITY);
            prop_assert!(relay.output.bytes.len() <= 2 * CAPACITY);
        }
        relay.end_input();
        got.extend(given(&mut relay, LINES));
        shown.extend_from_slice(relay.shown());
        prop_assert!(sent == got && written == shown);
    }
}
