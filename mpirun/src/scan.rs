//! Splits arguments into sections, each with options and a program. It uses names and numbers of
//! values from the table, not their meanings. A section ends at an argument `:`. Its options end at
//! the program, so the program's own arguments are not parsed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use mpd_placement::hosts::is_host_name;
use mpd_wire::RankSet;
use mpd_wire::job::Binding;

use crate::chosen::picks;
use crate::dialect::{self, Dialect, Language, Layout, Translated};
use crate::options::{self, Key, Opt, Reach};
use crate::suggest;
use crate::usage::Usage;

/// An option with its values, as the user wrote it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The option's entry in the table.
    pub opt: &'static Opt,
    /// The option as written, with its dashes.
    written: String,
    pub values: Vec<OsString>,
    /// The text that stands for it: a variable, or an option of another launcher.
    instead: Option<String>,
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
        match &self.instead {
            Some(text) => Usage::new(format!("{text}: {problem}")),
            None => Usage::syntax(format!("{self}: {problem}")),
        }
    }

    /// The option as written, without its values.
    pub fn name(&self) -> &str {
        &self.written
    }
}

impl fmt::Display for Setting {
    /// The option with its values, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.instead {
            return f.write_str(text);
        }
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
    /// Lines about options of other launchers without effect.
    pub remarks: Vec<String>,
    /// Options of other launchers that become ours when the whole command line is known.
    pub(crate) layout: Layout,
    /// The launcher in whose words the section is written; `None`: this one.
    pub(crate) dialect: Option<Dialect>,
    /// Its program with the program's arguments; `None` if the section has only options.
    pub program: Option<Vec<OsString>>,
}

impl Section {
    /// The same options, which messages call `text`.
    pub(crate) fn said_by(mut self, text: &str) -> Self {
        for setting in &mut self.settings {
            setting.instead = Some(text.to_owned());
        }
        self
    }

    /// Whether there is no argument between the colons.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.program.is_none()
    }
}

/// All sections of `words`, at least one, with our own options only.
///
/// # Errors
/// An unknown option, an option without its value, or a value for an option that takes none.
pub fn sections(words: &[OsString]) -> Result<Vec<Section>, Usage> {
    Scanner::default().sections(words)
}

/// All sections of `words`, at least one. Scanning stops after an option that requests something
/// other than a job, so that help is printed even for a wrong command line.
///
/// Without a dialect, the words are read as our own options first. If other launchers have some of them, and we do
/// not, the words are read again in the dialect of those options.
///
/// # Errors
/// An unknown option, an option without its value, a value for an option that takes none, or options of different
/// launchers.
pub(crate) fn sections_in(
    words: &[OsString],
    language: Language<'_>,
) -> Result<Vec<Section>, Usage> {
    read(words, language, false)
}

/// The same for a line of a file of programs. There, a `:` is an argument of the program, as in the MPI standard, unless an
/// option of ours follows it, or the launcher means another program by it.
///
/// # Errors
/// As for [`sections_in`].
pub(crate) fn line_in(words: &[OsString], language: Language<'_>) -> Result<Vec<Section>, Usage> {
    read(words, language, true)
}

fn read(words: &[OsString], language: Language<'_>, in_file: bool) -> Result<Vec<Section>, Usage> {
    let mut scanner = Scanner { language: Some(language), in_file, ..Scanner::default() };
    let found = scanner.sections(words);
    let doubt = scanner.doubt.take();
    let found = doubt.map_or(found, Err);
    if scanner.foreign.is_empty() || scanner.is_chosen || language.dialect.is_some() {
        return found;
    }
    let common = scanner.foreign.iter().fold(u16::MAX, |bits, (_, of)| bits & of);
    if common != 0 && !dialect::are_alike(common) {
        // Several launchers have these options. If they differ in an answer, that is an error already.
        return found;
    }
    let Some(dialect) = Dialect::first_of(common) else {
        let named = |(name, of): &(String, u16)| format!("{name} ({})", dialect::dialects(*of));
        let all: Vec<String> = scanner.foreign.iter().map(named).collect();
        let text = format!("options of different launchers: {}", all.join(", "));
        return Err(Usage::syntax(text));
    };
    let language = Language { dialect: Some(dialect), ..language };
    Scanner { language: Some(language), in_file, ..Scanner::default() }.sections(words)
}

/// The options of a section without a program.
///
/// # Errors
/// As for [`sections`], and for a word that is no option.
pub fn options(words: &[OsString]) -> Result<Section, Usage> {
    let section = Scanner::default().section(words)?;
    match section.program.as_ref().and_then(|words| words.first()) {
        Some(word) => Err(Usage::syntax(format!("{:?} is not an option", word.to_string_lossy()))),
        None => Ok(section),
    }
}

/// Parses sections.
#[derive(Default)]
struct Scanner<'a> {
    /// How foreign options are read; `None`: they are errors.
    language: Option<Language<'a>>,
    /// The foreign options so far, with the dialects that have them.
    foreign: Vec<(String, u16)>,
    /// Whether the words are a line of a file.
    in_file: bool,
    /// Whether `-dialect` was given.
    is_chosen: bool,
    /// An option with two meanings, which the dialect will decide.
    doubt: Option<Usage>,
}

impl Scanner<'_> {
    fn sections(&mut self, words: &[OsString]) -> Result<Vec<Section>, Usage> {
        let mut sections = Vec::new();
        let mut rest = Some(words);
        while let Some(words) = rest {
            let end = (0..words.len()).find(|&at| self.ends_section(&words[at..]));
            rest = end.map(|at| &words[at + 1..]);
            let end = end.unwrap_or(words.len());
            let mut section = self.section(&words[..end])?;
            if self.in_file
                && let Some([colon, after @ ..]) = section.program.as_deref()
                && colon == ":"
            {
                // There are only options before it.
                rest = Some(&words[end - after.len()..]);
                section.program = None;
            }
            let last = section.settings.last().is_some_and(|s| s.opt.reach == Reach::Instead);
            sections.push(section);
            if last {
                break;
            }
        }
        Ok(sections)
    }

    /// Whether a section ends before these words.
    fn ends_section(&self, words: &[OsString]) -> bool {
        let [colon, after @ ..] = words else { return false };
        if colon != ":" {
            return false;
        }
        let begins_section = |word: &OsString| {
            let bytes = word.as_bytes();
            bytes.starts_with(b"-") && options::find(parts(word).1).is_some()
        };
        match self.dialect() {
            _ if !self.in_file => true,
            Some(Dialect::OpenMpi4) => false,
            Some(Dialect::Hydra | Dialect::Intel | Dialect::OpenMpi5) => true,
            _ => after.first().is_some_and(begins_section),
        }
    }

    /// Parses one section.
    fn section(&mut self, words: &[OsString]) -> Result<Section, Usage> {
        let mut section = Section::default();
        let mut rest = words;
        while let [word, after @ ..] = rest {
            if word == "--" {
                rest = after;
                break;
            }
            rest = if word.as_bytes().starts_with(b"-") {
                self.option(&mut section, word, after)?
            } else if self.is_variable(word) {
                let set = setting(OsStr::new("-env"), &rest[..1])?.0;
                section.settings.push(set);
                after
            } else if let Some(rest) = self.hosts(&mut section, rest)? {
                rest
            } else {
                break;
            };
            if section.settings.last().is_some_and(|s| s.opt.reach == Reach::Instead) {
                return Ok(section);
            }
        }
        if self.dialect() == Some(Dialect::Pals) {
            prefer_cpu_bind(&mut section.settings);
        }
        section.dialect = self.dialect();
        if let [program, ..] = rest {
            if program.is_empty() {
                return Err(Usage::syntax("the program's name is empty"));
            }
            section.program = Some(rest.to_vec());
        }
        Ok(section)
    }

    fn dialect(&self) -> Option<Dialect> {
        self.language.and_then(|language| language.dialect)
    }

    /// Whether a word before the program is a variable, as for MVAPICH.
    fn is_variable(&self, word: &OsStr) -> bool {
        let bytes = word.as_bytes();
        self.dialect() == Some(Dialect::Mvapich)
            && !bytes.starts_with(b"=")
            && bytes.contains(&b'=')
    }

    /// Adds hosts that precede the program without an option, as for MVAPICH and LAM. The result is the words after
    /// them; `None` if there are none.
    fn hosts<'a>(
        &self,
        section: &mut Section,
        words: &'a [OsString],
    ) -> Result<Option<&'a [OsString]>, Usage> {
        let ([word, next, ..], Some(_)) = (words, self.language) else { return Ok(None) };
        match self.dialect() {
            Some(Dialect::Mvapich) => match mvapich_hosts(section, words) {
                Some((hosts, rest)) => {
                    section.settings.push(setting(OsStr::new("-hosts"), &[hosts.into()])?.0);
                    Ok(Some(rest))
                }
                None => Ok(None),
            },
            Some(Dialect::Lam) | None => {
                let is_lam = self.dialect().is_some();
                let is_place =
                    |word: &&str| is_lam || word.len() == 1 && self.is_place(section, word);
                let picked = word.to_str().filter(|w| picks(w).is_some() && is_place(w));
                let Some(picked) = picked else { return Ok(None) };
                if !is_lam {
                    section.remarks.push(format!(
                        "{picked} is LAM's notation for -pick {picked}; the program is {}",
                        next.to_string_lossy()
                    ));
                }
                let known = section.settings.iter().position(|it| it.opt.key == Key::Pick);
                let before = known.map(|at| section.settings.remove(at));
                let before =
                    before.iter().flat_map(|it| [it.value().to_string_lossy(), " ".into()]);
                let value: String = before.chain([picked.into()]).collect();
                section.settings.push(setting(OsStr::new("-pick"), &[value.into()])?.0);
                Ok(Some(&words[1..]))
            }
            Some(_) => Ok(None),
        }
    }

    /// Whether `N` or `C` can be LAM's notation: it is no program, and no number of processes is given.
    fn is_place(&self, section: &Section, word: &str) -> bool {
        let has = |key| section.settings.iter().any(|setting| setting.opt.key == key);
        let is_program = self.language.is_some_and(|language| language.caller.has_program(word));
        !is_program && !has(Key::Processes) && !has(Key::Path)
    }

    /// Adds one option, which may be foreign. The result is the words after it.
    fn option<'a>(
        &mut self,
        section: &mut Section,
        word: &OsStr,
        after: &'a [OsString],
    ) -> Result<&'a [OsString], Usage> {
        let (written, name, glued) = parts(word);
        if let Some((option, value)) = self.short(word) {
            let words: Vec<OsString> = value.into_iter().chain(after.iter().cloned()).collect();
            let rest = self.option(section, &option, &words)?.len();
            return Ok(&after[after.len() - rest..]);
        }
        let own = options::find(name);
        let is_foreign = match own {
            None => true,
            Some(opt) => self.dialect().is_some() || !has_our_grammar(opt, glued, after),
        };
        if let Some(rest) = match is_foreign {
            true => self.foreign(section, word, after)?,
            false => None,
        } {
            return Ok(rest);
        }
        if own.is_none() {
            return Err(match (self.dialect(), dialect::having(name)) {
                (None, _) | (_, 0) => unknown(&written, name),
                (Some(chosen), of) => Usage::syntax(format!(
                    "{written} is an option of {}, not of {}",
                    dialect::dialects(of),
                    chosen.title()
                )),
            });
        }
        if self.language.is_some()
            && let Some(error) = dialect::ambiguous(name, after)
        {
            self.doubt.get_or_insert(error);
            return Ok(&after[1..]);
        }
        let (setting, rest) = setting(word, after)?;
        if let (Key::Dialect, Some(language)) = (setting.opt.key, &mut self.language) {
            let known = || setting.error("it must be one of the names in -help-all");
            language.dialect = Dialect::of_name(setting.text()?).ok_or_else(known)?;
            self.is_chosen = true;
        }
        section.settings.push(setting);
        Ok(rest)
    }

    /// The parts of an option of `srun`: `-n8` has an option and a value, `-K1` is `-K=1`.
    fn short(&self, word: &OsStr) -> Option<(OsString, Option<OsString>)> {
        let bytes = word.as_bytes();
        let [b'-', letter, value @ ..] = bytes else { return None };
        let is_srun = self.dialect() == Some(Dialect::Srun);
        if !is_srun || !letter.is_ascii_alphabetic() || value.is_empty() || value[0] == b'=' {
            return None;
        }
        let (_, name, _) = parts(word);
        if options::find(name).is_some() || dialect::having(name) & Dialect::Srun.bit() != 0 {
            return None;
        }
        let letter = str::from_utf8(&bytes[1..2]).ok()?;
        let is_own = options::find(letter.as_bytes()).is_some_and(|opt| opt.values.len() == 1);
        let is_optional = match dialect::letter_of_srun(letter) {
            Some(is_optional) => is_optional,
            None if is_own => false,
            None => return None,
        };
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some(match is_optional {
            true => (text(&[&bytes[..2], b"=", value].concat()), None),
            false => (text(&bytes[..2]), Some(text(value))),
        })
    }

    /// Adds an option of another launcher; `None` if no launcher has it.
    fn foreign<'a>(
        &mut self,
        section: &mut Section,
        word: &OsStr,
        after: &'a [OsString],
    ) -> Result<Option<&'a [OsString]>, Usage> {
        let Some(mut language) = self.language else { return Ok(None) };
        let (written, name, glued) = parts(word);
        let of = match options::find(name) {
            // A value of an option of ours that only others have.
            Some(opt) if language.dialect.is_none() => {
                foreign_grammar(opt, &value_of(glued, after))
            }
            _ if name == b"cpu-bind" && language.dialect.is_none() => {
                of_cpu_bind(&value_of(glued, after))
            }
            _ => dialect::having(name),
        };
        if of == 0 {
            return Ok(None);
        }
        if options::find(name).is_none() || language.dialect.is_none() {
            self.foreign.push((written.clone(), of));
        }
        if language.dialect.is_none() {
            // The options so far may leave one dialect.
            let common = self.foreign.iter().fold(u16::MAX, |bits, (_, of)| bits & of);
            language.dialect = match (options::find(name), common.count_ones()) {
                (Some(_), _) => Dialect::first_of(of),
                (None, 1) => Dialect::first_of(common),
                (None, _) => None,
            };
        }
        let named = (written.as_str(), name);
        let layout = &mut section.layout;
        let Some(translated) = dialect::translate(named, glued, after, language, layout)? else {
            return Ok(None);
        };
        let Translated { words, remarks, used } = translated;
        let shown: Vec<_> = after[..used].iter().map(|value| value.to_string_lossy()).collect();
        let shown = std::iter::once(word.to_string_lossy()).chain(shown).collect::<Vec<_>>();
        let mut made = options(&words)?.said_by(&shown.join(" "));
        if language.dialect.is_some_and(Dialect::is_open_mpi) {
            join_hosts(&mut section.settings, &mut made.settings);
        }
        section.settings.extend(made.settings);
        section.remarks.extend(remarks);
        Ok(Some(&after[used..]))
    }
}

/// Joins the hosts of a repeated `--host`, as Open MPI does.
fn join_hosts(before: &mut Vec<Setting>, made: &mut [Setting]) {
    let is_host = |setting: &Setting| setting.opt.key == Key::Host;
    let Some(new) = made.iter_mut().find(|setting| is_host(setting)) else { return };
    if let Some(at) = before.iter().position(is_host) {
        let old = before.remove(at);
        let joined = [old.value(), new.value()].join(OsStr::new(","));
        new.values = vec![joined];
    }
}

/// The value of an option with one value.
fn value_of(glued: Option<&[u8]>, after: &[OsString]) -> String {
    let value = glued.or_else(|| after.first().map(|word| word.as_bytes())).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Whether the value of an option that other launchers have too is one of ours.
fn has_our_grammar(opt: &Opt, glued: Option<&[u8]>, after: &[OsString]) -> bool {
    let value = value_of(glued, after);
    match opt.key {
        Key::Binding | Key::MapBy => {}
        // Intel's option for the remote shell has the same name.
        Key::AttachRanks => return value.parse::<RankSet>().is_ok(),
        _ => return true,
    }
    let (unit, rest) = value.split_once(':').unwrap_or((&value, "1"));
    let is_plain = |word: &str| {
        word.parse::<u32>().is_ok()
            || opt.key == Key::MapBy && (word == "even" || word.starts_with("block="))
    };
    let is_name = Binding::of_name(unit).is_some()
        || opt.key == Key::MapBy && ["slot", "node"].contains(&unit);
    opt.key == Key::Binding && unit == "user" || is_name && rest.split(':').all(is_plain)
}

/// The dialects in which a value of `--cpu-bind` has a meaning.
fn of_cpu_bind(value: &str) -> u16 {
    match value.split(':').next().unwrap_or_default() {
        "depth" | "list" | "mask" => Dialect::Pals.bit(),
        "map_cpu" | "mask_cpu" | "cores" | "threads" | "sockets" | "ldoms" => Dialect::Srun.bit(),
        _ => dialect::having(b"cpu-bind"),
    }
}

/// The dialects in which a value of such an option has a meaning, if it has no meaning here.
fn foreign_grammar(opt: &Opt, value: &str) -> u16 {
    let value = value.to_ascii_lowercase();
    let unit = value.split([':', '=']).next().unwrap_or_default();
    let is_of_hydra = opt.key == Key::Binding && ["rr", "machine"].contains(&unit);
    let is_of_intel = ["pin", "domain", "cell", "order", "map"].contains(&unit);
    match unit {
        _ if opt.key == Key::AttachRanks => Dialect::Intel.bit(),
        _ if is_of_intel && value.contains('=') => Dialect::Intel.bit(),
        _ if is_of_hydra => Dialect::Hydra.bit() | Dialect::Intel.bit(),
        "package" | "pe-list" => Dialect::OpenMpi5.bit(),
        _ if value.contains(":package") => Dialect::OpenMpi5.bit(),
        _ => Dialect::OpenMpi4.bit() | Dialect::OpenMpi5.bit(),
    }
}

/// Keeps one binding of PALS. `--cpu-bind` decides it, unless it names the depth, which has an option of its own.
fn prefer_cpu_bind(settings: &mut Vec<Setting>) {
    let weight = |setting: &Setting| match setting.instead.as_deref() {
        Some(text) if text.contains("-cpu-bind") && text.ends_with("depth") => 1,
        Some(text) if text.contains("-cpu-bind") => 3,
        _ => 2,
    };
    let bindings = settings.iter().filter(|it| it.opt.key == Key::Binding);
    if let Some(most) = bindings.map(weight).max() {
        settings.retain(|it| it.opt.key != Key::Binding || weight(it) == most);
    }
}

/// The hosts before a program of MVAPICH: as many as processes, unless a file names them. The result is a list with a slot
/// for each, and the words after them.
fn mvapich_hosts<'a>(section: &Section, words: &'a [OsString]) -> Option<(String, &'a [OsString])> {
    let is_given = |key: Key| section.settings.iter().find(|setting| setting.opt.key == key);
    if is_given(Key::HostFile).is_some() || is_given(Key::Hosts).is_some() {
        return None;
    }
    let count = is_given(Key::Processes)?.value().to_str()?.parse::<usize>().ok()?;
    let (hosts, rest) = words.split_at_checked(count).filter(|(_, rest)| !rest.is_empty())?;
    let hosts: Option<Vec<&str>> =
        hosts.iter().map(|word| word.to_str().filter(|word| is_host_name(word))).collect();
    let slot = |host: &&str| match host.contains(':') {
        true => format!("[{host}]:1"),
        false => format!("{host}:1"),
    };
    Some((hosts?.iter().map(slot).collect::<Vec<_>>().join(","), rest))
}

/// An option as written, its name without dashes, and the value after `=`.
fn parts(word: &OsStr) -> (String, &[u8], Option<&[u8]>) {
    let bytes = word.as_bytes();
    let dashes = if bytes.starts_with(b"--") { 2 } else { 1 };
    let (name, glued) = match bytes[dashes..].iter().position(|&b| b == b'=') {
        Some(at) => (&bytes[..dashes + at], Some(&bytes[dashes + at + 1..])),
        None => (bytes, None),
    };
    (String::from_utf8_lossy(name).into_owned(), &name[dashes..], glued)
}

/// The option of ours that `word` names, with its values, and the remaining arguments.
fn setting<'a>(word: &OsStr, after: &'a [OsString]) -> Result<(Setting, &'a [OsString]), Usage> {
    let (written, name, glued) = parts(word);
    let Some(opt) = options::find(name) else { return Err(unknown(&written, name)) };
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
    Ok((Setting { opt, written, values, instead: None }, after))
}

/// The error for a name that is not in the table.
fn unknown(written: &str, name: &[u8]) -> Usage {
    Usage::syntax(match suggest::nearest(&String::from_utf8_lossy(name)) {
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
