//! Files and streams: standard streams without blocking, key files, logs, files of users.

pub mod digest;
pub(crate) mod inherited;
pub mod input;
pub mod key_file;
pub mod logging;
pub mod output;
pub mod own_file;
pub mod recording;
pub mod trust;
pub mod unnamed;
