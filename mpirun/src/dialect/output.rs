//! Values of foreign options that send the output of ranks to files.

use super::language::Facts;
use super::translation::{Translation, listed, one_of, words};

/// A name of a file as the beginning of a pattern of ours.
fn literal(name: &str) -> String {
    name.replace('%', "%%")
}

/// A path and its qualifiers, like `log:nocopy,nojobid`.
fn qualified<'a>(value: &'a str, known: &[&str]) -> Result<(&'a str, Vec<String>), String> {
    let (path, qualifiers) = value.split_once(':').unwrap_or((value, ""));
    if path.is_empty() {
        return Err("the name is empty".to_owned());
    }
    let qualifiers = listed(qualifiers);
    match qualifiers.iter().find(|word| !known.contains(&word.as_str()) && !is_merge(word)) {
        Some(other) => Err(format!("the qualifier '{other}' is not available")),
        None => Ok((path, qualifiers)),
    }
}

/// Whether a qualifier, which may be shortened, joins the streams.
fn is_merge(word: &str) -> bool {
    !word.is_empty() && "merge-stderr-to-stdout".starts_with(word)
}

/// Our options for files with this pattern, which are copies unless that is excluded.
fn files(pattern: &str, qualifiers: &[String]) -> Vec<String> {
    let mut made = words(&["-output-pattern", pattern]);
    if !qualifiers.iter().any(|word| word == "nocopy") {
        made.extend(words(&["-tee"]));
    }
    if qualifiers.iter().any(|word| is_merge(word)) {
        made.extend(words(&["-merge-stderr-to-stdout"]));
    }
    made
}

/// `--output-filename` of Open MPI 4: a directory for each rank.
pub(super) fn directories_4(values: &[&str], _: &dyn Facts) -> Translation {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "nojobid"])?;
    let job = if qualifiers.iter().any(|word| word == "nojobid") { "" } else { "1/" };
    Ok(files(&format!("{}/{job}rank.%R/std%o", literal(path)), &qualifiers))
}

/// `--output-directory` of Open MPI 5.
pub(super) fn directories_5(values: &[&str], _: &dyn Facts) -> Translation {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "nojobid", "raw"])?;
    let job = if qualifiers.iter().any(|word| word == "nojobid") { "" } else { "%j/" };
    Ok(files(&format!("{}/{job}rank.%R/std%o", literal(path)), &qualifiers))
}

/// `--output-filename` of Open MPI 5.
pub(super) fn files_5(values: &[&str], _: &dyn Facts) -> Translation {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "raw"])?;
    Ok(files(&format!("{}.%j.%R.%o", literal(path)), &qualifiers))
}

/// The label of `--tag-output` of Open MPI 4: `[1,0]<stdout>:text`.
pub(super) fn tag_4(_: &[&str], _: &dyn Facts) -> Translation {
    Ok(words(&["-prepend-pattern", "[%w]<std%o>:"]))
}

/// The label of `--tag-output` of Open MPI 5: `[1,0]<stdout>: text`.
pub(super) fn tag_5(_: &[&str], _: &dyn Facts) -> Translation {
    Ok(words(&["-prepend-pattern", "[%w]<std%o>: "]))
}

/// The words of `--output` of Open MPI 5. A word may be shortened.
const DIRECTIVES: [&str; 7] =
    ["tag", "tag-detailed", "tag-fullname", "timestamp", "xml", "merge-stderr-to-stdout", "rank"];

/// `--output LIST` of Open MPI 5.
pub(super) fn output(values: &[&str], caller: &dyn Facts) -> Translation {
    let mut made = Vec::new();
    let mut rest = values[0];
    while !rest.is_empty() {
        let (word, after) = rest.split_once([',', ':']).unwrap_or((rest, ""));
        let (key, _) = word.split_once('=').unwrap_or((word, ""));
        match key.to_ascii_lowercase().as_str() {
            // All that follows a colon qualifies the files.
            key @ ("dir" | "file") => {
                let (item, others) = item(rest);
                let value = item.split_once('=').map_or("", |(_, value)| value);
                made.extend(match key {
                    "dir" => directories_5(&[value], caller)?,
                    _ => files_5(&[value], caller)?,
                });
                rest = others;
                continue;
            }
            // Unfinished lines appear soon in any case.
            "raw" => {}
            key => made.extend(match one_of(&DIRECTIVES, key, "")? {
                "tag" => tag_5(values, caller)?,
                "tag-detailed" => words(&["-prepend-pattern", "[%w][%h:%p]<std%o>: "]),
                "tag-fullname" => words(&["-prepend-pattern", "[%j,%r]<std%o>: "]),
                "rank" => words(&["-prepend-pattern", "[%r]<std%o>: "]),
                "timestamp" => words(&["-timestamp"]),
                "merge-stderr-to-stdout" => words(&["-merge-stderr-to-stdout"]),
                other => return Err(format!("'{other}' is not available")),
            }),
        }
        rest = after;
    }
    Ok(made)
}

/// `dir=PATH[:QUALIFIER,...]` at the beginning of a list, and the rest of the list.
fn item(text: &str) -> (&str, &str) {
    let is_qualifier = |word: &str| ["nocopy", "nojobid", "raw"].contains(&&*word.to_lowercase());
    let mut end = text.find([',', ':']).unwrap_or(text.len());
    while let Some(after) = text.get(end + 1..) {
        let next = after.find([',', ':']).unwrap_or(after.len());
        if !is_qualifier(&after[..next]) {
            // An unknown word after a colon is a qualifier too, which is then refused.
            if !text[end..].starts_with(':') {
                break;
            }
        }
        end += 1 + next;
    }
    (&text[..end], text.get(end + 1..).unwrap_or(""))
}

/// `--output PATTERN` of Slurm. Both streams go to the file, unless `--error` is given.
pub(super) fn slurm_output(values: &[&str], caller: &dyn Facts) -> Translation {
    match values[0] {
        "all" => Ok(Vec::new()),
        "none" => Ok(words(&["-output-pattern", "/dev/null"])),
        task if task.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(words(&["-output-from", task]))
        }
        value => Ok(words(&["-output-pattern", &slurm_pattern(value, caller)?])),
    }
}

/// `--error PATTERN` of Slurm.
pub(super) fn slurm_error(values: &[&str], caller: &dyn Facts) -> Translation {
    match values[0] {
        "none" => Ok(words(&["-errfile-pattern", "/dev/null"])),
        value => Ok(words(&["-errfile-pattern", &slurm_pattern(value, caller)?])),
    }
}

/// A pattern of Slurm as a pattern of ours. A number before a letter is the least number of digits.
fn slurm_pattern(value: &str, caller: &dyn Facts) -> Result<String, String> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the standard error of one rank alone cannot be chosen".to_owned());
    }
    // A backslash anywhere ends all replacements.
    if value.contains('\\') {
        return Ok(literal(&value.replace('\\', "")));
    }
    let mut made = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        made.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (width, after) = after.split_at(digits);
        let width = width.parse::<usize>().unwrap_or(0).min(10);
        let field = after.chars().next().unwrap_or('%');
        made += &slurm_field(field, width, caller)?;
        rest = after.get(field.len_utf8()..).unwrap_or("");
    }
    Ok(made + rest)
}

/// A field of a pattern of Slurm in our words.
fn slurm_field(field: char, width: usize, caller: &dyn Facts) -> Result<String, String> {
    let variable = |name: &str| {
        let value = caller.variable(name.as_bytes()).filter(|value| !value.is_empty())?;
        Some(literal(&String::from_utf8_lossy(value)))
    };
    let number = |name: &str| variable(name).map(|value| format!("{value:0>width$}"));
    let wide = if width == 0 { String::new() } else { width.to_string() };
    let missing = |name: &str| format!("%{field} needs the variable {name}");
    let needed = |name: &str| number(name).ok_or_else(|| missing(name));
    Ok(match field {
        't' => format!("%{wide}r"),
        'n' => format!("%{wide}n"),
        'N' => "%h".to_owned(),
        'j' => number("SLURM_JOB_ID").unwrap_or_else(|| "%j".to_owned()),
        // Our job takes the place of the step.
        'J' => match variable("SLURM_JOB_ID") {
            Some(id) => format!("{id}.%j"),
            None => "%j".to_owned(),
        },
        's' => "%j".to_owned(),
        'x' => variable("SLURM_JOB_NAME").unwrap_or_else(|| "%a".to_owned()),
        'u' => variable("USER").ok_or_else(|| missing("USER"))?,
        'A' => needed("SLURM_ARRAY_JOB_ID")?,
        'a' => needed("SLURM_ARRAY_TASK_ID")?,
        '%' => "%%".to_owned(),
        field => {
            let known = "known are %t, %n, %N, %j, %J, %s, %x, %u, %A and %a";
            return Err(format!("the field %{field} is not available; {known}"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_the_end_of_the_qualifiers() {
        assert_eq!(item("dir=a"), ("dir=a", ""));
        assert_eq!(item("dir=a:nocopy,raw,tag"), ("dir=a:nocopy,raw", "tag"));
        assert_eq!(item("file=a,merge,tag"), ("file=a", "merge,tag"));
        assert_eq!(item("file=a:x,tag"), ("file=a:x", "tag"));
    }
}
