//! Command lines, frames, the job log, and the small functions.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_frame::{InvalidFrame, Versions, compact};
use mpd_sansio::Time;
use proptest::prelude::*;

use crate::command::{self, Template, UnsafePlace};
use crate::frame::{Decoder, FORMAT, MAX_CHUNK, MAX_RETURNED, Stream, ToFarm, ToWorker, VERSION};
use crate::halt::{self, Halt, Kind, When};
use crate::{Close, End, InOrder, Numbers, Outcome, Progress, TaskId, joblog};

fn words(line: &str) -> Option<Vec<String>> {
    let words = command::words(line.as_bytes())?;
    Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn template(arguments: &[&str]) -> Template {
    template_of(arguments).unwrap()
}

fn template_of(arguments: &[&str]) -> Result<Template, UnsafePlace> {
    Template::new(&arguments.iter().map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>())
}

/// The lines of a job log, and the length of the complete ones.
fn read_log(bytes: &[u8]) -> Result<(Vec<joblog::Recorded>, usize), joblog::InvalidLog> {
    let (mut reader, mut lines) = (joblog::Reader::default(), Vec::new());
    for piece in bytes.chunks(7) {
        reader.push(piece, |line| lines.push(line))?;
    }
    Ok((lines, usize::try_from(reader.finish()?).unwrap()))
}

fn line(template: &Template, number: u64, input: &str) -> String {
    String::from_utf8(template.line(number, input.as_bytes())).unwrap()
}

#[test]
fn a_line_without_meaning_for_a_shell_is_split_into_words() {
    assert_eq!(words("/bin/true").unwrap(), ["/bin/true"]);
    assert_eq!(words("  ./sim --x=1\t-n 3  a,b ").unwrap(), ["./sim", "--x=1", "-n", "3", "a,b"]);
    assert_eq!(words("cat 'a b' x'$y'z ''").unwrap(), ["cat", "a b", "x$yz", ""]);
}

#[test]
fn a_line_that_only_a_shell_understands_is_left_to_it() {
    for line in [
        "a | b",
        "a > b",
        "X=1 a",
        "a; b",
        "echo $X",
        "cd /",
        "exit 3",
        "ls *",
        "a &",
        "a \"b\"",
        "a \\b",
        "(a)",
        "# text",
        "~/a",
        "a 'b",
        "{ a; }",
        "! a",
        "echo -n x",
        "[ -e a ]",
        ". a",
        "",
        "   ",
        "-x",
    ] {
        assert_eq!(words(line), None, "{line}");
    }
}

#[test]
fn a_template_of_one_argument_is_a_line_for_a_shell_and_its_input_is_quoted() {
    let made = template(&["sort {} > {#}.out"]);
    assert_eq!(line(&made, 7, "a b"), "sort 'a b' > 7.out");
    assert_eq!(line(&template(&["wc -l"]), 1, "it's"), "wc -l 'it'\\''s'");
}

#[test]
fn an_input_before_a_redirection_is_no_number_of_a_descriptor() {
    assert_eq!(line(&template(&["echo {}>{#}>f"]), 7, "2"), "echo '2'>'7'>f");
    assert_eq!(line(&template(&["cat {}<f > {#}"]), 7, "2"), "cat '2'<f > 7");
}

#[test]
fn a_template_in_which_an_input_would_be_executed_is_refused_with_one_that_works() {
    for (refused, works) in [
        (&[r#"echo "{}""#][..], Some("'echo {}'")),
        (&["echo '{}'"], Some("'echo {}'")),
        (&[r#"echo "a {} b" x"#], Some(r#"'echo "a "{}" b" x'"#)),
        (&[r#"echo "{}{}""#], Some("'echo {}{}'")),
        (&[r#"echo "\"{}""#], Some(r#"'echo "\""{}'"#)),
        (&[r#"echo "$(basename "{}")""#], Some(r#"'echo "$(basename {})"'"#)),
        (&[r"echo \{}"], None),
        (&["echo ${}"], None),
        (&["echo `cat {}`"], None),
        (&["echo $(( {} + 1 ))"], None),
        (&["(( {} > 1 )) && x"], None),
        (&["echo $[ {} + 1 ]"], None),
        (&[r#"echo "${X:-{}}""#], None),
        (&["echo ${X:-{}}"], None),
        (&["cat <<E\n{}\nE"], None),
        (&[r"echo $'a\'{}'"], None),
        (&[r#"echo "$(case x in x) echo "{}";; esac)""#], None),
        (&[r#"echo "$( ((a);(b)); echo "{}" )""#], None),
        (&[r#"echo "open"#], Some(r#"'echo "open "{}"'"#)),
        (&["sh", "-c", "echo {}"], Some(r#"sh -c 'echo "$1"' sh {}"#)),
        (
            &["nice", "/bin/bash", "-ec", r#"echo "a {}""#],
            Some(r#"nice /bin/bash -ec 'echo "a $1"' sh {}"#),
        ),
        (&["sh", "-c", "echo {} $1", "x", "y"], None),
    ] {
        let error = template_of(refused).expect_err(&format!("{refused:?}"));
        let shown = error.0.as_ref().map(|line| String::from_utf8_lossy(line).into_owned());
        assert_eq!(shown.as_deref(), works, "{refused:?}");
        assert!(error.to_string().contains("mpdfarm"), "{error}");
    }
}

#[test]
fn a_template_whose_inputs_stand_outside_of_quotes_is_accepted() {
    for accepted in [
        &["sort {} | uniq -c > {}.count"][..],
        &[r#"echo "$HOME" '$x' {} # it's"#],
        &[r#"echo "$(cat {} | wc -l)" {}"#],
        &["X={} sh x.sh; for i in 1 2; do echo $i {}; done"],
        &["(cd /tmp; (ls {}))"],
        &[r#"echo a\\{} $#{} "a"{}'b'"#],
        &["cat <<< {}"],
        &["awk '{ print $1 }' {}"],
        &["awk '{print}' {}"],
        &["sh", "-c", "{}"],
        &["sh", "-c", r#"echo "$1""#, "sh", "{}"],
        &["sh", "script", "-c", "x", "{}"],
        &["./sim", "--in={}", r#""{}""#],
    ] {
        assert!(template_of(accepted).is_ok(), "{accepted:?}");
    }
}

proptest! {
    #[test]
    fn the_line_that_works_is_accepted(text in r#"[a{} "'$()`\\<#]{0,24}"#) {
        if let Err(UnsafePlace(Some(works))) = template_of(&[&text]) {
            let words = command::words(&works);
            // A line with quotes of both kinds is not taken apart.
            if let Some(line) = words.filter(|words| words.len() == 1).map(|words| words[0].to_vec()) {
                prop_assert!(Template::new(&[line]).is_ok());
            }
        }
    }
}

#[test]
fn a_template_of_several_arguments_keeps_its_words_as_they_are() {
    assert_eq!(
        line(&template(&["./sim", "--in={}", "a b", "$X"]), 1, "c d"),
        "./sim '--in=c d' 'a b' '$X'"
    );
    assert_eq!(line(&template(&["./sim", "-n"]), 1, "5"), "./sim -n 5");
    assert_eq!(line(&template(&["./sim", "{}"]), 1, ""), "./sim ''");
}

proptest! {
    #[test]
    fn any_words_come_back_from_a_quoted_line(input in "\\PC{0,20}", more in "[a-z '=$]{0,8}") {
        let made = template(&["prog", "{}", &more.replace("{}", "")]);
        let text = line(&made, 1, &input);
        if !input.contains('\'') && !more.contains('\'') {
            prop_assert_eq!(words(&text).unwrap(), ["prog", &input, &more]);
        }
    }

    #[test]
    fn any_messages_come_back_from_a_stream_in_any_pieces(
        ids in prop::collection::vec(any::<u64>(), 0..20), bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1..50_usize
    ) {
        let end = End { outcome: Outcome::TimedOut(15), began: ids.first().copied().unwrap_or(0), took: 7 };
        let sent = [
            ToFarm::Hello { versions: VERSION, slots: u32::MAX },
            ToFarm::Hello { versions: Versions::range(1, 300).unwrap(), slots: 0 },
            ToFarm::Output { id: TaskId(3), stream: Stream::Err, bytes: &bytes },
            ToFarm::Ended(TaskId(u64::MAX), end),
            ToFarm::Returned(ids.iter().copied().map(TaskId).collect()),
            ToFarm::Started(TaskId(300)),
        ];
        let mut stream = Vec::new();
        sent.iter().for_each(|message| message.encode(&mut stream));
        prop_assert_eq!(stream.last(), Some(&b'\n'));
        let (mut decoder, mut count) = (Decoder::new(FORMAT), 0);
        for piece in stream.chunks(cut) {
            decoder.push(piece);
            while let Some(frame) = decoder.next_frame().unwrap() {
                prop_assert_eq!(&ToFarm::decode(frame.payload).unwrap(), &sent[count]);
                count += 1;
            }
        }
        prop_assert_eq!(count, sent.len());
    }
}

#[test]
fn messages_to_a_worker_come_back_and_wrong_bytes_are_refused() {
    let sent = [
        ToWorker::Setup { slots: 4, per_task: 1, limit_ms: 1500 },
        ToWorker::Task { id: TaskId(1), command: b"a\nb" },
        ToWorker::TakeBack { count: 5 },
        ToWorker::Slots { slots: 3 },
        ToWorker::Kill,
    ];
    let mut stream = Vec::new();
    sent.iter().for_each(|message| message.encode(&mut stream));
    let mut decoder = Decoder::new(FORMAT);
    decoder.push(&stream);
    for message in sent {
        let frame = decoder.next_frame().unwrap().unwrap();
        assert_eq!(ToWorker::decode(frame.payload).unwrap(), message);
    }
    assert_eq!(decoder.next_frame(), Ok(None));
    let later =
        compact::to_vec(&BTreeMap::from([("slots", BTreeMap::from([("more", 1), ("slots", 3)]))]));
    assert_eq!(
        ToWorker::decode(&later),
        Ok(ToWorker::Slots { slots: 3 }),
        "a field of a later release"
    );
    let unknown = InvalidFrame::Unknown("later".to_owned());
    assert_eq!(ToWorker::decode(&compact::to_vec(&"later")), Err(unknown));
    for wrong in [&b""[..], b"K", b"\xa1\x65slots\xa0", b"\x64kill\x00"] {
        assert!(ToWorker::decode(wrong).is_err(), "{wrong:?}");
    }
    let long = vec![0; MAX_CHUNK + 1];
    let output = ToFarm::Output { id: TaskId(1), stream: Stream::Out, bytes: &long };
    let returned = ToFarm::Returned(vec![TaskId(1); MAX_RETURNED + 1]);
    for message in [output, returned] {
        assert!(ToFarm::decode(&compact::to_vec(&message)).is_err());
    }
    for wrong in [&b"\xff\xff\xff\xff"[..], b"\x01\0\0\0KX"] {
        let mut decoder = Decoder::new(FORMAT);
        decoder.push(wrong);
        assert!(decoder.next_frame().is_err());
    }
}

fn log(outcomes: &[Outcome]) -> Vec<u8> {
    let mut text = joblog::HEADER.as_bytes().to_vec();
    for (number, outcome) in (1..).zip(outcomes) {
        let end = End { outcome: *outcome, began: 1_700_000_000_123_456, took: 10_042_000 };
        joblog::line(TaskId(number), "h1", &end, 12, b"a\tb", &mut text);
    }
    text
}

#[test]
fn a_job_log_has_a_line_for_each_end_and_is_read_again() {
    let text =
        log(&[Outcome::Exited(3), Outcome::Killed(9), Outcome::TimedOut(15), Outcome::Exited(0)]);
    let lines: Vec<&str> = std::str::from_utf8(&text).unwrap().lines().collect();
    assert_eq!(lines[1], "1\th1\t1700000000.123\t    10.042\t0\t12\t3\t0\ta\tb");
    assert_eq!(lines[2], "2\th1\t1700000000.123\t    10.042\t0\t12\t0\t9\ta\tb");
    assert_eq!(lines[3], "3\th1\t1700000000.123\t    10.042\t0\t12\t-1\t15\ta\tb");
    let (read, length) = read_log(&text).unwrap();
    assert_eq!(length, text.len());
    assert_eq!(
        read.iter().map(|it| (it.id.0, it.failed)).collect::<Vec<_>>(),
        [(1, true), (2, true), (3, true), (4, false)]
    );
    assert!(read.iter().all(|it| it.command == b"a\tb"));
}

#[test]
fn a_job_log_may_end_anywhere() {
    let text = log(&[Outcome::Exited(0); 3]);
    for length in 0..text.len() {
        let (read, whole) = read_log(&text[..length]).unwrap();
        let lines = text[..length].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(read.len(), lines.saturating_sub(1), "{length}");
        assert!(whole <= length && (whole == 0 || text[whole - 1] == b'\n'));
    }
}

#[test]
fn a_command_with_a_newline_is_one_line_of_the_job_log() {
    let mut text = joblog::HEADER.as_bytes().to_vec();
    let end = End { outcome: Outcome::Exited(0), began: 0, took: 0 };
    joblog::line(TaskId(1), "h1", &end, 0, b"sh -c 'a\nb'", &mut text);
    let (read, length) = read_log(&text).unwrap();
    assert_eq!((read[0].command.as_slice(), length), (&b"sh -c 'a\nb'"[..], text.len()));
}

#[test]
fn a_job_log_without_ends_of_lines_is_refused_before_much_of_it_is_read() {
    let mut reader = joblog::Reader::default();
    let zeros = [0; 4096];
    assert_eq!(reader.push(&zeros, |_| ()), Err(joblog::InvalidLog::Header));
    let mut reader = joblog::Reader::default();
    reader.push(joblog::HEADER.as_bytes(), |_| ()).unwrap();
    let refused = (0..64).find_map(|_| reader.push(&zeros, |_| ()).err());
    assert_eq!(refused, Some(joblog::InvalidLog::Line(2)));
}

#[test]
fn another_file_is_no_job_log() {
    assert_eq!(read_log(b"important\n"), Err(joblog::InvalidLog::Header));
    assert_eq!(read_log(b"important"), Err(joblog::InvalidLog::Header));
    let text = [joblog::HEADER.as_bytes(), b"1\th\t0\t0\t0\t0\t0\t0\ta\nx\n"].concat();
    assert_eq!(read_log(&text), Err(joblog::InvalidLog::Line(3)));
}

#[test]
fn rules_for_an_early_end_are_read() {
    assert_eq!(halt::parse("never"), Ok(None));
    let rule = Halt { when: When::Now, kind: Kind::Fail, count: 1 };
    assert_eq!(halt::parse("now,fail=1"), Ok(Some(rule)));
    let rule = Halt { when: When::Soon, kind: Kind::Success, count: 20 };
    assert_eq!(halt::parse("soon,success=20"), Ok(Some(rule)));
    for wrong in ["", "now", "now,fail", "now,fail=0", "later,fail=1", "now,fail=1%", "2"] {
        assert!(halt::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_exit_code_is_the_number_of_failures_up_to_a_hundred() {
    for (failed, code) in [(0, 0), (1, 1), (100, 100), (101, 101), (5000, 101)] {
        assert_eq!(Close::Complete(failed).code(), code);
    }
    assert_eq!([Close::Halted(Some(7)).code(), Close::Halted(None).code()], [7, 0]);
}

proptest! {
    #[test]
    fn a_set_of_numbers_has_what_was_added(numbers in prop::collection::vec(0..40_u64, 0..60)) {
        let mut set = Numbers::default();
        let mut model = std::collections::BTreeSet::new();
        for number in numbers {
            prop_assert_eq!(set.insert(number), model.insert(number));
        }
        (0..42).for_each(|number| assert_eq!(set.contains(number), model.contains(&number)));
        prop_assert_eq!(set.count(), model.len() as u64);
    }
}

#[test]
fn results_come_in_the_order_of_their_tasks() {
    let mut order = InOrder::default();
    order.add(TaskId(3), 'c');
    order.add(TaskId(1), 'a');
    assert_eq!((order.next_ready(), order.next_ready()), (Some('a'), None));
    order.skip(TaskId(2));
    assert_eq!((order.next_ready(), order.next_ready()), (Some('c'), None));
    order.add(TaskId(9), 'i');
    order.skip(TaskId(7));
    assert_eq!(
        (order.next_ready(), order.next_of_rest(), order.next_of_rest()),
        (None, Some('i'), None)
    );
}

#[test]
fn the_rate_gives_the_remaining_time() {
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let mut progress = Progress::new(at(0));
    assert_eq!(progress.rate(at(1), 0), None);
    for second in 1..=100 {
        progress.note(at(second), second * 50);
    }
    let rate = progress.rate(at(100), 5000).unwrap();
    assert!((rate - 50.0).abs() < 1.0, "{rate}");
    let left = progress.remaining(at(100), 5000, 500).unwrap();
    assert!((left.as_secs_f64() - 10.0).abs() < 0.5, "{left:?}");
}
