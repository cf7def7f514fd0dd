//! Makes the links for `mpirun`'s other names, links `mpirun` without shared objects, and links the debug information of
//! `src/mpir.s` into all builds.

use std::env;

include!("src/names.rs");

#[path = "../scripts/static.rs"]
mod linking;
#[path = "../scripts/links.rs"]
mod links;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/mpir.ld");
    println!("cargo:rerun-if-changed=src/names.rs");
    links::make(&NAMES);
    linking::link(false);
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if ["mold", "gold"].iter().any(|linker| flags.contains(linker)) {
        // These linkers accept no such script; tools must know the types themselves.
        return;
    }
    let directory = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    println!("cargo:rustc-link-arg-bins=-T{directory}/src/mpir.ld");
}
