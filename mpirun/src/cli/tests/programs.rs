//! The options of programs, their defaults for all programs, and colons.

use super::*;

#[test]
fn a_program_without_options_is_one_process_with_the_callers_state() {
    let a = argset("prog x -n y");
    assert_eq!((a.size, text(&a.program)), (1, "prog"));
    assert_eq!(a.args, [b"x".to_vec(), b"-n".to_vec(), b"y".to_vec()]);
    assert_eq!((text(&a.directory), a.umask, text(&a.search)), ("/work", 0o022, "/bin:/usr/bin"));
    assert_eq!(a.limits, caller(&[]).limits);
}

#[test]
fn the_number_of_processes_has_two_names_and_a_default_for_all() {
    for line in ["-n 4 a", "-np 4 a", "--np 4 a", "-np=4 a", "-gn 4 : a", "-gnp 4 a"] {
        assert_eq!(argset(line).size, 4, "{line}");
    }
    let sizes = |line| spec(line).argsets.iter().map(|a| a.size).collect::<Vec<_>>();
    assert_eq!(sizes("-gn 4 : a : -n 2 b : c"), [4, 2, 4]);
    assert_eq!(sizes("a : -gn 3 -n 1 b"), [3, 1], "a default also applies to earlier sections");
}

#[test]
fn a_wrong_number_of_processes_is_named() {
    assert_eq!(problem("-n 0 a"), "-n 0: the number of processes must be at least 1");
    for bad in ["x", "-4", "+4", "4.0", "4k", "0x4"] {
        let expected = format!("-np {bad}: {bad:?} is not a number of processes");
        assert_eq!(problem(&format!("-np {bad} a")), expected);
    }
    assert_eq!(argset("-n 1000000 a").size, 1_000_000);
    assert_eq!(argset("-n 1048576 a").size, 1 << 20);
    for big in ["1048577", "5000000", "99999999999999999999999"] {
        let expected = format!("-n {big}: a job may have at most 1048576 processes");
        assert_eq!(problem(&format!("-n {big} a")), expected);
    }
    let together = problem("-n 1000000 a : -n 1000000 b");
    assert_eq!(together, "2000000 processes are more than the 1048576 that a job may have");
    assert_eq!(problem_of(&["-n", "", "a"]), "-n \"\": \"\" is not a number of processes");
    assert_eq!(problem("-n"), "-n needs a value: N");
    assert_eq!(problem("-n : a"), "-n needs a value: N");
}

#[test]
fn soft_takes_the_largest_allowed_number() {
    assert_eq!(argset("-n 10 -soft 1,4:8:2,64 a").size, 8);
    assert_eq!(argset("-n 10 -gsoft 3 a").size, 3);
    assert_eq!(argset("-soft 0:1 a").size, 1);
    assert_eq!(
        problem("-n 10 -soft 11:20 a"),
        "-soft 11:20 allows no number of processes from 1 to 10"
    );
    assert!(problem("-soft 1,x a").starts_with("-soft 1,x: \"x\" is neither N, LOW:HIGH nor"));
    assert_eq!(problem("-soft 1:9:0 a"), "-soft 1:9:0: \"1:9:0\" has a step of 0");
}

#[test]
fn a_directory_is_relative_to_the_callers_directory() {
    let directory = |line| text(&argset(line).directory).to_owned();
    assert_eq!(directory("-wdir sub/x a"), "/work/sub/x");
    assert_eq!(directory("-wd /abs a"), "/abs");
    assert_eq!(directory("-gwdir /all a"), "/all");
    assert_eq!(directory("-gwdir /all -wdir /own a"), "/own");
    assert_eq!(problem_of(&["-wdir", "", "a"]), "-wdir \"\": the value is empty");
}

#[test]
fn path_is_searched_before_the_ranks_own_path() {
    let search = |line| text(&argset(line).search).to_owned();
    assert_eq!(search("-path /x:y a"), "/x:/work/y:/bin:/usr/bin");
    assert_eq!(search("-gpath /x a"), "/x:/bin:/usr/bin");
    assert_eq!(search("-env PATH /mine a"), "/mine");
    assert_eq!(search("-path /x -env PATH /mine a"), "/x:/mine");
    let mut bare = caller(&["a"]);
    bare.environment.clear();
    assert_eq!(text(&run_by(&bare).spec.argsets[0].search), "/usr/local/bin:/usr/bin:/bin");
}

#[test]
fn umask_is_octal_or_hexadecimal_and_never_guessed() {
    for (written, mask) in [
        ("022", 0o22),
        ("0077", 0o77),
        ("0x12", 0x12),
        ("0X1f", 0x1f),
        ("0o27", 0o27),
        ("0", 0),
        ("7", 7),
        ("000", 0),
        ("0777", 0o777),
    ] {
        assert_eq!(argset(&format!("-umask {written} a")).umask, mask, "{written}");
    }
    assert_eq!(argset("-gumask 077 a").umask, 0o77);
    assert_eq!(
        problem("-umask 77 a"),
        "-umask 77: write 077 if it is octal, as in a shell, or 0x... for hexadecimal"
    );
    for bad in ["08", "01000", "0x200", "x", "-1", "0x", "+022", "0o+2", "0x+1", "9"] {
        let expected = format!("-umask {bad}: it must be a mask from 0 to 0777, like 022 or 0x12");
        assert_eq!(problem(&format!("-umask {bad} a")), expected);
    }
}

#[test]
fn limits_are_changed_for_one_program_or_all() {
    let limit = |line: &str, resource| {
        let limits = argset(line).limits;
        limits.into_iter().find(|l| l.resource == resource).map(|l| (l.soft, l.hard))
    };
    assert_eq!(limit("-rlimit stack=1M a", 3), Some((1 << 20, u64::MAX)));
    assert_eq!(
        limit("-rlimit stack=1M:2M -rlimit core=unlimited:unlimited a", 3),
        Some((1 << 20, 2 << 20))
    );
    assert_eq!(limit("-grlimit nofile=64 a", 7), Some((64, 4096)));
    assert_eq!(limit("-grlimit nofile=64 -rlimit nofile=32 a", 7), Some((32, 4096)));
    assert_eq!(limit("-rlimit cpu=9 a", 0), Some((9, u64::MAX)), "not in the snapshot");
    assert!(problem("-rlimit nofile=8k a").starts_with(
        "-rlimit nofile=8k: the soft limit is above the hard limit of 4096; SOFT:HARD sets both"
    ));
    assert!(problem("-rlimit heap=1 a").starts_with("-rlimit heap=1: there is no limit \"heap\""));
    assert!(problem("-rlimit core a").ends_with("it must be NAME=SOFT or NAME=SOFT:HARD"));
    assert!(problem("-rlimit core=1 -rlimit core=2 a").contains("contradict each other"));
}

#[test]
fn arguments_are_bytes_and_stay_as_they_are() {
    let mut c = caller(&["-n", "2", "p"]);
    c.arguments.push(OsString::from_vec(vec![0xff, b' ', 0xfe]));
    c.arguments.extend(["", "--", "a:b", "-l"].map(OsString::from));
    let a = run_by(&c).spec.argsets.remove(0);
    assert_eq!(a.args[0], [0xff, b' ', 0xfe]);
    assert_eq!(a.args[1..], [&b""[..], b"--", b"a:b", b"-l"].map(<[u8]>::to_vec));
}

#[test]
fn a_program_may_begin_with_a_dash_after_two_dashes() {
    assert_eq!(text(&argset("-n 2 -- -prog x").program), "-prog");
    assert_eq!(problem("-n 2 --"), "there is no program to run");
}

#[test]
fn sections_follow_each_other_in_rank_order() {
    let s = spec("-n 2 a 1 : b : -n 3 c");
    let shape: Vec<_> = s.argsets.iter().map(|a| (text(&a.program), a.size)).collect();
    assert_eq!(shape, [("a", 2), ("b", 1), ("c", 3)]);
    assert_eq!(s.size(), 6);
}

#[test]
fn the_first_section_may_hold_global_options() {
    let s = spec("-l -gwdir /x : -n 2 a : b");
    assert!(s.output.label.is_some());
    assert!(s.argsets.iter().all(|a| text(&a.directory) == "/x"));
    assert_eq!(problem("-l -n 2 : a"), "-n 2 has no program after it; for all programs it is -gn");
    assert_eq!(
        problem("-env A B : a"),
        "-env A B has no program after it; for all programs it is -genv"
    );
    assert_eq!(problem("-x A=B : a"), "-x A=B has no program after it");
}

#[test]
fn an_empty_section_is_named() {
    assert_eq!(problem(""), "there is no program to run");
    assert_eq!(problem("-l"), "there is no program to run");
    assert_eq!(problem(": a"), "there is nothing before the first ':'");
    assert_eq!(problem("a :"), "there is nothing after the last ':'");
    assert_eq!(problem("a : : b"), "there is nothing between two ':' (section 2)");
    assert_eq!(problem("a : -l"), "there is no program after -l (section 2)");
    assert_eq!(problem_of(&["-l", "", "x"]), "the program's name is empty");
}

#[test]
fn a_repeated_option_is_accepted_and_a_contradiction_is_not() {
    assert_eq!(argset("-n 2 -np 2 a").size, 2);
    assert_eq!(problem("-n 2 -np 3 a"), "-n 2 and -np 3 contradict each other");
    assert_eq!(problem("-wdir a -wd b p"), "-wdir a and -wd b contradict each other");
    assert_eq!(problem("-gn 2 a : -gn 3 b"), "-gn 2 and -gn 3 contradict each other");
    assert_eq!(spec("-n 2 a : -n 3 b").size(), 5, "each section has its own");
}

#[test]
fn the_number_of_programs_is_limited() {
    let line = |n: usize| vec!["a"; n].join(" : ");
    assert_eq!(spec(&line(4096)).argsets.len(), 4096);
    assert_eq!(problem(&line(4097)), "a job may have at most 4096 programs");
}

#[test]
fn some_options_of_other_launchers_are_accepted_without_effect() {
    assert_eq!(argset("-arch *linux* --oversubscribe --allow-run-as-root -rmk pbs -n 2 a").size, 2);
}

#[test]
fn a_copied_program_cannot_be_chosen_by_architecture() {
    assert_eq!(text(&argset("./a.%a").program), "./a.%a", "the manager of each host chooses");
    assert_eq!(problem("-preload ./a.%a"), "-preload and %a contradict each other: ./a.%a");
}

#[test]
fn arguments_are_patterns_only_with_the_option_subst() {
    assert_eq!(text(&argset("a 100% %x").args[1]), "%x");
    assert!(!argset("a %r").substitute);
    let a = argset("-subst a out.%r %h/%j/%s %%");
    assert!(a.substitute && text(&a.args[0]) == "out.%r", "the rank's manager fills them in");
    let both = spec("-gsubst : a %r : b").argsets;
    assert!(both.iter().all(|a| a.substitute));
    let one = spec("-subst a %r : b %x").argsets;
    assert!(one[0].substitute && !one[1].substitute);
    let known =
        "-subst knows %r rank, %l rank on its host, %h host, %j job id, %s ranks, %% percent sign";
    assert_eq!(
        problem("-subst a out.%p"),
        format!("argument \"out.%p\": there is no field %p; {known}")
    );
    assert_eq!(
        problem("-subst a 100%"),
        format!("argument \"100%\": the % at the end has no letter; {known}")
    );
    assert_eq!(text(&argset("-subst a%x y").program), "a%x", "the program's name is no pattern");
}
