//! Values of foreign options that send the output of ranks to files.

use super::language::Facts;
use super::made::{Made, words};

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
    let qualifiers = qualifiers.split([',', ':']).filter(|word| !word.is_empty());
    let qualifiers: Vec<String> = qualifiers.map(str::to_ascii_lowercase).collect();
    match qualifiers.iter().find(|word| !known.contains(&word.as_str())) {
        Some(other) => Err(format!("the qualifier '{other}' is not available")),
        None => Ok((path, qualifiers)),
    }
}

/// Our options for files with this pattern, which are copies unless that is excluded.
fn files(pattern: &str, qualifiers: &[String]) -> Vec<String> {
    let mut made = words(&["-output-pattern", pattern]);
    if !qualifiers.iter().any(|word| word == "nocopy") {
        made.extend(words(&["-tee"]));
    }
    made
}

/// `--output-filename` of Open MPI 4: a directory for each rank.
pub(super) fn directories_4(values: &[&str], _: &dyn Facts) -> Made {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "nojobid"])?;
    let job = if qualifiers.iter().any(|word| word == "nojobid") { "" } else { "1/" };
    Ok(files(&format!("{}/{job}rank.%R/std%o", literal(path)), &qualifiers))
}

/// `--output-directory` of Open MPI 5.
pub(super) fn directories_5(values: &[&str], _: &dyn Facts) -> Made {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "nojobid", "raw"])?;
    let job = if qualifiers.iter().any(|word| word == "nojobid") { "" } else { "%j/" };
    Ok(files(&format!("{}/{job}rank.%R/std%o", literal(path)), &qualifiers))
}

/// `--output-filename` of Open MPI 5.
pub(super) fn files_5(values: &[&str], _: &dyn Facts) -> Made {
    let (path, qualifiers) = qualified(values[0], &["nocopy", "raw"])?;
    Ok(files(&format!("{}.%j.%R.%o", literal(path)), &qualifiers))
}

/// The words of `--output` of Open MPI 5. A word may be shortened.
const DIRECTIVES: [&str; 7] =
    ["tag", "tag-detailed", "tag-fullname", "timestamp", "xml", "merge-stderr-to-stdout", "rank"];

/// The directive that a word means.
fn directive(word: &str) -> Result<&'static str, String> {
    let mut fitting = DIRECTIVES.into_iter().filter(|known| known.starts_with(word));
    match (DIRECTIVES.into_iter().find(|known| *known == word), fitting.next(), fitting.next()) {
        (Some(exact), _, _) => Ok(exact),
        (None, Some(only), None) if !word.is_empty() => Ok(only),
        (None, Some(_), Some(_)) => Err(format!("'{word}' has several meanings")),
        _ => Err(format!("'{word}' is not available")),
    }
}

/// `--output LIST` of Open MPI 5.
pub(super) fn output(values: &[&str], caller: &dyn Facts) -> Made {
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
            key => made.extend(match directive(key)? {
                "tag" => words(&["-prepend-pattern", "[1,%r]: "]),
                "tag-detailed" => words(&["-prepend-pattern", "[%j,%r][%h:%p]: "]),
                "tag-fullname" => words(&["-prepend-pattern", "[%j,%r]: "]),
                "rank" => words(&["-prepend-pattern", "[%r]: "]),
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
pub(super) fn slurm_output(values: &[&str], caller: &dyn Facts) -> Made {
    match values[0] {
        "all" => Ok(Vec::new()),
        "none" => Ok(words(&["-output-pattern", "/dev/null"])),
        value => Ok(words(&["-output-pattern", &slurm_pattern(value, caller)?])),
    }
}

/// `--error PATTERN` of Slurm.
pub(super) fn slurm_error(values: &[&str], caller: &dyn Facts) -> Made {
    match values[0] {
        "none" => Ok(words(&["-errfile-pattern", "/dev/null"])),
        value => Ok(words(&["-errfile-pattern", &slurm_pattern(value, caller)?])),
    }
}

/// A pattern of Slurm as a pattern of ours.
fn slurm_pattern(value: &str, caller: &dyn Facts) -> Result<String, String> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the output of one rank alone cannot be chosen".to_owned());
    }
    let variable = |field: char, name: &str, otherwise: Option<&str>| {
        let value = caller.variable(name.as_bytes()).filter(|value| !value.is_empty());
        let value = value.map(|value| literal(&String::from_utf8_lossy(value)));
        let missing = || format!("%{field} needs the variable {name}");
        value.or_else(|| otherwise.map(str::to_owned)).ok_or_else(missing)
    };
    let mut made = String::new();
    let mut rest = value.chars();
    while let Some(sign) = rest.next() {
        if sign != '%' {
            made.push(sign);
            continue;
        }
        made += &match rest.next() {
            Some('t') => "%r".to_owned(),
            Some('n') => "%n".to_owned(),
            Some('N') => "%h".to_owned(),
            Some(field @ 'j') => variable(field, "SLURM_JOB_ID", Some("%j"))?,
            Some(field @ 'x') => variable(field, "SLURM_JOB_NAME", Some("%a"))?,
            Some(field @ 'u') => variable(field, "USER", None)?,
            Some(field @ 'A') => variable(field, "SLURM_ARRAY_JOB_ID", None)?,
            Some(field @ 'a') => variable(field, "SLURM_ARRAY_TASK_ID", None)?,
            Some('%') | None => "%%".to_owned(),
            Some(field) => {
                let known = "known are %t, %n, %N, %j, %x, %u, %A and %a";
                return Err(format!("the field %{field} is not available; {known}"));
            }
        };
    }
    Ok(made)
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

    #[test]
    fn a_directive_may_be_shortened_as_long_as_it_is_one() {
        assert_eq!(directive("merge"), Ok("merge-stderr-to-stdout"));
        assert_eq!(directive("tag"), Ok("tag"));
        assert_eq!(directive("tag-d"), Ok("tag-detailed"));
        assert!(directive("t").unwrap_err().contains("several"));
        assert!(directive("nothing").unwrap_err().contains("not available"));
    }
}
