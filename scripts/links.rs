//! Part of build scripts: further names of a program, as links beside it in the directory of the profile.
//!
//! A symbolic link can be made before its program. It stays valid when cargo replaces the program, and
//! the code is not linked twice. Cargo does not name the directory of the profile. It is the parent of
//! `build`, which has the output directory of the build script. With `build.build-dir` the links are in
//! that directory instead. `scripts/install` makes the links of an installation.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Makes links to the first of `names` under the others.
pub(crate) fn make(names: &[&str]) {
    // Of the build scripts, some are one directory deeper.
    for up in
        ["..", "../.."].into_iter().filter(|up| Path::new(up).join("scripts/links.rs").exists())
    {
        println!("cargo:rerun-if-changed={up}/scripts/links.rs");
    }
    let directory = directory_of_profile();
    let Some((program, others)) = names.split_first() else { return };
    for name in others {
        let link = directory.join(name);
        if fs::read_link(&link).is_ok_and(|aim| aim == Path::new(program)) {
            continue;
        }
        // It may be a program that was built under this name before.
        let _ = fs::remove_file(&link);
        if let Err(error) = symlink(program, &link) {
            println!("cargo:warning=cannot make {}: {error}", link.display());
        }
    }
}

/// The directory of the built programs.
pub(crate) fn directory_of_profile() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let build = out.ancestors().find(|above| above.ends_with("build"));
    build.and_then(Path::parent).expect("a build script's output is below 'build'").to_owned()
}
