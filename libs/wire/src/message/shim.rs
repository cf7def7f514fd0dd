//! Messages between a manager and the launcher shim of a rank, over a SOCK_SEQPACKET socket pair.
//!
//! Each message is one packet: a JSON value of at most [`MAX_SHIM_MESSAGE`] bytes. Longer data is
//! sent in pieces, and each direction has a credit for the data that waits at the receiver.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::Crash;

/// Most bytes of a message.
pub const MAX_SHIM_MESSAGE: usize = 64 << 10;

/// Most bytes of the text in one message. A byte of it needs at most six bytes of JSON.
pub const MAX_SHIM_TEXT: usize = 8 << 10;

/// Bytes of commands that the manager may send before the shim grants more.
pub const COMMAND_CREDIT: usize = 128 << 10;

/// Marks that a shim may send before the manager grants more.
pub const MARK_CREDIT: u32 = 64;

/// An order of the manager to a shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimOrder {
    /// The packet carries the PMI connection for the program's next run. The first one starts the
    /// program.
    Connect,
    /// The size of the program's terminal.
    Resize { columns: u16, lines: u16 },
    /// A signal for the program's process group.
    Signal { signal: i32 },
    /// A piece of a command for the debugger.
    Command {
        /// At most [`MAX_SHIM_TEXT`] bytes.
        piece: String,
        /// Whether the command ends here.
        last: bool,
    },
    /// The oldest held processes may die of their signals.
    Continue {
        /// The number of reports of held processes that the manager has received.
        crashes: u32,
    },
    /// The manager takes more marks.
    Marks {
        /// How many.
        more: u32,
    },
    /// The debugger ends, and with it a program that it has started.
    Quit,
}

/// A report of a shim to the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimReport {
    /// The program runs.
    Started {
        /// Its process.
        pid: u32,
    },
    /// A process of the program crashed.
    Crashed(Crash),
    /// The debugger has answered a command, or its program has changed its state.
    Mark {
        /// Bytes of the shim's standard output that come before the mark.
        after: u64,
        /// The number of the command and the state, at most [`MAX_SHIM_TEXT`] bytes.
        text: String,
    },
    /// The shim takes more bytes of commands.
    Commands {
        /// How many.
        more: u32,
    },
    /// The program has ended, or did not start. This is the last report.
    Ended(ProgramEnd),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// It exited with this code.
    Exited(u8),
    /// A signal ended it.
    Killed {
        /// The signal's number.
        signal: u8,
        /// Whether it left a core.
        core: bool,
    },
    /// It did not start.
    NotStarted {
        /// The step that failed.
        step: String,
        /// The error number of that step.
        errno: i32,
    },
}

impl ProgramEnd {
    /// The exit code of a program that did not start: 127 if it was not found, else 126. Other steps
    /// than its execution give 125.
    pub fn code_of_failure(step: &str, errno: i32) -> u8 {
        const NOT_FOUND: [i32; 2] = [2, 20];
        match step {
            EXEC if NOT_FOUND.contains(&errno) => 127,
            EXEC => 126,
            _ => 125,
        }
    }
}

/// The step in which the kernel executes the program.
pub const EXEC: &str = "exec";

/// Why a packet is no message.
#[derive(Debug, thiserror::Error)]
pub enum InvalidShimMessage {
    /// It is longer than [`MAX_SHIM_MESSAGE`].
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// It is not the JSON of a message.
    #[error("not a message: {0}")]
    Malformed(serde_json::Error),
}

/// The packet of an order or a report.
///
/// # Errors
/// The message is too long.
pub fn encode_for_shim(message: &impl Serialize) -> Result<Vec<u8>, InvalidShimMessage> {
    let packet = serde_json::to_vec(message).map_err(InvalidShimMessage::Malformed)?;
    check_length(&packet)?;
    Ok(packet)
}

/// The order or report of a packet.
///
/// # Errors
/// The packet is too long, or no such message.
pub fn decode_for_shim<M: DeserializeOwned>(packet: &[u8]) -> Result<M, InvalidShimMessage> {
    check_length(packet)?;
    serde_json::from_slice(packet).map_err(InvalidShimMessage::Malformed)
}

const fn check_length(packet: &[u8]) -> Result<(), InvalidShimMessage> {
    if packet.len() > MAX_SHIM_MESSAGE {
        return Err(InvalidShimMessage::TooLong(packet.len()));
    }
    Ok(())
}

/// The orders that carry a command of any length, in their sequence.
pub fn pieces_of_command(mut line: &str) -> Vec<ShimOrder> {
    let mut orders = Vec::new();
    while line.len() > MAX_SHIM_TEXT {
        let (piece, rest) = line.split_at(line.floor_char_boundary(MAX_SHIM_TEXT));
        orders.push(ShimOrder::Command { piece: piece.to_owned(), last: false });
        line = rest;
    }
    orders.push(ShimOrder::Command { piece: line.to_owned(), last: true });
    orders
}

/// The beginning of a text that fits a message.
pub fn shim_text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_SHIM_TEXT.min(text.len()))].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{MAX_STACK, MAX_STACKS};

    fn order() -> impl Strategy<Value = ShimOrder> {
        prop_oneof![
            Just(ShimOrder::Connect),
            Just(ShimOrder::Quit),
            (any::<u16>(), any::<u16>())
                .prop_map(|(columns, lines)| ShimOrder::Resize { columns, lines }),
            any::<i32>().prop_map(|signal| ShimOrder::Signal { signal }),
            any::<u32>().prop_map(|crashes| ShimOrder::Continue { crashes }),
            any::<u32>().prop_map(|more| ShimOrder::Marks { more }),
            (".{0,40}", any::<bool>()).prop_map(|(piece, last)| ShimOrder::Command { piece, last }),
        ]
    }

    fn report() -> impl Strategy<Value = ShimReport> {
        let end = prop_oneof![
            any::<u8>().prop_map(ProgramEnd::Exited),
            (any::<u8>(), any::<bool>())
                .prop_map(|(signal, core)| ProgramEnd::Killed { signal, core }),
            (".{0,20}", any::<i32>())
                .prop_map(|(step, errno)| ProgramEnd::NotStarted { step, errno }),
        ];
        prop_oneof![
            any::<u32>().prop_map(|pid| ShimReport::Started { pid }),
            any::<u8>().prop_map(|signal| ShimReport::Crashed(Crash::held(signal))),
            (any::<u64>(), ".{0,40}").prop_map(|(after, text)| ShimReport::Mark { after, text }),
            any::<u32>().prop_map(|more| ShimReport::Commands { more }),
            end.prop_map(ShimReport::Ended),
        ]
    }

    proptest! {
        #[test]
        fn every_message_is_decoded_as_it_was_encoded(order in order(), report in report()) {
            let packet = encode_for_shim(&order).unwrap();
            prop_assert_eq!(decode_for_shim::<ShimOrder>(&packet).unwrap(), order);
            let packet = encode_for_shim(&report).unwrap();
            prop_assert_eq!(decode_for_shim::<ShimReport>(&packet).unwrap(), report);
        }

        #[test]
        fn no_packet_panics(packet in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_for_shim::<ShimOrder>(&packet);
            let _ = decode_for_shim::<ShimReport>(&packet);
        }

        #[test]
        fn the_pieces_of_a_command_are_the_command(
            piece in "(\u{1}|ä|x|\n){1,50}", times in 0_usize..2000,
        ) {
            let line = piece.repeat(times);
            let orders = pieces_of_command(&line);
            let mut whole = String::new();
            for (at, order) in orders.iter().enumerate() {
                prop_assert!(encode_for_shim(order).is_ok());
                let ShimOrder::Command { piece, last } = order else { unreachable!() };
                whole.push_str(piece);
                prop_assert_eq!(*last, at + 1 == orders.len());
            }
            prop_assert_eq!(whole, line);
        }
    }

    #[test]
    fn the_longest_report_of_a_crash_and_the_longest_mark_fit_a_message() {
        let stacks = vec!["\u{1}".repeat(MAX_STACK); MAX_STACKS];
        let problem = Some("\u{1}".repeat(MAX_STACK));
        let crash = Crash { stacks, problem, ..Crash::held(255) };
        assert!(encode_for_shim(&ShimReport::Crashed(crash)).is_ok());
        let text = shim_text(&"\u{1}".repeat(MAX_SHIM_TEXT + 1));
        assert!(encode_for_shim(&ShimReport::Mark { after: u64::MAX, text }).is_ok());
    }

    #[test]
    fn a_long_packet_is_refused_on_both_sides() {
        let piece = "x".repeat(MAX_SHIM_MESSAGE);
        let order = ShimOrder::Command { piece, last: true };
        assert!(matches!(encode_for_shim(&order), Err(InvalidShimMessage::TooLong(_))));
        let packet = vec![b' '; MAX_SHIM_MESSAGE + 1];
        let decoded = decode_for_shim::<ShimOrder>(&packet);
        assert!(matches!(decoded, Err(InvalidShimMessage::TooLong(_))));
    }

    #[test]
    fn a_failure_to_execute_has_the_codes_of_a_shell() {
        for (errno, code) in [(2, 127), (20, 127), (13, 126), (8, 126)] {
            assert_eq!(ProgramEnd::code_of_failure(EXEC, errno), code);
        }
        assert_eq!(ProgramEnd::code_of_failure("terminal", 2), 125);
    }
}
