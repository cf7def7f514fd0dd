//! Bytes as lower-case hexadecimal digits, two for each byte.

/// The digits of `bytes`.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Never reallocated, so that no copy of a secret's digits remains in memory.
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Decodes `digits` into `out`. `None` if they are not hexadecimal digits, or not exactly two for
/// each byte of `out`.
pub fn decode(digits: &str, out: &mut [u8]) -> Option<()> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if digits.len() != 2 * out.len() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_and_anything_else_is_refused() {
        let mut out = [0; 3];
        assert_eq!(encode(&[0, 0xa5, 0xff]), "00a5ff");
        assert_eq!(decode("00a5ff", &mut out), Some(()));
        assert_eq!(out, [0, 0xa5, 0xff]);
        for bad in ["", "00a5f", "00a5ff0", "00a5fg", "00é5f"] {
            assert_eq!(decode(bad, &mut out), None, "{bad:?}");
        }
    }
}
