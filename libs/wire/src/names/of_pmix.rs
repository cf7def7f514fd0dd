//! The names and values that clients of PMIx publish, as they are in the ring.
//!
//! A name is the key of the client. If only some processes may find it, a zero byte and these processes follow. A value
//! has the number of its publisher, and whether the first reader takes it back.

/// Separates a key from the processes that may find it. No key has this byte.
const SEPARATOR: char = '\0';

/// Stands in front of the values of PMIx clients.
const MARK: &str = "pmix:";

/// The name of a key that only `scope` may find.
pub fn scoped_name(key: &str, scope: &str) -> String {
    format!("{key}{SEPARATOR}{scope}")
}

/// The key of a name, and the processes that may find it; `None`: all processes.
pub fn split_name(name: &str) -> (&str, Option<&str>) {
    name.split_once(SEPARATOR).map_or((name, None), |(key, scope)| (key, Some(scope)))
}

/// A value of a PMIx client: `pmix:ONCE:WORLD:RANK:KIND:JOB:CONTENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmixValue<'a> {
    /// 0, if the name stays after its first reader. Another number tells the publications of a process apart, so that a
    /// late reader of one does not take back the next one.
    pub once: u64,
    /// The number of the publisher's world in its job.
    pub world: u32,
    /// The publisher's rank in this world.
    pub rank: u32,
    /// The publisher's job.
    pub job: &'a str,
    /// What it has published.
    pub content: Content<'a>,
}

/// What a PMIx client has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Text(&'a str),
    /// Another value in the encoding of PMIx, as hexadecimal digits.
    Encoded(&'a str),
}

impl<'a> PmixValue<'a> {
    /// Whether a PMIx client published this value of the ring. Other values are plain texts.
    pub fn is_one(value: &str) -> bool {
        value.starts_with(MARK)
    }

    /// Reads a value in the ring. `None`: no PMIx client published it, or it is malformed.
    pub fn read(value: &'a str) -> Option<Self> {
        let mut fields = value.strip_prefix(MARK)?.splitn(6, ':');
        let mut next = || fields.next();
        let (once, world, rank) = (next()?, next()?, next()?);
        let (kind, job, content) = (next()?, next()?, next()?);
        Some(Self {
            once: once.parse().ok()?,
            world: world.parse().ok()?,
            rank: rank.parse().ok()?,
            job,
            content: match kind {
                "t" => Content::Text(content),
                "x" => Content::Encoded(content),
                _ => return None,
            },
        })
    }

    /// The value as it is in the ring.
    pub fn write(&self) -> String {
        let Self { once, world, rank, job, content } = self;
        let (kind, content) = match content {
            Content::Text(text) => ('t', text),
            Content::Encoded(digits) => ('x', digits),
        };
        format!("{MARK}{once}:{world}:{rank}:{kind}:{job}:{content}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_as_it_was_written_and_other_texts_are_no_values() {
        for content in [Content::Text("a:b"), Content::Text(""), Content::Encoded("0206")] {
            let value = PmixValue { once: 7, world: 2, rank: 3, job: "31@h1", content };
            assert_eq!(PmixValue::read(&value.write()), Some(value));
        }
        for other in ["tag#0$port", "pmix:", "pmix:0:0:3:y:31@h1:a", "pmix:0:0:x:t:31@h1:a"] {
            assert_eq!(PmixValue::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_has_the_key_and_the_processes_that_may_find_it() {
        assert_eq!(split_name("ocean"), ("ocean", None));
        assert_eq!(split_name(&scoped_name("ocean", "host h1")), ("ocean", Some("host h1")));
    }
}
