//! The GPUs of this host, by the devices that drivers have made.

use std::fs;

use mpd_placement::gpus::Gpus;

/// The directories with devices of GPUs.
const DIRECTORIES: [&str; 2] = ["/dev", "/dev/dri"];

/// The GPUs of this host.
pub fn here() -> Gpus {
    let entries = DIRECTORIES.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    Gpus::of_devices(names.iter().map(String::as_str))
}
