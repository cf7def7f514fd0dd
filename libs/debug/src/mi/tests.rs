use proptest::prelude::*;

use super::*;

fn text(bytes: &str) -> Value {
    Value::Text(bytes.as_bytes().to_vec())
}

#[test]
fn a_stop_of_gdb_13_is_read_with_its_frame() {
    let line = br#"*stopped,reason="breakpoint-hit",disp="keep",bkptno="1",frame={addr="0x0000555555555170",func="work",args=[{name="r",value="0"}],file="t.c",fullname="/tmp/dbg/t.c",line="6",arch="i386:x86-64"},thread-id="1",stopped-threads="all",core="0""#;
    let Record::Async { kind: Async::Exec, class, fields } = Record::parse(line) else { panic!() };
    assert_eq!(class, "stopped");
    assert_eq!(fields.text("reason"), Some(&b"breakpoint-hit"[..]));
    let frame = fields.get("frame").unwrap();
    assert_eq!(frame.get("func"), Some(&text("work")));
    let arguments = frame.get("args").unwrap().fields();
    assert_eq!(arguments[0].1.get("value"), Some(&text("0")));
}

#[test]
fn answers_keep_their_tokens_and_lists_keep_the_names_of_their_values() {
    let line =
        br#"12^done,stack=[frame={level="0",func="f"},frame={level="1",func="main"}],n=[],t={}"#;
    let Record::Result { token: Some(12), class, fields } = Record::parse(line) else { panic!() };
    assert_eq!(class, "done");
    let stack = fields.get("stack").unwrap().fields();
    assert_eq!(stack.len(), 2);
    assert!(stack.iter().all(|(name, _)| name == "frame"));
    assert_eq!(fields.get("n"), Some(&Value::List(Fields::default())));
    assert_eq!(fields.get("t"), Some(&Value::Tuple(Fields::default())));
}

#[test]
fn escapes_of_strings_are_those_of_c() {
    let stream = |line: &[u8]| match Record::parse(line) {
        Record::Stream(_, text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(stream(br#"~"a\tb\"c\\d\n""#), b"a\tb\"c\\d\n");
    assert_eq!(stream(br#"&"\303\244\033[1m\0""#), b"\xc3\xa4\x1b[1m\0");
    assert_eq!(stream(br#"~"\a\b\f\v\r\e\q\18""#), b"\x07\x08\x0c\x0b\r\x1bq\x018");
    assert_eq!(stream(b"~\"\xff\xfe raw\""), b"\xff\xfe raw");
    assert_eq!(stream(br#"@"target""#), b"target");
}

#[test]
fn a_line_that_is_no_record_stays_unchanged() {
    for line in [
        "hi",
        "",
        "12",
        "^",
        "~\"open",
        "~\"a\"b",
        "1~\"a\"",
        "^done,",
        "^done,a",
        "^done,a=",
        "^done,a={",
        "^done,a=[\"x\",",
        "99999999999^done",
    ] {
        assert_eq!(Record::parse(line.as_bytes()), Record::Other(line.as_bytes().to_vec()));
    }
    assert_eq!(Record::parse(b"(gdb) "), Record::Prompt);
    assert_eq!(Record::parse(b"(gdb) \r"), Record::Prompt);
}

#[test]
fn depth_and_number_of_values_are_bounded() {
    let nested =
        |depth: usize| format!("^done,a={}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
    assert!(matches!(Record::parse(&nested(MAX_DEPTH)), Record::Result { .. }));
    assert!(matches!(Record::parse(&nested(100_000)), Record::Other(_)));
    let many = format!("^done,a=[{}\"\"]", "\"\",".repeat(MAX_VALUES));
    assert!(matches!(Record::parse(many.as_bytes()), Record::Other(_)));
}

#[test]
fn the_beginning_of_an_unreadable_answer_or_stop_is_read() {
    let many = format!("[{}\"\"]", "\"\",".repeat(MAX_VALUES));
    let deep = "[".repeat(MAX_DEPTH + 2);
    for tail in [&many[..], &deep, "\"open", "{x", "", "}"] {
        let fields = Fields(vec![("a".to_owned(), text("1"))]);
        let answer = Record::parse(format!("7^done,a=\"1\",b={tail}").as_bytes());
        let done =
            Record::Result { token: Some(7), class: "done".to_owned(), fields: fields.clone() };
        assert_eq!(answer, Record::Torn(Box::new(done)));
        let stop = Record::parse(format!("*stopped,a=\"1\",b={tail}").as_bytes());
        let stopped = Record::Async { kind: Async::Exec, class: "stopped".to_owned(), fields };
        assert_eq!(stop, Record::Torn(Box::new(stopped)));
    }
    for line in ["7^2 = 49", "7^2, 3", "7^good,a=", "*stopped!", "=stopped,a=", "^done,a="] {
        assert_eq!(Record::parse(line.as_bytes()), Record::Other(line.as_bytes().to_vec()));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = proptest::collection::vec(any::<u8>(), 0..12).prop_map(Value::Text);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = proptest::collection::vec(("[a-z][a-z-]{0,6}", inner), 0..4);
        (fields, any::<bool>()).prop_map(|(fields, tuple)| match tuple {
            true => Value::Tuple(Fields(fields)),
            false => Value::List(Fields(fields)),
        })
    })
}

fn write(value: &Value, into: &mut Vec<u8>) {
    let (open, close) = match value {
        Value::Text(text) => {
            into.push(b'"');
            text.iter().for_each(|byte| into.extend(format!("\\{byte:03o}").bytes()));
            return into.push(b'"');
        }
        Value::Tuple(_) => (b'{', b'}'),
        Value::List(_) => (b'[', b']'),
    };
    into.push(open);
    for (number, (name, value)) in value.fields().iter().enumerate() {
        if number > 0 {
            into.push(b',');
        }
        into.extend(name.bytes());
        into.push(b'=');
        write(value, into);
    }
    into.push(close);
}

proptest! {
    #[test]
    fn a_record_written_by_the_grammar_reads_back(value in value(), token in any::<u32>()) {
        let mut line = format!("{token}^done,v=").into_bytes();
        write(&value, &mut line);
        let fields = Fields(vec![("v".to_owned(), value)]);
        let wanted = Record::Result { token: Some(token), class: "done".to_owned(), fields };
        prop_assert_eq!(Record::parse(&line), wanted);
    }

    #[test]
    fn quoted_text_reads_back(text in "[^\\r\\n\0]{0,40}") {
        let line = [b"~", &quoted(text.as_bytes())[..]].concat();
        prop_assert_eq!(Record::parse(&line), Record::Stream(Stream::Console, text.into_bytes()));
    }

    #[test]
    fn no_line_makes_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        Record::parse(&line);
    }
}
