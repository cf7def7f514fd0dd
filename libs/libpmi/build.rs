//! Sets the soname of the library to that of Slurm's library, so that programs linked with it find this one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmi.so.0");
}
