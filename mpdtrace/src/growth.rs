//! The number of further processes of a job.

use mpd_wire::job::MAX_RANKS;

/// A number of further processes, like +4.
///
/// # Errors
/// A text for people if it is no number, or too large.
pub fn more(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('+').unwrap_or(text).parse().ok();
    let number = number.filter(|number| (1..=MAX_RANKS).contains(number));
    number.ok_or_else(|| format!("it must be +1 to +{MAX_RANKS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_have_a_plus() {
        assert_eq!(["+4", "4", "1048576"].map(more), [4, 4, 1 << 20].map(Ok));
        for bad in ["", "+", "0", "+0", "-1", "1048577", "x"] {
            assert!(more(bad).unwrap_err().contains("it must be +1 to +1048576"), "{bad}");
        }
    }
}
