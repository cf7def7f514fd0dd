//! The hook of a site's scheduler: a program that sees each request for slots before the ring does, and accepts or refuses it.
//!
//! Exit code 0 accepts; any other refuses, and the first line of its standard error is the reason.

use mpd_wire::ConsoleId;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_alloc::data::{AllocRequest, Strings};
use mpd_sansio::Time;

use crate::output::{HookId, RingAction};

/// How long a hook may run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most hooks at a time.
const MAX_RUNNING: usize = 16;
/// Most requests that wait for a hook.
const MAX_WAITING: usize = 4096;

/// How a run of the hook has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEnd {
    /// It could not start; a text for people.
    NotStarted(String),
    /// With this exit code, and the first line that it wrote.
    Exited(u8, Option<String>),
    /// By the signal of this name.
    Killed(String),
    /// It is not known how.
    Unknown,
}

/// A request that a hook has accepted or refused.
#[derive(Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) console: ConsoleId,
    /// The request, or why it is refused.
    pub(crate) result: Result<AllocRequest, String>,
}

#[derive(Debug)]
struct Running {
    /// The console, while it is there.
    console: Option<ConsoleId>,
    request: AllocRequest,
    until: Time,
    is_late: bool,
}

/// The hooks that run, and the requests that wait for one.
#[derive(Debug)]
pub(crate) struct Hooks {
    is_set: bool,
    waiting: VecDeque<(ConsoleId, AllocRequest, Strings)>,
    running: BTreeMap<HookId, Running>,
    last: HookId,
}

impl Hooks {
    /// `is_set`: whether the site has a hook.
    pub(crate) const fn new(is_set: bool) -> Self {
        Self { is_set, waiting: VecDeque::new(), running: BTreeMap::new(), last: HookId(0) }
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.is_set
    }

    /// Whether a hook can be started at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty() && self.running.len() < MAX_RUNNING
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.running.values().filter(|hook| !hook.is_late).map(|hook| hook.until).min()
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Too many wait, as a text.
    pub(crate) fn add(
        &mut self,
        console: ConsoleId,
        request: AllocRequest,
        strings: Strings,
    ) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            return Err("too many requests wait for the scheduler's hook".to_owned());
        }
        self.waiting.push_back((console, request, strings));
        Ok(())
    }

    /// Forgets the request of a console that is gone. Returns its hook if one runs; `None` if no hook has seen it, and
    /// an error if there is no such request.
    pub(crate) fn forget(&mut self, console: ConsoleId) -> Result<Option<HookId>, NoRequest> {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, ..)| *waiting != console);
        let is_its = |hook: &Running| hook.console == Some(console);
        if let Some((id, hook)) = self.running.iter_mut().find(|(_, hook)| is_its(hook)) {
            hook.console = None;
            return Ok(Some(*id));
        }
        if before == self.waiting.len() { Err(NoRequest) } else { Ok(None) }
    }

    /// Starts hooks, and kills those that are late.
    pub(crate) fn turn(&mut self, now: Time) -> Vec<RingAction> {
        let mut outputs = Vec::new();
        for (id, hook) in &mut self.running {
            if hook.until <= now && !std::mem::replace(&mut hook.is_late, true) {
                outputs.push(RingAction::KillHook(*id));
            }
        }
        while self.has_work()
            && let Some((console, request, strings)) = self.waiting.pop_front()
        {
            self.last = HookId(self.last.0 + 1);
            let hook = self.last;
            let shown = Box::new(request.clone());
            let (console, until) = (Some(console), now + PATIENCE);
            self.running.insert(hook, Running { console, request, until, is_late: false });
            outputs.push(RingAction::StartHook { hook, request: shown, strings });
        }
        outputs
    }

    /// A hook has ended. What it has decided, if its console is still there.
    pub(crate) fn ended(&mut self, hook: HookId, end: HookEnd) -> Option<Judged> {
        self.running.remove(&hook)?.judged(end)
    }
}

/// No hook has this request, and none will.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRequest;

impl Running {
    /// What the hook has decided, for its console.
    fn judged(self, end: HookEnd) -> Option<Judged> {
        let console = self.console?;
        let result = match end {
            HookEnd::NotStarted(problem) => Err(problem),
            _ if self.is_late => {
                Err(format!("the scheduler's hook has not decided within {} s", PATIENCE.as_secs()))
            }
            HookEnd::Exited(0, _) => Ok(self.request),
            HookEnd::Exited(code, reason) => Err(reason.unwrap_or_else(|| {
                format!("the scheduler's hook refuses it with exit code {code}")
            })),
            HookEnd::Killed(signal) => Err(format!("the scheduler's hook was ended by {signal}")),
            HookEnd::Unknown => Err("the scheduler's hook has no exit code".to_owned()),
        };
        Some(Judged { console, result })
    }
}

#[cfg(test)]
mod tests {
    use mpd_alloc::data::Hardness;

    use super::*;

    const NOW: Time = Time::ZERO;

    fn request(count: u32) -> AllocRequest {
        AllocRequest {
            count,
            hardness: Hardness::Hard,
            hosts: Vec::new(),
            arch: Vec::new(),
            width: 1,
            limit_s: None,
            uid: 7,
            since_us: 0,
        }
    }

    /// `number` requests of consoles 0 …, and the hooks that were started for them.
    fn asked(number: u32) -> (Hooks, Vec<HookId>) {
        let mut hooks = Hooks::new(true);
        for console in 0..number {
            hooks
                .add(ConsoleId(console as usize), request(console + 1), Strings::default())
                .unwrap();
        }
        let started = hooks.turn(NOW);
        let hook = |action: RingAction| match action {
            RingAction::StartHook { hook, .. } => hook,
            other => panic!("{other:?}"),
        };
        (hooks, started.into_iter().map(hook).collect())
    }

    fn refusal(end: HookEnd) -> String {
        let (mut hooks, started) = asked(1);
        hooks.ended(started[0], end).unwrap().result.unwrap_err()
    }

    #[test]
    fn a_hook_accepts_with_exit_code_0_and_else_its_first_line_is_the_reason() {
        let (mut hooks, started) = asked(1);
        let judged = hooks.ended(started[0], HookEnd::Exited(0, Some("x".into())));
        assert_eq!(judged, Some(Judged { console: ConsoleId(0), result: Ok(request(1)) }));
        assert_eq!(refusal(HookEnd::Exited(3, Some("no licence".into()))), "no licence");
        assert!(refusal(HookEnd::Exited(3, None)).ends_with("with exit code 3"));
        assert!(refusal(HookEnd::Killed("SIGSEGV".into())).ends_with("was ended by SIGSEGV"));
        assert_eq!(refusal(HookEnd::NotStarted("cannot run".into())), "cannot run");
    }

    #[test]
    fn sixteen_hooks_run_at_a_time_and_the_next_starts_after_an_end() {
        let (mut hooks, started) = asked(20);
        assert_eq!((started.len(), hooks.has_work()), (MAX_RUNNING, false));
        hooks.ended(started[0], HookEnd::Exited(0, None)).unwrap();
        assert!(hooks.has_work());
        assert!(matches!(hooks.turn(NOW)[..], [RingAction::StartHook { .. }]));
    }

    #[test]
    fn a_late_hook_is_killed_once_and_its_request_refused_whatever_its_code() {
        let (mut hooks, started) = asked(1);
        assert!(hooks.turn(NOW + PATIENCE / 2).is_empty());
        let killed = hooks.turn(NOW + PATIENCE);
        assert!(matches!(killed[..], [RingAction::KillHook(hook)] if hook == started[0]));
        assert!(hooks.turn(NOW + PATIENCE * 2).is_empty() && hooks.next_deadline().is_none());
        let judged = hooks.ended(started[0], HookEnd::Exited(0, None)).unwrap();
        assert!(judged.result.unwrap_err().contains("not decided within 10 s"));
    }

    #[test]
    fn the_hook_of_a_console_that_is_gone_is_killed_and_judges_nothing() {
        let (mut hooks, started) = asked(17);
        assert_eq!(hooks.forget(ConsoleId(3)), Ok(Some(started[3])));
        assert_eq!(hooks.ended(started[3], HookEnd::Exited(0, None)), None);
        assert_eq!(hooks.forget(ConsoleId(16)), Ok(None), "it was waiting");
        assert_eq!(hooks.forget(ConsoleId(16)), Err(NoRequest));
        assert!(hooks.turn(NOW).is_empty());
    }
}
