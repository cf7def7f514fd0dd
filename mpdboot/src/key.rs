//! The ring's key on this host: where it is, and whether two of them go together.

use mpd_io::keyfile::{KeyFile, KeyFileError};
use mpd_proto::channel::KeyText;

/// Variable that names the key file.
const VARIABLE: &str = "MPD_KEY_FILE";

/// What stands in the key file of a ring without a name.
pub(crate) const UNNAMED_RING: &str = "default";

/// The path in the environment.
pub(crate) fn path_in_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|path| !path.is_empty())
}

/// The key file: `option` if given, else what the environment names, else the default one.
///
/// # Errors
/// [`KeyFileError`].
pub(crate) fn file(option: Option<&str>) -> Result<KeyFile, KeyFileError> {
    KeyFile::resolve(option.map(str::to_owned).or_else(path_in_environment).map(Into::into))
}

/// Whether each of the two accepts what the other connects with. While keys are being changed they
/// may differ.
pub(crate) fn go_together(one: &KeyText, other: &KeyText) -> bool {
    let accepts = |one: &KeyText, other: &KeyText| {
        one.keys().accept().any(|key| key.expose() == other.keys().connect().expose())
    };
    accepts(one, other) && accepts(other, one)
}

#[cfg(test)]
mod tests {
    use mpd_proto::channel::{Key, Keys};

    use super::*;

    fn text(connect: u8, also: Option<u8>) -> KeyText {
        let key = |first: u8| {
            let mut bytes = [0; 32];
            bytes[0] = first;
            Key::from_bytes(bytes)
        };
        KeyText::new("r", Keys::new(key(connect), also.map(key))).unwrap()
    }

    #[test]
    fn keys_go_together_if_each_side_accepts_the_others() {
        assert!(go_together(&text(1, None), &text(1, None)));
        assert!(go_together(&text(1, Some(2)), &text(2, Some(1))));
        assert!(!go_together(&text(1, None), &text(2, None)));
        assert!(!go_together(&text(1, Some(2)), &text(2, None)));
    }
}
