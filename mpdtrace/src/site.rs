//! The work of `mpdsite` on this host and on others.

pub mod bundle;
pub mod ended;
pub mod facts;
pub mod saved;

#[cfg(test)]
mod login_tests;
