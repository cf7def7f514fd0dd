//! The log of the ring: events, orders of other members, and refusals.

use std::fmt;

use mpd_jobtable::{Level, Line, Throttle};
use mpd_ring::{Event, Sender};
use mpd_sansio::Time;
use mpd_wire::message::RingOrder;

/// The lines of the log about orders of other members and about refusals.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Orders that change something.
    orders: Throttle,
    /// Orders that only ask or inform. A program may ask each second; that must not hide other orders.
    questions: Throttle,
    refused: Throttle,
}

impl Journal {
    /// The lines about an event, and whether watching consoles get it. Refusals go only to the log, since strangers can
    /// cause any number of them.
    pub(crate) fn happened(&mut self, now: Time, event: &Event) -> (Vec<Line>, bool) {
        let is_refusal = matches!(event, Event::FrameRefused { .. } | Event::NotDialedBack { .. });
        let lines = if is_refusal {
            self.refused(now, format_args!("{event}"))
        } else {
            vec![Line::info(event.to_string())]
        };
        (lines, !is_refusal)
    }

    /// The lines about an order of a member.
    pub(crate) fn ordered(&mut self, now: Time, sender: &Sender, order: &RingOrder) -> Vec<Line> {
        let throttle = if is_question(order) { &mut self.questions } else { &mut self.orders };
        let Sender { origin, name, at } = sender;
        let what = describe(order);
        if origin == name {
            throttle.lines(now, Level::Info, format_args!("{origin} ({at}) orders: {what}"))
        } else {
            let line = format_args!("{origin} orders, through {name} ({at}): {what}");
            throttle.lines(now, Level::Info, line)
        }
    }

    /// The lines about a refusal.
    pub(crate) fn refused(&mut self, now: Time, what: fmt::Arguments<'_>) -> Vec<Line> {
        self.refused.warn(now, what)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.all().into_iter().filter_map(Throttle::next_deadline).min()
    }

    /// The counts of floods that are over.
    pub(crate) fn turn(&mut self, now: Time) -> Vec<Line> {
        let all = [&mut self.orders, &mut self.questions, &mut self.refused];
        all.into_iter().filter_map(|throttle| throttle.turn(now)).collect()
    }

    const fn all(&self) -> [&Throttle; 3] {
        [&self.orders, &self.questions, &self.refused]
    }
}

const fn is_question(order: &RingOrder) -> bool {
    matches!(
        order,
        RingOrder::Speak
            | RingOrder::ListJobs { .. }
            | RingOrder::Top { .. }
            | RingOrder::Load
            | RingOrder::Slots(_)
            | RingOrder::JobEvents { .. }
            | RingOrder::FindJob { .. }
            | RingOrder::PassToJob { .. }
            | RingOrder::TakeBack { .. }
            | RingOrder::NameRefused(_)
            | RingOrder::ManagerEnded { .. }
    )
}

fn describe(order: &RingOrder) -> String {
    match order {
        RingOrder::Speak => "describe itself".to_owned(),
        RingOrder::ListJobs { .. } => "list the jobs".to_owned(),
        RingOrder::Top { .. } => "report usage".to_owned(),
        RingOrder::Load => "report its load".to_owned(),
        RingOrder::Slots(_) => "read a message about slots".to_owned(),
        RingOrder::Leave { member } => format!("{member} leaves"),
        RingOrder::LeaveAll => "all leave".to_owned(),
        RingOrder::Drain { members, draining: true } => format!("drain {} members", members.len()),
        RingOrder::Drain { members, draining: false } => {
            format!("stop draining {} members", members.len())
        }
        RingOrder::Launch(launch) => format!("launch job {}", launch.job),
        RingOrder::Cancel { job } => format!("job {job} is over"),
        RingOrder::Job { job, order } => format!("{job}: {order}"),
        RingOrder::JobEvents { job, .. } => format!("report events of {job}"),
        RingOrder::FindJob { .. } => "find a job".to_owned(),
        RingOrder::PassToJob { from, to, payload, .. } => {
            format!("pass {payload:?} of job {from} to job {to}")
        }
        RingOrder::TakeBack { name, .. } => format!("take the name {name:?} back"),
        RingOrder::NameRefused(refusal) => format!("hear that {refusal}"),
        RingOrder::ManagerEnded { job, end } => format!("note the end of job {job} there: {end}"),
    }
}
