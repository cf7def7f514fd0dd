use proptest::prelude::*;

use super::*;
use mpd_wire::Stream;
use mpd_wire::message::{MAX_TREE_FRAME, TreeKind};

const OUTPUT: TreeKind = TreeKind::Output(Stream::Out);

fn at(millis: u64) -> Time {
    Time::from_micros((1000 + millis) * 1000)
}

fn open(peer: Side) -> JobLink {
    let mut link = JobLink::new(peer, Timing::default());
    link.handle(at(0), Input::Opened);
    link.handle(at(0), Input::Received(Frame::hello().bytes().to_vec()));
    assert_eq!(link.next_frame(at(0), 0), Some(Frame::hello()));
    link
}

fn outputs(link: &mut JobLink) -> Vec<Output> {
    std::iter::from_fn(|| link.poll_output()).collect()
}

/// Seals everything, and returns the kinds of the frames.
fn sealed(link: &mut JobLink, now: Time) -> Vec<TreeKind> {
    std::iter::from_fn(|| link.next_frame(now, 0)).map(|frame| frame.kind()).collect()
}

/// Calls the link whenever it is due, until it has an output or until that time.
fn run(link: &mut JobLink, until: Time) -> (Time, Vec<Output>) {
    while let Some(now) = link.poll_timeout().filter(|due| *due <= until) {
        link.handle_timeout(now);
        sealed(link, now);
        let outputs = outputs(link);
        if !outputs.is_empty() {
            return (now, outputs);
        }
    }
    (until, Vec::new())
}

#[test]
fn a_signal_overtakes_the_output_that_the_peer_does_not_take() {
    let mut link = open(Side::Parent);
    for _ in 0..3 {
        link.send(Frame::raw(OUTPUT, &[0; MAX_SEALED - 1]));
    }
    assert_eq!(link.next_frame(at(0), 0).unwrap().kind(), OUTPUT);
    assert_eq!(link.next_frame(at(0), MAX_SEALED), None, "enough is sealed");
    link.send(Frame::up(&Up::Gone));
    assert_eq!(sealed(&mut link, at(0)), [TreeKind::Control, OUTPUT, OUTPUT]);
    assert_eq!(link.queued(Class::Out), 0);
}

#[test]
fn a_frame_larger_than_the_bound_is_sealed_when_nothing_else_is() {
    let mut link = open(Side::Parent);
    link.send(Frame::raw(TreeKind::Keys, &[0; MAX_TREE_FRAME - 1]));
    assert_eq!(link.next_frame(at(0), 1), None);
    assert!(link.next_frame(at(0), 0).is_some());
}

#[test]
fn frames_queued_before_the_link_is_open_wait() {
    let mut link = JobLink::new(Side::Child, Timing::default());
    link.send(Frame::down(&Down::Spec { bytes: 1 }));
    link.send(Frame::raw(TreeKind::Spec, b"x"));
    assert_eq!((link.next_frame(at(0), 0), link.poll_timeout()), (None, None));
    link.handle(at(0), Input::Opened);
    assert_eq!(sealed(&mut link, at(0)), [TreeKind::Hello, TreeKind::Control, TreeKind::Spec]);
}

#[test]
fn a_peer_without_a_common_version_is_lost_before_anything_is_done_for_it() {
    let lost = |frame: Frame| {
        let mut link = JobLink::new(Side::Parent, Timing::default());
        link.handle(at(0), Input::Opened);
        link.handle(at(0), Input::Received(frame.bytes().to_vec()));
        match &outputs(&mut link)[..] {
            [Output::Lose(loss)] => loss.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let hello = LinkHello { versions: Versions::only(99) };
    let later = Frame::raw(TreeKind::Hello, &mpd_wire::frame::compact::to_vec(&hello));
    assert_eq!(lost(later), "it speaks version 99 of job links, and this manager 2");
    let problem = "it broke the protocol of job links: a missing or second statement of versions";
    assert_eq!(lost(Frame::down(&Down::Go)), problem);
    let mut link = open(Side::Parent);
    link.handle(at(1), Input::Received(Frame::hello().bytes().to_vec()));
    assert_eq!(outputs(&mut link), [Output::Lose(Loss::Misbehaved(InvalidFrame::Hello))]);
}

#[test]
fn a_pulse_is_sent_when_nothing_else_was_for_a_second() {
    let mut link = open(Side::Child);
    link.handle_timeout(at(999));
    assert!(sealed(&mut link, at(999)).is_empty());
    link.handle_timeout(at(1000));
    assert_eq!(link.next_frame(at(1000), 0), Some(Frame::down(&Down::Pulse)));
    link.send(Frame::down(&Down::Go));
    assert_eq!(sealed(&mut link, at(1500)).len(), 1);
    link.handle_timeout(at(2400));
    assert!(sealed(&mut link, at(2400)).is_empty());
    link.handle_timeout(at(2500));
    assert_eq!(sealed(&mut link, at(2500)).len(), 1);
}

#[test]
fn pulses_do_not_pile_up_for_a_peer_that_takes_nothing() {
    let mut link = open(Side::Parent);
    link.send(Frame::raw(OUTPUT, b"x"));
    for second in 1..7 {
        link.handle_timeout(at(second * 1000));
        outputs(&mut link);
        assert!(link.poll_timeout() > Some(at(second * 1000)));
    }
    assert_eq!(link.queued(Class::Control), 0);
}

#[test]
fn a_silent_peer_is_suspect_after_three_seconds_and_lost_after_eight() {
    let mut link = open(Side::Parent);
    let suspect = Output::Suspect(Duration::from_secs(3));
    assert_eq!(run(&mut link, at(60_000)), (at(3000), vec![suspect]));
    let (when, lost) = run(&mut link, at(60_000));
    let loss = Loss::Silent(Duration::from_secs(8));
    assert_eq!(loss.to_string(), "no message from it for 8 s");
    assert_eq!((when, lost), (at(8000), vec![Output::Lose(loss)]));
    assert_eq!(link.poll_timeout(), None);
    link.send(Frame::up(&Up::Ready));
    assert!(link.is_empty() && link.poll_output().is_none());
}

#[test]
fn a_job_may_choose_the_silence_after_which_a_peer_is_lost() {
    let lost_after = |seconds: u64| {
        let mut link = open(Side::Parent);
        let silence = Duration::from_secs(seconds);
        link.set_timing(Timing::default().with_host_lost(silence));
        let (suspected, outputs) = run(&mut link, at(200_000));
        assert!(matches!(outputs[..], [Output::Suspect(_)]));
        assert_eq!(run(&mut link, at(200_000)).1, [Output::Lose(Loss::Silent(silence))]);
        suspected
    };
    assert_eq!(lost_after(3), at(1500));
    assert_eq!(lost_after(100), at(3000));
}

#[test]
fn a_suspected_peer_is_cleared_by_any_frame() {
    let mut link = open(Side::Parent);
    run(&mut link, at(3000));
    let pulse = Frame::down(&Down::Pulse).bytes().to_vec();
    link.handle(at(7900), Input::Received(pulse));
    assert_eq!(outputs(&mut link), [Output::Clear]);
    assert_eq!(run(&mut link, at(10_800)).1, []);
    assert_eq!(run(&mut link, at(60_000)).0, at(10_900));
}

#[test]
fn after_a_stall_of_its_own_a_link_gives_the_peer_three_seconds() {
    let mut link = open(Side::Parent);
    link.handle_timeout(at(1000));
    sealed(&mut link, at(1000));
    link.handle_timeout(at(61_000));
    assert_eq!(outputs(&mut link), []);
    assert_eq!(link.next_frame(at(61_000), 0), Some(Frame::up(&Up::Pulse)));
    let loss = Loss::Silent(Duration::from_secs(64));
    assert_eq!(run(&mut link, at(99_000)), (at(64_000), vec![Output::Lose(loss)]));
}

#[test]
fn reports_of_unknown_kinds_are_skipped_and_the_link_lives() {
    let mut link = open(Side::Child);
    let later = Frame::raw(TreeKind::Control, b"\xa1\x65later\xa1\x66number\x01").bytes().to_vec();
    let mut said = Vec::new();
    for frame in [later, vec![99, 1, 2], Frame::up(&Up::Ready).bytes().to_vec()] {
        link.handle(at(0), Input::Received(frame));
        said.extend(outputs(&mut link));
    }
    let line =
        |kind| Output::Skipped(format!("skipped a message of a kind that is unknown here: {kind}"));
    let ready = Output::Act(JobLinkMessage::Up(Up::Ready));
    assert_eq!(said, [line("later"), line("frame 99"), ready]);
}

#[test]
fn an_order_of_an_unknown_kind_loses_the_link_since_the_parent_waits_for_what_follows() {
    let mut link = open(Side::Parent);
    let later = Frame::raw(TreeKind::Control, b"\xa1\x65later\xa1\x66number\x01").bytes().to_vec();
    link.handle(at(0), Input::Received(later));
    let said = outputs(&mut link);
    assert!(
        matches!(&said[..], [Output::Lose(loss)] if loss.to_string().contains("later")),
        "{said:?}"
    );
}

#[test]
fn a_part_of_an_unknown_kind_is_not_skipped() {
    let mut link = open(Side::Child);
    let later = b"\xa1\x66exited\xa1\x64ends\x81\x82\x03\xa1\x65later\x00";
    let later = Frame::raw(TreeKind::Control, later).bytes().to_vec();
    link.handle(at(0), Input::Received(later));
    assert!(matches!(outputs(&mut link)[..], [Output::Lose(_)]));
}

#[test]
fn a_peer_that_breaks_the_protocol_is_lost_and_its_further_frames_are_dropped() {
    let mut link = open(Side::Child);
    let frames = [
        Frame::raw(TreeKind::Keys, b"k").bytes().to_vec(),
        vec![TreeKind::Spec.code()],
        Frame::up(&Up::Ready).bytes().to_vec(),
    ];
    let mut said = Vec::new();
    for frame in frames {
        link.handle(at(0), Input::Received(frame));
        said.extend(outputs(&mut link));
    }
    let invalid = InvalidFrame::Direction(TreeKind::Spec);
    let keys = Output::Act(JobLinkMessage::Keys(b"k".to_vec()));
    assert_eq!(said, [keys, Output::Lose(Loss::Misbehaved(invalid))]);
}

#[test]
fn a_peer_that_lets_messages_pile_up_is_lost() {
    let mut link = open(Side::Child);
    let mut sent = 0;
    while link.poll_output().is_none() {
        link.send(Frame::down(&Down::Go));
        sent += 1;
        assert!(sent < 1 << 20);
    }
    assert!(link.is_empty());
}

#[test]
fn durations_have_a_short_text() {
    let text = |millis| Seconds(Duration::from_millis(millis)).to_string();
    assert_eq!([text(8000), text(8049), text(400)], ["8 s", "8 s", "0.4 s"]);
}

proptest! {
    /// With any delay of our calls: if the owner reads before it judges, a peer that sends in time is never lost. After
    /// a stall of this side, a peer is lost only if it had time to answer.
    #[test]
    fn no_peer_is_lost_because_of_our_own_stall(
        steps in prop::collection::vec((1..20_000_u64, prop::bool::weighted(0.3)), 1..60)
    ) {
        let timing = Timing::default();
        let mut link = open(Side::Child);
        let pulse = Frame::up(&Up::Pulse).bytes().to_vec();
        let (mut now, mut received, mut looked, mut stood) = (at(0), at(0), at(0), at(0));
        for (millis, speaks) in steps {
            now = now + Duration::from_millis(millis);
            if speaks {
                link.handle(now, Input::Received(pulse.clone()));
                outputs(&mut link);
                received = now;
            }
            if now - looked > timing.suspect {
                stood = now;
            }
            looked = now;
            link.handle_timeout(now);
            sealed(&mut link, now);
            let is_lost = outputs(&mut link).iter().any(|o| matches!(o, Output::Lose(_)));
            let has_had_its_chance = stood == at(0) || now - stood >= timing.suspect;
            prop_assert_eq!(is_lost, now - received >= timing.host_lost && has_had_its_chance);
            if is_lost {
                break;
            }
            prop_assert!(link.poll_timeout() > Some(now));
        }
    }
}
