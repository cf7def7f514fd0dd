//! Links the unwinder of GCC into the programs instead of loading `libgcc_s.so.1` at each start: that takes nine system
//! calls, relocations, and instructions that are slow on virtual machines.
//!
//! Rust's standard library asks the linker for `gcc_s`. The linker finds the script written here first; it names the
//! static library, which is a part of every GCC.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        let directory = env::var("OUT_DIR").expect("set by cargo");
        let script = Path::new(&directory).join("libgcc_s.so");
        fs::write(script, "INPUT(-lgcc_eh -lgcc)\n").expect("cargo's directory can be written");
        println!("cargo:rustc-link-search=native={directory}");
    }
}
