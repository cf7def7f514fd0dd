//! Managers of one job over real sockets, with a simulated clock: no test waits for time to pass.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use mpd_channel::hello::HELLO;
use mpd_wire::message::MAX_TREE_FRAME;
use mpd_wire::{Address, RankSet, Stream};

use super::*;

/// How long a test waits for the system before it fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The simulated time of one step of all managers.
const STEP: Duration = Duration::from_millis(1);

const OUT: TreeKind = TreeKind::Output(Stream::Out);

/// One manager, and the events that it received.
struct Process {
    poll: Poll,
    branches: Branches,
    received: Vec<News>,
}

impl Process {
    fn new(key: u8, host_slices: &HostSlices, tree_index: usize) -> Self {
        let config = Config {
            key: JobKey::from_bytes([key; 32]),
            host_slices: host_slices.clone(),
            tree_index,
            timing: Timing::default(),
            first_token: 1000,
        };
        let branches = Branches::new(config).unwrap();
        Self { poll: Poll::new().unwrap(), branches, received: Vec::new() }
    }

    fn begin(&mut self, now: Time) {
        self.branches.begin(self.poll.registry(), now);
    }

    fn turn(&mut self, now: Time) {
        let mut events = Events::with_capacity(64);
        let wait = if self.branches.has_work() { Duration::ZERO } else { STEP };
        self.poll.poll(&mut events, Some(wait)).unwrap();
        for event in &events {
            assert!(self.branches.mark_ready(event.token().0, event.is_read_closed()));
        }
        self.branches.turn(self.poll.registry(), now);
        self.received.extend(std::iter::from_fn(|| self.branches.pop()));
        self.branches.flush();
    }

    fn is_up(&self, end: LinkEnd) -> bool {
        self.received.contains(&News::Up(end))
    }

    /// Why this manager lost a link.
    fn loss(&self, of: LinkEnd) -> Option<&str> {
        self.received.iter().find_map(|news| match news {
            News::Lost { end, problem, .. } if *end == of => Some(problem.as_str()),
            _ => None,
        })
    }
}

/// The daemon on the root's host.
struct Daemon {
    listener: TcpListener,
    callers: Vec<(TcpStream, Vec<u8>)>,
    knows_the_job: bool,
    /// The last hello that the daemon passed on.
    hello: Vec<u8>,
}

impl Daemon {
    fn serve(&mut self, now: Time, root: &mut Process) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            self.callers.push((stream, Vec::new()));
        }
        for (mut stream, mut hello) in std::mem::take(&mut self.callers) {
            let mut rest = vec![0; HELLO - hello.len()];
            match stream.read(&mut rest) {
                Ok(n) => hello.extend_from_slice(&rest[..n]),
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            if hello.len() < HELLO {
                self.callers.push((stream, hello));
            } else if self.knows_the_job {
                root.branches.adopt(root.poll.registry(), now, stream.into(), &hello);
                self.hello = hello;
            }
        }
    }
}

/// The managers of a job; the one at tree index 0 is the root.
struct World {
    now: Time,
    host_slices: HostSlices,
    daemon: Daemon,
    managers: Vec<Process>,
}

impl World {
    /// No manager has begun yet.
    fn new(hosts: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let host_slices = host_slices(hosts, listener.local_addr().unwrap());
        let (callers, hello) = (Vec::new(), Vec::new());
        let daemon = Daemon { listener, callers, knows_the_job: true, hello };
        let managers = (0..hosts as usize)
            .map(|tree_index| Process::new(7, &host_slices, tree_index))
            .collect();
        Self { now: Time::from_micros(1_000_000), host_slices, daemon, managers }
    }

    /// All links are open.
    fn linked(hosts: u32) -> Self {
        let mut world = Self::new(hosts);
        world.begin();
        world.until("all are linked", |w| {
            (1..w.managers.len()).all(|tree_index| {
                w.managers[tree_index].is_up(LinkEnd::Parent)
                    && w.managers[0].is_up(LinkEnd::Child(tree_index))
            })
        });
        world
    }

    fn begin(&mut self) {
        self.managers.iter_mut().for_each(|manager| manager.begin(self.now));
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        self.daemon.serve(self.now, &mut self.managers[0]);
        self.managers.iter_mut().for_each(|manager| manager.turn(self.now));
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "never: {what}");
            self.step();
        }
    }

    /// Lets time pass for one manager, turn by turn, while the others do nothing. Returns the time until it lost
    /// that link.
    fn time_of_loss(&mut self, tree_index: usize, end: LinkEnd) -> Duration {
        let (began, mut now) = (self.now, self.now);
        while self.managers[tree_index].loss(end).is_none() {
            now = now + Duration::from_millis(100);
            assert!(now - began < PATIENCE, "never lost");
            self.managers[tree_index].turn(now);
        }
        now - began
    }
}

fn host_slices(hosts: u32, root: SocketAddr) -> HostSlices {
    let host_slice = |tree_index: u32| HostSlice {
        member: DaemonName::new(&format!("h{tree_index}")).unwrap(),
        manager: mpd_wire::Instance::from_bytes([tree_index.to_le_bytes()[0] + 1; 16]),
        // No process listens at the first address.
        addresses: ["127.0.0.1:1".to_owned(), root.to_string()]
            .map(|address| Address::new(&address).unwrap())
            .to_vec(),
        ranks: RankSet::from_ranges(vec![(tree_index, tree_index)]),
    };
    HostSlices::new((0..hosts).map(host_slice).collect(), hosts).unwrap()
}

#[test]
fn what_is_sent_arrives_in_order_both_ways() {
    let mut world = World::new(3);
    let root = &mut world.managers[0].branches;
    root.send_down_all(&Down::Spec { bytes: 200_000 });
    root.send_bytes_down_all(TreeKind::Spec, &[1; 100_000]);
    root.send_bytes_down_all(TreeKind::Spec, &[2; 100_000]);
    for tree_index in [1, 2] {
        let child = &mut world.managers[tree_index].branches;
        child.send_up(&Up::Ready);
        child.send_bytes(LinkEnd::Parent, OUT, b"out");
        child.send_bytes(LinkEnd::Parent, TreeKind::Output(Stream::Err), b"err");
        child.send_bytes(LinkEnd::Parent, TreeKind::Keys, b"keys");
        child.send_up(&Up::Entered { ranks: RankSet::below(1) });
    }
    world.begin();
    world.until("everything arrives", |w| {
        w.managers[0].received.len() == 12 && w.managers[1..].iter().all(|m| m.received.len() == 4)
    });
    for tree_index in [1, 2] {
        let of_it = |news: &&News| match news {
            News::Up(end) | News::Keys(end, _) => *end == LinkEnd::Child(tree_index),
            News::Report(from, _) | News::Output(from, ..) => *from == tree_index,
            _ => false,
        };
        let received: Vec<News> =
            world.managers[0].received.iter().filter(of_it).cloned().collect();
        assert_eq!(
            received,
            [
                News::Up(LinkEnd::Child(tree_index)),
                News::Report(tree_index, Up::Ready),
                News::Keys(LinkEnd::Child(tree_index), b"keys".to_vec()),
                News::Report(tree_index, Up::Entered { ranks: RankSet::below(1) }),
                News::Output(tree_index, Stream::Err, b"err".to_vec()),
                News::Output(tree_index, Stream::Out, b"out".to_vec()),
            ]
        );
        assert_eq!(
            world.managers[tree_index].received,
            [
                News::Up(LinkEnd::Parent),
                News::Down(Down::Spec { bytes: 200_000 }),
                News::Spec(vec![1; 100_000]),
                News::Spec(vec![2; 100_000]),
            ]
        );
    }
}

#[test]
fn a_control_message_overtakes_everything_that_a_clogged_link_has_not_sealed() {
    let mut world = World::linked(2);
    let child = &mut world.managers[1];
    let mut pieces = 0;
    // The root does not read, so that the buffers of the system cannot hold everything.
    while child.branches.queued(LinkEnd::Parent, Class::Collective) < 4 * MAX_TREE_FRAME {
        child.branches.send_bytes(LinkEnd::Parent, TreeKind::Keys, &[0; MAX_TREE_FRAME - 1]);
        pieces += 1;
        child.branches.flush();
    }
    let waiting = child.branches.queued(LinkEnd::Parent, Class::Collective) / MAX_TREE_FRAME;
    child.branches.send_bytes(LinkEnd::Parent, OUT, b"out");
    child.branches.send_up(&Up::Gone);

    let before = world.managers[0].received.len();
    world.until("everything arrives", |w| w.managers[0].received.len() == before + pieces + 2);
    let received = &world.managers[0].received;
    let report = received.iter().position(|news| *news == News::Report(1, Up::Gone)).unwrap();
    assert_eq!(received[report + 1..].len(), waiting + 1);
    assert_eq!(received.last(), Some(&News::Output(1, Stream::Out, b"out".to_vec())));
    assert_eq!(world.managers[1].branches.queued(LinkEnd::Parent, Class::Collective), 0);
}

#[test]
fn a_silent_peer_is_lost_after_eight_seconds() {
    let mut world = World::linked(2);
    let after = world.time_of_loss(1, LinkEnd::Parent);
    assert!((Duration::from_secs(7)..=Duration::from_millis(8200)).contains(&after), "{after:?}");
    assert!(
        world.managers[1].loss(LinkEnd::Parent).unwrap().starts_with("no message from it for 8")
    );
}

#[test]
fn peers_that_send_only_pulses_stay_linked() {
    let mut world = World::linked(2);
    for _ in 0..120 {
        world.now = world.now + Duration::from_millis(500);
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.received.len() == 1));
}

#[test]
fn a_jump_of_the_clock_costs_no_link() {
    let mut world = World::linked(3);
    for _ in 0..3 {
        world.now = world.now + Duration::from_secs(100);
        for _ in 0..20 {
            world.step();
        }
    }
    assert!(world.managers.iter().all(|m| m.received.iter().all(|n| matches!(n, News::Up(_)))));
}

#[test]
fn parent_and_child_detect_the_death_of_a_manager_at_once() {
    let mut world = World::linked(2);
    drop(world.managers.pop());
    world.until("the root sees it", |w| w.managers[0].loss(LinkEnd::Child(1)).is_some());
    assert_eq!(world.managers[0].loss(LinkEnd::Child(1)), Some("the connection to it was closed"));

    let mut world = World::linked(2);
    let mut child = world.managers.pop().unwrap();
    drop(world);
    let (now, began) = (Time::from_micros(2_000_000), Instant::now());
    while child.loss(LinkEnd::Parent).is_none() {
        assert!(began.elapsed() < PATIENCE);
        child.turn(now);
    }
}

#[test]
fn last_reports_arrive_before_the_end_and_then_both_are_quiet() {
    let mut world = World::linked(2);
    let child = &mut world.managers[1].branches;
    child.send_up(&Up::CleanedUp);
    child.close(LinkEnd::Parent);
    assert!(!child.is_quiet());
    world.until("both are done", |w| {
        w.managers[1].branches.is_quiet() && w.managers[0].loss(LinkEnd::Child(1)).is_some()
    });
    let host = DaemonName::new("h1").unwrap();
    let problem = "its manager closed the link".to_owned();
    assert_eq!(
        world.managers[0].received,
        [
            News::Up(LinkEnd::Child(1)),
            News::Report(1, Up::CleanedUp),
            News::Lost { end: LinkEnd::Child(1), host, problem, closed: true },
        ]
    );
    assert_eq!(world.managers[1].received, [News::Up(LinkEnd::Parent)]);
    assert!(world.managers.iter().all(|manager| manager.branches.lines.is_empty()));
}

#[test]
fn last_reports_have_the_time_after_which_a_host_is_lost() {
    let mut world = World::linked(2);
    let child = &mut world.managers[1];
    for _ in 0..400 {
        child.branches.send_bytes(LinkEnd::Parent, TreeKind::Keys, &[0; MAX_TREE_FRAME - 1]);
    }
    child.branches.close(LinkEnd::Parent);
    let until = world.now + Timing::default().host_lost;
    child.turn(world.now);
    assert!(child.branches.next_deadline().is_some_and(|at| at <= until));
    child.turn(world.now + (Timing::default().host_lost - STEP));
    assert!(!child.branches.is_quiet());
    child.turn(until);
    assert!(child.branches.is_quiet());
    assert_eq!(child.branches.queued(LinkEnd::Parent, Class::Collective), 0);
}

#[test]
fn a_parent_whose_daemon_does_not_know_the_job_yet_is_found_later() {
    let mut world = World::new(2);
    world.daemon.knows_the_job = false;
    world.begin();
    for _ in 0..300 {
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.received.is_empty()));
    world.daemon.knows_the_job = true;
    world.until("they are linked", |w| w.managers[1].is_up(LinkEnd::Parent));
}

#[test]
fn a_start_without_one_host_ends_after_ten_seconds_with_the_reason() {
    let mut world = World::new(2);
    world.daemon.knows_the_job = false;
    world.begin();
    let until = world.now + Duration::from_secs(10);
    let is_lost = |w: &World| w.managers[0].loss(LinkEnd::Child(1)).is_some();
    while world.now + Duration::from_millis(51) < until {
        world.now = world.now + Duration::from_millis(50);
        world.step();
    }
    assert!(!is_lost(&world) && world.managers[1].received.is_empty());
    world
        .until("all are given up", |w| is_lost(w) && w.managers[1].loss(LinkEnd::Parent).is_some());
    assert!(world.now >= until);
    let parent = world.managers[0].loss(LinkEnd::Child(1));
    assert_eq!(parent, Some("its manager did not connect within 10 s"));
    let child = world.managers[1].loss(LinkEnd::Parent).unwrap();
    assert!(
        child.starts_with("no link to its manager within 10 s; at last: 127.0.0.1:"),
        "{child}"
    );
    assert!(world.managers.iter().all(|manager| manager.branches.next_deadline().is_none()));
}

#[test]
fn a_manager_with_another_key_gets_no_link() {
    let mut world = World::new(2);
    world.managers[1] = Process::new(8, &world.host_slices, 1);
    world.begin();
    world.until("it was turned away", |w| !w.daemon.hello.is_empty());
    for _ in 0..200 {
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.received.is_empty()));
}

#[test]
fn a_holder_of_the_key_that_is_no_child_is_dropped() {
    let mut world = World::new(3);
    let mut others = host_slices(3, world.daemon.listener.local_addr().unwrap());
    let mut list: Vec<HostSlice> = others.iter().cloned().collect();
    list[1].manager = mpd_wire::Instance::from_bytes([99; 16]);
    others = HostSlices::new(list, 3).unwrap();
    world.managers[1] = Process::new(7, &others, 1);
    world.begin();
    world.until("it is dropped", |w| w.managers[1].loss(LinkEnd::Parent).is_some());
    world.until("the other is in", |w| w.managers[0].is_up(LinkEnd::Child(2)));
    assert!(!world.managers[0].is_up(LinkEnd::Child(1)));
}

#[test]
fn the_first_link_of_a_manager_is_its_only_one() {
    let mut world = World::linked(2);
    let mut second = Process::new(7, &world.host_slices, 1);
    second.begin(world.now);
    world.managers.push(second);
    world.until("the second is dropped", |w| w.managers[2].loss(LinkEnd::Parent).is_some());
    world.managers[0].branches.send_down(1, &Down::Go);
    world.until("the first is served", |w| w.managers[1].received.contains(&News::Down(Down::Go)));
    assert_eq!(world.managers[0].received, [News::Up(LinkEnd::Child(1))]);
}

#[test]
fn a_flood_of_repeated_hellos_keeps_no_manager_out() {
    let hello = World::linked(2).daemon.hello;
    let mut world = World::new(2);
    let mut flood = Vec::new();
    for _ in 0..100 {
        let address = world.daemon.listener.local_addr().unwrap();
        flood.push(TcpStream::connect(address).unwrap());
        let (stream, _) = world.daemon.listener.accept().unwrap();
        let root = &mut world.managers[0];
        root.branches.adopt(root.poll.registry(), world.now, stream.into(), &hello);
        assert!(root.branches.lines.len() <= 2 * mpd_wire::job::FAN_OUT);
    }
    world.begin();
    world.until("the true one is in", |w| w.managers[0].is_up(LinkEnd::Child(1)));
}

#[test]
fn a_peer_that_breaks_the_protocol_is_lost_and_the_others_are_not() {
    let mut world = World::linked(3);
    world.managers[1].branches.send_bytes(LinkEnd::Parent, TreeKind::Stdin, b"not upwards");
    world.until("it is lost", |w| w.managers[0].loss(LinkEnd::Child(1)).is_some());
    let problem = world.managers[0].loss(LinkEnd::Child(1)).unwrap();
    assert_eq!(problem, "it broke the protocol of job links: Stdin in the wrong direction");
    world.managers[2].branches.send_up(&Up::Ready);
    world.until("the other is heard", |w| {
        w.managers[0].received.contains(&News::Report(2, Up::Ready))
    });
}

#[test]
fn a_job_of_one_host_has_no_links_and_no_deadlines() {
    let mut world = World::new(1);
    world.begin();
    let branches = &mut world.managers[0].branches;
    branches.send_down_all(&Down::Go);
    assert!(branches.is_quiet() && !branches.has_work() && branches.next_deadline().is_none());
}
