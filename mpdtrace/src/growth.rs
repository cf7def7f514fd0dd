//! How a job grows or shrinks.

use mpd_wire::job::MAX_RANKS;

/// The change of the number of processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many further processes.
    More(u32),
    /// So many processes fewer.
    Fewer(u32),
}

/// A change like +4 or -4.
///
/// # Errors
/// A text for people if it is no number, or too large.
pub fn change(text: &str) -> Result<Change, String> {
    let (digits, make): (&str, fn(u32) -> Change) = match text.strip_prefix('-') {
        Some(digits) => (digits, Change::Fewer),
        None => (text.strip_prefix('+').unwrap_or(text), Change::More),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| is_number && (1..=MAX_RANKS).contains(number));
    let problem = || format!("it must be +1 to +{MAX_RANKS}, or -1 to -{MAX_RANKS}");
    number.map(make).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign_and_without_one_it_is_growth() {
        assert_eq!(
            ["+4", "4", "1048576"].map(change),
            [4, 4, 1 << 20].map(|n| Ok(Change::More(n)))
        );
        assert_eq!(["-4", "-1048576"].map(change), [4, 1 << 20].map(|n| Ok(Change::Fewer(n))));
        for bad in ["", "+", "-", "0", "+0", "-0", "-+1", "+-1", "--1", "1048577", "x"] {
            assert!(change(bad).unwrap_err().contains("it must be +1 to +1048576"), "{bad}");
        }
    }
}
