use proptest::prelude::*;

use super::*;

fn names(text: &str) -> Vec<String> {
    parse_list(text).unwrap().into_iter().map(|entry| entry.host).collect()
}

fn problem(line: &str) -> String {
    parse_file(line.as_bytes()).unwrap_err().to_string()
}

fn plain(host: &str) -> HostEntry {
    let (max, gpus) = (None, None);
    HostEntry {
        host: host.to_owned(),
        ncpus: None,
        max,
        gpus,
        speed: None,
        ifhn: None,
        user: None,
        port: None,
    }
}

#[test]
fn a_file_has_hosts_with_counts_keys_comments_and_blank_lines() {
    let text =
        b"# ours\n\nh1\r\n  h2:4 ifhn=h2-ib user=al port=2222 # new\n[::1]:8\n10.0.0.7 user=_x\n";
    let entries = parse_file(text).unwrap();
    let full = HostEntry {
        ncpus: Some(4),
        ifhn: Some("h2-ib".into()),
        user: Some("al".into()),
        port: Some(2222),
        ..plain("h2")
    };
    let user = HostEntry { user: Some("_x".into()), ..plain("10.0.0.7") };
    assert_eq!(entries, [plain("h1"), full, HostEntry { ncpus: Some(8), ..plain("::1") }, user]);
}

#[test]
fn the_speed_of_a_host_has_up_to_two_decimals() {
    let speed =
        |text: &str| parse_file(format!("h1 speed={text}").as_bytes()).map(|all| all[0].speed);
    assert_eq!(["2", "0.5", "1.25", ".75"].map(speed), [200, 50, 125, 75].map(|s| Ok(Some(s))));
    for bad in ["0", "fast", "-1", "1.234", "1001", ".", "", "1e3"] {
        assert!(problem(&format!("h1 speed={bad}")).contains("is not a speed"), "{bad}");
    }
}

#[test]
fn a_file_without_a_host_is_refused() {
    for text in ["", "\n\n", "# none yet\n", "  \r\n\t# x"] {
        assert_eq!(problem(text), "there is no host in the file", "{text:?}");
    }
}

#[test]
fn ranges_count_keep_leading_zeros_and_combine() {
    assert_eq!(names("c[1-3]"), ["c1", "c2", "c3"]);
    assert_eq!(names("c[08-10,20]"), ["c08", "c09", "c10", "c20"]);
    assert_eq!(
        names("a,r[1-2]n[1-2]-ib,b"),
        ["a", "r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib", "b"]
    );
    assert_eq!(names("[fe80::1],c[1,2]:4"), ["fe80::1", "c1", "c2"]);
    assert_eq!(parse_list("c[1-2]:4").unwrap()[1].ncpus, Some(4));
}

#[test]
fn the_lists_of_large_jobs_are_read() {
    let long: Vec<String> = (1..=2000).map(|n| format!("ip-10-20-30-{n:04}")).collect();
    assert_eq!(names(&long.join(",")), long, "more than 10,000 bytes");
    assert_eq!(
        names("i[1234567890-1234567891],z[000000000009-000000000010]"),
        ["i1234567890", "i1234567891", "z000000000009", "z000000000010"]
    );
    assert!(parse_list("c[1234567890123456789]").is_err(), "more than 18 digits");
    let each_slot: String = (0..20_480).map(|n| format!("n{}\n", n % 160)).collect();
    let entries = parse_file(each_slot.as_bytes()).unwrap();
    assert_eq!((entries.len(), entries[160].host.as_str()), (20_480, "n0"));
    let many = "c[1-16384]\n".repeat(17);
    assert_eq!(parse_file(many.as_bytes()).unwrap_err().problem, Problem::TooManyHosts);
}

#[test]
fn files_of_other_launchers_are_read() {
    let entries =
        parse_file(b"me@a slots=2 max_slots=4\nb max-slots=8\nc 3\nd cpu=2 user=x\n").unwrap();
    let all: Vec<_> =
        entries.iter().map(|e| (e.host.as_str(), e.ncpus, e.user.as_deref())).collect();
    let expected = [
        ("a", Some(2), Some("me")),
        ("b", None, None),
        ("c", Some(3), None),
        ("d", Some(2), Some("x")),
    ];
    assert_eq!(all, expected);
    assert_eq!([entries[0].max, entries[1].max, entries[2].max], [Some(4), Some(8), None]);
    let gpus = parse_file(b"a gpus=4\nb gpus=0\n").unwrap();
    assert_eq!([gpus[0].gpus, gpus[1].gpus], [Some(4), Some(0)]);
    assert!(problem("a gpus=x").contains("is not a number of GPUs"));
    assert!(problem("-o@a").contains("is not the name of a user"));
    assert!(problem("me@a user=you").contains("is given twice"));
    assert!(problem("a max_slots=0").contains("is not a number of CPUs"));
    assert!(problem("a 2 3").contains("follows the host"));
    assert!(problem("a@b@c").contains("is not the name of a host"));
}

#[test]
fn slots_may_be_written_as_a_key() {
    let entries = parse_file(b"c[1-2] slots=4 # as other launchers have it").unwrap();
    assert_eq!(entries[1], HostEntry { ncpus: Some(4), ..plain("c2") });
    assert!(problem("h slots=0").contains("'slots=0' is not a number of CPUs"));
    assert!(problem("h slots=1 slots=1").contains("is given twice"));
    assert!(problem("h:2 slots=2").contains("'slots=2' is given twice"));
}

#[test]
fn an_ifhn_of_ranges_has_one_name_for_each_host() {
    let entries = parse_file(b"c[1-2] ifhn=ib[1-2]").unwrap();
    assert_eq!(entries[1].ifhn.as_deref(), Some("ib2"));
    assert!(problem("c[1-2] ifhn=ib").contains("as many as there are hosts"));
}

#[test]
fn a_text_that_could_be_an_option_or_shell_code_is_refused() {
    let long = "x".repeat(256);
    let bad_hosts = [
        "-oProxyCommand=touch",
        "$(touch",
        "a;b",
        "a\0b",
        "`id`",
        "a/b",
        "a'b",
        "..",
        "h\u{e9}",
        "@",
        "a[1-2];b",
        "[::1;x]",
        &long,
    ];
    for bad in bad_hosts {
        assert!(parse_list(bad).is_err(), "{bad:?}");
        assert!(parse_file(bad.as_bytes()).is_err(), "{bad:?}");
        assert!(parse_file(format!("h ifhn={bad}").as_bytes()).is_err(), "{bad:?}");
    }
    for bad in ["-l", "a;b", "$(id)", "", "a@b"] {
        assert!(parse_file(format!("h user={bad}").as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn errors_have_the_line_the_text_escaped_and_what_is_allowed() {
    assert_eq!(
        problem("h1\n# x\n-oProxyCommand=touch /x\n"),
        "line 3: '-oProxyCommand=touch' is not the name of a host: it can have letters, digits and \
         . _ - (at most 255), a letter or digit first; ranges look like c[1-9,12], IPv6 like \
         [fe80::1]"
    );
    assert!(problem("a\u{1b}(x").starts_with("line 1: 'a\\u{1b}(x' is not"));
    assert!(problem(&"x".repeat(300)).contains("xxx...' is not"));
    assert!(problem("fe80::1").contains("needs brackets"));
    assert!(problem("h:0").contains("'h:0' is not a number of CPUs"));
    assert!(problem("h:+1").contains("number of CPUs"));
    assert!(problem("h cpus=3").contains("only slots=N, max_slots=N, gpus=N, speed=X, ifhn=NAME,"));
    assert!(problem("h:2 4").contains("'4' follows the host"));
    assert!(problem("h port=1 port=2").contains("'port=2' is given twice"));
    assert!(problem("h port=65536").contains("1 to 65535"));
    assert!(problem("h[3-1]").contains("an invalid range"));
    assert!(problem("h[1").contains("an invalid range"));
    assert!(problem("h[]").contains("an invalid range"));
    assert_eq!(
        parse_list("a,,b").unwrap_err().to_string(),
        "there is a comma with no host beside it"
    );
    assert_eq!(parse_file(b"\xff").unwrap_err().to_string(), "line 1: it is not text");
}

#[test]
fn lines_files_and_numbers_of_hosts_are_bounded() {
    assert!(problem(&"x".repeat(MAX_LINE + 1)).contains("more than 131072 bytes"));
    let file = vec![b'#'; MAX_FILE + 1];
    assert_eq!(parse_file(&file).unwrap_err().problem, Problem::FileTooLong);
    assert_eq!(names(&format!("c[1-{MAX_HOSTS}]")).len(), MAX_HOSTS);
    let all = format!("c[1-{MAX_HOSTS}]");
    let much = ["c[0-999999999999]", "c[1-129]d[1-129]"].map(str::to_owned);
    let by_one = [format!("c[0-{MAX_HOSTS}]"), format!("{all},d"), format!("{all},[::1]")];
    for much in much.iter().chain(&by_one) {
        assert_eq!(parse_list(much).unwrap_err().problem, Problem::TooManyHosts, "{much}");
    }
    assert!(parse_list(&format!("c{}", "[1-9]".repeat(1000))).is_err());
}

#[test]
fn a_list_of_names_or_patterns_has_ranges() {
    let all = |text: &str| expand_names(text).unwrap();
    assert_eq!(all("h[1-3],x"), ["h1", "h2", "h3", "x"]);
    assert_eq!(all("c[08-10]*,a,"), ["c08*", "c09*", "c10*", "a"]);
    assert_eq!(all("h[1-2]+x,^c[1-2]"), ["h1+h2+x", "^c1+c2"], "alternatives stay together");
    for wrong in ["", ",", "a,,b", "h[1-", "h[2-1]", "c[0-999999999]"] {
        assert!(expand_names(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_may_begin_with_the_mark_of_utf_8_and_a_list_may_end_with_a_comma() {
    assert_eq!(parse_file(b"\xef\xbb\xbfh1\nh2\n").unwrap()[0].host, "h1");
    assert_eq!(parse_list("a,b:2,").unwrap().len(), 2);
}

proptest! {
    #[test]
    fn every_accepted_text_can_be_an_argument_of_a_command(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(entries) = parse_file(&text) {
            for entry in entries {
                prop_assert!(is_host_name(&entry.host));
                prop_assert!(entry.ifhn.is_none_or(|name| is_host_name(&name)));
                prop_assert!(entry.user.is_none_or(|name| is_user_name(&name)));
            }
        }
    }

    #[test]
    fn a_list_never_has_more_than_its_bound(text in "[a-c0-9\\[\\],:-]{0,60}") {
        if let Ok(entries) = parse_list(&text) {
            prop_assert!(entries.len() <= MAX_HOST_ENTRIES);
            prop_assert!(entries.iter().all(|entry| is_host_name(&entry.host)));
        }
    }
}
