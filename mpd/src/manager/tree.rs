//! What this manager says to the one above and those below, and what it hears from them.

use mpd_job::manager::Input;
use mpd_stdio::feed::Receiver;
use mpd_wire::job::Failure;
use mpd_wire::message::{Class, Down, TreeKind, Up, pieces};
use mpd_wire::{DaemonName, Rank, Stream};
use pmi_proto::pairs::Pieces;

use super::Process;
use super::branches::{End, News};

/// Bytes of the specification in one frame.
const SPEC_CHUNK: usize = 64 * 1024;

impl Process {
    /// Reads the links of the job tree.
    pub(super) fn serve_branches(&mut self) {
        let now = self.now();
        self.branches.turn(self.poll.registry(), now);
        while let Some(news) = self.branches.pop() {
            self.take_news(news);
        }
    }

    pub(super) fn take_news(&mut self, news: News) {
        match news {
            News::Up(_) | News::Spec(_) => {}
            News::Down(word) => self.hear_above(word),
            News::Word(place, word) => self.hear_below(place, word),
            News::Output(place, stream, bytes) => self.take_flow(place, stream, &bytes),
            News::File(bytes) => self.take_piece(&bytes),
            News::Stdin(bytes) => self.take_stdin(&bytes),
            News::Keys(from, bytes) => self.take_keys(from, &bytes),
            News::World(from, bytes) => self.take_world_piece(from, &bytes),
            News::Lost { end: End::Parent, problem, .. } => self.post(Input::ParentLost(problem)),
            News::Lost { end: End::Child(place), problem, .. } => self.lose_below(place, problem),
        }
    }

    pub(super) fn hear_above(&mut self, word: Down) {
        match word {
            Down::OutputCredit { stream, bytes } => self.outputs.grant(stream, bytes),
            Down::Preloads { files, more } => self.take_list(files, more),
            Down::Spec { .. } => {}
            word => self.post(Input::FromParent(word)),
        }
    }

    fn hear_below(&mut self, place: usize, word: Up) {
        match word {
            Up::StdinCredit { bytes } => {
                self.feed.grant(place, bytes);
                self.feed_one(Receiver::Below(place));
            }
            Up::StdinUnwanted { switches } => {
                self.feed.drop_out_below(place, switches);
                self.offer_credit();
            }
            Up::Lacks { files } => self.take_lacks(place, files),
            Up::Trace { place: whose, heard_us, told_us, spans } => {
                self.take_spans(place, whose, (heard_us, told_us), spans);
            }
            Up::Drained => {
                self.flows.drained(place);
                self.post(Input::FromChild(place, Up::Drained));
            }
            word => self.post(Input::FromChild(place, word)),
        }
    }

    /// Those below get the specification, whenever they connect.
    pub(super) fn pass_on_specification(&mut self, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down_all(&Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes_down_all(TreeKind::Spec, chunk);
        }
    }

    /// One below that has joined gets it, whenever it connects.
    pub(super) fn send_specification(&mut self, place: usize, encoded: &[u8]) {
        let bytes = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        self.branches.send_down(place, &Down::Spec { bytes });
        for chunk in encoded.chunks(SPEC_CHUNK) {
            self.branches.send_bytes(End::Child(place), TreeKind::Spec, chunk);
        }
    }

    pub(super) fn lose_below(&mut self, place: usize, problem: String) {
        self.expect_nothing_of(place);
        self.post(Input::ChildLost(place, problem));
    }

    /// Nothing is heard any more of a manager that could not be told of the job.
    pub(super) fn give_up_below(&mut self, place: usize) {
        self.branches.close(End::Child(place));
        self.expect_nothing_of(place);
    }

    fn expect_nothing_of(&mut self, place: usize) {
        self.flows.lose(place);
        self.stop_sending(place);
        self.end_feeding(Receiver::Below(place));
    }

    /// Sends a command to some directly below: keys go before the release of a fence, what is to be known
    /// of a world before its announcement. Only the root has keys that are to go down: what others were told
    /// here and below goes up first.
    pub(super) fn send_to(&mut self, places: &[usize], word: &Down) {
        let before = match word {
            Down::Release { first } | Down::ReleaseGroup { first, .. } if self.is_root() => {
                (TreeKind::Keys, self.take_fresh(*first))
            }
            Down::World { world, .. } => {
                let known = self.spawning.arrived(world.first).map_or(&[][..], Vec::as_slice);
                (TreeKind::World, pieces(world.first, known).collect())
            }
            _ => (TreeKind::Keys, Vec::new()),
        };
        let (kind, payloads) = before;
        for &place in places {
            for payload in &payloads {
                self.branches.send_bytes(End::Child(place), kind, payload);
            }
            self.branches.send_down(place, word);
        }
        self.branches.flush();
    }

    /// Sends a command to all below.
    pub(super) fn send_down(&mut self, word: &Down) {
        self.branches.send_down_all(word);
        // What this host does for it may take a while.
        self.branches.flush();
        if *word == Down::Kill {
            self.give_up_unlinked();
        }
    }

    /// Whether a manager directly below has not connected yet.
    pub(super) fn awaits_below(&self) -> bool {
        let mut below = self.order.shares.children(self.order.place as usize);
        below.any(|place| self.branches.awaits(End::Child(place)))
    }

    /// The job ends before everybody has connected: those who have not started nothing, and are not
    /// waited for. They end when they find nobody here.
    fn give_up_unlinked(&mut self) {
        let missing: Vec<usize> = (self.order.shares.children(self.order.place as usize))
            .filter(|&place| self.branches.awaits(End::Child(place)))
            .collect();
        for place in missing {
            self.unlinked = true;
            self.branches.close(End::Child(place));
            let problem = "its manager had not connected when the job was ended".to_owned();
            self.lose_below(place, problem);
        }
    }

    /// Hosts that no manager was started on.
    pub(super) fn miss(&mut self, members: Vec<(DaemonName, String)>) {
        self.post(Input::Missing(members));
    }

    /// Says a word to the one above; keys go before the entry into a fence.
    pub(super) fn send_up(&mut self, mut word: Up) {
        word.shorten();
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &word
            && let Some(first) = ranks.ranks().next()
        {
            for piece in self.take_fresh(first) {
                self.branches.send_bytes(End::Parent, TreeKind::Keys, &piece);
            }
        }
        self.branches.send_up(&word);
    }

    /// Whether this host joined for a spawned world.
    pub(super) fn joined_late(&self) -> bool {
        let place = self.order.place as usize;
        place > 0 && self.order.shares.get(place).is_some_and(|share| share.ranks.is_empty())
    }

    pub(super) const fn is_root(&self) -> bool {
        self.order.place == 0
    }

    /// Keys and values of the world of that rank that the other hosts have not heard of.
    fn take_fresh(&mut self, rank: Rank) -> Vec<Vec<u8>> {
        let Some(world) = self.worlds.of_mut(rank) else { return Vec::new() };
        let mut pieces = Pieces::default();
        for key in std::mem::take(&mut world.fresh) {
            if let Some(value) = world.kvs.get(&key) {
                pieces.put(&key, value);
            }
        }
        let first = world.numbers.first.0.to_be_bytes();
        pieces.take().into_iter().map(|piece| [&first[..], &piece].concat()).collect()
    }

    /// Keys and values of other hosts: into our own store, and on to where they are still unknown.
    fn take_keys(&mut self, from: End, payload: &[u8]) {
        let split = payload.split_first_chunk::<4>();
        let read = split.and_then(|(first, piece)| {
            Some((Rank(u32::from_be_bytes(*first)), pmi_proto::pairs::read(piece).ok()?))
        });
        let Some((first, pairs)) = read else {
            self.branches.close(from);
            let problem = "its manager sent malformed keys and values".to_owned();
            return match from {
                End::Child(place) => self.lose_below(place, problem),
                End::Parent => self.post(Input::ParentLost(problem)),
            };
        };
        let Some(world) = self.worlds.of_mut(first) else { return };
        for (key, value) in pairs {
            if world.kvs.put(key, value).is_err() {
                // Somebody was told that it is stored: without it ranks would wait for ever.
                let problem = "the key-value space of the job is full".to_owned();
                return self.post(Input::StartFailed(Failure::Suite { problem }));
            }
            if from != End::Parent {
                world.fresh.insert(key.to_vec());
            }
        }
        if from == End::Parent {
            for &place in &world.below {
                self.branches.send_bytes(End::Child(place), TreeKind::Keys, payload);
            }
        }
    }

    /// The root hears which process runs each rank.
    pub(super) fn learn_pids(&mut self, pids: &[(Rank, u32)]) {
        self.expect(pids);
        for &(rank, pid) in pids {
            let output = &self.spec.output;
            if self.is_root() && (output.label.is_some() || output.merge) {
                let label = self.label_of(rank, pid);
                self.labels.insert(rank, label);
            }
        }
        if self.pids.learn(pids) {
            self.tell_processes();
        }
    }

    /// Whether all that this host and those below it wrote has gone up.
    pub(super) fn is_all_up(&self) -> bool {
        let nothing_waits = |class| self.branches.queued(End::Parent, class) == 0;
        self.is_root() || (nothing_waits(Class::Out) && nothing_waits(Class::Err))
    }

    /// Hands what the uplinks may send to the link above, and gives credit to those below.
    pub(super) fn move_output(&mut self) {
        for stream in Stream::BOTH {
            while let Some(frame) = self.outputs.next_payload(stream) {
                self.branches.send_bytes(End::Parent, TreeKind::Output(stream), &frame);
            }
        }
        for (place, stream, bytes) in self.flows.take_credit() {
            self.branches.send_down(place, &Down::OutputCredit { stream, bytes });
        }
    }
}
