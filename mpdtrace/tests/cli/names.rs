//! `mpdnames`.

use mpd_wire::message::{ConsoleReply, Published, RingRequest};

use crate::support::{Act, Daemon, name};

#[test]
fn mpdnames_lists_each_name_on_one_line_also_with_control_characters() {
    let daemon = Daemon::new(|_| {
        let reply = |text: &str, more: bool| {
            let (job, host) = ("3@h2".parse().unwrap(), name("h2"));
            let (name, value, keyed) = (text.to_owned(), "port$1".to_owned(), !more);
            let published = Published { name, value, job, host, keyed };
            Act::Say(ConsoleReply::Names { names: vec![published], more })
        };
        vec![reply("a\nb", true), reply("ocean", false)]
    });
    let text = daemon.run("mpdnames", &[]).good();
    assert_eq!(text, "\"a\\nb\" 3@h2 h2 \"port$1\"\n\"ocean\" 3@h2 h2 \"port$1\" keyed\n");
    assert_eq!(daemon.asked(), [RingRequest::Names]);
    let value: serde_json::Value =
        serde_json::from_str(&daemon.run("mpdnames", &["--json"]).good()).unwrap();
    assert_eq!(value["names"][1]["name"], "ocean");
    let keyed = [&value["names"][0]["keyed"], &value["names"][1]["keyed"]];
    assert_eq!(keyed, [false, true]);
}

#[test]
fn mpdnames_shows_names_of_pmix_as_the_program_gave_them() {
    let daemon = Daemon::new(|_| {
        let published = |text: &str, value: &str| {
            let (job, host) = ("3@h2".parse().unwrap(), name("h2"));
            Published { name: text.to_owned(), value: value.to_owned(), job, host, keyed: false }
        };
        let names = vec![
            published("ocean", "pmix:0:0:1:t:3@h2:port:7"),
            published("size\0host h2", "pmix:0:0:1:x:3@h2:0206"),
            published("turn", "pmix:12:0:1:t:3@h2:x"),
        ];
        vec![Act::Say(ConsoleReply::Names { names, more: false })]
    });
    let text = daemon.run("mpdnames", &[]).good();
    let lines = [
        "\"ocean\" 3@h2 h2 \"port:7\"",
        "\"size\" 3@h2 h2 data for host h2",
        "\"turn\" 3@h2 h2 \"x\" once",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    let value: serde_json::Value =
        serde_json::from_str(&daemon.run("mpdnames", &["--json"]).good()).unwrap();
    assert_eq!(value["names"][2]["value"], "pmix:12:0:1:t:3@h2:x", "as before");
}
