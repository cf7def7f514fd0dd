//! Transcripts of sessions. An event is at the start of a line, and the prompt's outputs are
//! indented.

mod orders;

use std::fmt::Write as _;
use std::time::Duration;

use super::*;

/// One session, recorded line by line.
struct Story {
    prompt: Prompt,
    now: Time,
    reported: String,
}

impl Story {
    fn new(words: &str) -> Self {
        let mut settings = Settings::default();
        let mut words = words.split(' ');
        let ranks = words.next().unwrap();
        settings.numbers = match ranks.parse() {
            Ok(size) => Numbers::of_job(size),
            Err(_) => Numbers::of_some(&ranks.parse().unwrap()),
        };
        for word in words {
            match word.split_once('=') {
                Some(("ex", command)) => settings.script.add(&command.replace('_', " ")),
                Some(("x", lines)) => {
                    let text = lines.replace('_', " ").replace(';', "\n");
                    settings.script.add_file("cmds", &text).unwrap();
                }
                _ if word == "terminal" => settings.terminal = true,
                _ if word == "attached" => settings.attached = true,
                _ if word == "batch" => settings.batch = true,
                _ => panic!("{word}"),
            }
        }
        Self { prompt: Prompt::new(settings), now: Time::ZERO, reported: String::new() }
    }

    fn step(&mut self, line: &str) {
        writeln!(self.reported, "{line}").unwrap();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let input = match word {
            "type" => Input::Line(rest),
            "said" => Input::DebuggerLine(rest.as_bytes()),
            "complete" => Input::Complete(rest),
            "eof" => Input::EndOfInput,
            "^C" => Input::Interrupt,
            "restarted" => Input::Restarted,
            "over" => Input::JobEnded,
            "after" => {
                self.now = self.now + Duration::from_millis(rest.parse().unwrap());
                self.prompt.handle_timeout(self.now);
                return self.report();
            }
            _ => panic!("{line}"),
        };
        self.prompt.handle(self.now, input);
        self.report();
    }

    fn report(&mut self) {
        while let Some(output) = self.prompt.poll_output() {
            match output {
                Output::Print(bytes) => self.show("|", &bytes),
                Output::Complain(bytes) => self.show("!", &bytes),
                Output::Note(text) => writeln!(self.reported, "    note {text}").unwrap(),
                Output::Prompt => self.reported.push_str("    (mpigdb)\n"),
                Output::NoPrompt => self.reported.push_str("    no prompt\n"),
                Output::Ask(text) => {
                    writeln!(self.reported, "    ask {}", text.trim_end()).unwrap()
                }
                Output::Completions(all) => {
                    writeln!(self.reported, "    completions {all:?}").unwrap()
                }
                Output::Send { ranks, line } => {
                    writeln!(self.reported, "    to {ranks}: {line}").unwrap()
                }
                Output::Restart => self.reported.push_str("    restart\n"),
                Output::Kill => self.reported.push_str("    kill\n"),
            }
        }
    }

    /// An unfinished line ends with a backslash.
    fn show(&mut self, sign: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for line in text.split_inclusive('\n') {
            let end = if line.ends_with('\n') { "" } else { "\\" };
            writeln!(self.reported, "    {sign} {}{end}", line.trim_end_matches('\n')).unwrap();
        }
    }
}

/// Plays a transcript and compares the outputs.
fn play(text: &str) {
    let mut lines = text.lines();
    let mut story = Story::new(lines.next().unwrap());
    for line in
        lines.filter(|line| !line.starts_with("    ") && !line.is_empty() && !line.starts_with('#'))
    {
        story.step(line);
    }
    let expected: Vec<&str> =
        text.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(story.reported.lines().collect::<Vec<_>>(), expected, "\n{}", story.reported);
}

macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            play(include_str!(concat!("stories/", stringify!($name), ".txt")));
        })*
    };
}

stories!(
    breakpoint_step_and_print_on_all_or_one,
    running_again_restarts_the_whole_job,
    a_program_that_reads_gets_what_is_typed,
    the_first_interrupt_stops_and_the_second_kills,
    ranks_that_wait_and_ranks_that_run,
    a_debugger_that_ends_is_left_out,
    completions_do_not_touch_the_prompt,
    a_script_comes_first_and_its_error_ends_it,
    invalid_addresses_and_unsupported_commands_are_refused,
    input_from_a_file_waits_for_the_prompt,
    a_job_that_ends_by_itself,
    a_job_that_ran_before_continues_after_the_session,
    spawned_ranks_start_at_once_and_leave_with_their_programs,
);
