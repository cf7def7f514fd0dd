use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

const TEXT: &str = "ring r\n\
    00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn names(directory: &Path) -> Vec<OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn each_unsafe_file_is_refused_with_its_problem_and_the_repair() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str, &str); 10] = [
        ("0644", |p| write(p, TEXT, 0o644), "open to other users (mode 644)", "chmod 600 /"),
        ("0660", |p| write(p, TEXT, 0o660), "open to other users (mode 660)", "chmod 600 /"),
        (
            "symlink",
            |p| {
                write(&p.with_extension("target"), TEXT, 0o600);
                symlink(p.with_extension("target"), p).unwrap();
            },
            "is a symbolic link",
            "put the file itself there",
        ),
        ("fifo", |p| mkfifo(p, Mode::S_IRWXU).unwrap(), "not a regular file", "remove it"),
        ("directory", |p| fs::create_dir(p).unwrap(), "not a regular file", "remove it"),
        (
            "hard link",
            |p| {
                write(p, TEXT, 0o600);
                fs::hard_link(p, p.with_extension("other")).unwrap();
            },
            "has 2 hard links",
            "mv /",
        ),
        ("empty", |p| write(p, "", 0o600), "it is empty", "copy it again"),
        (
            "short key",
            |p| write(p, &TEXT.replace("ddeeff\n", "ddee\n"), 0o600),
            "has 248 bits, 256 are needed",
            "mpdboot makes a new key",
        ),
        ("large", |p| write(p, &"#\n".repeat(3000), 0o600), "larger than 4096", "copy it again"),
        (
            "secret word",
            |p| write(p, "MPD_SECRETWORD=x\n", 0o600),
            "line 1 is not 'ring NAME'",
            "copy it again",
        ),
    ];
    for (name, make, problem, repair) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        make(&path);
        let file = KeyFile::at(path.clone());
        for error in [file.load().unwrap_err(), file.load_or_create("r").unwrap_err()] {
            let text = error.to_string();
            assert!(matches!(error, KeyFileError::Refused { .. }), "{name}: {text}");
            assert!(text.starts_with(&path.display().to_string()), "{name}: {text}");
            assert!(text.contains(problem) && text.contains(repair), "{name}: {text}");
        }
    }
}

#[test]
fn a_file_of_another_user_is_refused_and_one_of_root_is_not() {
    let facts = Facts { regular: true, owner: 1000, mode: 0o600, links: 1, size: 100 };
    assert_eq!(check(&facts, 1000), Ok(()));
    assert!(matches!(check(&facts, 1001), Err(Problem::Owner(_))));
    assert!(matches!(check(&facts, 0), Err(Problem::Owner(_))));
    assert_eq!(check(&Facts { owner: 0, ..facts }, 1000), Ok(()));

    if geteuid().is_root() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, TEXT, 0o600);
        chown(&path, Some(54_321), None).unwrap();
        let text = KeyFile::at(path).load().unwrap_err().to_string();
        assert!(text.contains("belongs to user 54321; remove it"), "{text}");
    }
}

#[test]
fn a_missing_file_is_made_once_and_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::at(directory.path().join("mpd").join("key"));
    assert!(file.load().unwrap().is_none());
    let (made, origin) = file.load_or_create("blue").unwrap();
    assert_eq!((made.ring(), origin), ("blue", Origin::Created));
    let (read, origin) = file.load_or_create("red").unwrap();
    assert_eq!((read.ring(), origin), ("blue", Origin::Found));
    assert_eq!(read.keys().connect().expose(), made.keys().connect().expose());
    let mode = fs::metadata(file.path()).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(names(file.path().parent().unwrap()), ["key"]);

    let other = KeyFile::at(directory.path().join("other"));
    let other = other.load_or_create("blue").unwrap().0;
    assert_ne!(other.keys().connect().expose(), made.keys().connect().expose());
}

#[test]
fn a_key_is_replaced_and_the_former_one_stays_if_that_fails() {
    let directory = tempfile::tempdir().unwrap();
    let key = generate("blue").unwrap();
    let file = KeyFile::at(directory.path().join("mpd").join("key"));
    for text in [&key, &key, &generate("red").unwrap()] {
        file.replace(text).unwrap();
        assert_eq!(file.load().unwrap().unwrap().to_text(), text.to_text());
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names(file.path().parent().unwrap()), ["key"]);
    }
    // The name of the temporary file is longer, and too long.
    let file = KeyFile::at(directory.path().join("k".repeat(250)));
    write(file.path(), TEXT, 0o600);
    file.replace(&key).unwrap_err();
    assert_eq!(file.load().unwrap().unwrap().ring(), "r");
}

#[test]
fn of_many_makers_one_makes_the_key_and_all_get_it() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::at(directory.path().join("key"));
        let results = std::thread::scope(|scope| {
            let make = || scope.spawn(|| file.load_or_create("r").unwrap());
            let makers = (0..8).map(|_| make()).collect::<Vec<_>>();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
        });
        let created = results.iter().filter(|(_, origin)| *origin == Origin::Created);
        assert_eq!(created.count(), 1);
        let key = |at: usize| *results[at].0.keys().connect().expose();
        assert!((0..8).all(|at| key(at) == key(0)));
        assert_eq!(names(directory.path()), ["key"]);
    }
}

#[test]
fn a_leftover_temporary_name_of_a_dead_maker_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    write(&path, TEXT, 0o600);
    fs::hard_link(&path, directory.path().join("key.new-1-0")).unwrap();
    write(&directory.path().join("key.new-2-0"), "of another maker", 0o600);
    assert_eq!(KeyFile::at(path).load().unwrap().unwrap().ring(), "r");
    let mut left = names(directory.path());
    left.sort();
    assert_eq!(left, ["key", "key.new-2-0"]);
}

#[test]
fn an_invalid_ring_name_and_an_impossible_directory_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::at(directory.path().join("key"));
    let error = file.load_or_create("a\n/b").unwrap_err();
    assert!(matches!(error, KeyFileError::RingName(_)) && !error.to_string().contains('\n'));
    let file = KeyFile::at(directory.path().join("a/b/key"));
    let path = file.path().display().to_string();
    assert_eq!(
        file.load_or_create("r").unwrap_err().to_string(),
        format!(
            "{path}: No such file or directory; name another key file with --key or MPD_KEY_FILE"
        )
    );
    assert!(names(directory.path()).is_empty());
}

#[test]
fn the_effective_user_decides_where_the_key_is() {
    let path = KeyFile::of_user().unwrap().path().to_owned();
    assert_eq!(path == Path::new(ROOT_PATH), geteuid().is_root());
    assert!(path.is_absolute());
    let named = KeyFile::resolve(Some("x".into())).unwrap();
    assert_eq!(named.path(), Path::new("x"));
}
