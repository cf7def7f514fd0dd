//! The command lines of the original MPD. Each option of its programs has a row in one table: it means the same here,
//! becomes words of ours, is accepted without effect, or is refused with a reason. The parser asks this table first, and
//! the manual's page of foreign options is made from it. The options of `mpiexec` and `mpdrun` are in the table of `mpirun`.
//!
//! The words of a command line are not known to be options: each may be the value of the option before it. So the values of
//! our own options are passed over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Command, Parser};

mod table;

/// Makes our words of a value.
type Compute = fn(&str) -> Result<Vec<String>, String>;

/// Our answer to an option.
#[derive(Clone, Copy)]
enum Answer {
    /// We have it, with this meaning.
    Same,
    /// These words of ours; `{0}` is the value.
    Words(&'static [&'static str]),
    /// The words that a function makes of the value, and their description.
    Computed(Compute, &'static str),
    /// No effect and no line, because the program always does what the option requests.
    Silent(&'static str),
    /// No effect, which one line reports with this reason.
    Accepted(&'static str),
    /// Refused with this reason.
    Refused(&'static str),
}

/// The value of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// The next word, or the text after `=`.
    Value(&'static str),
    /// Only the text after `=`; without it the second text.
    Optional(&'static str, &'static str),
    /// The option is an argument without a name.
    Itself,
}

/// Where the original has the option.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Only beside one of these options.
    Beside(&'static [&'static str]),
    /// Only as the whole command line.
    Alone,
}

/// An option of a program.
struct Row {
    program: &'static str,
    /// As they are written, with dashes.
    names: &'static [&'static str],
    takes: Takes,
    when: When,
    answer: Answer,
    /// Arguments of complete command lines with the option.
    examples: &'static [&'static str],
}

/// A command line in our words, and lines for the user about options without effect.
type Translated = (Vec<OsString>, Vec<String>);

/// Translates the command line of a program. Most have no option that needs it.
///
/// # Errors
/// An option is refused, or lacks its value.
pub(crate) fn translate(command: &Command, words: Vec<OsString>) -> Result<Translated, String> {
    let program = command.get_name();
    let rows: Vec<&'static Row> = table::ROWS.iter().filter(|row| row.program == program).collect();
    if rows.is_empty() {
        return Ok((words, Vec::new()));
    }
    let whole = words.clone();
    let (mut made, mut remarks) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    made.extend(words.next());
    while let Some(word) = words.next() {
        if word == "--" {
            made.push(word);
            made.extend(words.by_ref());
            break;
        }
        let text = word.to_str().unwrap_or_default();
        let Some((row, name, glued)) = rows.iter().find_map(|row| row.written(text, &whole)) else {
            let values = values_of_ours(command, text);
            made.push(word);
            made.extend(words.by_ref().take(values));
            continue;
        };
        let value = match (row.takes, glued) {
            (Takes::Value(_) | Takes::Optional(..), Some(value)) => value.to_owned(),
            (Takes::Optional(_, default), None) => default.to_owned(),
            (Takes::Value(wanted), None) => {
                let next = words.next().ok_or_else(|| format!("{name} needs a value: {wanted}"))?;
                next.into_string().map_err(|_| format!("the value of {name} is not UTF-8 text"))?
            }
            (Takes::Nothing | Takes::Itself, _) => String::new(),
        };
        match row.answer {
            // `written` finds no row that is the same.
            Answer::Same | Answer::Silent(_) => {}
            Answer::Words(pattern) => {
                made.extend(pattern.iter().map(|word| word.replace("{0}", &value).into()));
            }
            Answer::Computed(compute, _) => {
                let ours = compute(&value).map_err(|e| format!("{name} {value}: {e}"))?;
                made.extend(ours.into_iter().map(OsString::from));
            }
            Answer::Accepted(reason) => {
                let remark = format!("{name} has no effect: {reason}");
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            Answer::Refused(reason) => {
                return Err(format!("{name} of the original MPD is not available: {reason}"));
            }
        }
    }
    Ok((made, remarks))
}

/// How many of the next words are values of the word `text`, if it is an option of ours.
fn values_of_ours(command: &Command, text: &str) -> usize {
    let long = text.strip_prefix("--");
    let short = text.strip_prefix('-').filter(|rest| rest.chars().count() == 1);
    let is_it = |arg: &&clap::Arg| {
        (long.is_some() && arg.get_long() == long)
            || (short.is_some() && arg.get_short() == short.and_then(|s| s.chars().next()))
    };
    let Some(arg) = command.get_arguments().find(is_it) else { return 0 };
    if !arg.get_action().takes_values() {
        return 0;
    }
    arg.get_num_args().map_or(1, |count| count.min_values())
}

impl Row {
    /// This row, the name and the value after `=`, if `text` is the option and needs a translation.
    fn written<'a>(
        &'static self,
        text: &'a str,
        whole: &[OsString],
    ) -> Option<(&'static Self, &'static str, Option<&'a str>)> {
        if matches!(self.answer, Answer::Same) {
            return None;
        }
        let has_value = !matches!(self.takes, Takes::Nothing | Takes::Itself);
        let (name, glued) =
            self.names.iter().find_map(|name| match text.strip_prefix(name)? {
                "" => Some((*name, None)),
                rest if has_value => rest.strip_prefix('=').map(|value| (*name, Some(value))),
                _ => None,
            })?;
        let is_given = |option: &str| {
            let given = |word: &OsString| {
                let rest = word.to_str().and_then(|word| word.strip_prefix(option));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            };
            whole.iter().skip(1).any(given)
        };
        let fits = match self.when {
            When::Always => true,
            When::Beside(others) => others.iter().any(|other| is_given(other)),
            When::Alone => whole.len() == 2,
        };
        fits.then_some((self, name, glued))
    }

    /// The answer as a text for people.
    fn meaning(&self) -> String {
        match self.answer {
            Answer::Same => "the same".to_owned(),
            Answer::Words(words) => {
                let value = match self.takes {
                    Takes::Value(name) | Takes::Optional(name, _) => name,
                    Takes::Nothing | Takes::Itself => "",
                };
                format!("`{}`", words.join(" ").replace("{0}", value))
            }
            Answer::Computed(_, meaning) => meaning.to_owned(),
            Answer::Silent(reason) => format!("accepted: {reason}"),
            Answer::Accepted(reason) => format!("accepted without effect: {reason}"),
            Answer::Refused(reason) => format!("refused: {reason}"),
        }
    }

    /// The option with its value.
    fn shown(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        let value = match self.takes {
            Takes::Nothing | Takes::Itself => String::new(),
            Takes::Value(name) => format!(" {name}"),
            Takes::Optional(name, _) => format!(" [={name}]"),
        };
        let when = match self.when {
            When::Always => String::new(),
            When::Beside(others) => format!(" with `{}`", others.join("` or `")),
            When::Alone => " alone".to_owned(),
        };
        names.join(", ") + &value + &when
    }
}

/// The part of the manual's page about these programs, as Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "\n## The other programs of the original MPD\n\nThis part is made from the table of `libs/docs/src/original/table.rs`. `-h` \
         and `--help` print the help. A long option takes its value after `=` or as the next word.\n",
    );
    let mut programs: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in table::ROWS {
        programs.entry(row.program).or_default().push(row);
    }
    for (program, rows) in programs {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n### {program}\n\n| option | here |\n|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| {} | {} |", row.shown(), row.meaning().replace('|', "\\|"));
        }
    }
    text += "\n### Programs without options, and programs with other names\n\n| program | here |\n|---|---|\n";
    for (program, meaning) in table::PROGRAMS {
        let _ = writeln!(text, "| `{program}` | {} |", meaning.replace('|', "\\|"));
    }
    text
}

/// The examples of the table that do not get their answer from the program with this command line. For the tests of the
/// programs.
pub fn wrong_examples<C: Parser>() -> Vec<String> {
    let command = C::command();
    let name = command.get_name().to_owned();
    let mut wrong = Vec::new();
    for row in table::ROWS.iter().filter(|row| row.program == name) {
        for example in row.examples {
            let words = std::iter::once(name.as_str()).chain(example.split_whitespace());
            let translated = translate(&command, words.map(OsString::from).collect());
            let problem = match (row.answer, translated) {
                (Answer::Refused(reason), Err(text)) if text.contains(reason) => continue,
                (Answer::Refused(_), Ok(_)) => "is accepted".to_owned(),
                (Answer::Accepted(reason), Ok((_, remarks)))
                    if !remarks.iter().any(|remark| remark.contains(reason)) =>
                {
                    "has no remark".to_owned()
                }
                (_, Ok((words, _))) => match C::try_parse_from(words) {
                    Ok(_) => continue,
                    // Help ends the parser.
                    Err(e) if !e.use_stderr() => continue,
                    Err(e) => e.to_string(),
                },
                (_, Err(text)) => text,
            };
            wrong.push(format!("{name} {example}: {problem}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn daemon() -> Command {
        Command::new("mpd")
            .arg(Arg::new("name").long("name"))
            .arg(Arg::new("verbose").short('v').action(ArgAction::Count))
    }

    fn translated(line: &str) -> Result<(String, Vec<String>), String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        let (words, remarks) = translate(&daemon(), words)?;
        let words: Vec<String> = words.into_iter().map(|w| w.into_string().unwrap()).collect();
        Ok((words.join(" "), remarks))
    }

    #[test]
    fn options_become_our_words() {
        for (line, ours) in [
            ("mpd -l 5000 -d", "mpd --port 5000 -d"),
            ("mpd --listenport=5000", "mpd --port 5000"),
            ("mpd -hp a_b_77", "mpd --join a_b:77"),
            ("mpd --host=h --port=77", "mpd --host=h -p 77"),
            ("mpd --port=77", "mpd --port=77"),
            ("mpd -h", "mpd --help"),
            ("mpd -h a -p 7", "mpd -h a -p 7"),
            ("mpd --pid", "mpd --pid-file /var/run/mpd.pid"),
            ("mpd --pid=f", "mpd --pid-file f"),
            ("mpd --debug -t", "mpd -v -vv"),
        ] {
            assert_eq!(translated(line), Ok((ours.to_owned(), Vec::new())), "{line}");
        }
    }

    #[test]
    fn values_of_our_options_and_words_after_two_dashes_stay() {
        for line in ["mpd --name -t", "mpd -- -t", "mpd --name=-n"] {
            assert_eq!(translated(line), Ok((line.to_owned(), Vec::new())));
        }
    }

    #[test]
    fn refusals_have_a_reason_and_remarks_come_once() {
        let text = translated("mpd -n").unwrap_err();
        assert!(text.starts_with("-n of the original MPD is not available: "), "{text}");
        assert_eq!(translated("mpd -l"), Err("-l needs a value: PORT".to_owned()));
        let text = translated("mpd -hp nowhere").unwrap_err();
        assert_eq!(text, "-hp nowhere: HOST_PORT is wanted");
        let (words, remarks) = translated("mpd -b -b").unwrap();
        assert_eq!((words.as_str(), remarks.len()), ("mpd", 1));
    }

    #[test]
    fn every_row_has_examples_with_its_option() {
        for row in table::ROWS {
            assert!(!row.examples.is_empty(), "{}", row.shown());
            for name in row.names {
                let is_it = |word: &str| word == *name || word.starts_with(&format!("{name}="));
                let is_used = row.examples.iter().any(|e| e.split_whitespace().any(is_it));
                assert!(row.takes == Takes::Itself || is_used, "{} {name}", row.program);
            }
        }
    }

    #[test]
    fn no_program_has_two_answers_for_a_name() {
        for (at, row) in table::ROWS.iter().enumerate() {
            for other in &table::ROWS[at + 1..] {
                let same = row.program == other.program
                    && row.names.iter().any(|name| other.names.contains(name));
                let conditional = !matches!(row.when, When::Always);
                assert!(!same || conditional, "{} {:?}", row.program, row.names);
            }
        }
    }
}
