//! Keys of this host and of others: whether two of them go together.

use mpd_channel::KeyText;

/// What stands in the key file of a ring without a name.
pub(crate) const UNNAMED_RING: &str = "default";

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
    fn keys_go_together_if_each_side_accepts_the_others() {
        assert!(go_together(&text(1, None), &text(1, None)));
        assert!(go_together(&text(1, Some(2)), &text(2, Some(1))));
        assert!(!go_together(&text(1, None), &text(2, None)));
        assert!(!go_together(&text(1, Some(2)), &text(2, None)));
    }
}
