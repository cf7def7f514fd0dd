//! `libpmi2.so.0`: the C interface of PMI-2, as `include/mpd/pmi2.h` declares it.
//!
//! Each function checks what C gives it, asks the one client of the process, and returns a code.
//! Nothing here decides anything; NULL and rooms too small are errors, and a panic is `PMI2_FAIL`.
//! All may be called from several threads; one that waits keeps nobody.
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]
#![expect(non_snake_case, reason = "the names are those of the interface")]

pub mod attributes;
pub mod jobs;
pub mod kvs;
pub mod process_info;

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmi_client::Client;
use pmi_client::c::ERR_INIT;

/// The client of this process, between `PMI2_Init` and `PMI2_Finalize`.
static CLIENT: Mutex<Option<Arc<Client>>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<Arc<Client>>> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client, for the time of one call.
fn client() -> Result<Arc<Client>, c_int> {
    state().clone().ok_or(ERR_INIT)
}
