//! Joins what the same tool printed for several users and hosts. Pure.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::value::RawValue;

/// The outputs of `mpdlistjobs --json`, joined. Each job is listed once, although each host of a ring lists it.
///
/// What is no listing is left out: the tool of a user or host has failed, and its complaint was printed.
pub fn listings(outputs: &[String]) -> String {
    #[derive(serde::Deserialize)]
    struct Listing<'a> {
        #[serde(borrow)]
        jobs: Vec<&'a RawValue>,
        #[serde(borrow)]
        missing: Vec<&'a RawValue>,
    }
    let (mut seen, mut jobs, mut missing) = (BTreeSet::new(), Vec::new(), Unique::default());
    for output in outputs {
        let Ok(listing) = serde_json::from_str::<Listing<'_>>(output.trim_end()) else { continue };
        for job in listing.jobs {
            // Each host lists the hosts of a job in an order of its own.
            let Ok(Found { job: id, user, .. }) = serde_json::from_str(job.get()) else { continue };
            if seen.insert((id, user)) {
                jobs.push(job.get());
            }
        }
        listing.missing.iter().for_each(|host| missing.add(host.get()));
    }
    format!("{{\"jobs\":[{}],\"missing\":[{}]}}\n", jobs.join(","), missing.list.join(","))
}

/// The output of `mpdlistjobs --json` for one user, without jobs of others.
pub fn of_user(output: &str, user: &str) -> String {
    let own = |job: &&Value| job.get("user").and_then(Value::as_str) == Some(user);
    let listing: Value = serde_json::from_str(output.trim_end()).unwrap_or_default();
    let list =
        |name: &str| listing.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let jobs: Vec<Value> = list("jobs").iter().filter(own).cloned().collect();
    serde_json::json!({ "jobs": jobs, "missing": list("missing") }).to_string() + "\n"
}

/// The outputs of `mpdlistjobs`, joined. Each block of lines is printed once.
pub fn blocks(outputs: &[String]) -> String {
    let mut unique = Unique::default();
    for block in
        outputs.iter().flat_map(|output| output.split("\n\n")).filter(|it| !it.trim().is_empty())
    {
        unique.add(block);
    }
    unique.list.iter().map(|block| format!("{block}\n\n")).collect()
}

/// The same for lines.
pub fn lines(outputs: &[String]) -> String {
    let mut unique = Unique::default();
    outputs.iter().flat_map(|output| output.lines()).for_each(|line| unique.add(line));
    unique.list.iter().map(|line| format!("{line}\n")).collect()
}

/// Texts in their order, each once.
#[derive(Default)]
struct Unique<'a> {
    seen: BTreeSet<&'a str>,
    list: Vec<&'a str>,
}

impl<'a> Unique<'a> {
    fn add(&mut self, text: &'a str) {
        if self.seen.insert(text) {
            self.list.push(text);
        }
    }
}

/// A job that a listing has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Found {
    pub job: String,
    pub user: String,
    /// The hosts that run it.
    pub hosts: Vec<FoundHost>,
}

/// A host of a job.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct FoundHost {
    pub host: String,
}

/// The jobs of a listing.
///
/// # Errors
/// The text is not what `mpdlistjobs --json` prints.
pub fn jobs(listing: &str) -> Result<Vec<Found>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Listing {
        jobs: Vec<Found>,
    }
    Ok(serde_json::from_str::<Listing>(listing)?.jobs)
}

/// The one job of a listing.
///
/// # Errors
/// A text for people: there is none, or several.
pub fn only(listing: &str) -> Result<Found, String> {
    let mut jobs = jobs(listing).map_err(|e| e.to_string())?;
    match jobs.len() {
        0 => Err("no user has such a job here, nor on another host of the site".to_owned()),
        1 => Ok(jobs.swap_remove(0)),
        _ => {
            let names: Vec<String> =
                jobs.iter().map(|it| format!("{} of {}", it.job, it.user)).collect();
            Err(format!(
                "several jobs have this name: {}; --owner USER selects one",
                names.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(jobs: &str) -> String {
        format!("{{\"jobs\":[{jobs}],\"missing\":[]}}\n")
    }

    const ALICE: &str =
        r#"{"job":"1@h1","alias":null,"user":"alice","hosts":[{"host":"h1"},{"host":"h3"}]}"#;
    const BOB: &str = r#"{"job":"1@h2","alias":null,"user":"bob","hosts":[{"host":"h2"}]}"#;

    #[test]
    fn a_job_that_two_hosts_list_is_listed_once() {
        let joined = listings(&[listing(ALICE), listing(""), listing(&format!("{ALICE},{BOB}"))]);
        assert_eq!(joined, listing(&format!("{ALICE},{BOB}")));
        assert_eq!(blocks(&["a\nb\n\nc\n\n".to_owned(), "c\n\n".to_owned()]), "a\nb\n\nc\n\n");
        assert_eq!(lines(&["a\nb\n".to_owned(), "b\n".to_owned()]), "a\nb\n");
    }

    #[test]
    fn a_user_lists_no_job_of_another_and_text_of_a_failed_tool_is_left_out() {
        assert_eq!(
            of_user(&listing(&format!("{ALICE},{BOB}")), "bob"),
            of_user(&listing(BOB), "bob")
        );
        assert_eq!(of_user("no daemon", "bob"), listing(""));
        assert_eq!(listings(&[String::new(), "x".to_owned(), listing(BOB)]), listing(BOB));
    }

    #[test]
    fn an_order_needs_exactly_one_job() {
        assert_eq!(only(&listing(ALICE)).unwrap().hosts[0].host, "h1");
        assert!(only(&listing("")).unwrap_err().starts_with("no user has such a job"));
        assert_eq!(
            only(&listing(&format!("{ALICE},{BOB}"))).unwrap_err(),
            "several jobs have this name: 1@h1 of alice, 1@h2 of bob; --owner USER selects one"
        );
    }
}
