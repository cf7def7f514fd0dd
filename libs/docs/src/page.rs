//! Man pages. clap_mangen writes the most of them. It leaves out the values of options in the synopsis, and joins the lines of
//! examples; these sections are written here.

use anyhow::Result;
use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::Variable;

/// The pages that every page refers to.
const PAGES: [&str; 6] = ["mpd", "mpdboot", "mpdtrace", "mpdlistjobs", "mpirun", "mpdhelp"];

pub(crate) fn page(command: &Command, variables: &[Variable]) -> Result<Vec<u8>> {
    let mut command = command.clone();
    // This adds the options of clap itself.
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(&command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    notes(&command).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    references(&command, variables).to_writer(&mut page)?;
    Ok(page)
}

/// The command line, with the values of options.
fn synopsis(command: &Command) -> Roff {
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let required: Vec<_> = command.get_groups().filter(|group| group.is_required_set()).collect();
    let is_in_group =
        |arg: &Arg| required.iter().any(|group| group.get_args().any(|id| id == arg.get_id()));
    let mut line = vec![bold(command.get_name())];
    for arg in shown().filter(|arg| !arg.is_positional() && !is_in_group(arg)) {
        line.push(roman(if arg.is_required_set() { " " } else { " [" }));
        line.extend(usage(arg));
        line.extend((!arg.is_required_set()).then(|| roman("]")));
    }
    for group in &required {
        line.push(roman(" {"));
        for (at, id) in group.get_args().enumerate() {
            line.extend((at > 0).then(|| roman(" | ")));
            line.extend(shown().find(|arg| arg.get_id() == id).map(usage).unwrap_or_default());
        }
        line.push(roman("}"));
    }
    for arg in shown().filter(|arg| arg.is_positional() && !is_in_group(arg)) {
        line.push(roman(if arg.is_required_set() { " " } else { " [" }));
        line.extend(usage(arg));
        line.extend((!arg.is_required_set()).then(|| roman("]")));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

/// An argument as a user types it.
fn usage(arg: &Arg) -> Vec<Inline> {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let values = names.join(" ");
    let many = arg.get_num_args().is_some_and(|number| number.max_values() > names.len().max(1));
    let more = many.then(|| roman("..."));
    if arg.is_positional() {
        return std::iter::once(italic(values)).chain(more).collect();
    }
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(letter), _) => format!("-{letter}"),
        (None, long) => format!("--{}", long.unwrap_or_default()),
    };
    let mut all = vec![bold(flag)];
    if arg.get_action().takes_values() {
        let may_be_missing = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
        let joint = if arg.is_require_equals_set() { "=" } else { " " };
        match may_be_missing {
            true => all.extend([roman(format!("[{joint}")), italic(values), roman("]")]),
            false => all.extend([roman(joint), italic(values)]),
        }
        all.extend(more);
    }
    all
}

/// The text behind the options. A line that begins with a space is one of an example, and is printed as it is.
fn notes(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let text = command.get_after_long_help().or_else(|| command.get_after_help());
    let Some(text) = text.map(ToString::to_string).filter(|text| !text.is_empty()) else {
        return roff;
    };
    roff.control("SH", ["NOTES"]);
    let mut is_example = false;
    for line in text.lines() {
        let begins_with_space = line.starts_with(' ');
        if begins_with_space != is_example {
            is_example = begins_with_space;
            roff.control(if is_example { "nf" } else { "fi" }, []);
            if !is_example {
                roff.control("PP", []);
            }
        }
        if line.is_empty() {
            roff.control("PP", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    if is_example {
        roff.control("fi", []);
    }
    roff
}

/// The sections of a page after those that clap writes.
fn references(command: &Command, variables: &[Variable]) -> Roff {
    let mut roff = Roff::new();
    if !variables.is_empty() {
        roff.control("SH", ["ENVIRONMENT"]);
    }
    for (variable, meaning) in variables {
        roff.control("TP", []);
        roff.text([bold(*variable)]);
        roff.text([roman(meaning_for(command, meaning))]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = PAGES.iter().filter(|page| **page != command.get_name());
    let list: Vec<String> = others.map(|page| format!("{page}(1)")).collect();
    roff.text([roman(list.join(", "))]);
    roff
}

/// The meaning of a variable, without an option that the command does not have.
fn meaning_for(command: &Command, meaning: &str) -> String {
    let Some((before, rest)) = meaning.split_once(", if --") else { return meaning.to_owned() };
    let (option, behind) = rest.split_once(" is not given").unwrap_or((rest, ""));
    let has =
        command.get_arguments().any(|arg| arg.get_long() == Some(option) && !arg.is_hide_set());
    if has { meaning.to_owned() } else { format!("{before}{behind}") }
}

#[cfg(test)]
mod tests {
    use clap::ArgGroup;

    use super::*;
    use crate::{OF_DAEMON, OF_RING};

    fn command() -> Command {
        let arg = |name: &'static str| Arg::new(name).long(name);
        Command::new("mpdtool")
            .about("Does something")
            .arg(arg("ring").short('r').value_name("NAME"))
            .arg(arg("soft").value_name("LIST").num_args(0..=1).require_equals(true))
            .arg(Arg::new("job").value_name("JOB"))
            .arg(arg("alias").value_name("ALIAS"))
            .group(ArgGroup::new("which").args(["job", "alias"]).required(true))
            .arg(Arg::new("words").value_name("WORD").num_args(0..))
            .after_help("Examples:\n  mpdtool -r a\n  mpdtool\nThe end.\n\nA paragraph.")
    }

    fn text() -> String {
        String::from_utf8(page(&command(), &[OF_RING.as_slice(), &OF_DAEMON].concat()).unwrap())
            .unwrap()
    }

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let mut command = command();
        command.build();
        let line = synopsis(&command).render();
        let plain =
            line.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace('\\', "");
        let expected = "mpdtool [-r NAME] [--soft[=LIST]] [-h] {JOB | --alias ALIAS} [WORD...]";
        assert!(plain.contains(expected), "{plain}");
    }

    #[test]
    fn the_lines_of_examples_stay_lines() {
        let text = text();
        let expected = ".SH NOTES\nExamples:\n.nf\n  mpdtool \\-r a\n  mpdtool\n.fi\n.PP\nThe end.\n.PP\nA paragraph.\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn every_page_has_its_variables_and_names_only_its_own_options() {
        let text = text();
        for part in
            [".SH ENVIRONMENT", "MPD_RUNDIR", "MPD_KEY_FILE", ".SH \"SEE ALSO\"", "mpdboot(1)"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(
            text.contains("the name of the ring, if \\-\\-ring is not given; MPD_RING"),
            "{text}"
        );
        assert!(
            !text.contains("rundir is not given") && !text.contains("key is not given"),
            "{text}"
        );
        let page = references(&Command::new("mpdhelp"), &[]).render();
        assert!(!page.contains("ENVIRONMENT") && page.contains(".SH \"SEE ALSO\""), "{page}");
        assert!(!page.contains("mpdhelp(1)"), "a page does not name itself: {page}");
    }
}
