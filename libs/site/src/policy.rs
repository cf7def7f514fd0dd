//! The rules of the site: `/etc/mpd/policy.toml`.

use serde::Deserialize;

/// Most bytes of the file.
pub const MAX_FILE: usize = 64 << 10;

/// The rules. Each has a default, so a site needs no file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policy {
    /// A ring without jobs and waiting consoles ends after so many minutes, 0.05 to 10,080.
    pub idle: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { idle: 10.0 }
    }
}

/// The file cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("it has more than {MAX_FILE} bytes")]
    TooLong,
    #[error("it is not text")]
    NotText,
    #[error("{0}")]
    Toml(String),
    #[error("idle = {0}: valid are 0.05 to 10080 minutes")]
    Idle(f64),
}

impl Policy {
    /// How long a ring stays after its last use, in seconds.
    pub fn idle_s(&self) -> u32 {
        // The range of `idle` fits.
        (self.idle * 60.0).round() as u32
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// [`InvalidPolicy`], with the line if one is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidPolicy> {
        if text.len() > MAX_FILE {
            return Err(InvalidPolicy::TooLong);
        }
        let text = std::str::from_utf8(text).map_err(|_| InvalidPolicy::NotText)?;
        let policy: Self =
            toml::from_str(text).map_err(|e| InvalidPolicy::Toml(one_line(text, &e)))?;
        if !(0.05..=10_080.0).contains(&policy.idle) {
            return Err(InvalidPolicy::Idle(policy.idle));
        }
        Ok(policy)
    }
}

/// The error with its line, without the picture of the line.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
    let message = error.message();
    line.map_or_else(|| message.to_owned(), |line| format!("line {line}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_rules_has_the_defaults() {
        assert_eq!(Policy::parse(b""), Ok(Policy { idle: 10.0 }));
        let policy = Policy::parse(b"# short rings\nidle = 1.5\n");
        assert_eq!(policy, Ok(Policy { idle: 1.5 }));
    }

    #[test]
    fn an_error_names_its_line() {
        let text = |text: &str| Policy::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(
            text("\nidel = 1\n").starts_with("line 2: unknown field `idel`"),
            "{}",
            text("\nidel = 1\n")
        );
        assert_eq!(text("idle = 0.0"), "idle = 0: valid are 0.05 to 10080 minutes");
    }
}
