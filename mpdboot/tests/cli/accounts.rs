//! Accounts of other users in lists of hosts: they would get the key of the ring.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};

use nix::unistd::geteuid;

use crate::world::World;

/// A file in the current directory of the boot.
fn put(world: &World, name: &str, mode: u32) {
    let path = world.path("home/local").join(name);
    fs::write(&path, "h1\nh2 user=bo\n").unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_another_user_left_in_the_directory_is_ignored_with_its_owner() {
    if !geteuid().is_root() {
        return;
    }
    let world = World::new();
    put(&world, "mpd.hosts", 0o644);
    chown(world.path("home/local/mpd.hosts"), Some(65_534), None).unwrap();
    let ran = world.run(&["-n", "3"]);
    ran.assert(1, "./mpd.hosts belongs to nobody, not to you: ignored; name a file with -f");
    assert_eq!((world.text("ssh.argv"), world.ring()), (String::new(), Vec::<String>::new()));
}

#[test]
fn a_file_in_the_directory_that_others_can_write_is_ignored_with_the_remedy() {
    let world = World::new();
    for (mode, remedy) in
        [(0o646, "run 'chmod o-w mpd.hosts'"), (0o664, "run 'chmod g-w mpd.hosts'")]
    {
        put(&world, "mpd.hosts", mode);
        // A group counts only if it is known that no other user is in it, so it must be another one here.
        let _ = chown(world.path("home/local/mpd.hosts"), None, Some(libc::gid_t::MAX - 7));
        world.run(&["-n", "3"]).assert(1, remedy);
    }
    assert_eq!(world.text("ssh.argv"), "");
}

#[test]
fn an_account_of_another_name_counts_only_if_the_command_line_or_a_safe_file_of_the_user_names_it()
{
    let world = World::new();
    put(&world, "mpd.hosts", 0o644);
    world.run(&["-n", "3"]).assert(1, "give --allow-user h2=bo, or name the file with -f");
    fs::set_permissions(world.path("home/local"), Permissions::from_mode(0o777)).unwrap();
    let ran = world.run(&["-f", "mpd.hosts"]);
    ran.assert(1, "mpd.hosts is in the folder @/home/local, which can be written by every user");
    ran.assert(1, "host h2: bo would get the key of the ring");
    assert_eq!(world.text("ssh.argv"), "");
    fs::set_permissions(world.path("home/local"), Permissions::from_mode(0o755)).unwrap();
    world.run(&["-f", "mpd.hosts"]).assert(0, "");
    for options in [&["-n", "3", "--allow-user", "h2=bo"][..], &["--hosts", "h1,bo@h2"]] {
        let world = World::new();
        put(&world, "mpd.hosts", 0o644);
        world.run(options).assert(0, "");
    }
}

#[test]
fn a_ring_with_an_account_of_another_name_has_a_new_key_of_its_own_on_all_hosts() {
    let world = World::new();
    world.put_key("local", "0a");
    put(&world, "list", 0o644);
    world.run(&["-f", "list", "--ring", "blue"]).assert(0, "");
    let alone = world.text("home/local/key-blue");
    assert!(alone.starts_with("ring blue\n"), "{alone}");
    for host in ["h1", "h2"] {
        assert_eq!(world.text(&format!("home/{host}/key-blue")), alone);
        assert_eq!(world.text(&format!("home/{host}/key")), "", "{host} has the key of all rings");
    }
    let again = World::new();
    put(&again, "list", 0o644);
    fs::write(again.path("home/local/key-blue"), &alone).unwrap();
    fs::set_permissions(again.path("home/local/key-blue"), Permissions::from_mode(0o600)).unwrap();
    again.run(&["-f", "list", "--ring", "blue"]).assert(0, "");
    let new = again.text("home/local/key-blue");
    assert!(new.starts_with("ring blue\n") && new != alone, "accounts of an earlier ring know it");
}

#[test]
fn a_later_ring_without_such_an_account_has_the_key_of_all_rings_again() {
    let world = World::new();
    world.put_key("local", "0a");
    for host in ["local", "h1"] {
        fs::create_dir_all(world.path("home").join(host)).unwrap();
        fs::write(world.path("home").join(host).join("key-default"), "of an earlier ring").unwrap();
    }
    world.run(&["--hosts", "h1"]).assert(0, "");
    for host in ["local", "h1"] {
        assert_eq!(world.text(&format!("home/{host}/key-default")), "");
        assert!(world.text(&format!("home/{host}/key")).contains(&"0a".repeat(31)));
    }
}

#[test]
fn an_account_of_another_name_cannot_be_added_to_a_ring_with_the_key_of_all_rings() {
    let world = World::new();
    world.run(&["--hosts", "h1"]).assert(0, "");
    let ran = world.run(&["--add", "--hosts", "bo@h2"]);
    ran.assert(1, "host h2: bo would get the key of all your rings");
    assert!(!world.text("ssh.argv").contains("h2"));
}
