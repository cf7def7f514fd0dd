//! Lines of the daemon's log. The node decides them, and the process writes them.

/// The importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For a developer.
    Debug,
    /// An ordinary event.
    Info,
    /// Something was refused, or is lost.
    Warn,
    /// An order cannot be carried out here.
    Error,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its importance.
    pub level: Level,
    /// Its text. It may contain text of others, so the process escapes it.
    pub text: String,
}

impl Line {
    /// An ordinary event.
    pub fn info(text: impl Into<String>) -> Self {
        Self { level: Level::Info, text: text.into() }
    }

    /// Something was refused, or is lost.
    pub fn warn(text: impl Into<String>) -> Self {
        Self { level: Level::Warn, text: text.into() }
    }

    /// An order cannot be carried out here.
    pub fn error(text: impl Into<String>) -> Self {
        Self { level: Level::Error, text: text.into() }
    }
}
