//! Suggests a known option for a mistyped one.

use crate::options::OPTIONS;

/// The known name nearest to `typed` (both without dashes), if it is similar enough.
pub fn nearest(typed: &str) -> Option<&'static str> {
    let letters = |name: &str| name.to_lowercase().chars().collect::<Vec<char>>();
    let typed = letters(typed);
    let tolerated = 1.max(typed.len() / 3);
    let shown = OPTIONS.iter().filter(|o| o.is_shown()).flat_map(|o| o.names.iter().copied());
    shown
        .filter_map(|name| {
            let known = letters(name);
            let distance = distance(&typed, &known);
            // If all letters differ, the names are not similar.
            let near = distance <= tolerated && distance < typed.len().max(known.len());
            // Of two equally near names, one of the same length is more likely, because of a wrong
            // key.
            near.then(|| ((distance, known.len().abs_diff(typed.len())), name))
        })
        .min_by_key(|&(rank, _)| rank)
        .map(|(_, name)| name)
}

/// Number of letters to add, remove, change or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
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
