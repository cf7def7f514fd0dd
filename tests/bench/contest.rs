//! Runs the contestants in turn, and prints their results.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// The time of one run.
pub(crate) type Measured = Duration;

type Contestant = Box<dyn FnMut() -> Result<Measured, String>>;

/// A comparison. The other contestants are measured against the first one.
pub(crate) struct Contest {
    title: String,
    contestants: Vec<(String, Contestant)>,
}

/// The runs of one contestant; empty if one of them failed.
pub(crate) struct Runs(Result<Vec<Measured>, String>);

pub(crate) struct Results {
    title: String,
    repetitions: usize,
    pub(crate) entries: Vec<(String, Runs)>,
}

impl Contest {
    pub(crate) fn new(title: String) -> Self {
        Self { title, contestants: Vec::new() }
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        run: impl FnMut() -> Result<Measured, String> + 'static,
    ) {
        self.contestants.push((name.to_owned(), Box::new(run)));
    }

    /// Runs each contestant once as a warm-up, then in the requested number of rounds.
    pub(crate) fn run(mut self, repetitions: usize) -> Results {
        let count = self.contestants.len();
        let mut runs: Vec<_> = (0..count).map(|_| Runs(Ok(Vec::new()))).collect();
        for round in 0..=repetitions {
            for place in 0..count {
                let chosen = (round + place) % count;
                let Ok(times) = &mut runs[chosen].0 else { continue };
                match (self.contestants[chosen].1)() {
                    Ok(_) if round == 0 => {}
                    Ok(time) => times.push(time),
                    Err(error) => runs[chosen].0 = Err(error),
                }
            }
        }
        let names = self.contestants.into_iter().map(|(name, _)| name);
        Results { title: self.title, repetitions, entries: names.zip(runs).collect() }
    }
}

impl Runs {
    pub(crate) fn median(&self) -> Option<Measured> {
        let mut times = self.0.as_ref().ok()?.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    fn least(&self) -> Option<Measured> {
        self.0.as_ref().ok()?.iter().min().copied()
    }
}

/// The time of this command, if it succeeds.
pub(crate) fn time(what: impl FnOnce() -> Result<(), String>) -> Result<Measured, String> {
    let begin = Instant::now();
    what().map(|()| begin.elapsed())
}

/// A Markdown table. Times are shown in another unit, and the ratio is that of the shown times.
pub(crate) fn table(results: &Results, unit: &str, show: impl Fn(Measured) -> f64) -> String {
    let mut text = format!("\n### {} ({} runs each)\n\n", results.title, results.repetitions);
    let _ = writeln!(text, "| | median {unit} | best {unit} | ratio of medians |");
    text.push_str("|---|---:|---:|---:|\n");
    let floor = results.entries.first().and_then(|(_, runs)| runs.median()).map(&show);
    for (name, runs) in &results.entries {
        let row = match (&runs.0, runs.median(), runs.least()) {
            (Ok(_), Some(median), Some(least)) => {
                let (median, least) = (show(median), show(least));
                let ratio = floor.map_or(f64::NAN, |floor| median / floor);
                format!("{median:.2} | {least:.2} | {ratio:.2}")
            }
            (Err(error), ..) => format!("failed: {} | |", error.lines().next().unwrap_or_default()),
            _ => "- | - | -".to_owned(),
        };
        let _ = writeln!(text, "| {name} | {row} |");
    }
    text
}
