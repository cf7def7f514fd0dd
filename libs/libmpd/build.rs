//! Sets the soname of the library. Beside a built library it also makes a link of this name and a file for pkg-config, so that
//! programs can be linked with a build.

#[path = "../../scripts/links.rs"]
mod links;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../include/mpd/mpd.h");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpd.so.0");
    links::make(&["libmpd.so", "libmpd.so.0"]);
    let source = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let version = std::env::var("CARGO_PKG_VERSION").expect("set by cargo");
    let directory = links::directory_of_profile();
    let text = format!(
        "libdir={}\nincludedir={source}/../../include\n\nName: mpd\nDescription: Requests for processes on slots of a \
         ring\nVersion: {version}\nCflags: -I${{includedir}}\nLibs: -L${{libdir}} -lmpd\n",
        directory.display()
    );
    if let Err(error) = std::fs::write(directory.join("mpd.pc"), text) {
        println!("cargo:warning=cannot write mpd.pc: {error}");
    }
}
