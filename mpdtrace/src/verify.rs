//! Compares the list of members with a message round the ring until both agree.
//!
//! Between two attempts the tool waits for an event of the ring instead of sleeping.

use std::time::{Duration, Instant};

use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::DaemonName;
use mpd_wire::message::{RingRequest, RingView};

use crate::ask::{self, AskError, Laps, left};
use crate::checked::Checked;
use crate::{member, render};

/// Longest time between two attempts, for a ring that heals without an event.
const RHYTHM: Duration = Duration::from_secs(1);

/// Shortest deadline for the list of members, also if `patience` is shorter.
const LIST_PATIENCE: Duration = Duration::from_secs(2);

/// Most events taken before the next attempt.
const MAX_EVENTS: usize = 1000;

/// Requests list and message until they agree, for at most `patience`.
///
/// # Errors
/// [`AskError`] if no request for the list succeeded.
pub fn check(rundir: &RunDir, patience: Duration) -> Result<Checked, AskError> {
    let deadline = Instant::now() + patience;
    let mut watch: Option<Console> = None;
    let mut doubt = "a message round the ring has not come home".to_owned();
    loop {
        let view = ask::describe(rundir, left(deadline).max(LIST_PATIENCE))?;
        match lap(rundir, &view, left(deadline))? {
            Lap::Agrees => return Ok(Checked { view, doubt: None }),
            Lap::Differs(text) => doubt = text,
            // The rest of the patience may have been too short; the previous difference says more.
            Lap::Silent => {}
        }
        match &mut watch {
            Some(watch) => await_event(watch, left(deadline).min(RHYTHM))?,
            // The watch reports later events; the next attempt shows the effect of earlier ones.
            None => watch = open_watch(rundir, left(deadline)).ok(),
        }
        if watch.is_none() || left(deadline).is_zero() {
            return Ok(Checked { view, doubt: Some(doubt) });
        }
    }
}

/// How the way of a message agrees with the list.
enum Lap {
    Agrees,
    Differs(String),
    Silent,
}

fn lap(rundir: &RunDir, view: &RingView, patience: Duration) -> Result<Lap, AskError> {
    match ask::laps(rundir, 1, true, patience) {
        Ok(Laps::Home { names, .. }) => {
            Ok(difference(view, &names).map_or(Lap::Agrees, Lap::Differs))
        }
        Ok(Laps::Lost { .. }) => Ok(Lap::Differs("a message round the ring was lost".to_owned())),
        Err(error) if error.is_silence() => Ok(Lap::Silent),
        Err(error) => match error.refusal() {
            Some(text) => Ok(Lap::Differs(format!("no message can go round the ring: {text}"))),
            None => Err(error),
        },
    }
}

fn open_watch(rundir: &RunDir, patience: Duration) -> Result<Console, ConsoleError> {
    let mut watch = Console::ask(rundir, RingRequest::Watch)?;
    watch.answer(Some(patience))?;
    Ok(watch)
}

/// Waits for an event, and takes further pending events.
fn await_event(watch: &mut Console, patience: Duration) -> Result<(), ConsoleError> {
    let mut patience = patience;
    for _ in 0..MAX_EVENTS {
        match watch.answer(Some(patience)) {
            Ok(_) => patience = Duration::ZERO,
            Err(ConsoleError::Silent(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How the way of a message differs from the list. A way ends with the local daemon.
pub fn difference(view: &RingView, way: &[DaemonName]) -> Option<String> {
    let mut listed: Vec<&DaemonName> = member::live(view).map(|m| &m.name).collect();
    if !listed.is_empty() {
        listed.rotate_left(1);
    }
    if way.iter().eq(listed.iter().copied()) {
        return None;
    }
    let missed = listed.iter().copied().filter(|name| !way.contains(name));
    let unknown = way.iter().filter(|name| !listed.contains(name));
    let (missed, unknown) = (render::enumerate(missed), render::enumerate(unknown));
    Some(match (missed.is_empty(), unknown.is_empty()) {
        (false, true) => format!("a message round the ring did not visit {missed}"),
        (true, false) => format!("a message round the ring visited {unknown}, not in the list"),
        (false, false) => format!(
            "a message round the ring did not visit {missed} but visited {unknown}, not in the list"
        ),
        (true, true) => "a message went round the ring in another order".to_owned(),
    })
}

/// Signs in the list itself that the ring is not whole, for the warning.
pub fn complaints(view: &RingView) -> Vec<String> {
    let mut complaints = Vec::new();
    if !view.whole {
        let side = |link: &Option<DaemonName>, word: &str| match link {
            Some(name) => format!("{word} {name}"),
            None => format!("no {word}"),
        };
        complaints.push(format!(
            "the ring is not whole at {} ({}, {})",
            view.me,
            side(&view.lhs, "lhs"),
            side(&view.rhs, "rhs")
        ));
    }
    let suspects: Vec<_> = member::live(view).filter(|m| m.suspect).map(|m| &m.name).collect();
    if !suspects.is_empty() {
        complaints.push(format!("silent for a while: {}", render::enumerate(suspects)));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, name};

    fn differs(way: &[&str]) -> Option<String> {
        let way: Vec<_> = way.iter().map(|n| name(n)).collect();
        difference(&samples::ring(&["a", "b", "c"]), &way)
    }

    #[test]
    fn a_way_agrees_if_it_visits_all_members_in_order_and_ends_here() {
        assert_eq!(differs(&["b", "c", "a"]), None);
        assert_eq!(difference(&samples::ring(&["a"]), &[name("a")]), None);
    }

    #[test]
    fn each_difference_has_its_text() {
        let text = |way: &[&str]| differs(way).unwrap();
        assert_eq!(text(&["b", "a"]), "a message round the ring did not visit c");
        assert_eq!(text(&["c", "b", "a"]), "a message went round the ring in another order");
        assert_eq!(
            text(&["b", "c", "d", "a"]),
            "a message round the ring visited d, not in the list"
        );
        assert_eq!(
            text(&["b", "x", "a"]),
            "a message round the ring did not visit c but visited x, not in the list"
        );
        assert!(differs(&[]).is_some());
    }

    #[test]
    fn complaints_name_suspects_and_open_sides() {
        let mut view = samples::ring(&["a", "b", "c"]);
        assert!(complaints(&view).is_empty());
        view.whole = false;
        view.rhs = None;
        view.members[1].suspect = true;
        assert_eq!(
            complaints(&view),
            ["the ring is not whole at a (lhs c, no rhs)", "silent for a while: b"]
        );
    }
}
