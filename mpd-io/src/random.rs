//! Random bits from the system, as text: cookies and names that are never used twice.

use std::fmt::Write as _;
use std::io;

use crypto::rand::{SecureRandom, SystemRandom};

/// 128 random bits as 32 hexadecimal digits.
///
/// # Errors
/// When the system has no randomness to give.
pub fn hex128() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
