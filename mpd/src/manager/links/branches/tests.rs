//! Managers of one job over real sockets, on a clock of our own: nothing here waits for time to pass.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use mpd_channel::hello::HELLO;
use mpd_wire::message::MAX_TREE_FRAME;
use mpd_wire::{Address, RankSet};

use super::*;

/// How long a test waits for the system before it fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// What one step of everybody takes on our clock.
const STEP: Duration = Duration::from_millis(1);

const OUT: TreeKind = TreeKind::Output(Stream::Out);

/// One manager, and what it was told.
struct Process {
    poll: Poll,
    branches: Branches,
    told: Vec<News>,
}

impl Process {
    fn new(key: u8, shares: &Shares, place: usize) -> Self {
        let config = Config {
            key: JobKey::from_bytes([key; 32]),
            shares: shares.clone(),
            place,
            timing: Timing::default(),
            first_token: 1000,
        };
        let branches = Branches::new(config).unwrap();
        Self { poll: Poll::new().unwrap(), branches, told: Vec::new() }
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
        self.told.extend(std::iter::from_fn(|| self.branches.pop()));
        self.branches.flush();
    }

    fn is_up(&self, end: End) -> bool {
        self.told.contains(&News::Up(end))
    }

    /// Why it lost a link.
    fn loss(&self, of: End) -> Option<&str> {
        self.told.iter().find_map(|news| match news {
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
    /// The last hello that it passed on.
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

/// The managers of a job; the one at place 0 is everybody's parent.
struct World {
    now: Time,
    shares: Shares,
    daemon: Daemon,
    managers: Vec<Process>,
}

impl World {
    /// Nobody has begun.
    fn new(hosts: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let shares = shares(hosts, listener.local_addr().unwrap());
        let (callers, hello) = (Vec::new(), Vec::new());
        let daemon = Daemon { listener, callers, knows_the_job: true, hello };
        let managers = (0..hosts as usize).map(|place| Process::new(7, &shares, place)).collect();
        Self { now: Time::from_micros(1_000_000), shares, daemon, managers }
    }

    /// All links are open.
    fn linked(hosts: u32) -> Self {
        let mut world = Self::new(hosts);
        world.begin();
        world.until("all are linked", |w| {
            (1..w.managers.len()).all(|place| {
                w.managers[place].is_up(End::Parent) && w.managers[0].is_up(End::Child(place))
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

    /// Time passes for one manager, turn by turn, while the others stand still; when it lost that link.
    fn time_of_loss(&mut self, place: usize, end: End) -> Duration {
        let (began, mut now) = (self.now, self.now);
        while self.managers[place].loss(end).is_none() {
            now = now + Duration::from_millis(100);
            assert!(now - began < PATIENCE, "never lost");
            self.managers[place].turn(now);
        }
        now - began
    }
}

fn shares(hosts: u32, root: SocketAddr) -> Shares {
    let share = |place: u32| Share {
        member: DaemonName::new(&format!("h{place}")).unwrap(),
        manager: mpd_wire::Instance::from_bytes([place.to_le_bytes()[0] + 1; 16]),
        // Nobody listens at the first.
        addresses: ["127.0.0.1:1".to_owned(), root.to_string()]
            .map(|address| Address::new(&address).unwrap())
            .to_vec(),
        ranks: RankSet::from_ranges(vec![(place, place)]),
    };
    Shares::new((0..hosts).map(share).collect(), hosts).unwrap()
}

#[test]
fn what_is_sent_arrives_in_order_both_ways() {
    let mut world = World::new(3);
    let root = &mut world.managers[0].branches;
    root.send_down_all(&Down::Spec { bytes: 200_000 });
    root.send_bytes_down_all(TreeKind::Spec, &[1; 100_000]);
    root.send_bytes_down_all(TreeKind::Spec, &[2; 100_000]);
    for place in [1, 2] {
        let below = &mut world.managers[place].branches;
        below.send_up(&Up::Ready);
        below.send_bytes(End::Parent, OUT, b"out");
        below.send_bytes(End::Parent, TreeKind::Output(Stream::Err), b"err");
        below.send_bytes(End::Parent, TreeKind::Keys, b"keys");
        below.send_up(&Up::Entered { ranks: RankSet::below(1) });
    }
    world.begin();
    world.until("everything arrives", |w| {
        w.managers[0].told.len() == 12 && w.managers[1..].iter().all(|m| m.told.len() == 4)
    });
    for place in [1, 2] {
        let of_it = |news: &&News| match news {
            News::Up(end) | News::Keys(end, _) => *end == End::Child(place),
            News::Word(from, _) | News::Output(from, ..) => *from == place,
            _ => false,
        };
        let told: Vec<News> = world.managers[0].told.iter().filter(of_it).cloned().collect();
        assert_eq!(
            told,
            [
                News::Up(End::Child(place)),
                News::Word(place, Up::Ready),
                News::Keys(End::Child(place), b"keys".to_vec()),
                News::Word(place, Up::Entered { ranks: RankSet::below(1) }),
                News::Output(place, Stream::Err, b"err".to_vec()),
                News::Output(place, Stream::Out, b"out".to_vec()),
            ]
        );
        assert_eq!(
            world.managers[place].told,
            [
                News::Up(End::Parent),
                News::Down(Down::Spec { bytes: 200_000 }),
                News::Spec(vec![1; 100_000]),
                News::Spec(vec![2; 100_000]),
            ]
        );
    }
}

#[test]
fn a_word_overtakes_everything_that_a_clogged_link_has_not_sealed() {
    let mut world = World::linked(2);
    let below = &mut world.managers[1];
    let mut pieces = 0;
    // The root stands still, so that no system takes everything.
    while below.branches.queued(End::Parent, Class::Collective) < 4 * MAX_TREE_FRAME {
        below.branches.send_bytes(End::Parent, TreeKind::Keys, &[0; MAX_TREE_FRAME - 1]);
        pieces += 1;
        below.branches.flush();
    }
    let waiting = below.branches.queued(End::Parent, Class::Collective) / MAX_TREE_FRAME;
    below.branches.send_bytes(End::Parent, OUT, b"out");
    below.branches.send_up(&Up::Gone);

    let before = world.managers[0].told.len();
    world.until("everything arrives", |w| w.managers[0].told.len() == before + pieces + 2);
    let told = &world.managers[0].told;
    let word = told.iter().position(|news| *news == News::Word(1, Up::Gone)).unwrap();
    assert_eq!(told[word + 1..].len(), waiting + 1);
    assert_eq!(told.last(), Some(&News::Output(1, Stream::Out, b"out".to_vec())));
    assert_eq!(world.managers[1].branches.queued(End::Parent, Class::Collective), 0);
}

#[test]
fn a_peer_that_stands_still_is_lost_after_eight_seconds() {
    let mut world = World::linked(2);
    let after = world.time_of_loss(1, End::Parent);
    assert!((Duration::from_secs(7)..=Duration::from_millis(8200)).contains(&after), "{after:?}");
    assert!(world.managers[1].loss(End::Parent).unwrap().starts_with("no word from it for 8"));
}

#[test]
fn peers_that_pulse_stay_linked_however_little_they_have_to_say() {
    let mut world = World::linked(2);
    for _ in 0..120 {
        world.now = world.now + Duration::from_millis(500);
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.told.len() == 1));
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
    assert!(world.managers.iter().all(|m| m.told.iter().all(|n| matches!(n, News::Up(_)))));
}

#[test]
fn a_manager_that_dies_is_missed_at_once_above_and_below() {
    let mut world = World::linked(2);
    drop(world.managers.pop());
    world.until("the root sees it", |w| w.managers[0].loss(End::Child(1)).is_some());
    assert_eq!(world.managers[0].loss(End::Child(1)), Some("the connection to it was closed"));

    let mut world = World::linked(2);
    let mut below = world.managers.pop().unwrap();
    drop(world);
    let (now, began) = (Time::from_micros(2_000_000), Instant::now());
    while below.loss(End::Parent).is_none() {
        assert!(began.elapsed() < PATIENCE);
        below.turn(now);
    }
}

#[test]
fn last_words_arrive_before_the_end_and_then_both_are_quiet() {
    let mut world = World::linked(2);
    let below = &mut world.managers[1].branches;
    below.send_up(&Up::Tidied);
    below.close(End::Parent);
    assert!(!below.is_quiet());
    world.until("both are done", |w| {
        w.managers[1].branches.is_quiet() && w.managers[0].loss(End::Child(1)).is_some()
    });
    let host = DaemonName::new("h1").unwrap();
    let problem = "its manager closed the link".to_owned();
    assert_eq!(
        world.managers[0].told,
        [
            News::Up(End::Child(1)),
            News::Word(1, Up::Tidied),
            News::Lost { end: End::Child(1), host, problem },
        ]
    );
    assert_eq!(world.managers[1].told, [News::Up(End::Parent)]);
    assert!(world.managers.iter().all(|manager| manager.branches.lines.is_empty()));
}

#[test]
fn last_words_have_the_time_after_which_a_host_is_lost() {
    let mut world = World::linked(2);
    let below = &mut world.managers[1];
    for _ in 0..400 {
        below.branches.send_bytes(End::Parent, TreeKind::Keys, &[0; MAX_TREE_FRAME - 1]);
    }
    below.branches.close(End::Parent);
    let until = world.now + Timing::default().host_lost;
    below.turn(world.now);
    assert!(below.branches.next_deadline().is_some_and(|at| at <= until));
    below.turn(world.now + (Timing::default().host_lost - STEP));
    assert!(!below.branches.is_quiet());
    below.turn(until);
    assert!(below.branches.is_quiet());
    assert_eq!(below.branches.queued(End::Parent, Class::Collective), 0);
}

#[test]
fn a_parent_whose_daemon_does_not_know_the_job_yet_is_found_later() {
    let mut world = World::new(2);
    world.daemon.knows_the_job = false;
    world.begin();
    for _ in 0..300 {
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.told.is_empty()));
    world.daemon.knows_the_job = true;
    world.until("they are linked", |w| w.managers[1].is_up(End::Parent));
}

#[test]
fn a_start_that_misses_a_host_ends_after_ten_seconds_and_says_why() {
    let mut world = World::new(2);
    world.daemon.knows_the_job = false;
    world.begin();
    let until = world.now + Duration::from_secs(10);
    let is_lost = |w: &World| w.managers[0].loss(End::Child(1)).is_some();
    while world.now + Duration::from_millis(51) < until {
        world.now = world.now + Duration::from_millis(50);
        world.step();
    }
    assert!(!is_lost(&world) && world.managers[1].told.is_empty());
    world.until("all are given up", |w| is_lost(w) && w.managers[1].loss(End::Parent).is_some());
    assert!(world.now >= until);
    let above = world.managers[0].loss(End::Child(1));
    assert_eq!(above, Some("its manager did not connect within 10 s"));
    let below = world.managers[1].loss(End::Parent).unwrap();
    assert!(
        below.starts_with("no link to its manager within 10 s; at last: 127.0.0.1:"),
        "{below}"
    );
    assert!(world.managers.iter().all(|manager| manager.branches.next_deadline().is_none()));
}

#[test]
fn who_has_another_key_gets_nowhere() {
    let mut world = World::new(2);
    world.managers[1] = Process::new(8, &world.shares, 1);
    world.begin();
    world.until("it was turned away", |w| !w.daemon.hello.is_empty());
    for _ in 0..200 {
        world.step();
    }
    assert!(world.managers.iter().all(|manager| manager.told.is_empty()));
}

#[test]
fn who_has_the_key_and_no_place_below_is_dropped() {
    let mut world = World::new(3);
    let mut others = shares(3, world.daemon.listener.local_addr().unwrap());
    let mut list: Vec<Share> = others.iter().cloned().collect();
    list[1].manager = mpd_wire::Instance::from_bytes([99; 16]);
    others = Shares::new(list, 3).unwrap();
    world.managers[1] = Process::new(7, &others, 1);
    world.begin();
    world.until("it is dropped", |w| w.managers[1].loss(End::Parent).is_some());
    world.until("the other is in", |w| w.managers[0].is_up(End::Child(2)));
    assert!(!world.managers[0].is_up(End::Child(1)));
}

#[test]
fn the_first_link_of_a_manager_is_its_only_one() {
    let mut world = World::linked(2);
    let mut second = Process::new(7, &world.shares, 1);
    second.begin(world.now);
    world.managers.push(second);
    world.until("the second is dropped", |w| w.managers[2].loss(End::Parent).is_some());
    world.managers[0].branches.send_down(1, &Down::Go);
    world.until("the first is served", |w| w.managers[1].told.contains(&News::Down(Down::Go)));
    assert_eq!(world.managers[0].told, [News::Up(End::Child(1))]);
}

#[test]
fn a_flood_of_repeated_hellos_keeps_nobody_out() {
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
    world.until("the true one is in", |w| w.managers[0].is_up(End::Child(1)));
}

#[test]
fn a_peer_that_breaks_the_protocol_is_lost_and_the_others_are_not() {
    let mut world = World::linked(3);
    world.managers[1].branches.send_bytes(End::Parent, TreeKind::Stdin, b"not upwards");
    world.until("it is lost", |w| w.managers[0].loss(End::Child(1)).is_some());
    let problem = world.managers[0].loss(End::Child(1)).unwrap();
    assert_eq!(problem, "it broke the protocol of job links: Stdin in the wrong direction");
    world.managers[2].branches.send_up(&Up::Ready);
    world.until("the other is heard", |w| w.managers[0].told.contains(&News::Word(2, Up::Ready)));
}

#[test]
fn a_job_of_one_host_has_no_links_and_no_deadlines() {
    let mut world = World::new(1);
    world.begin();
    let branches = &mut world.managers[0].branches;
    branches.send_down_all(&Down::Go);
    assert!(branches.is_quiet() && !branches.has_work() && branches.next_deadline().is_none());
}
