//! Files with parameters of Open MPI: those of `-tune` and `-am`, and `mca-params.conf` in the home directory. A line is
//! `KEY = VALUE`, or has the options `-mca KEY VALUE` and `-x NAME=VALUE`.

use std::path::Path;

use mpd_io::files::logging::plain;

use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::configfile;
use crate::dialect::parameters::{BEGINNINGS, Given};
use crate::usage::Usage;

/// The files in the home directory. A file that is not there is no error.
const OF_HOME: [&str; 2] = [".openmpi/mca-params.conf", ".prte/mca-params.conf"];

/// A line, or a part of one.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// The key and the value of a parameter, and the beginning of its variable.
    Parameter(String, String, &'static str),
    /// `-x`.
    Export(String),
}

/// The parameters of the files in the home directory.
///
/// # Errors
/// A file cannot be read, or has a wrong line.
pub(super) fn of_home(caller: &Caller) -> Result<Vec<Given>, Usage> {
    let Some(home) = caller.variable(b"HOME").and_then(|home| str::from_utf8(home).ok()) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for file in OF_HOME.map(|file| Path::new(home).join(file)).iter().filter(|it| it.is_file()) {
        let said = file.display().to_string();
        let items = read(file, &said)?;
        all.extend(items.into_iter().filter_map(|item| given(item, &said)));
    }
    Ok(all)
}

/// The parameters of the files that an option or a variable names, separated by commas; ranks get `-x` and the variables of
/// parameters, unless others set these.
///
/// # Errors
/// A file cannot be read, or has a wrong line.
pub(super) fn named(
    argsets: &mut Argsets<'_>,
    (option, files): &(&'static str, String),
) -> Result<Vec<Given>, Usage> {
    let mut all = Vec::new();
    for name in files.split(',').filter(|name| !name.is_empty()) {
        let file = argsets.caller().directory.join(name);
        let said = format!("{option} {name}");
        for item in read(&file, &said)? {
            let variable = match &item {
                Item::Parameter(key, value, family) => {
                    Some((format!("{family}{key}"), value.as_str()))
                }
                Item::Export(text) => {
                    text.split_once('=').map(|(name, value)| (name.to_owned(), value))
                }
            };
            // The files of -am count less than variables of the caller.
            let counts = |name: &str| {
                *option == "-tune" || argsets.caller().variable(name.as_bytes()).is_none()
            };
            if let Some((name, value)) = variable.filter(|(name, _)| counts(name)) {
                export(argsets, &said, &name, value)?;
            }
            all.extend(given(item, &said));
        }
    }
    Ok(all)
}

/// Gives the ranks a variable, unless an option sets it.
fn export(argsets: &mut Argsets<'_>, said: &str, name: &str, value: &str) -> Result<(), Usage> {
    if argsets.assigned(|known| known == name.as_bytes()).is_empty() {
        argsets.add_words(said, ["-genv", name, value].map(str::to_owned).to_vec())?;
    }
    Ok(())
}

fn given(item: Item, said: &str) -> Option<Given> {
    let Item::Parameter(key, value, _) = item else { return None };
    Some(Given { said: format!("{said}: {key} = {value}"), key, value })
}

fn read(file: &Path, said: &str) -> Result<Vec<Item>, Usage> {
    let bytes = configfile::read(file)
        .map_err(|e| Usage::new(format!("{said}: cannot read it: {}", plain(&e))))?;
    items(&String::from_utf8_lossy(&bytes)).map_err(|e| Usage::new(format!("{said}: {e}")))
}

fn items(text: &str) -> Result<Vec<Item>, String> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('-') {
            all.extend(options(line).map_err(|e| format!("line {number}: {e}"))?);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("line {number}: it must be KEY = VALUE"));
        }
        let value = value.trim_matches(['"', '\'']);
        all.push(Item::Parameter(key.to_owned(), value.to_owned(), BEGINNINGS[0]));
    }
    Ok(all)
}

fn options(line: &str) -> Result<Vec<Item>, String> {
    let lines = configfile::lines(line.as_bytes()).map_err(|e| e.to_string())?;
    let words = lines.into_iter().flat_map(|line| line.words);
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let mut all = Vec::new();
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        all.push(match option.trim_start_matches('-') {
            "mca" | "gmca" => Item::Parameter(value()?, value()?, BEGINNINGS[0]),
            "prtemca" => Item::Parameter(value()?, value()?, BEGINNINGS[1]),
            "x" => Item::Export(value()?),
            _ => return Err(format!("{option}: a file of parameters has only -mca and -x")),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_assignments_or_options() {
        let text = "# words\n\n btl = self,tcp\nplm_rsh_args=\"-p 2222\"\nempty =\n\
                    -mca a 1 --prtemca b 'x y' -x A=1\n";
        let parameter =
            |key: &str, value: &str| Item::Parameter(key.to_owned(), value.to_owned(), "OMPI_MCA_");
        let all = [
            parameter("btl", "self,tcp"),
            parameter("plm_rsh_args", "-p 2222"),
            parameter("empty", ""),
            parameter("a", "1"),
            Item::Parameter("b".to_owned(), "x y".to_owned(), "PRTE_MCA_"),
            Item::Export("A=1".to_owned()),
        ];
        assert_eq!(items(text), Ok(all.into()));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, problem) in [
            ("a b = c", "line 1: it must be KEY = VALUE"),
            ("\n-np 4", "line 2: -np: a file of parameters has only -mca and -x"),
            ("-mca a", "line 1: -mca needs a value"),
            ("-x 'a", "line 1: line 1: the quote ' is not closed"),
        ] {
            assert_eq!(items(text), Err(problem.to_owned()));
        }
    }
}
