//! The form of TOML: options of the job at the top, and one table `[[program]]` for each program. A key is the name of
//! an option. An option without a value has the value `true`. A list stands for an option that is given several times,
//! and a table for an option with a name and a value.

use std::ffi::OsString;

use ::toml::{Table, Value};

use super::line::Line;

/// The key of the programs, and of a program's words.
const PROGRAMS: &str = "program";
const COMMAND: &str = "command";

/// The lines of a file.
pub(super) fn lines(text: &str) -> Result<Vec<Line>, String> {
    let mut table: Table = text.parse().map_err(|e: ::toml::de::Error| e.to_string())?;
    let programs = match table.remove(PROGRAMS) {
        Some(Value::Array(programs)) => programs,
        Some(_) => return Err("'program' is not a list: write [[program]]".to_owned()),
        None => return Err("there is no [[program]]".to_owned()),
    };
    let mut job = Line::default();
    options(&mut job, &table)?;
    let mut lines = vec![job];
    for (number, program) in (1..).zip(programs) {
        let Value::Table(mut table) = program else {
            return Err(format!("program {number} is not a table: write [[program]]"));
        };
        let mut line = Line { origin: format!("program {number}"), ..Line::default() };
        line.command =
            command(table.remove(COMMAND)).map_err(|e| format!("program {number}: {e}"))?;
        options(&mut line, &table).map_err(|e| format!("program {number}: {e}"))?;
        lines.push(line);
    }
    if lines[0].options.is_empty() {
        lines.remove(0);
    }
    Ok(lines)
}

fn command(value: Option<Value>) -> Result<Vec<OsString>, String> {
    let wrong = || "'command' must be a list of texts, like [\"./a\", \"x\"]".to_owned();
    let Some(Value::Array(words)) = value else { return Err(wrong()) };
    let words: Option<Vec<OsString>> =
        words.iter().map(|word| scalar(word).map(Into::into)).collect();
    words.filter(|words| !words.is_empty()).ok_or_else(wrong)
}

fn options(line: &mut Line, table: &Table) -> Result<(), String> {
    table.iter().try_for_each(|(name, value)| option(line, name, value))
}

fn option(line: &mut Line, name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Boolean(true) => line.option(name, None::<OsString>),
        Value::Boolean(false) => {}
        Value::Array(values) => {
            return values.iter().try_for_each(|value| match value {
                Value::Array(_) | Value::Boolean(_) => Err(wrong(name)),
                value => option(line, name, value),
            });
        }
        Value::Table(pairs) => {
            for (variable, value) in pairs {
                line.option(name, [variable.clone(), scalar(value).ok_or_else(|| wrong(name))?]);
            }
        }
        value => line.option(name, [scalar(value).ok_or_else(|| wrong(name))?]),
    }
    Ok(())
}

fn wrong(name: &str) -> String {
    format!("'{name}' must be a text, a number, true, false, or a list or table of texts")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Array(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::shown;
    use super::*;

    #[test]
    fn a_file_has_options_of_the_job_and_programs() {
        let text = "timeout = 2.5\nexclude = ['h3', 'h4']\nl = true\nm = false\n\
                    [[program]]\ncommand = ['./a b', '', ':']\nn = 2\nenv = { A = '1', B = 2 }\n\
                    [[program]]\ncommand = ['c']\nhost = 'h1'\n";
        assert_eq!(
            shown(&lines(text).unwrap()),
            [
                "-exclude h3 -exclude h4 -l -timeout 2.5",
                "-env A 1 -env B 2 -n 2 './a b' '' :",
                "-host h1 c"
            ]
        );
    }

    #[test]
    fn what_is_no_job_is_refused() {
        for (text, problem) in [
            ("", "there is no [[program]]"),
            ("program = 1", "'program' is not a list"),
            ("program = [1]", "program 1 is not a table"),
            ("[[program]]\nn = 1", "program 1: 'command' must be a list of texts"),
            ("[[program]]\ncommand = []", "program 1: 'command' must be"),
            ("[[program]]\ncommand = ['a']\nn = [[1]]", "program 1: 'n' must be a text"),
            ("[[program]", "TOML parse error"),
        ] {
            let error = lines(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }
}
