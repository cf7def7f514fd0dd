//! Our words for the values of a foreign option.

/// Our words, or the reason why there are none.
pub(super) type Made = Result<Vec<String>, String>;

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Whether the value of a parameter means yes, as in Open MPI.
pub(super) fn is_yes(value: &str) -> bool {
    !["", "0", "no", "off", "false", "f", "n", "disabled"]
        .contains(&value.to_ascii_lowercase().as_str())
}
