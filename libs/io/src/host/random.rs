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

/// Random bytes for three purposes, from one call of the system.
///
/// # Errors
/// The system has no randomness.
pub fn three<const A: usize, const B: usize, const C: usize>()
-> io::Result<([u8; A], [u8; B], [u8; C])> {
    const MOST: usize = 128;
    const { assert!(A + B + C <= MOST) };
    let all: [u8; MOST] = bytes()?;
    let (mut a, mut b, mut c) = ([0; A], [0; B], [0; C]);
    a.copy_from_slice(&all[..A]);
    b.copy_from_slice(&all[A..A + B]);
    c.copy_from_slice(&all[A + B..A + B + C]);
    Ok((a, b, c))
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
