//! Frames that wait for one link: a bounded queue per class.

use std::collections::VecDeque;

use super::Frame;
use mpd_wire::job::MAX_SPEC;
use mpd_wire::message::{Class, MAX_TREE_FRAME, TREE_WINDOW};

/// Bytes of messages that may wait. A peer that lets this queue fill is lost.
const MAX_CONTROL: usize = 1 << 20;

/// The largest key-value space of a job, and the messages about it.
const MAX_COLLECTIVE: usize = (64 << 20) + MAX_CONTROL;

/// Credit bounds the bytes of the owner. This bound is larger for small records, whose headers
/// credit may not count.
const MAX_STREAM: usize = 4 * TREE_WINDOW;

const CLASSES: [Class; 7] = [
    Class::Control,
    Class::Collective,
    Class::Err,
    Class::Out,
    Class::In,
    Class::Spec,
    Class::File,
];

/// Frames of one link, in the order of their classes.
#[derive(Debug, Default)]
pub(super) struct Outgoing([Queue; CLASSES.len()]);

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
}

/// More bytes wait than the class may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Outgoing {
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Full> {
        let class = frame.kind().class();
        let queue = &mut self.0[class as usize];
        if queue.bytes + frame.bytes().len() > bound(class) {
            return Err(Full);
        }
        queue.bytes += frame.bytes().len();
        queue.frames.push_back(frame);
        Ok(())
    }

    /// The next frame, if it has at most `room` bytes.
    pub(super) fn pop(&mut self, room: usize) -> Option<Frame> {
        let queue = self.0.iter_mut().find(|queue| !queue.frames.is_empty())?;
        let frame = queue.frames.pop_front_if(|frame| frame.bytes().len() <= room)?;
        queue.bytes -= frame.bytes().len();
        if queue.frames.is_empty() {
            queue.frames = VecDeque::new();
        }
        Some(frame)
    }

    pub(super) const fn bytes(&self, class: Class) -> usize {
        self.0[class as usize].bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|queue| queue.frames.is_empty())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

const fn bound(class: Class) -> usize {
    match class {
        Class::Control => MAX_CONTROL,
        Class::Collective => MAX_COLLECTIVE,
        Class::Err | Class::Out | Class::In | Class::File => MAX_STREAM,
        Class::Spec => MAX_SPEC + MAX_TREE_FRAME,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mpd_wire::message::TreeKind;

    fn kind() -> impl Strategy<Value = TreeKind> {
        prop::sample::select(kinds())
    }

    fn kinds() -> Vec<TreeKind> {
        (0..=u8::MAX).filter_map(TreeKind::from_code).collect()
    }

    proptest! {
        #[test]
        fn no_class_waits_for_a_later_one_and_each_keeps_its_order(
            frames in prop::collection::vec((kind(), 0..2000_usize, 0..3_u8), 0..200)
        ) {
            let mut outgoing = Outgoing::default();
            let mut model: Vec<Frame> = Vec::new();
            for (number, (kind, size, pops)) in frames.into_iter().enumerate() {
                let frame = Frame::raw(kind, &vec![number.to_le_bytes()[0]; size]);
                prop_assert!(outgoing.push(frame.clone()).is_ok());
                model.push(frame);
                for _ in 0..pops {
                    // The first frame of the first class: `min_by_key` takes the earliest of
                    // equals.
                    let first = model.iter().enumerate().min_by_key(|(_, f)| f.kind().class());
                    let first = first.map(|(index, _)| index);
                    prop_assert_eq!(outgoing.pop(usize::MAX), first.map(|i| model.remove(i)));
                }
                for class in CLASSES {
                    let of_it = model.iter().filter(|f| f.kind().class() == class);
                    let bytes: usize = of_it.map(|f| f.bytes().len()).sum();
                    prop_assert_eq!(outgoing.bytes(class), bytes);
                }
            }
            prop_assert_eq!(outgoing.is_empty(), model.is_empty());
        }

        #[test]
        fn no_class_grows_beyond_its_bound_and_none_takes_room_of_another(kind in kind()) {
            let mut outgoing = Outgoing::default();
            let frame = Frame::raw(kind, &[0; MAX_TREE_FRAME - 1]);
            let class = kind.class();
            while outgoing.push(frame.clone()).is_ok() {
                prop_assert!(outgoing.bytes(class) <= bound(class));
            }
            prop_assert!(outgoing.bytes(class) > bound(class) - MAX_TREE_FRAME);
            for other in kinds().into_iter().filter(|k| k.class() != class) {
                prop_assert!(outgoing.push(Frame::raw(other, b"x")).is_ok());
            }
        }
    }

    #[test]
    fn a_frame_that_does_not_fit_the_room_keeps_its_turn() {
        let mut outgoing = Outgoing::default();
        outgoing.push(Frame::raw(TreeKind::Keys, &[0; 99])).unwrap();
        outgoing.push(Frame::raw(TreeKind::Stdin, b"")).unwrap();
        assert_eq!(outgoing.pop(99), None);
        assert_eq!(outgoing.pop(100).unwrap().kind(), TreeKind::Keys);
        assert_eq!(outgoing.pop(1).unwrap().kind(), TreeKind::Stdin);
    }
}
