//! Orders that came round the ring by scatter, and what became of our own.

use mpd_ring::{Input, RequestId, Sender};
use mpd_wire::message::{Answer, ConsoleReply, ManagerOrder, Order, OrderAnswer, Payload, Word};
use mpd_wire::{DaemonName, frame};

use crate::daemon::membership::asks::Wanted;
use crate::daemon::membership::jobs::outcome;
use crate::daemon::membership::{Farewell, Hands, Membership};

impl Membership {
    /// Acts on an order and says what to answer.
    pub(super) fn obey(
        &mut self,
        hands: &mut Hands<'_>,
        payload: &Payload,
        hops: u32,
        sender: Option<&Sender>,
    ) -> Payload {
        let order = frame::decode_message(payload.as_bytes());
        if let (Ok(order), Some(sender)) = (&order, sender) {
            self.journal.ordered(hands.now, sender, order);
        }
        let answer = match order {
            Ok(Order::Speak) => OrderAnswer::Word {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                jobs: hands.jobs.count(),
                hops,
            },
            Ok(Order::Leave { member }) => {
                if member == *self.pump.machine().name() {
                    self.leave(hands.now, Farewell::Depart);
                }
                OrderAnswer::Done
            }
            Ok(Order::LeaveAll) => {
                self.dismiss(hands.now);
                OrderAnswer::Done
            }
            Ok(Order::Drain { members, draining }) => {
                if members.contains(self.pump.machine().name()) {
                    log::info!("draining: {draining}, by request");
                    self.post(Input::Drain(draining));
                }
                OrderAnswer::Done
            }
            Ok(Order::ListJobs { page }) => {
                let (jobs, more) = hands.jobs.listing(page);
                OrderAnswer::Jobs { jobs, more }
            }
            Ok(Order::Top { page }) => self.obey_top(hands, page),
            Ok(Order::KillJob { job }) => self.obey_job(hands, &job, &ManagerOrder::Kill),
            Ok(Order::SignalJob { job, signal, single }) => {
                self.obey_job(hands, &job, &ManagerOrder::Signal { signal, single })
            }
            Ok(Order::SwitchStdin { job, ranks }) => {
                self.obey_job(hands, &job, &ManagerOrder::SwitchStdin { ranks })
            }
            Ok(Order::Launch(launch)) => self.obey_launch(hands, &launch),
            Ok(Order::Cancel { job }) => self.obey_cancel(hands, job),
            Err(e) => {
                let from = sender.map_or(self.pump.machine().name().to_string(), |sender| {
                    format!("{} ({})", sender.name, sender.at)
                });
                let why = format_args!("refused an order from {from}: it is not understood: {e}");
                self.journal.refused(hands.now, why);
                OrderAnswer::Unknown
            }
        };
        payload_of(&answer)
    }

    /// One of our own scatters is over.
    pub(super) fn scattered(
        &mut self,
        hands: &mut Hands<'_>,
        request: RequestId,
        answers: &[Answer],
        missing: Vec<DaemonName>,
        depth: u32,
    ) {
        if self.announced(hands.now, request, answers, depth) {
            return;
        }
        match self.asks.wanted(request) {
            Some(Wanted::Census) => {
                let words = answers.iter().filter_map(word).collect();
                let members = self.in_ring_order(words, |word| &word.name);
                self.finish(request, ConsoleReply::Census { members, missing, depth });
            }
            Some(Wanted::Departure(_)) if missing.is_empty() => {
                self.asks.await_list(request, hands.now);
            }
            Some(Wanted::Draining { members, .. }) => {
                let untold: Vec<DaemonName> =
                    missing.into_iter().filter(|name| members.contains(name)).collect();
                if untold.is_empty() {
                    self.asks.await_list(request, hands.now);
                } else {
                    self.finish(request, ConsoleReply::Done { missing: untold });
                }
            }
            Some(Wanted::Muster) => self.end_all(request, missing),
            Some(Wanted::Departure(_)) => self.finish(request, ConsoleReply::Done { missing }),
            Some(Wanted::End(mut before)) => {
                before.retain(|name| !missing.contains(name));
                before.extend(missing);
                self.finish(request, ConsoleReply::Done { missing: before });
            }
            Some(Wanted::Jobs { page, missing: mut before }) => {
                before.retain(|name| !missing.contains(name));
                before.extend(missing);
                self.listed(request, page, answers, before);
            }
            Some(Wanted::Top { page, missing: mut before }) => {
                before.retain(|name| !missing.contains(name));
                before.extend(missing);
                self.topped(request, page, answers, before);
            }
            Some(Wanted::Job(job)) => self.finish(request, outcome(&job, answers, missing)),
            Some(Wanted::Laps) | None => {}
        }
    }

    /// The ring does not take a request of ours.
    pub(super) fn refused(&mut self, request: RequestId, problem: &str) {
        if !self.unannounced(request, problem) {
            self.finish(request, ConsoleReply::Refused { problem: problem.to_owned() });
        }
    }

    pub(super) fn in_ring_order<T>(
        &self,
        mut said: Vec<T>,
        by: impl Fn(&T) -> &DaemonName,
    ) -> Vec<T> {
        let order = self.pump.machine().members();
        said.sort_by_cached_key(|one| order.iter().position(|name| name == by(one)));
        said
    }
}

pub(super) fn payload_of(message: &impl serde::Serialize) -> Payload {
    // Our own enums serialise; see frame::encode_message.
    serde_json::to_vec(message).expect("message serialises").as_slice().into()
}

fn word(answer: &Answer) -> Option<Word> {
    match frame::decode_message(answer.answer.as_bytes()).ok()? {
        OrderAnswer::Word { version, pid, jobs, hops } => {
            Some(Word { name: answer.name.clone(), version, pid, jobs, hops })
        }
        OrderAnswer::Done
        | OrderAnswer::NoSuchJob
        | OrderAnswer::Jobs { .. }
        | OrderAnswer::Top { .. }
        | OrderAnswer::Unknown
        | OrderAnswer::Failed { .. } => None,
    }
}
