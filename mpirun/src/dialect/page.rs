//! The manual's page of foreign options, made from the table.

use std::fmt::Write as _;

use super::language::Dialect;
use super::table::TABLE;

/// The page as Markdown.
fn markdown() -> String {
    let mut text = String::from(
        "# Options of other launchers\n\nThis page is made from the table of `mpirun/src/dialect/table.rs`. An option of ours \
         that is not listed has the same meaning for every command line. The program's name or `-dialect NAME` chooses a \
         dialect. Otherwise an option that only another launcher has keeps its meaning there. In the dialects of Open MPI, ranks are \
         mapped and bound by its rules also without an option. Two processes are bound to cores. More are bound to NUMA nodes \
         (version 4) or cores (version 5), if the host has a core for each. -bind-to none ends this. The variables OMPI_MCA_KEY \
         and PRTE_MCA_KEY of mapping and binding have the effect of the option.\n",
    );
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
            let (names, value) = (names.join(", "), row.values.join(" "));
            let option = format!("{names}{values}{value}").replace('|', "\\|");
            let _ = writeln!(text, "| {option} | {} |", row.answer.meaning().replace('|', "\\|"));
        }
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
