//! The log of the ring: events, orders of other members, and refusals.

use std::fmt;

use log::Level;
use mpd_machine::Time;
use mpd_ring::{Event, Sender};
use mpd_wire::message::Order;

use crate::daemon::throttle::Throttle;

/// The lines of the log that tell what other members order here, and what is refused.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Orders that change something.
    orders: Throttle,
    /// Those that only ask. A program may ask each second, and hides no order with that.
    questions: Throttle,
    refused: Throttle,
}

impl Journal {
    /// Logs an event. Returns whether consoles that watch get it, too: refusals go to the log alone, since strangers
    /// can cause any number of them.
    pub(super) fn happened(&mut self, now: Time, event: &Event) -> bool {
        let is_refusal = matches!(event, Event::FrameRefused { .. } | Event::NotDialedBack { .. });
        if is_refusal {
            self.refused(now, format_args!("{event}"));
        } else {
            log::info!("{event}");
        }
        !is_refusal
    }

    /// A member gave an order that is acted on here.
    pub(super) fn ordered(&mut self, now: Time, sender: &Sender, order: &Order) {
        let throttle = if is_question(order) { &mut self.questions } else { &mut self.orders };
        let Sender { origin, name, at } = sender;
        let what = describe(order);
        if origin == name {
            throttle.log(now, Level::Info, format_args!("{origin} ({at}) orders: {what}"));
        } else {
            let line = format_args!("{origin} orders, by way of {name} ({at}): {what}");
            throttle.log(now, Level::Info, line);
        }
    }

    /// Something was not accepted.
    pub(super) fn refused(&mut self, now: Time, what: fmt::Arguments<'_>) {
        self.refused.warn(now, what);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.all().into_iter().filter_map(Throttle::next_deadline).min()
    }

    /// Counts of floods that are over.
    pub(super) fn turn(&mut self, now: Time) {
        [&mut self.orders, &mut self.questions, &mut self.refused]
            .into_iter()
            .for_each(|throttle| throttle.turn(now));
    }

    const fn all(&self) -> [&Throttle; 3] {
        [&self.orders, &self.questions, &self.refused]
    }
}

const fn is_question(order: &Order) -> bool {
    matches!(order, Order::Speak | Order::ListJobs { .. } | Order::Top { .. })
}

fn describe(order: &Order) -> String {
    match order {
        Order::Speak => "say a word".to_owned(),
        Order::ListJobs { .. } => "list the jobs".to_owned(),
        Order::Top { .. } => "say what is used".to_owned(),
        Order::Leave { member } => format!("{member} leaves"),
        Order::LeaveAll => "all leave".to_owned(),
        Order::Drain { members, draining: true } => format!("drain {} members", members.len()),
        Order::Drain { members, draining: false } => {
            format!("{} members are drained no more", members.len())
        }
        Order::Launch(launch) => format!("launch job {}", launch.job),
        Order::Cancel { job } => format!("job {job} is over"),
        Order::KillJob { job } => format!("kill job {job}"),
        Order::SignalJob { job, signal, .. } => format!("signal {signal} to job {job}"),
        Order::SwitchStdin { job, ranks } => format!("input of job {job} to ranks {ranks}"),
    }
}
