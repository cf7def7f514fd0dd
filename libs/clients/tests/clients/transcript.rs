//! Plays a transcript.

use std::time::Duration;

use mpd_job::manager::LinkEnd;
use mpd_sansio::Time;
use mpd_wire::message::{Down, NameAnswer, Up};
use mpd_wire::{Rank, RankSet};
use pmi_proto::pairs::Pieces;

use crate::net::text_of;
use crate::{compare, fixture, path_of};
use mpd_clients::Clients;
use mpd_clients::Job;
use mpd_clients::{Client, ConnectionId};
use mpd_clients::{FromClient, FromJob, Input};

/// Plays the inputs of a transcript, and compares what the machine does.
pub(super) fn plays(name: &str) {
    let mut transcript = Transcript::new();
    for line in std::fs::read_to_string(path_of(name)).expect("a transcript").lines() {
        transcript.play(line);
    }
    compare(name, &(transcript.lines.join("\n") + "\n"));
}

struct Transcript {
    job: Job,
    clients: Clients,
    now: Time,
    lines: Vec<String>,
}

impl Transcript {
    fn new() -> Self {
        let job = fixture::job();
        let clients = Clients::new(&job);
        Self { job, clients, now: Time::ZERO, lines: Vec::new() }
    }

    fn play(&mut self, line: &str) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "<" | "=" => return,
            _ => self.lines.push(line.to_owned()),
        }
        let text = |rest: &str| {
            let (rank, text) = rest.split_once(' ').expect("a rank and a text");
            (Rank(rank.parse().expect("a rank")), text.replace("\\n", "\n"))
        };
        match kind {
            ">" => {
                let (rank, text) = text(rest);
                self.send(rank, &format!("{text}\n"));
            }
            ">>" => {
                let (rank, text) = text(rest);
                self.send(rank, &format!("{:>6}{text}", text.len()));
            }
            "!" => self.event(rest),
            _ => assert!(line.is_empty() || kind == "#", "{line}"),
        }
    }

    fn send(&mut self, rank: Rank, bytes: &str) {
        let id = ConnectionId::Pmi(rank);
        self.give(Input::Client(id, FromClient::Received(bytes.as_bytes())));
    }

    /// Words, and what they mean.
    fn event(&mut self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let rank = |at| Rank(number(at));
        match words[0] {
            "connected" => self.give(Input::Connected(rank(1), Client::Program)),
            "adopted" => self.give(Input::Connected(rank(1), Client::Adopted)),
            "closed" => {
                self.give(Input::Client(ConnectionId::Pmi(rank(1)), FromClient::Closed));
            }
            "ended" => self.give(Input::Job(FromJob::Ended(rank(1)))),
            "dead" => self.give(Input::Job(FromJob::Dead(rank(1)))),
            "release" => self.give(Input::Job(FromJob::ReleaseFence(rank(1)))),
            "release-child" => {
                let release = Down::Release { first: Rank(0) };
                self.give(Input::Job(FromJob::ReleaseChildren(vec![1], Rank(0), release)));
            }
            "entered" => {
                let ranks = RankSet::below(number(1));
                self.give(Input::Job(FromJob::Entered(Up::Entered { ranks })));
            }
            "two-hosts" => {
                self.job = fixture::job_on_two_hosts();
                self.clients = Clients::new(&self.job);
            }
            "keys" => {
                let mut pieces = Pieces::default();
                pieces.put(words[1].as_bytes(), words[2].as_bytes());
                let piece = pieces.take().pop().expect("a piece");
                self.give(Input::Keys(LinkEnd::Child(1), [&[0; 4][..], &piece].concat()));
            }
            "named" => {
                let answer = match words[2] {
                    "done" => NameAnswer::Done,
                    "taken" => NameAnswer::Taken,
                    "unknown" => NameAnswer::Unknown,
                    value => NameAnswer::Value(value.into()),
                };
                self.give(Input::Named(number(1), answer));
            }
            "daemon" => self.give(Input::DaemonReplaced),
            "seconds" => {
                self.now = self.now + Duration::from_secs(number(1).into());
                self.clients.handle_timeout(self.now, &self.job);
                self.take_outputs();
            }
            other => panic!("{other}"),
        }
    }

    fn give(&mut self, input: Input<'_>) {
        self.clients.handle(self.now, &self.job, input);
        self.take_outputs();
    }

    /// Outputs first, and then the bytes for clients.
    fn take_outputs(&mut self) {
        while let Some(output) = self.clients.poll_output() {
            self.lines.push(format!("= {}", text_of(&output)));
        }
        while let Some(id) = self.clients.next_answering() {
            self.give(Input::Client(id, FromClient::Writing));
            let bytes = self.clients.output(id).to_vec();
            if let (ConnectionId::Pmi(rank), false) = (id, bytes.is_empty()) {
                self.lines.push(format!("< {rank} {}", bytes.escape_ascii()));
            }
            self.clients.consume(id, bytes.len());
            self.give(Input::Client(id, FromClient::Written));
        }
        for rank in [Rank(0), Rank(1)] {
            let id = ConnectionId::Pmi(rank);
            let bytes = self.clients.output(id).to_vec();
            if !bytes.is_empty() {
                self.lines.push(format!("< {rank} {}", bytes.escape_ascii()));
                self.clients.consume(id, bytes.len());
            }
        }
    }
}
