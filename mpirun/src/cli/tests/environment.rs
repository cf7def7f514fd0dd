//! The environment of ranks.

use super::*;

fn variables(line: &str) -> Vec<String> {
    variables_by(&caller(&words(line)))
}

fn variables_by(caller: &Caller) -> Vec<String> {
    let spec = run_by(caller).spec;
    let first = &spec.environments[spec.argsets[0].environment as usize];
    first.iter().map(|v| text(v).to_owned()).collect()
}

#[test]
fn everything_is_inherited_in_its_order() {
    let all = ["PATH=/bin:/usr/bin", "HOME=/home/u", "LANG=C"];
    for line in ["a", "-envall a", "-genvall a", "-genvnone -envall a", "-envall -x LANG a"] {
        assert_eq!(variables(line), all, "{line}");
    }
}

#[test]
fn the_variables_of_an_enclosing_launcher_are_not_inherited() {
    let mut c = caller(&["a"]);
    for name in ["PMI_RANK", "PMI_FD", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"]
    {
        c.environment.push(variable(name, "7"));
    }
    assert_eq!(variables_by(&c).len(), 3);
    c.arguments = ["-envall", "-envlist", "PMI_RANK", "-env", "PMI_DEBUG", "1", "a"]
        .map(OsString::from)
        .to_vec();
    let named = variables_by(&c);
    assert_eq!(named[3..], ["PMI_RANK=7", "PMI_DEBUG=1"], "unless an option names them");
}

#[test]
fn entries_that_are_no_variables_and_repeated_names_are_unchanged() {
    let odd = ["=x", "NOEQ", "A=1", "", "B=", "A=2", "MPIEXEC_MINE=3"];
    let of = |words: &[&str]| {
        let mut c = caller(words);
        c.environment = odd.map(|entry| entry.as_bytes().to_vec()).to_vec();
        variables_by(&c)
    };
    assert_eq!(of(&["a"]), odd);
    assert_eq!(of(&["-genvlist", "A,B", "a"]), ["A=1", "A=2", "B="]);
    assert_eq!(of(&["-envall", "-envlist", "A", "a"]), odd);
    let set = ["=x", "NOEQ", "A=9", "", "B=", "MPIEXEC_MINE=3"];
    assert_eq!(of(&["-env", "A", "9", "a"]), set);
    assert_eq!(of(&["-genv", "A", "7", "-env", "A", "9", "a"]), set);
    assert_eq!(of(&["-env", "NOEQ", "1", "a"])[7..], ["NOEQ=1"], "that was no variable");
}

#[test]
fn envnone_keeps_path() {
    for line in ["-envnone a", "-genvnone a", "-genvall -envnone a"] {
        assert_eq!(variables(line), ["PATH=/bin:/usr/bin"], "{line}");
    }
    assert_eq!(variables("-envnone -env A 1 a"), ["PATH=/bin:/usr/bin", "A=1"]);
    assert_eq!(variables("-envnone -env PATH /x a"), ["PATH=/x"]);
    let mut c = caller(&["-envnone", "a"]);
    c.environment.clear();
    assert!(variables_by(&c).is_empty());
}

#[test]
fn a_list_selects_variables_unless_envall_is_given_too() {
    assert_eq!(variables("-envlist LANG a"), ["PATH=/bin:/usr/bin", "LANG=C"]);
    assert_eq!(
        variables("-genvlist LANG,HOME a"),
        ["PATH=/bin:/usr/bin", "LANG=C", "HOME=/home/u"]
    );
    assert_eq!(variables("-genvlist LANG -envlist HOME a").len(), 3);
    assert_eq!(variables("-envall -envlist LANG a").len(), 3);
    assert_eq!(variables("-genvlist LANG -envall a").len(), 3);
    assert_eq!(variables("-envlist , a"), ["PATH=/bin:/usr/bin"]);
}

#[test]
fn a_listed_variable_must_exist() {
    assert_eq!(problem("-envlist LANG,NOPE a"), "NOPE in -envlist is not in the environment");
    assert_eq!(problem("-genvlist NOPE a"), "NOPE in -genvlist is not in the environment");
    assert_eq!(run("-x NOPE a").remarks, ["-x NOPE has no effect: the variable is not set"]);
}

#[test]
fn options_of_the_program_and_later_options_win() {
    assert_eq!(variables("-envnone -genv A 1 -env A 2 a")[1..], ["A=2"]);
    assert_eq!(variables("-envnone -env A 2 -genv A 1 a")[1..], ["A=2"]);
    assert_eq!(variables("-envnone -env A 1 -env A 2 a")[1..], ["A=2"]);
    assert_eq!(variables("-envnone -env LANG de -envlist LANG a")[1..], ["LANG=de"]);
    assert_eq!(variables("-genv LANG de a")[2], "LANG=de");
    assert_eq!(variables("a : -genv LANG de b")[2], "LANG=de", "global in any section");
}

#[test]
fn a_variable_is_one_argument_or_two() {
    for line in ["-env A B=C", "-env A=B=C", "-genv A=B=C", "-x A=B=C", "--env A B=C"] {
        assert_eq!(variables(&format!("-envnone {line} a"))[1..], ["A=B=C"], "{line}");
    }
    assert_eq!(variables("-envnone -env A= a")[1..], ["A="]);
    assert_eq!(problem("-env =x a"), "-env =x: the variable has no name");
    assert_eq!(problem_of(&["-genv", "", "x", "a"]), "-genv \"\" x: the variable has no name");
}

#[test]
fn all_and_none_contradict_each_other() {
    assert_eq!(problem("-envall -envnone a"), "-envall and -envnone contradict each other");
    assert_eq!(problem("-genvnone -genvall a"), "-genvnone and -genvall contradict each other");
}

#[test]
fn equal_environments_are_stored_once() {
    let s = spec("a : -env A 1 b : c : -env A 1 d : -env A 2 e");
    let indexes: Vec<u32> = s.argsets.iter().map(|a| a.environment).collect();
    assert_eq!(indexes, [0, 1, 0, 1, 2]);
    assert_eq!(s.environments.len(), 3);
}

#[test]
fn variables_are_bytes() {
    let mut c = caller(&["a"]);
    c.environment = vec![b"A\xff=\xfe=".to_vec()];
    assert_eq!(run_by(&c).spec.environments[0], [b"A\xff=\xfe=".to_vec()]);
}

#[test]
fn two_megabytes_are_no_problem() {
    let mut c = caller(&["a"]);
    c.environment.extend((0..40_000).map(|i| variable(&format!("V{i}"), &"x".repeat(45))));
    assert_eq!(run_by(&c).spec.environments[0].len(), 40_003);
}

#[test]
fn the_variable_pwd_names_the_directory_of_wdir_unless_an_option_sets_it() {
    for (line, expected) in [
        ("a", Some("/old")),
        ("-wdir /tmp/./x/ a", Some("/tmp/x")),
        ("-gwdir sub a", Some("/work/sub")),
        ("-wdir /a/../b a", None),
        ("-wdir /tmp -env PWD /mine a", Some("/mine")),
        ("-genvnone -wdir /tmp a", None),
    ] {
        let mut c = caller(&words(line));
        c.environment.push(variable("PWD", "/old"));
        let all = variables_by(&c);
        let pwd = all.iter().find_map(|variable| variable.strip_prefix("PWD="));
        assert_eq!(pwd, expected, "{line}");
    }
}
