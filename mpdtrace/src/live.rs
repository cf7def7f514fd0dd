//! Repeated samples, shown on a screen or printed as lines.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mpd_io::process::signals::Signals;
use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_io::terminal::screen::Screen;
use mpd_wire::message::{JobRef, RingRequest};
use nix::libc;
use nix::poll::{PollFd, PollFlags};

use crate::ask::{AskError, RING_PATIENCE, left};
use crate::top::{Sample, View};
use mpd_io::wait;

/// Number of samples in a view: the rate of output needs three, other rates two.
pub const SAMPLES: usize = 3;

/// Keys that end the display: `q`, and `^C` where the terminal does not turn it into a signal.
const QUIT: [u8; 2] = [b'q', 3];

/// Takes one sample.
///
/// # Errors
/// [`AskError`].
pub fn sample(rundir: &RunDir, job: Option<&JobRef>) -> Result<Sample, AskError> {
    let mut console = Console::ask(rundir, RingRequest::Top)?;
    let mut sample = Sample::default();
    while !sample.take(console.answer(Some(RING_PATIENCE))?).ok_or(AskError::UNFIT)? {}
    sample.choose(job);
    Ok(sample)
}

/// Shows the view on a screen until a key or a signal ends it.
///
/// # Errors
/// When the daemon does not answer, or the screen cannot be written.
pub fn show(
    screen: &Screen,
    rundir: &RunDir,
    job: Option<&JobRef>,
    interval: Duration,
) -> Result<()> {
    let caught = [libc::SIGWINCH, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    let mut signals = Signals::catch(&caught).context("cannot catch signals")?;
    let mut samples: VecDeque<Sample> = VecDeque::new();
    let mut asking: Option<(Console, Sample, Instant)> = None;
    let mut next = Instant::now();
    loop {
        if asking.is_none() && next <= Instant::now() {
            let console = Console::ask(rundir, RingRequest::Top).map_err(AskError::from)?;
            asking = Some((console, Sample::default(), Instant::now() + RING_PATIENCE));
            next = Instant::now() + interval;
        }
        if let Some((console, sample, until)) = &mut asking
            && receive(console, sample, *until)?
        {
            sample.choose(job);
            samples.push_back(std::mem::take(sample));
            while samples.len() > SAMPLES {
                samples.pop_front();
            }
            asking = None;
        }
        draw(screen, &samples)?;
        let deadline = asking.as_ref().map_or(next, |(.., until)| *until);
        wait(asking.as_ref().map(|(console, ..)| console), &signals, left(deadline))?;
        let quits = |signal: &i32| *signal != libc::SIGWINCH;
        if signals.pending().iter().any(quits) || has_quit(screen)? {
            return Ok(());
        }
    }
}

/// Takes the replies that have arrived; `true` after the last one.
fn receive(console: &mut Console, sample: &mut Sample, until: Instant) -> Result<bool, AskError> {
    loop {
        match console.answer(Some(Duration::ZERO)) {
            Ok(reply) => match sample.take(reply) {
                Some(false) => {}
                Some(true) => return Ok(true),
                None => return Err(AskError::UNFIT),
            },
            Err(ConsoleError::Silent(_)) if until > Instant::now() => return Ok(false),
            Err(ConsoleError::Silent(_)) => {
                return Err(ConsoleError::Silent(RING_PATIENCE).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn draw(screen: &Screen, samples: &VecDeque<Sample>) -> Result<()> {
    let (columns, lines) = screen.size();
    let text = match View::of(samples) {
        Some(view) => view.lines(columns.into(), lines.into()),
        None => vec!["asking the ring".to_owned()],
    };
    screen.draw(&text).context("cannot draw")
}

fn wait(console: Option<&Console>, signals: &Signals, most: Duration) -> Result<()> {
    let stdin = io::stdin();
    let mut fds = vec![
        PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(console.map(|console| PollFd::new(console.as_fd(), PollFlags::POLLIN)));
    wait::wait(&mut fds, Some(most)).context("cannot wait")?;
    Ok(())
}

fn has_quit(screen: &Screen) -> Result<bool> {
    if !matches!(wait::is_ready(io::stdin(), PollFlags::POLLIN), Ok(true)) {
        return Ok(false);
    }
    let keys = screen.keys().context("the terminal is gone")?;
    Ok(keys.iter().any(|key| QUIT.contains(key)))
}
