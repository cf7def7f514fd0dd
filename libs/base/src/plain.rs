//! Text from elsewhere, made safe for terminals and lines.

use std::ops::RangeInclusive;

/// Text from elsewhere, made safe for a terminal and a single line: characters that are not [plain](is_plain) are
/// escaped.
pub fn one_line(text: &str) -> String {
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// Whether a character has no effect but its own display. Not plain are control characters, separators of lines and
/// paragraphs, marks of text direction, and invisible characters.
pub fn is_plain(c: char) -> bool {
    !c.is_control() && !FORMATS.iter().any(|range| range.contains(&c))
}

/// The characters of the categories Cf, Zl and Zp of Unicode 16, and fillers that have no width.
const FORMATS: [RangeInclusive<char>; 26] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    // Zero width, directions; separators, embeddings and overrides; joiners and isolates.
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e00ff}',
    '\u{e0100}'..='\u{e01ef}',
    '\u{e01f0}'..='\u{e0fff}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_forge_lines_or_drive_terminals() {
        assert_eq!(one_line("a\nFAKE\u{1b}]0;\u{9b}x"), "a\\nFAKE\\u{1b}]0;\\u{9b}x");
        assert_eq!(one_line("grüße"), "grüße");
    }

    #[test]
    fn characters_that_turn_text_around_break_lines_or_are_invisible_are_escaped() {
        let evil = "a\u{202e}txt\u{2028}\u{2029}\u{200b}\u{2066}\u{feff}\u{ad}\u{e0041}z";
        let escaped = r"a\u{202e}txt\u{2028}\u{2029}\u{200b}\u{2066}\u{feff}\u{ad}\u{e0041}z";
        assert_eq!(one_line(evil), escaped);
        for plain in ["ä ж 漢 عربى שלום हिन्दी", "🙂 ½ €\u{301}"] {
            assert_eq!(one_line(plain), plain);
        }
        assert!(FORMATS.is_sorted_by(|a, b| a.end() < b.start()));
    }
}
