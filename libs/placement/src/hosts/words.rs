//! The words of a line: the host with its count, and the keys after it.

use super::error::{MAX_NCPUS, MAX_SPEED, Problem};
use super::ranges::{self, Fault};

/// Most bytes in the name of a host, as in the DNS.
const MAX_HOST: usize = 255;
/// Most bytes in the name of a user.
const MAX_USER: usize = 64;
/// Most bytes in a numeric IPv6 address.
const MAX_IPV6: usize = 45;

/// `[USER@]HOST[:NCPUS]`.
#[derive(Debug)]
pub(super) struct HostWord {
    pub(super) user: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) ncpus: Option<u32>,
}

pub(super) fn host(word: &str, room: usize) -> Result<HostWord, Problem> {
    let (user, word) = match word.split_once('@') {
        Some((user, word)) if is_user_name(user) => (Some(user.to_owned()), word),
        Some((user, _)) => return Err(Problem::User(user.to_owned())),
        None => (None, word),
    };
    let (names, count) = match ipv6_in_brackets(word) {
        Some((address, rest)) => {
            let count = match rest.strip_prefix(':') {
                None if !rest.is_empty() => return Err(Problem::Host(word.to_owned())),
                count => count,
            };
            if room == 0 {
                return Err(Problem::TooManyHosts);
            }
            (vec![address.to_owned()], count)
        }
        None => {
            let (name, count) = match word.split_once(':') {
                Some((_, count)) if count.contains(':') => {
                    return Err(Problem::Colons(word.to_owned()));
                }
                Some((name, count)) => (name, Some(count)),
                None => (word, None),
            };
            (names(name, room, word)?, count)
        }
    };
    let ncpus = count.map(|count| ncpus(count).ok_or_else(|| Problem::Ncpus(word.to_owned())));
    Ok(HostWord { user, names, ncpus: ncpus.transpose()? })
}

/// The words that a word with ranges expands to, whatever their signs are.
pub(super) fn expanded(word: &str, room: usize) -> Result<Vec<String>, Problem> {
    ranges::expand(word, room).map_err(|fault| problem(fault, word))
}

fn problem(fault: Fault, word: &str) -> Problem {
    match fault {
        Fault::Malformed => Problem::Range(word.to_owned()),
        Fault::TooMany => Problem::TooManyHosts,
    }
}

/// The names that `name` expands to; an error quotes `word`.
fn names(name: &str, room: usize, word: &str) -> Result<Vec<String>, Problem> {
    let names = ranges::expand(name, room).map_err(|fault| problem(fault, word))?;
    if names.iter().all(|name| is_host_name(name)) {
        Ok(names)
    } else {
        Err(Problem::Host(word.to_owned()))
    }
}

fn ncpus(count: &str) -> Option<u32> {
    decimal(count).filter(|n| (1..=MAX_NCPUS).contains(n))
}

/// A number without sign.
fn decimal(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The address in brackets, and the text after the brackets.
fn ipv6_in_brackets(word: &str) -> Option<(&str, &str)> {
    let (address, rest) = word.strip_prefix('[')?.split_once(']')?;
    is_ipv6(address).then_some((address, rest))
}

/// Whether the text has only characters of a numeric IPv6 address. ssh checks the rest.
fn is_ipv6(text: &str) -> bool {
    text.len() <= MAX_IPV6
        && text.bytes().filter(|&b| b == b':').count() >= 2
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b))
}

/// Whether the text may be the name or numeric address of a host. Such a text can be neither an
/// option nor shell code.
pub fn is_host_name(text: &str) -> bool {
    let name = text.len() <= MAX_HOST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    name || is_ipv6(text)
}

/// Whether the text may be the name of a user on another host.
pub fn is_user_name(text: &str) -> bool {
    text.len() <= MAX_USER
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// The keys after a host.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// From `slots`, or from the count after the host's name.
    pub(super) ncpus: Option<u32>,
    pub(super) max: Option<u32>,
    pub(super) gpus: Option<u32>,
    pub(super) speed: Option<u32>,
    /// Empty, or one name for each host.
    pub(super) ifhn: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

impl Keys {
    pub(super) fn parse<'a>(
        words: impl Iterator<Item = &'a str>,
        user: Option<String>,
        ncpus: Option<u32>,
        hosts: usize,
    ) -> Result<Self, Problem> {
        let mut keys = Self { ncpus, user, ..Self::default() };
        for (at, word) in words.enumerate() {
            let refused = || word.to_owned();
            // A number after the host, as in some host files.
            if let (0, None, Some(number)) = (at, keys.ncpus, self::ncpus(word)) {
                keys.ncpus = Some(number);
                continue;
            }
            let (key, value) = word.split_once('=').ok_or_else(|| Problem::Key(refused()))?;
            let twice = match key {
                "max_slots" | "max-slots" | "slots_max" => {
                    let max = self::ncpus(value).ok_or_else(|| Problem::Ncpus(refused()))?;
                    keys.max.replace(max).is_some()
                }
                "gpus" => {
                    let gpus = decimal(value).filter(|&n| n <= MAX_NCPUS);
                    let gpus = gpus.ok_or_else(|| Problem::Gpus(refused()))?;
                    keys.gpus.replace(gpus).is_some()
                }
                "speed" | "sp" => {
                    let speed = speed(value).ok_or_else(|| Problem::Speed(refused()))?;
                    keys.speed.replace(speed).is_some()
                }
                "slots" | "cpu" => {
                    let slots = self::ncpus(value).ok_or_else(|| Problem::Ncpus(refused()))?;
                    keys.ncpus.replace(slots).is_some()
                }
                "ifhn" => {
                    let names = ifhn(value, hosts).ok_or_else(|| Problem::Ifhn(refused()))?;
                    !std::mem::replace(&mut keys.ifhn, names).is_empty()
                }
                "user" if is_user_name(value) => keys.user.replace(value.to_owned()).is_some(),
                "user" => return Err(Problem::User(refused())),
                "port" => {
                    let port = decimal(value).and_then(|n| u16::try_from(n).ok());
                    let port = port.filter(|&n| n != 0).ok_or_else(|| Problem::Port(refused()))?;
                    keys.port.replace(port).is_some()
                }
                _ => return Err(Problem::Key(refused())),
            };
            if twice {
                return Err(Problem::Twice(refused()));
            }
        }
        Ok(keys)
    }
}

/// A speed like 2 or 0.75, in hundredths.
pub fn speed(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = match part.len() {
        0 => 0,
        1 => 10 * decimal(part)?,
        2 => decimal(part)?,
        _ => return None,
    };
    let whole = if whole.is_empty() && !part.is_empty() { 0 } else { decimal(whole)? };
    let speed = whole.checked_mul(100)?.checked_add(hundredths)?;
    (1..=MAX_SPEED).contains(&speed).then_some(speed)
}

/// One name for each host.
fn ifhn(value: &str, hosts: usize) -> Option<Vec<String>> {
    let names = match ipv6_in_brackets(value) {
        Some((address, "")) => vec![address.to_owned()],
        _ => ranges::expand(value, hosts).ok()?,
    };
    (names.len() == hosts && names.iter().all(|name| is_host_name(name))).then_some(names)
}
