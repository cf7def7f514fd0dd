//! Why a call fails.

use serde::{Deserialize, Serialize};

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// An argument is invalid.
    #[error("invalid argument: {0}")]
    Argument(String),
    /// There is no such request, or it is over.
    #[error("no such request; it is null, over, or not of this program")]
    Request,
    /// The request is in a state in which the call is not possible.
    #[error("{0}")]
    State(String),
    /// No signal has this name or number.
    #[error("invalid signal: {0}")]
    Signal(String),
    /// The buffer is too short.
    #[error("the buffer is too short; it needs {0} bytes")]
    Short(u64),
    /// The daemon is not there.
    #[error("{0}")]
    Daemon(String),
    /// The daemon or the scheduler's hook refuses.
    #[error("{0}")]
    Refused(String),
    /// The helper cannot be started, or has ended.
    #[error("{0}")]
    Helper(String),
    /// A bug of the library.
    #[error("the library failed; this is an error in MPD")]
    Library,
}

impl Error {
    /// The number in C: `MPD_ERR_ARG` and so on.
    pub const fn code(&self) -> i32 {
        match self {
            Self::Argument(_) => 1,
            Self::Request => 2,
            Self::State(_) => 3,
            Self::Signal(_) => 4,
            Self::Short(_) => 5,
            Self::Daemon(_) => 6,
            Self::Refused(_) => 7,
            Self::Helper(_) => 8,
            Self::Library => 9,
        }
    }

    /// The text for a code alone.
    pub const fn text(code: i32) -> &'static std::ffi::CStr {
        match code {
            0 => c"success",
            1 => c"invalid argument",
            2 => c"no such request: it is null, over, or not of this program",
            3 => c"the request is in a state in which this call is not possible",
            4 => c"invalid signal",
            5 => c"the buffer is too short",
            6 => c"no daemon answers on this host",
            7 => c"the daemon or the scheduler's hook refuses the request",
            8 => c"the helper of the library, mpdalloc, cannot be started or has ended",
            9 => c"the library failed; this is an error in MPD",
            _ => c"not an error code of MPD",
        }
    }

    pub(crate) fn state(text: &str) -> Self {
        Self::State(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_code_of_its_own_with_a_text() {
        let text = String::new;
        let all = [
            Error::Argument(text()),
            Error::Request,
            Error::State(text()),
            Error::Signal(text()),
            Error::Short(1),
            Error::Daemon(text()),
            Error::Refused(text()),
            Error::Helper(text()),
            Error::Library,
        ];
        for (number, error) in (1..).zip(all) {
            assert_eq!(error.code(), number);
            assert!(!Error::text(number).is_empty() && Error::text(number) != Error::text(99));
        }
    }
}
