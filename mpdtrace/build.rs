//! Makes the names of the tools beside `mpdtrace`.

include!("src/names.rs");

#[path = "../scripts/links.rs"]
mod links;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/names.rs");
    links::make(&NAMES);
}
