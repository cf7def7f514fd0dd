//! `libpmi.so.0`: the C interface of PMI-1, as `include/mpd/pmi.h` declares it.
//!
//! Each function checks what C gives it, asks the one client of the process, and returns a code.
//! Nothing here decides anything; NULL and rooms too small are errors, and a panic is `PMI_FAIL`.
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]

pub mod jobs;
pub mod kvs;
pub mod options;
pub mod process_info;

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmi_client::Client;
use pmi_client::c::ERR_INIT;

/// The keyval space is not one of this job.
const ERR_INVALID_KVS: c_int = 14;

/// The client of this process, between `PMI_Init` and `PMI_Finalize`.
static CLIENT: Mutex<Option<Arc<Client>>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<Arc<Client>>> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client, for the time of one call.
fn client() -> Result<Arc<Client>, c_int> {
    state().clone().ok_or(ERR_INIT)
}
