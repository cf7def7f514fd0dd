//! Frames of a job link: their content, and the sides that may send them.

use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use mpd_wire::Stream;
use mpd_wire::frame::{self, compact};
use mpd_wire::message::{Down, LINK_VERSIONS, LinkHello, MAX_TREE_FRAME, TreeKind, Up};

/// The position of a manager in the job tree, seen from its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Parent,
    Child,
}

/// A frame to send. It is cheap to clone: several receivers share one copy of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    kind: TreeKind,
    bytes: Rc<[u8]>,
}

impl Frame {
    /// A message to a child manager.
    pub fn down(report: &Down) -> Self {
        Self::report(
            if is_in_order_with_keys(report) { TreeKind::Fence } else { TreeKind::Control },
            report,
        )
    }

    /// A message to the parent manager. Its texts have at most
    /// [`MAX_TEXT`](mpd_wire::message::MAX_TEXT) bytes and its lists at most
    /// [`MAX_LISTED`](mpd_wire::message::MAX_LISTED) entries. A larger message does not fit; that
    /// is an error of the caller.
    pub fn up(report: &Up) -> Self {
        Self::report(kind_of(report), report)
    }

    /// The first message of each side.
    pub(super) fn hello() -> Self {
        Self::report(TreeKind::Hello, &LinkHello { versions: LINK_VERSIONS })
    }

    /// Raw bytes, fewer than [`MAX_TREE_FRAME`].
    pub fn raw(kind: TreeKind, payload: &[u8]) -> Self {
        assert!(payload.len() < MAX_TREE_FRAME, "{kind:?} of {} bytes", payload.len());
        Self { kind, bytes: [&[kind.code()], payload].concat().into() }
    }

    fn report(kind: TreeKind, report: &impl Serialize) -> Self {
        Self::raw(kind, &compact::to_vec(report))
    }

    /// The kind of content.
    pub const fn kind(&self) -> TreeKind {
        self.kind
    }

    /// The bytes to seal.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobLinkMessage {
    /// A message of the parent.
    Down(Down),
    /// A message of a child.
    Up(Up),
    /// Keys and values.
    Keys(Vec<u8>),
    /// Records of output, from a child.
    Output(Stream, Vec<u8>),
    /// Standard input, from the parent: see `mpd_stdio::input`.
    Stdin(Vec<u8>),
    /// A piece of the specification, from the parent.
    Spec(Vec<u8>),
    /// A piece of a program, from the parent.
    File(Vec<u8>),
    /// A piece of the description of a world: see [`mpd_wire::message::WorldPiece`].
    World(Vec<u8>),
    /// A piece of data of PMIx clients.
    Pmix(Vec<u8>),
}

/// The peer sent a frame that it may not send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// Longer than [`MAX_TREE_FRAME`], or empty.
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// A message or frame of a kind that is unknown here. It is skipped.
    #[error("a message of the unknown kind {0}")]
    Unknown(String),
    /// The text is no message of that side.
    #[error("a malformed message: {0}")]
    Report(String),
    /// That side does not send this kind.
    #[error("{0:?} in the wrong direction")]
    Direction(TreeKind),
    /// The first frame is no hello, or another frame is one.
    #[error("a missing or second statement of versions")]
    Hello,
}

/// Reads the first frame of the peer.
pub(super) fn read_hello(frame: &[u8]) -> Result<LinkHello, InvalidFrame> {
    match frame.split_first() {
        Some((code, payload)) if *code == TreeKind::Hello.code() => parse(payload),
        _ => Err(InvalidFrame::Hello),
    }
}

/// Reads a frame of the peer on that side. `None` if it is a pulse.
pub(super) fn read(from: Side, mut frame: Vec<u8>) -> Result<Option<JobLinkMessage>, InvalidFrame> {
    if frame.len() > MAX_TREE_FRAME {
        return Err(InvalidFrame::Length(frame.len()));
    }
    let code = *frame.first().ok_or(InvalidFrame::Length(0))?;
    let kind =
        TreeKind::from_code(code).ok_or_else(|| InvalidFrame::Unknown(format!("frame {code}")))?;
    frame.drain(..1);
    Ok(Some(match (kind, from) {
        (TreeKind::Control | TreeKind::Fence, Side::Parent) => {
            let report = parse(&frame)?;
            if is_in_order_with_keys(&report) != (kind == TreeKind::Fence) {
                return Err(InvalidFrame::Report("out of order with keys".into()));
            }
            return Ok((report != Down::Pulse).then_some(JobLinkMessage::Down(report)));
        }
        (TreeKind::Control | TreeKind::Fence | TreeKind::Look, Side::Child) => {
            let report = parse(&frame)?;
            if kind_of(&report) != kind {
                return Err(InvalidFrame::Report("out of order with keys or output".into()));
            }
            return Ok((report != Up::Pulse).then_some(JobLinkMessage::Up(report)));
        }
        (TreeKind::Hello, _) => return Err(InvalidFrame::Hello),
        (TreeKind::Keys, _) => JobLinkMessage::Keys(frame),
        (TreeKind::World, _) => JobLinkMessage::World(frame),
        (TreeKind::Pmix, _) => JobLinkMessage::Pmix(frame),
        (TreeKind::Output(stream), Side::Child) => JobLinkMessage::Output(stream, frame),
        (TreeKind::Stdin, Side::Parent) => JobLinkMessage::Stdin(frame),
        (TreeKind::Spec, Side::Parent) => JobLinkMessage::Spec(frame),
        (TreeKind::File, Side::Parent) => JobLinkMessage::File(frame),
        (TreeKind::Output(_) | TreeKind::Look, Side::Parent)
        | (TreeKind::Stdin | TreeKind::Spec | TreeKind::File, Side::Child) => {
            return Err(InvalidFrame::Direction(kind));
        }
    }))
}

fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, InvalidFrame> {
    compact::decode_message(payload).map_err(|invalid| match invalid {
        frame::InvalidFrame::Unknown(kind) => InvalidFrame::Unknown(kind),
        invalid => InvalidFrame::Report(invalid.to_string()),
    })
}

const fn is_in_order_with_keys(report: &Down) -> bool {
    matches!(
        report,
        Down::Release { .. } | Down::ReleaseGroup { .. } | Down::World { .. } | Down::Restart
    )
}

/// The kind of frames in which a report travels.
const fn kind_of(report: &Up) -> TreeKind {
    match report {
        Up::Entered { .. } | Up::EnteredGroup { .. } | Up::Restarted => TreeKind::Fence,
        Up::Looked { .. } => TreeKind::Look,
        _ => TreeKind::Control,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mpd_wire::job::RankEnd;
    use mpd_wire::message::{MAX_LISTED, MAX_TEXT};
    use mpd_wire::{Rank, RankSet};

    fn received(from: Side, frame: &Frame) -> Result<Option<JobLinkMessage>, InvalidFrame> {
        read(from, frame.bytes().to_vec())
    }

    #[test]
    fn messages_arrive_unchanged_and_fences_travel_in_order_with_keys() {
        let kill = Frame::down(&Down::Kill);
        assert_eq!(kill.kind(), TreeKind::Control);
        assert_eq!(received(Side::Parent, &kill), Ok(Some(JobLinkMessage::Down(Down::Kill))));
        assert_eq!(Frame::down(&Down::Release { first: Rank(0) }).kind(), TreeKind::Fence);
        let entered = Up::Entered { ranks: RankSet::below(3) };
        let frame = Frame::up(&entered);
        assert_eq!(frame.kind(), TreeKind::Fence);
        assert_eq!(received(Side::Child, &frame), Ok(Some(JobLinkMessage::Up(entered))));
    }

    #[test]
    fn an_answer_about_ranks_that_write_nothing_travels_behind_output_of_both_streams() {
        let (behind, others) = (RankSet::below(3), RankSet::none());
        let looked = Up::Looked { stream: Stream::Err, behind, others };
        let frame = Frame::up(&looked);
        assert_eq!(frame.kind().class(), TreeKind::Output(Stream::Out).class());
        assert_eq!(received(Side::Child, &frame), Ok(Some(JobLinkMessage::Up(looked.clone()))));
        assert_eq!(received(Side::Parent, &frame), Err(InvalidFrame::Direction(TreeKind::Look)));
        let frame = Frame::raw(TreeKind::Control, &compact::to_vec(&looked));
        assert!(matches!(received(Side::Child, &frame), Err(InvalidFrame::Report(_))));
    }

    #[test]
    fn a_fence_that_could_overtake_its_keys_is_refused() {
        let release = compact::to_vec(&Down::Release { first: Rank(0) });
        let frame = Frame::raw(TreeKind::Control, &release);
        assert!(matches!(received(Side::Parent, &frame), Err(InvalidFrame::Report(_))));
        let frame = Frame::raw(TreeKind::Fence, &compact::to_vec(&Up::Ready));
        assert!(matches!(received(Side::Child, &frame), Err(InvalidFrame::Report(_))));
    }

    #[test]
    fn a_pulse_is_read_and_not_reported() {
        assert_eq!(received(Side::Parent, &Frame::down(&Down::Pulse)), Ok(None));
        assert_eq!(received(Side::Child, &Frame::up(&Up::Pulse)), Ok(None));
    }

    #[test]
    fn each_side_sends_only_its_own_kinds_of_frames() {
        for kind in [TreeKind::Stdin, TreeKind::Spec, TreeKind::File] {
            let frame = Frame::raw(kind, b"x");
            assert!(received(Side::Parent, &frame).is_ok());
            assert_eq!(received(Side::Child, &frame), Err(InvalidFrame::Direction(kind)));
        }
        let output = TreeKind::Output(Stream::Err);
        let frame = Frame::raw(output, b"x");
        assert!(received(Side::Child, &frame).is_ok());
        assert_eq!(received(Side::Parent, &frame), Err(InvalidFrame::Direction(output)));
        assert!(matches!(
            received(Side::Parent, &Frame::up(&Up::Ready)),
            Err(InvalidFrame::Unknown(_))
        ));
        assert!(matches!(
            received(Side::Child, &Frame::down(&Down::Go)),
            Err(InvalidFrame::Unknown(_))
        ));
    }

    #[test]
    fn the_largest_messages_fit_a_frame() {
        let end = RankEnd::Signaled { signal: 11, core: false };
        let ends = vec![(Rank(u32::MAX), end); MAX_LISTED];
        let aborted =
            Up::Aborted { rank: Rank(0), code: i32::MIN, message: "\u{1}".repeat(MAX_TEXT) };
        for report in [Up::Exited { ends }, aborted] {
            assert_eq!(
                received(Side::Child, &Frame::up(&report)),
                Ok(Some(JobLinkMessage::Up(report)))
            );
        }
    }

    #[test]
    fn a_frame_beyond_the_bound_is_refused() {
        let long = vec![TreeKind::Keys.code(); MAX_TREE_FRAME + 1];
        assert_eq!(read(Side::Child, long), Err(InvalidFrame::Length(MAX_TREE_FRAME + 1)));
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_peer_make_the_reader_panic(bytes: Vec<u8>, code in 0..13_u8, parent: bool) {
            let from = if parent { Side::Parent } else { Side::Child };
            let _ = read(from, bytes.clone());
            let _ = read(from, [&[code], &bytes[..]].concat());
        }
    }
}
