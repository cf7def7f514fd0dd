//! The key is in the key files of its hosts and in no other place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::world::World;

/// The key in hexadecimal digits, in capitals, and in base 64.
fn spellings(key: &str) -> Vec<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = key.as_bytes().chunks(2).map(byte).collect();
    // Only the first groups of three bytes, which are enough to find it.
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64: String = bytes
        .chunks_exact(3)
        .flat_map(|three| {
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            [18, 12, 6, 0].map(|shift| letters[(bits >> shift & 63) as usize] as char)
        })
        .collect();
    vec![key.to_owned(), key.to_uppercase(), base64]
}

#[test]
fn no_argument_list_no_environment_and_no_output_has_the_key() {
    let world = World::new();
    world.set("mpd/h3", "busy");
    let ran = world.run(&["--hosts", "h[1-4]", "--window", "2", "--keep", "-v", "--json"]);
    ran.assert(3, "step join");
    let key = world.text("home/local/key").lines().nth(1).unwrap().to_owned();
    assert_eq!(key.len(), 64);
    let places = [
        world.text("ssh.argv"),
        world.text("mpd.argv"),
        world.text("environ"),
        world.text("run/h1/keep.json"),
        ran.out,
        ran.err,
    ];
    for (index, place) in places.iter().enumerate() {
        assert!(!place.is_empty(), "{index}");
        for spelling in spellings(&key) {
            assert!(!place.contains(&spelling), "{index} has the key");
        }
    }
    for private in ["home/h1/key", "run/h1/keep.json"] {
        let mode = fs::metadata(world.path(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{private}");
    }
}

#[test]
fn two_rings_have_different_keys_and_an_existing_key_is_kept() {
    let (one, other) = (World::new(), World::new());
    one.run(&[]).assert(0, "");
    other.put_key("local", "0a");
    other.run(&["--hosts", "h1"]).assert(0, "");
    assert_ne!(one.text("home/local/key"), other.text("home/local/key"));
    assert!(other.text("home/h1/key").contains(&"0a".repeat(31)));
}
