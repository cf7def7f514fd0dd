//! PMI-2: after one line each way, messages of six digits of length and pairs that end with a semicolon.

use mpd_wire::Rank;

use super::{Heard, Words};

/// Digits of a length.
const DIGITS: usize = 6;
const INIT: &[u8] = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

pub(super) fn write(words: &Words, rank: Rank, space: &str) -> Vec<u8> {
    let pairs = match words {
        Words::Init => {
            let full = framed(&format!("fullinit;pmirank={rank};threaded=FALSE;"));
            return [b"cmd=init pmi_version=2 pmi_subversion=0\n", &full[..]].concat();
        }
        Words::Put(key, value) => format!("kvs-put;key={key};value={value};"),
        Words::Fence(_) => "kvs-fence;".to_owned(),
        Words::Get(rank, key) => format!("kvs-get;jobid={space};srcid={rank};key={key};"),
        Words::Spawn(size) => format!(
            "spawn;ncmds=1;preputcount=0;subcmd=./child;maxprocs={size};argc=0;infokeycount=0;"
        ),
        Words::Connect(..) => panic!("only ranks that speak PMIx connect"),
        Words::Publish(name, value) => {
            format!("name-publish;name={name};port={value};infokeycount=0;")
        }
        Words::Lookup(name) => format!("name-lookup;name={name};infokeycount=0;"),
        Words::Finalize => "finalize;".to_owned(),
        Words::Abort => "abort;exitcode=5;message=;".to_owned(),
    };
    framed(&pairs)
}

fn framed(pairs: &str) -> Vec<u8> {
    format!("{:DIGITS$}cmd={pairs}", pairs.len() + "cmd=".len()).into_bytes()
}

/// The answer to these words, once all its bytes have come.
pub(super) fn read(unread: &mut Vec<u8>, words: &Words) -> Option<Heard> {
    let before = if *words == Words::Init { INIT.len() } else { 0 };
    let digits = unread.get(before..before + DIGITS)?;
    let length: usize = text(digits).trim().parse().expect("a length");
    let end = before + DIGITS + length;
    if unread.len() < end {
        return None;
    }
    let answer: Vec<u8> = unread.drain(..end).collect();
    assert!(before == 0 || answer.starts_with(INIT), "{}", text(&answer));
    Some(heard(text(&answer[before + DIGITS..]), words))
}

fn heard(pairs: &str, words: &Words) -> Heard {
    let value_of = |key: &str| {
        pairs
            .split(';')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
            .map(str::to_owned)
    };
    let command = match words {
        Words::Init => "fullinit",
        Words::Put(..) => "kvs-put",
        Words::Fence(_) => "kvs-fence",
        Words::Get(..) => "kvs-get",
        Words::Spawn(_) => "spawn",
        Words::Connect(..) => panic!("a rank has not connected: {pairs}"),
        Words::Publish(..) => "name-publish",
        Words::Lookup(_) => "name-lookup",
        Words::Finalize => "finalize",
        Words::Abort => panic!("an abort has no answer: {pairs}"),
    };
    assert_eq!(value_of("cmd"), Some(format!("{command}-response")), "{words:?}: {pairs}");
    let is_done = value_of("rc").expect("a result") == "0";
    match words {
        Words::Get(..) if value_of("found").as_deref() != Some("TRUE") => Heard::Missing,
        Words::Spawn(_) | Words::Publish(..) | Words::Lookup(_) if !is_done => Heard::Missing,
        _ if !is_done => panic!("{words:?}: {pairs}"),
        Words::Get(..) => Heard::Found(value_of("value").expect("a value").into()),
        Words::Lookup(_) => Heard::Found(value_of("port").expect("a port").into()),
        _ => Heard::Done,
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a text")
}
