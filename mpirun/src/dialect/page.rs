//! The manual's page of foreign options, made from the table.

use std::fmt::Write as _;

use super::language::Dialect;
use super::parameters::PARAMETERS;
use super::table::TABLE;

const BEGINNING: &str = "# Options of other launchers

This page is made from the tables of `mpirun/src/dialect/table.rs`, `mpirun/src/dialect/parameters/table.rs` and `mpirun/src/variables.rs`. \
An option of ours that is not listed has the same meaning for every command line. The program's name or `-dialect NAME` chooses a \
dialect. Otherwise an option that only another launcher has keeps its meaning there. In the dialects of Open MPI, ranks are \
mapped and bound by its rules also without an option. Two processes are bound to cores. More are bound to NUMA nodes \
(version 4) or cores (version 5), if the host has a core for each. -bind-to none ends this. The tables of options are followed by \
those of [parameters of Open MPI](#parameters-of-open-mpis-launchers), of \
[variables](#variables-of-other-launchers) and of [the other programs of the original MPD](#the-other-programs-of-the-original-mpd).
";

const PARAMETERS_TEXT: &str = "
## Parameters of Open MPI's launchers

`--mca KEY VALUE`, `--prtemca KEY VALUE`, and the variables `OMPI_MCA_KEY` and `PRTE_MCA_KEY` without a dialect or in those of Open \
MPI. An option comes before a parameter, and a parameter before a variable. *No effect* means that one line says so. Parameters of the \
MPI library, like `btl` or `coll_tuned_use_dynamic_rules`, reach the ranks as variables. A star stands for the rest of a name.

Parameters can also be in files: those of `-tune` come before variables, those of `-am` after them. Last come `.openmpi/mca-params.conf` \
and `.prte/mca-params.conf` in the home directory. These two are read in a dialect of Open MPI and where another parameter is given. A \
line is `KEY = VALUE`, or has the options `-mca KEY VALUE` and `-x NAME=VALUE`. Files of an installation of Open MPI are not read.

| parameter | version | here |
|---|---|---|
";

const VARIABLES_TEXT: &str = "
## Variables of other launchers

Each stands for an option, and counts unless the command line has that option.

| variable | here |
|---|---|
";

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The page as Markdown.
fn markdown() -> String {
    let mut text = String::from(BEGINNING);
    for dialect in Dialect::ALL {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## {} (`-dialect {}`)\n\n| option | here |\n|---|---|\n",
            dialect.title(),
            dialect.name()
        );
        for row in TABLE.iter().filter(|row| row.of & dialect.bit() != 0) {
            let names: Vec<String> = row.names.iter().map(|name| format!("`-{name}`")).collect();
            let values = if row.values.is_empty() { "" } else { " " };
            let option = format!("{}{values}{}", names.join(", "), row.values.join(" "));
            let _ = writeln!(text, "| {} | {} |", cell(&option), cell(&row.answer.meaning()));
        }
    }
    text.push_str(PARAMETERS_TEXT);
    for row in PARAMETERS {
        let names: Vec<String> = row.keys.iter().map(|key| format!("`{key}`")).collect();
        let is_of = |dialect: Dialect| row.of & dialect.bit() != 0;
        let version = match (is_of(Dialect::OpenMpi4), is_of(Dialect::OpenMpi5)) {
            (true, false) => "4",
            (false, _) => "5",
            _ => "4, 5",
        };
        let meaning = row.meaning().replace("accepted without effect", "no effect");
        let _ = writeln!(text, "| {} | {version} | {} |", names.join(", "), cell(&meaning));
    }
    text.push_str(VARIABLES_TEXT);
    for (name, meaning) in crate::variables::rows() {
        let _ = writeln!(text, "| `{name}` | {} |", cell(&meaning));
    }
    text + &mpd_docs::original::markdown()
}

#[test]
fn the_page_of_the_repository_is_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options-of-other-launchers.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text == markdown(), "{path} differs: run this test with UPDATE=1");
}

#[test]
fn every_row_has_a_dialect_and_every_meaning_a_text() {
    for row in TABLE {
        assert!(row.of != 0 && row.answer.meaning().len() > 2, "{:?}", row.names);
    }
}

#[test]
fn no_text_of_the_page_has_an_unfilled_value() {
    let page = markdown();
    for mark in ["{0}", "{1}", "{{"] {
        assert!(!page.contains(mark), "{mark}");
    }
}
