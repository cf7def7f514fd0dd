//! `libpmi2.so.0`: the C interface of PMI-2, as `include/mpd/pmi2.h` declares it.
//!
//! Each function checks the arguments of C, calls the client of the process, and returns a code.
//! NULL and a buffer that is too small are errors, and a panic becomes `PMI2_FAIL`. The functions
//! that PMI-1 has too are methods of [`Library`].
//!
//! Several threads may call the functions at the same time. A waiting thread does not block others.
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]
#![expect(non_snake_case, reason = "the names are those of the interface")]

pub mod attributes;
pub mod jobs;
pub mod kvs;
pub mod process_info;

use pmi_client::Version;
use pmi_client::library::Library;

/// The library of this process.
static LIBRARY: Library = Library::new(Version::Two);
