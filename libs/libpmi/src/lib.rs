//! `libpmi.so.0`: the C interface of PMI-1, as `include/mpd/pmi.h` declares it.
//!
//! Each function checks the arguments of C, calls the client of the process, and returns a code.
//! NULL and a buffer that is too small are errors, and a panic becomes `PMI_FAIL`. The functions
//! that PMI-2 has too are methods of [`Library`].
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]

pub mod jobs;
pub mod kvs;
pub mod options;
pub mod process_info;

use std::ffi::c_int;

use pmi_client::Version;
use pmi_client::library::Library;

/// The keyval space is not that of this job.
const ERR_INVALID_KVS: c_int = 14;

/// The library of this process.
static LIBRARY: Library = Library::new(Version::One);
