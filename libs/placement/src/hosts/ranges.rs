//! Expands `c[01-16,20]` to names.

/// Most digits of a number in a range.
const MAX_DIGITS: usize = 18;

/// The reason why a word with ranges cannot be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The brackets or their content are malformed.
    Malformed,
    /// The names exceed the limit.
    TooMany,
}

/// The names that `word` expands to, at most `room`: one for every combination of its ranges. The
/// last range changes fastest. The names themselves are not checked.
pub(super) fn expand(word: &str, room: usize) -> Result<Vec<String>, Fault> {
    let mut names = vec![String::new()];
    let mut rest = word;
    while let Some((before, opened)) = rest.split_once('[') {
        let (inside, after) = opened.split_once(']').ok_or(Fault::Malformed)?;
        let numbers = numbers(inside, room)?;
        if names.len().saturating_mul(numbers.len()) > room {
            return Err(Fault::TooMany);
        }
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}")))
            .collect();
        rest = after;
    }
    if rest.contains(']') {
        return Err(Fault::Malformed);
    }
    if names.len() > room {
        return Err(Fault::TooMany);
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// The numbers in one pair of brackets as text, with leading zeros.
fn numbers(inside: &str, room: usize) -> Result<Vec<String>, Fault> {
    let mut all = Vec::new();
    for item in inside.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(Fault::Malformed);
        }
        if to - from >= room.saturating_sub(all.len()) as u64 {
            return Err(Fault::TooMany);
        }
        // `08-12` counts 08, 09, 10; `8-12` adds no zeros.
        let width = if first.starts_with('0') { first.len() } else { 0 };
        all.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

fn number(digits: &str) -> Result<u64, Fault> {
    let fits = (1..=MAX_DIGITS).contains(&digits.len());
    if !fits || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Malformed);
    }
    digits.parse().map_err(|_| Fault::Malformed)
}

/// The items between those commas that are outside brackets.
pub(super) fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c| {
        inside = match c {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        c == ',' && !inside
    })
}
