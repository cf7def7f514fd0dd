//! Random bits from the system, as text: cookies and names that are never used twice.

use std::fmt::Write as _;
use std::io;

use crypto::rand::{SecureRandom, SystemRandom};

/// `N` random bytes.
///
/// # Errors
/// The system has no randomness.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

/// 128 random bits as 32 hexadecimal digits.
///
/// # Errors
/// The system has no randomness.
pub fn hex128() -> io::Result<String> {
    let bytes: [u8; 16] = bytes()?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
