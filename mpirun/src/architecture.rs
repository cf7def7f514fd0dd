//! `-arch`: compares a pattern with the architecture of this host. All hosts of a ring have one architecture, because
//! the programs of the suite are the same files on all of them.

use crate::scan::Setting;
use crate::usage::Usage;

/// Refuses an architecture that this host does not have.
pub(crate) fn check(setting: &Setting) -> Result<(), Usage> {
    let pattern = setting.text()?.to_ascii_lowercase();
    let own = std::env::consts::ARCH;
    if names(own).iter().any(|name| matches(pattern.as_bytes(), name.as_bytes())) {
        return Ok(());
    }
    let text = format!("the hosts are {own}; no host has the architecture {pattern}");
    Err(Usage::new(format!("{setting}: {text}")))
}

/// The names by which systems call an architecture.
fn names(own: &str) -> Vec<String> {
    let short: &[&str] = match own {
        "x86_64" => &["x86_64", "amd64", "x86-64", "x64", "em64t", "intel64"],
        "aarch64" => &["aarch64", "arm64"],
        _ => &[own],
    };
    let long = |name: &&str| {
        let forms = ["-linux", "-linux-gnu", "-pc-linux-gnu", "-unknown-linux-gnu"];
        forms.map(|end| format!("{name}{end}")).into_iter().chain([format!("linux-{name}")])
    };
    let all = short.iter().flat_map(long);
    short.iter().map(|&name| name.to_owned()).chain(all).collect()
}

/// Whether a text matches a pattern with `*` and `?`. The time is bounded by the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The place after the last star, and the first byte that this star does not cover yet.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, covered)) = retry else { return false };
                retry = Some((after, covered + 1));
                (p, t) = (after, covered + 1);
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("sparc*", "x86_64", false),
            ("x86*", "x86_64", true),
            ("*-linux*", "x86_64-linux-gnu", true),
            ("x86?64", "x86_64", true),
            ("x86_6", "x86_64", false),
            ("", "x86_64", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
