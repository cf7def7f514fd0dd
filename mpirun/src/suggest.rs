//! Suggests a known option for a mistyped one.

use crate::options::OPTIONS;

/// The known name nearest to `typed` (both without dashes), if it is similar enough.
pub fn nearest(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    let length = typed.chars().count();
    let tolerated = 1.max(length / 3);
    let shown = OPTIONS.iter().filter(|o| o.is_shown()).flat_map(|o| o.names.iter().copied());
    shown
        .filter_map(|name| {
            let known = name.to_lowercase();
            let known_length = known.chars().count();
            let distance = strsim::osa_distance(&typed, &known);
            // If all letters differ, the names are not similar.
            let near = distance <= tolerated && distance < length.max(known_length);
            // Of two equally near names, one of the same length is more likely, because of a wrong
            // key.
            near.then(|| ((distance, known_length.abs_diff(length)), name))
        })
        .min_by_key(|&(rank, _)| rank)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        for (typed, meant) in [
            ("nq", "np"),
            ("enlist", "envlist"),
            ("wdri", "wdir"),
            ("timeuot", "timeout"),
            ("gevn", "genv"),
            ("label-fmr", "label-fmt"),
            ("outfilepattern", "outfile-pattern"),
            ("np4", "np"),
            ("Verbose", "verbose"),
            ("N", "n"),
        ] {
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_name_that_resembles_no_option_has_no_suggestion() {
        for typed in ["", "q", "zzz", "qqqqqqqq", "frobnicate", "-", "é"] {
            assert_eq!(nearest(typed), None, "{typed}");
        }
    }

    #[test]
    fn hidden_options_are_not_suggested() {
        assert_eq!(nearest("generate-doc"), None);
        assert_ne!(nearest("tvs"), Some("tvsu"));
    }
}
