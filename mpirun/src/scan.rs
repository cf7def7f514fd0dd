//! Splits arguments into sections, each with options and a program. It uses names and numbers of
//! values from the table, not their meanings. A section ends at an argument `:`. Its options end at
//! the program, so the program's own arguments are not parsed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::options::{self, Opt, Reach};
use crate::suggest;
use crate::usage::Usage;

/// An option with its values, as the user wrote it.
#[derive(Debug)]
pub struct Setting {
    /// The option's entry in the table.
    pub opt: &'static Opt,
    /// The option as written, with its dashes.
    written: String,
    /// Its values.
    pub values: Vec<OsString>,
}

impl Setting {
    /// The only value.
    pub fn value(&self) -> &OsStr {
        self.values.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// The only value, as text.
    pub fn text(&self) -> Result<&str, Usage> {
        self.value().to_str().ok_or_else(|| self.error("the value is not UTF-8 text"))
    }

    /// The only value, which must not be empty.
    pub fn nonempty(&self) -> Result<&OsStr, Usage> {
        match self.value() {
            value if value.is_empty() => Err(self.error("the value is empty")),
            value => Ok(value),
        }
    }

    /// The error for a wrong value.
    pub fn error(&self, problem: impl fmt::Display) -> Usage {
        Usage::syntax(format!("{self}: {problem}"))
    }

    /// The option as written, without its values.
    pub fn name(&self) -> &str {
        &self.written
    }
}

impl fmt::Display for Setting {
    /// The option with its values, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)?;
        for value in &self.values {
            match value.to_string_lossy() {
                plain
                    if plain.is_empty() || plain.contains(|c: char| c.is_control() || c == ' ') =>
                {
                    write!(f, " {plain:?}")?;
                }
                plain => write!(f, " {plain}")?,
            }
        }
        Ok(())
    }
}

/// The arguments between two colons.
#[derive(Debug, Default)]
pub struct Section {
    /// Its options.
    pub settings: Vec<Setting>,
    /// Its program with the program's arguments; `None` if the section has only options.
    pub program: Option<Vec<OsString>>,
}

impl Section {
    /// Whether there is no argument between the colons.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.program.is_none()
    }
}

/// All sections of `words`, at least one. Scanning stops after an option that requests something
/// other than a job, so that help is printed even for a wrong command line.
///
/// # Errors
/// An unknown option, an option without its value, or a value for an option that takes none.
pub fn sections(words: &[OsString]) -> Result<Vec<Section>, Usage> {
    let mut sections = Vec::new();
    for words in words.split(|w| w == ":") {
        let section = section(words)?;
        let last = section.settings.last().is_some_and(|s| s.opt.reach == Reach::Instead);
        sections.push(section);
        if last {
            break;
        }
    }
    Ok(sections)
}

/// Parses one section.
fn section(words: &[OsString]) -> Result<Section, Usage> {
    let mut section = Section::default();
    let mut rest = words;
    while let [word, after @ ..] = rest {
        if word == "--" {
            rest = after;
            break;
        }
        if !word.as_bytes().starts_with(b"-") {
            break;
        }
        let (setting, after) = setting(word, after)?;
        let stop = setting.opt.reach == Reach::Instead;
        section.settings.push(setting);
        if stop {
            return Ok(section);
        }
        rest = after;
    }
    if let [program, ..] = rest {
        if program.is_empty() {
            return Err(Usage::syntax("the program's name is empty"));
        }
        section.program = Some(rest.to_vec());
    }
    Ok(section)
}

/// The option that `word` names, with its values, and the remaining arguments.
fn setting<'a>(word: &OsStr, after: &'a [OsString]) -> Result<(Setting, &'a [OsString]), Usage> {
    let bytes = word.as_bytes();
    let dashes = if bytes.starts_with(b"--") { 2 } else { 1 };
    let (name, glued) = match bytes[dashes..].iter().position(|&b| b == b'=') {
        Some(at) => (&bytes[..dashes + at], Some(&bytes[dashes + at + 1..])),
        None => (bytes, None),
    };
    let written = String::from_utf8_lossy(name).into_owned();
    let Some(opt) = options::find(&name[dashes..]) else {
        return Err(unknown(&written, &written[dashes..]));
    };
    if let Reach::Unavailable(needs) = opt.reach {
        let text = format!("{written} needs {needs}, which this version does not have");
        return Err(Usage::new(text));
    }
    let (values, after) = match (glued, opt.values) {
        (None, expected) => {
            let single = opt.takes_assignment()
                && after.first().is_some_and(|w| w.as_bytes().contains(&b'='));
            let count = if single { 1 } else { expected.len() };
            if after.len() < count {
                let missing = expected[after.len()..].join(" ");
                return Err(Usage::syntax(format!("{written} needs a value: {missing}")));
            }
            let (values, after) = after.split_at(count);
            (values.to_vec(), after)
        }
        (Some(value), [_]) => (vec![OsString::from_vec(value.to_vec())], after),
        (Some(_), []) => return Err(Usage::syntax(format!("{written} takes no value"))),
        (Some(_), [..]) => {
            let text = format!("the values of {written} are separate arguments, without '='");
            return Err(Usage::syntax(text));
        }
    };
    Ok((Setting { opt, written, values }, after))
}

/// The error for a name that is not in the table.
fn unknown(written: &str, name: &str) -> Usage {
    Usage::syntax(match suggest::nearest(name) {
        Some(known) => format!("unknown option {written}; did you mean -{known}?"),
        None => format!("unknown option {written}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').filter(|w| !w.is_empty()).map(OsString::from).collect()
    }

    fn shown(line: &str) -> Vec<(String, String)> {
        let text = |s: &Section| {
            let settings: Vec<String> = s.settings.iter().map(Setting::to_string).collect();
            let program = s.program.clone().unwrap_or_default();
            (settings.join(","), program.join(OsStr::new(" ")).into_string().unwrap())
        };
        sections(&words(line)).unwrap().iter().map(text).collect()
    }

    fn one(settings: &str, program: &str) -> Vec<(String, String)> {
        vec![(settings.into(), program.into())]
    }

    fn problem(line: &str) -> String {
        sections(&words(line)).unwrap_err().to_string()
    }

    #[test]
    fn options_end_at_the_program() {
        assert_eq!(shown("-n 2 -l prog -n 3 -l"), one("-n 2,-l", "prog -n 3 -l"));
    }

    #[test]
    fn two_dashes_end_the_options() {
        assert_eq!(shown("-l -- -prog -x"), one("-l", "-prog -x"));
        assert_eq!(shown("-l prog -- x"), one("-l", "prog -- x"));
    }

    #[test]
    fn one_dash_and_two_are_the_same() {
        assert_eq!(shown("--np 2 --l -wdir /x a"), one("--np 2,--l,-wdir /x", "a"));
    }

    #[test]
    fn a_single_value_may_follow_an_equals_sign() {
        assert_eq!(
            shown("-on-failure=continue --timeout=3 -n=4 a"),
            one("-on-failure continue,--timeout 3,-n 4", "a")
        );
        assert_eq!(shown("-x=A=B a"), one("-x A=B", "a"));
    }

    #[test]
    fn a_colon_of_its_own_separates_sections() {
        assert_eq!(
            shown("-l : -n 2 a x:y : b"),
            [("-l", ""), ("-n 2", "a x:y"), ("", "b")].map(|(s, p)| (s.into(), p.into()))
        );
    }

    #[test]
    fn a_variable_is_two_arguments_or_one_with_an_equals_sign() {
        assert_eq!(shown("-env A 1 -genv B=2 a"), one("-env A 1,-genv B=2", "a"));
        assert_eq!(shown("-env A x=y a"), one("-env A x=y", "a"));
    }

    #[test]
    fn values_may_begin_with_a_dash() {
        assert_eq!(shown("-env A -l -a -x prog"), one("-env A -l,-a -x", "prog"));
    }

    #[test]
    fn an_unknown_option_names_the_nearest_known_one() {
        assert_eq!(
            problem("-nq 4 a"),
            "mpirun: unknown option -nq; did you mean -np? (see mpirun --help)"
        );
        assert_eq!(problem("-zzz=3"), "mpirun: unknown option -zzz (see mpirun --help)");
        assert_eq!(problem("- a"), "mpirun: unknown option - (see mpirun --help)");
        assert!(problem("--\u{1b}[2J").contains("unknown option --\\u{1b}[2J"));
    }

    #[test]
    fn a_missing_value_is_named() {
        for (line, text) in [
            ("-n", "-n needs a value: N"),
            ("-l -wdir : a", "-wdir needs a value: DIR"),
            ("-env A", "-env needs a value: VALUE"),
            ("-genv", "-genv needs a value: NAME VALUE"),
        ] {
            assert_eq!(problem(line), format!("mpirun: {text} (see mpirun --help)"));
        }
    }

    #[test]
    fn a_value_too_many_is_an_error() {
        assert!(problem("-l=3 a").contains("-l takes no value"));
        assert!(problem("-genv=A a").contains("the values of -genv are separate arguments"));
    }

    #[test]
    fn options_of_later_versions_are_refused_by_name() {
        assert_eq!(
            problem("-tv prog"),
            "mpirun: -tv needs a TotalView that mpirun starts (write totalview mpirun -a ... \
             instead), which this version does not have"
        );
        assert!(problem("--iface a").starts_with("mpirun: --iface needs a network chosen"));
    }

    #[test]
    fn an_empty_program_is_an_error() {
        let error = sections(&[OsString::from("-l"), OsString::new()]).unwrap_err();
        assert!(error.to_string().contains("the program's name is empty"));
    }

    #[test]
    fn arguments_after_a_request_for_help_are_ignored() {
        assert_eq!(shown("-l -h -nonsense : -nonsense"), one("-l,-h", ""));
    }

    #[test]
    fn arguments_need_not_be_text() {
        let program = OsString::from_vec(vec![b'p', 0xff]);
        let argument = OsString::from_vec(vec![0xfe]);
        let all = [program, argument];
        assert_eq!(sections(&all).unwrap()[0].program.as_deref(), Some(&all[..]));
        let odd = OsString::from_vec(vec![b'-', 0xff]);
        assert!(sections(&[odd]).unwrap_err().to_string().contains("unknown option -\u{fffd}"));
    }
}
