//! The marked part of a file that belongs to others, such as `/etc/ssh/shosts.equiv`.

/// The line before the part.
pub const BEGIN: &str = "# begin of mpd-suite: mpdsite writes the lines up to the end mark";
/// The line after the part.
pub const END: &str = "# end of mpd-suite";

/// The marks of a file do not pair, so its part cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the marks of mpd-suite in it do not pair; repair or remove them by hand")]
pub struct Unpaired;

/// The text with `lines` as its marked part, at the place of the former part or at the end. Without
/// lines, the part and its marks go.
///
/// # Errors
/// [`Unpaired`].
pub fn replaced(text: &str, lines: &[String]) -> Result<String, Unpaired> {
    let (before, after) = match part(text)? {
        Some((begin, end)) => (&text[..begin], &text[end..]),
        None => (text, ""),
    };
    let mut out = before.to_owned();
    if !lines.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        for line in [BEGIN].into_iter().chain(lines.iter().map(String::as_str)).chain([END]) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.push_str(after);
    Ok(out)
}

/// The lines of the marked part; `None` without one.
///
/// # Errors
/// [`Unpaired`].
pub fn lines(text: &str) -> Result<Option<Vec<&str>>, Unpaired> {
    let Some((begin, end)) = part(text)? else { return Ok(None) };
    Ok(Some(text[begin..end].lines().filter(|&line| line != BEGIN && line != END).collect()))
}

/// Where the marked part begins and ends, in bytes, with its marks.
fn part(text: &str) -> Result<Option<(usize, usize)>, Unpaired> {
    let mut at = 0;
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        if content == BEGIN {
            begins.push(at);
        }
        at += line.len();
        if content == END {
            ends.push(at);
        }
    }
    match (&begins[..], &ends[..]) {
        ([], []) => Ok(None),
        (&[begin], &[end]) if begin < end => Ok(Some((begin, end))),
        _ => Err(Unpaired),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, lines: &[&str]) -> String {
        replaced(text, &lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_lines_of_others_stay_as_they_are() {
        let text = "alpha\nbeta";
        let added = with(text, &["h1", "h2"]);
        assert_eq!(added, format!("alpha\nbeta\n{BEGIN}\nh1\nh2\n{END}\n"));
        assert_eq!(lines(&added), Ok(Some(vec!["h1", "h2"])));
        let more = added.clone() + "gamma\n";
        assert_eq!(with(&more, &["h3"]), format!("alpha\nbeta\n{BEGIN}\nh3\n{END}\ngamma\n"));
        assert_eq!(with(&more, &[]), "alpha\nbeta\ngamma\n");
        assert_eq!(with("", &[]), "");
        assert_eq!(lines(text), Ok(None));
    }

    #[test]
    fn a_second_part_is_an_error_and_nothing_is_guessed() {
        let once = with("", &["h1"]);
        for text in
            [once.repeat(2), format!("{END}\n{BEGIN}\n"), format!("{BEGIN}\nh1\n"), END.to_owned()]
        {
            assert_eq!(replaced(&text, &[]), Err(Unpaired), "{text}");
        }
    }
}
