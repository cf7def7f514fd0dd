//! Our words for the values of a foreign option.

/// Our words, or the reason why there are none.
pub(super) type Made = Result<Vec<String>, String>;

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
