//! `-file`: a job in a file, as XML of the original MPD or as TOML. The file becomes options and programs of a command
//! line, so each word has the meaning that it has there. A file whose first sign is `<` is XML.
//!
//! ```toml
//! timeout = 60              # options of the job, without dashes
//! exclude = ["h3", "h4"]    # an option that is given twice
//! merge = true              # would be refused: the option is called m
//!
//! [[program]]
//! command = ["./ocean", "in.nc"]
//! n = 4
//! env = { OMP_NUM_THREADS = "2" }
//! ```

mod line;
mod toml;
mod xml;

use std::path::Path;

use mpd_io::files::logging::{one_line, plain};

use crate::configfile;
use crate::scan::{self, Section};
use crate::usage::Usage;
use line::Line;

/// Reads a file for `user`. The result is its sections, each with its place in the file.
///
/// # Errors
/// The file cannot be read, or is not a job.
pub(crate) fn read(file: &Path, user: &str) -> Result<Vec<(Section, String)>, Usage> {
    let name = file.display();
    let wrong = |problem: String| Usage::new(format!("the -file {name}: {}", one_line(&problem)));
    let bytes =
        configfile::read(file).map_err(|e| wrong(format!("cannot read it: {}", plain(&e))))?;
    let text = str::from_utf8(&bytes).map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let lines = if text.starts_with('<') { xml::lines(text, user) } else { toml::lines(text) };
    let section = |line: Line| {
        let origin = match line.origin.as_str() {
            "" => name.to_string(),
            origin => format!("{name} {origin}"),
        };
        let mut section = scan::options(&line.options).map_err(|e| e.at(Some(&origin)))?;
        section.program = (!line.command.is_empty()).then_some(line.command);
        Ok((section, origin))
    };
    lines.map_err(wrong)?.into_iter().map(section).collect()
}
