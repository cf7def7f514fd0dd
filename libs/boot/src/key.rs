//! Compares the keys of two hosts.

use mpd_channel::KeyText;

/// Whether each host accepts the key with which the other connects. During a change of keys the two
/// texts may differ.
pub fn are_compatible(one: &KeyText, other: &KeyText) -> bool {
    let accepts = |one: &KeyText, other: &KeyText| {
        one.keys().accept().any(|key| key.expose() == other.keys().connect().expose())
    };
    accepts(one, other) && accepts(other, one)
}

#[cfg(test)]
mod tests {
    use mpd_channel::{Key, Keys};

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
    fn keys_are_compatible_if_each_side_accepts_the_key_of_the_other() {
        assert!(are_compatible(&text(1, None), &text(1, None)));
        assert!(are_compatible(&text(1, Some(2)), &text(2, Some(1))));
        assert!(!are_compatible(&text(1, None), &text(2, None)));
        assert!(!are_compatible(&text(1, Some(2)), &text(2, None)));
    }
}
