//! Our words for the values of a foreign option.

/// Our words, or the reason why there are none.
pub(super) type Translation = Result<Vec<String>, String>;

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Whether the value of a parameter means yes, as in Open MPI.
pub(super) fn is_yes(value: &str) -> bool {
    !["", "0", "no", "off", "false", "f", "n", "disabled"]
        .contains(&value.to_ascii_lowercase().as_str())
}

/// The word of a list that is meant. It may be shortened, as long as it has one meaning. `hint` follows the message about an
/// unknown word.
pub(super) fn one_of(
    known: &[&'static str],
    word: &str,
    hint: &str,
) -> Result<&'static str, String> {
    let exact = known.iter().find(|known| **known == word);
    let mut fitting = known.iter().filter(|known| known.starts_with(word));
    match (exact, fitting.next(), fitting.next()) {
        (Some(exact), _, _) => Ok(exact),
        (None, Some(only), None) if !word.is_empty() => Ok(only),
        (None, Some(_), Some(_)) => Err(format!("'{word}' has several meanings")),
        _ => Err(format!("'{word}' is not available{hint}")),
    }
}

/// The words of a list that are separated by commas or colons, in small letters.
pub(super) fn listed(text: &str) -> Vec<String> {
    let words = text.split([',', ':']).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_be_shortened_as_long_as_it_is_one() {
        let known = ["tag", "tag-detailed", "timestamp", "merge-stderr-to-stdout"];
        assert_eq!(one_of(&known, "merge", ""), Ok("merge-stderr-to-stdout"));
        assert_eq!(one_of(&known, "tag", ""), Ok("tag"));
        assert_eq!(one_of(&known, "tag-d", ""), Ok("tag-detailed"));
        assert!(one_of(&known, "t", "").unwrap_err().contains("several"));
        for unknown in ["nothing", ""] {
            assert!(one_of(&known, unknown, "; see x").is_err(), "{unknown}");
        }
        assert_eq!(one_of(&known, "no", "; see x").unwrap_err(), "'no' is not available; see x");
    }
}
