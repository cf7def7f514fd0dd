//! The commands of `mpdcon`: their table, aliases, and the way from a line to what is to be done.

use std::collections::BTreeMap;

/// Most aliases that lead from one to the next, and most aliases at all.
const MAX_ALIASES: usize = 256;
/// Most bytes of a line.
pub(super) const MAX_LINE: usize = 64 << 10;

/// The words that a command takes, for the completion and for the command lines of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Those of its program.
    Any,
    /// Names of hosts, one list for the option `--hosts`.
    HostList,
    /// Names of members, one program run for each.
    EachMember,
    /// Names of members.
    Members,
    Jobs,
}

/// A command that is a program.
#[derive(Debug)]
pub(super) struct Verb {
    pub(super) name: &'static str,
    /// The program and its first words.
    pub(super) program: &'static [&'static str],
    pub(super) words: Words,
    about: &'static str,
}

const fn verb(
    name: &'static str,
    program: &'static [&'static str],
    words: Words,
    about: &'static str,
) -> Verb {
    Verb { name, program, words, about }
}

/// Commands that are programs.
pub(super) const VERBS: [Verb; 28] = [
    verb("hosts", &["mpdtrace"], Words::Any, "list the hosts of the ring"),
    verb("conf", &["mpdtrace", "-l"], Words::Any, "list them with addresses and slots"),
    verb("trace", &["mpdtrace", "--trace-hops"], Words::Any, "ask every host, and show the steps"),
    verb("add", &["mpdboot", "--add"], Words::HostList, "add HOST... to the ring"),
    verb("delete", &["mpdexit"], Words::EachMember, "let HOST... leave the ring"),
    verb("drain", &["mpddrain"], Words::Members, "give HOST no new processes"),
    verb("halt", &["mpdallexit"], Words::Any, "end all daemons of the ring"),
    verb("ping", &["mpdping"], Words::Members, "test whether hosts answer"),
    verb("mstat", &["mpdping"], Words::EachMember, "test whether each HOST... answers"),
    verb(
        "id",
        &["mpd", "--status"],
        Words::Any,
        "print the name of this host's daemon and its jobs",
    ),
    verb("jobs", &["mpdlistjobs"], Words::Jobs, "list the jobs"),
    verb("ps", &["mpdlistjobs", "--tree"], Words::Jobs, "list the jobs with their processes"),
    verb("top", &["mpdtop"], Words::Any, "show the use of CPUs and memory"),
    verb("state", &["mpdstate"], Words::Jobs, "print the state of the daemon or of JOB"),
    verb("spawn", &["mpirun"], Words::Any, "run a program, with the options of mpirun"),
    verb("grow", &["mpdgrow"], Words::Jobs, "start further processes of JOB, or retire some"),
    verb("farm", &["mpdfarm"], Words::Any, "run many commands"),
    verb("sig", &["mpdsigjob"], Words::Jobs, "send SIGNAL to JOB"),
    verb("label", &["mpdlabels"], Words::Jobs, "label the output of JOB, or not"),
    verb("kill", &["mpdkilljob"], Words::Jobs, "end JOB"),
    verb("alloc", &["mpdalloc"], Words::Any, "hold slots for a shell or a command"),
    verb("queue", &["mpdqueue"], Words::Any, "list allocations and requests that wait"),
    verb("cancel", &["mpdcancel"], Words::Any, "end an allocation"),
    verb("slots", &["mpdslots"], Words::Any, "list the slots of each host"),
    verb("names", &["mpdnames"], Words::Any, "list published names"),
    verb("watch", &["mpdwatch"], Words::Any, "print events of the ring until ^C"),
    verb("check", &["mpdcheck"], Words::Any, "find what prevents a ring"),
    verb("clean", &["mpdcleanup"], Words::Any, "remove what dead daemons left"),
];

/// Commands of the console itself.
const OWN: [(&str, &str); 8] = [
    ("alias", "let NAME stand for WORDS...; without words: list the aliases"),
    ("unalias", "forget the alias NAME"),
    ("reset", "end all jobs of the ring"),
    ("tickle", "print what replaces the masks of PVM's daemon"),
    ("version", "print the version"),
    ("help", "print this list; 'help COMMAND' prints the options of its program"),
    ("quit", "end the console"),
    ("exit", "end the console"),
];

/// The answer to a command that only PVM's daemon has.
const TICKLE: &str =
    "daemons have no masks: 'state' prints what a daemon knows, 'mpd --verbose' lets it log more\n";

/// The list of commands for people.
pub(super) fn help() -> String {
    let mut text = "Commands:\n".to_owned();
    let of_programs = VERBS.iter().map(|verb| (verb.name, verb.program.join(" "), verb.about));
    let own = OWN.iter().map(|(name, about)| (*name, String::new(), *about));
    for (name, program, about) in of_programs.chain(own) {
        text += format!("  {name:<8} {program:<21} {about}").trim_end();
        text.push('\n');
    }
    text
}

/// The names of all commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|verb| verb.name).chain(OWN.iter().map(|(name, _)| *name))
}

/// The command that is a program of this name.
pub(super) fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Nothing,
    /// Run these command lines, one after the other until one fails. The first word is a program of the suite.
    Run {
        lines: Vec<Vec<String>>,
        background: bool,
    },
    /// Run this text in a shell.
    Shell(String),
    Print(String),
    /// End all jobs of the ring.
    Reset,
    /// Read the aliases again: they have changed.
    Changed,
    Quit,
}

/// The aliases, and the way from lines to orders.
#[derive(Debug, Default)]
pub(super) struct Lines {
    aliases: BTreeMap<String, Vec<String>>,
}

/// A line that is not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidLine {
    #[error("the line has more than {MAX_LINE} bytes")]
    Long,
    #[error("a quotation mark is not closed")]
    Open,
    #[error("unknown command '{0}'; 'help' lists the commands")]
    Unknown(String),
    #[error("the alias '{0}' leads to itself")]
    Circle(String),
    #[error("'{0}' is a command, and cannot be an alias")]
    Taken(String),
    #[error("there is no alias '{0}'")]
    NoAlias(String),
    #[error("there are {MAX_ALIASES} aliases, and there is no room for another")]
    Full,
    #[error("'{0}' needs {1}")]
    Needs(&'static str, &'static str),
}

impl Lines {
    /// The names of the aliases.
    pub(super) fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.keys().map(String::as_str)
    }

    /// What a line asks for. `alias` and `unalias` are performed.
    ///
    /// # Errors
    /// [`InvalidLine`].
    pub(super) fn understand(&mut self, line: &str) -> Result<Order, InvalidLine> {
        if line.len() > MAX_LINE {
            return Err(InvalidLine::Long);
        }
        if let Some(text) = line.trim_start().strip_prefix('!') {
            return Ok(Order::Shell(text.trim().to_owned()));
        }
        let words = shlex::split(line).ok_or(InvalidLine::Open)?;
        let mut words = self.expand(words)?;
        if words.is_empty() {
            return Ok(Order::Nothing);
        }
        let background = words.len() > 1 && words.last().is_some_and(|word| word == "&");
        if background {
            words.pop();
        }
        let first = words.remove(0);
        match find(&first) {
            Some(verb) => Ok(Order::Run { lines: command_lines(verb, words)?, background }),
            None => self.own(&first, words),
        }
    }

    /// Puts the words of aliases in the place of their names.
    fn expand(&self, mut words: Vec<String>) -> Result<Vec<String>, InvalidLine> {
        let mut seen = Vec::new();
        while let Some(meant) = words.first().and_then(|first| self.aliases.get(first)) {
            let name = words.remove(0);
            if seen.contains(&name) {
                return Err(InvalidLine::Circle(name));
            }
            words.splice(0..0, meant.iter().cloned());
            seen.push(name);
        }
        Ok(words)
    }

    fn own(&mut self, name: &str, mut words: Vec<String>) -> Result<Order, InvalidLine> {
        Ok(match name {
            "alias" if words.is_empty() => Order::Print(self.list()),
            "alias" => {
                let name = words.remove(0);
                self.define(name, words)?
            }
            "unalias" => {
                let name = words.pop().ok_or(InvalidLine::Needs("unalias", "a name"))?;
                self.aliases.remove(&name).ok_or(InvalidLine::NoAlias(name))?;
                Order::Changed
            }
            "reset" if words.is_empty() => Order::Reset,
            "reset" => {
                return Err(InvalidLine::Needs("reset", "no words; 'kill JOB' ends one job"));
            }
            "tickle" => Order::Print(TICKLE.to_owned()),
            "version" => {
                Order::Print(concat!("mpdcon ", env!("CARGO_PKG_VERSION"), "\n").to_owned())
            }
            "help" => match words.pop() {
                None => Order::Print(help()),
                Some(name) => {
                    let verb = find(&name).ok_or(InvalidLine::Unknown(name))?;
                    let line = vec![verb.program[0].to_owned(), "--help".to_owned()];
                    Order::Run { lines: vec![line], background: false }
                }
            },
            "quit" | "exit" => Order::Quit,
            _ => return Err(InvalidLine::Unknown(name.to_owned())),
        })
    }

    fn list(&self) -> String {
        let line = |(name, words): (&String, &Vec<String>)| {
            let words = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
            format!("alias {name} {words}\n")
        };
        self.aliases.iter().map(line).collect()
    }

    fn define(&mut self, name: String, words: Vec<String>) -> Result<Order, InvalidLine> {
        if words.is_empty() {
            return Err(InvalidLine::Needs("alias", "a name and words"));
        }
        if names().any(|taken| taken == name) {
            return Err(InvalidLine::Taken(name));
        }
        if self.aliases.len() >= MAX_ALIASES && !self.aliases.contains_key(&name) {
            return Err(InvalidLine::Full);
        }
        self.aliases.insert(name, words);
        Ok(Order::Changed)
    }
}

/// The command lines of a verb with these words.
fn command_lines(verb: &Verb, words: Vec<String>) -> Result<Vec<Vec<String>>, InvalidLine> {
    let program = || verb.program.iter().map(ToString::to_string);
    let (options, names): (Vec<String>, Vec<String>) = match verb.words {
        // The option of these two has the names, and the others have no values.
        Words::HostList | Words::EachMember => {
            words.into_iter().partition(|word| word.starts_with('-'))
        }
        _ => return Ok(vec![program().chain(words).collect()]),
    };
    if names.is_empty() && options.is_empty() {
        return Err(InvalidLine::Needs(verb.name, "a host"));
    }
    let with = |rest: Vec<String>| program().chain(options.iter().cloned()).chain(rest).collect();
    Ok(match verb.words {
        Words::HostList if !names.is_empty() => {
            vec![with(vec!["--hosts".to_owned(), names.join(",")])]
        }
        Words::EachMember if !names.is_empty() => {
            names.into_iter().map(|name| with(vec![name])).collect()
        }
        _ => vec![with(Vec::new())],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Vec<String> {
        match Lines::default().understand(line) {
            Ok(Order::Run { lines, background: false }) => {
                lines.iter().map(|line| line.join(" ")).collect()
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_command_is_the_program_with_the_words_of_the_line() {
        assert_eq!(run("hosts"), ["mpdtrace"]);
        assert_eq!(run("  conf --json # all"), ["mpdtrace -l --json"]);
        assert_eq!(run("spawn -n 2 'a b' \"c d\""), ["mpirun -n 2 a b c d"]);
        assert_eq!(run("add h1 -v h2"), ["mpdboot --add -v --hosts h1,h2"]);
        assert_eq!(run("delete h1 h2"), ["mpdexit h1", "mpdexit h2"]);
        assert_eq!(run("delete --help"), ["mpdexit --help"]);
        assert_eq!(run("help sig"), ["mpdsigjob --help"]);
    }

    #[test]
    fn a_command_with_an_ampersand_runs_in_the_background() {
        let order = Lines::default().understand("spawn x &").unwrap();
        let lines = vec![vec!["mpirun".to_owned(), "x".to_owned()]];
        assert_eq!(order, Order::Run { lines, background: true });
    }

    #[test]
    fn lines_without_words_do_nothing_and_wrong_lines_are_refused() {
        let mut lines = Lines::default();
        for nothing in ["", "   ", "# only a comment"] {
            assert_eq!(lines.understand(nothing), Ok(Order::Nothing), "{nothing}");
        }
        let refused = |line: &str| Lines::default().understand(line).unwrap_err().to_string();
        assert_eq!(refused("frob x"), "unknown command 'frob'; 'help' lists the commands");
        assert_eq!(refused("spawn 'x"), "a quotation mark is not closed");
        assert_eq!(refused("add"), "'add' needs a host");
        assert_eq!(refused("help frob"), "unknown command 'frob'; 'help' lists the commands");
        assert_eq!(refused(&"x".repeat(MAX_LINE + 1)), "the line has more than 65536 bytes");
    }

    #[test]
    fn an_alias_stands_for_its_words() {
        let mut lines = Lines::default();
        lines.understand("alias two spawn -n 2").unwrap();
        lines.understand("alias hi two 'a b'").unwrap();
        let words = ["mpirun", "-n", "2", "a b", "c"].map(str::to_owned).to_vec();
        let expected = Order::Run { lines: vec![words], background: false };
        assert_eq!(lines.understand("hi c"), Ok(expected));
        let list = "alias hi two 'a b'\nalias two spawn -n 2\n".to_owned();
        assert_eq!(lines.understand("alias"), Ok(Order::Print(list)));
        lines.understand("unalias two").unwrap();
        assert!(lines.understand("hi").is_err());
        assert_eq!(lines.understand("unalias two"), Err(InvalidLine::NoAlias("two".to_owned())));
    }

    #[test]
    fn aliases_are_bounded_and_replace_no_command() {
        let mut lines = Lines::default();
        lines.understand("alias a b").unwrap();
        lines.understand("alias b a").unwrap();
        assert_eq!(lines.understand("a"), Err(InvalidLine::Circle("a".to_owned())));
        assert_eq!(lines.understand("alias kill x"), Err(InvalidLine::Taken("kill".to_owned())));
        for number in 2..MAX_ALIASES {
            lines.understand(&format!("alias x{number} hosts")).unwrap();
        }
        assert_eq!(lines.understand("alias y hosts"), Err(InvalidLine::Full));
        assert_eq!(lines.understand("alias x9 conf"), Ok(Order::Changed));
    }

    #[test]
    fn every_command_of_the_console_of_pvm_is_understood() {
        for name in [
            "add", "alias", "conf", "delete", "halt", "help", "id", "jobs", "kill", "mstat", "ps",
            "quit", "reset", "sig", "spawn", "tickle", "trace", "unalias", "version",
        ] {
            assert!(names().any(|known| known == name), "{name}");
        }
        let mut lines = Lines::default();
        assert_eq!(lines.understand("reset"), Ok(Order::Reset));
        assert!(lines.understand("reset 7@h1").unwrap_err().to_string().contains("'kill JOB'"));
        let asked =
            [["mpdping", "h1"], ["mpdping", "h2"]].map(|line| line.map(str::to_owned).to_vec());
        let expected = Order::Run { lines: asked.to_vec(), background: false };
        assert_eq!(lines.understand("mstat h1 h2"), Ok(expected));
    }

    #[test]
    fn the_list_of_commands_has_each_once() {
        let mut all: Vec<&str> = names().collect();
        assert_eq!(help().lines().count(), all.len() + 1);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), VERBS.len() + OWN.len());
    }
}
