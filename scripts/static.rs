//! Part of build scripts: links the programs that every job starts without shared objects.
//!
//! A dynamically linked program needs about 25 system calls and 0.15 ms more for its start. `libs/io/src/host/names.rs` asks
//! `getent` for what such a program cannot load. Programs are linked dynamically if the C library of this system has no
//! static form, or if `MPD_LINK_DYNAMICALLY` is set.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The libraries that Rust's standard library names. In the C library of today, most are empty.
const LIBRARIES: [&str; 6] = ["c", "dl", "m", "pthread", "rt", "util"];

/// Links the programs of this package statically, at an address of the kernel's choice if `is_movable`.
pub(crate) fn link(is_movable: bool) {
    println!("cargo:rerun-if-changed=../scripts/static.rs");
    println!("cargo:rerun-if-env-changed=MPD_LINK_DYNAMICALLY");
    let is_gnu = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if !is_gnu || env::var_os("MPD_LINK_DYNAMICALLY").is_some() || !LIBRARIES.iter().all(exists) {
        return;
    }
    let directory = env::var("OUT_DIR").expect("set by cargo");
    for library in LIBRARIES {
        // The compiler asks for shared objects. The linker finds this script first.
        let script = Path::new(&directory).join(format!("lib{library}.so"));
        fs::write(script, format!("INPUT(-l:lib{library}.a)\n")).expect("cargo's directory");
    }
    println!("cargo:rustc-link-arg-bins=-L{directory}");
    if is_movable {
        println!("cargo:rustc-link-arg-bins=-static-pie");
    } else {
        println!("cargo:rustc-link-arg-bins=-static");
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

/// Whether the compiler that links has this library in its static form.
fn exists(library: &&str) -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg(format!("-print-file-name=lib{library}.a")).output();
    // For an unknown file, the answer is its name alone.
    asked.is_ok_and(|answer| {
        String::from_utf8(answer.stdout).is_ok_and(|path| Path::new(path.trim()).is_absolute())
    })
}
