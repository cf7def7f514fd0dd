//! Links `mpd` without shared objects.

#[path = "../scripts/static.rs"]
mod linking;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    linking::link(false);
}
