//! With any order of the ranks' lines: no line is lost, and the prompt appears when all have
//! answered, and not before.

use proptest::prelude::*;

use super::super::*;

const SIZE: u32 = 4;

fn outputs(prompt: &mut Prompt) -> Vec<Output> {
    std::iter::from_fn(|| prompt.poll_output()).collect()
}

fn said(prompt: &mut Prompt, line: &str) -> Vec<Output> {
    prompt.handle(Time::ZERO, Input::DebuggerLine(line.as_bytes()));
    outputs(prompt)
}

/// Text shown so far.
fn shown(all: &[Output]) -> String {
    let mut text = Vec::new();
    for output in all {
        if let Output::Print(bytes) | Output::Complain(bytes) = output {
            text.extend_from_slice(bytes);
        }
    }
    String::from_utf8(text).unwrap()
}

proptest! {
    #[test]
    fn no_line_is_lost_and_the_prompt_waits_for_all_answers(
        addressed in 1u32..1 << SIZE,
        order in proptest::collection::vec((0..SIZE, 0usize..5, any::<bool>()), 0..60),
    ) {
        let settings = Settings { numbers: Numbers::of_job(SIZE), terminal: true, ..Settings::default() };
        let mut prompt = Prompt::new(settings);
        said(&mut prompt, "0-3: =0 idle");
        let ranks: RankSet = (0..SIZE).filter(|r| addressed >> r & 1 == 1).map(mpd_wire::Rank).collect();
        prompt.handle(Time::ZERO, Input::Line(&format!("z {ranks}")));
        outputs(&mut prompt);
        prompt.handle(Time::ZERO, Input::Line("next"));
        let first = outputs(&mut prompt);
        let is_sent = matches!(first.last(), Some(Output::Send { .. }));
        prop_assert!(is_sent);
        let (mut all, mut expected) = (Vec::new(), vec![String::new(); SIZE as usize]);
        let mut waited = ranks.clone();
        for (n, (rank, kind, ends)) in order.into_iter().enumerate() {
            let sign = ['~', '>', '!', '+', '='][kind];
            let was_waiting = !waited.is_empty();
            let answers = sign == '=' && ends;
            let line = match sign {
                '=' if answers => format!("{rank}: =1 stopped f t.c:{n} r"),
                '=' => format!("{rank}: =0 idle"),
                _ => format!("{rank}: {sign}<{n}>"),
            };
            let now = said(&mut prompt, &line);
            if answers {
                waited.remove(&[mpd_wire::Rank(rank)].into_iter().collect());
            }
            if sign != '=' {
                expected[rank as usize].push_str(&format!("<{n}>"));
            }
            let is_shown = now.contains(&Output::Prompt);
            prop_assert_eq!(is_shown, was_waiting && waited.is_empty(), "{}", line);
            prop_assert_eq!(prompt.takes_lines(), waited.is_empty());
            all.extend(now);
        }
        for (rank, expected) in (0..SIZE).zip(&expected) {
            let text = shown(&all);
            let label = format!("{rank}: ");
            let own = text.lines().filter_map(|line| line.strip_prefix(&label));
            prop_assert_eq!(&own.collect::<String>(), expected);
        }
    }
}
