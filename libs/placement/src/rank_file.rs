//! Rank files of Open MPI: the host of each rank, and its CPUs.
//!
//! ```text
//! # a comment
//! rank 0=host slot=1:0-2     cores 0 to 2 of socket 1
//! rank 1=+n1 slot=0:*        socket 0 of the second host of the list
//! rank 2=host slot=1,3-4     cores of the host
//! rank 3=host slot=p5        CPU 5 by the system's number
//! rank 4=host                all CPUs; so does slot=*
//! rank 5=host slot=0:1,1:0-2 cores of two sockets
//! ```

use mpd_wire::job::{CpuChoice, CpuNumbers, CpuRange, MAX_CPU, MAX_RANKS};

use crate::cpu_list::number;
use crate::hosts::{MAX_FILE, is_host_name};

/// The host of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankHost {
    Name(String),
    /// Its place in the list of hosts, from 0.
    Place(usize),
}

/// One rank of a rank file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankLine {
    pub host: RankHost,
    /// The CPUs; `None`: all.
    pub cpus: Option<CpuChoice>,
}

/// A line of a rank file is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidRankFile {
    /// The line, from 1; after the last one if ranks are missing.
    pub line: usize,
    pub problem: String,
}

/// The ranks of a file, in their order.
///
/// # Errors
/// The first line that is wrong, or a missing rank.
pub fn parse(text: &[u8]) -> Result<Vec<RankLine>, InvalidRankFile> {
    let wrong = |line, problem: &str| InvalidRankFile { line, problem: problem.to_owned() };
    if text.len() > MAX_FILE {
        return Err(wrong(1, &format!("the file has more than {MAX_FILE} bytes")));
    }
    let mut ranks: Vec<Option<RankLine>> = Vec::new();
    let mut last = 0;
    for (line, content) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let content = str::from_utf8(content).map_err(|_| wrong(line, "it is not text"))?;
        let content = content.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let (rank, entry) = parse_line(content).map_err(|e| wrong(line, &e))?;
        if ranks.len() <= rank {
            ranks.resize(rank + 1, None);
        }
        if ranks[rank].replace(entry).is_some() {
            return Err(wrong(line, &format!("rank {rank} has a line already")));
        }
        last = line;
    }
    if let Some(rank) = ranks.iter().position(Option::is_none) {
        return Err(wrong(last, &format!("no line has rank {rank}")));
    }
    match ranks.is_empty() {
        true => Err(wrong(1, "no line has a rank")),
        false => Ok(ranks.into_iter().flatten().collect()),
    }
}

fn parse_line(content: &str) -> Result<(usize, RankLine), String> {
    // Blanks may surround an equals sign.
    let parts: Vec<&str> = content.split('=').map(str::trim).collect();
    let words: Vec<&str> = parts.iter().flat_map(|part| part.split_whitespace()).collect();
    let form = || "it must be 'rank N=HOST slot=CPUS'".to_owned();
    let (rank, host, slots) = match words[..] {
        ["rank", rank, host] if parts.len() == 2 => (rank, host, "*"),
        ["rank", rank, host, "slot" | "slots", slots] if parts.len() == 3 => (rank, host, slots),
        _ => return Err(form()),
    };
    let rank: usize =
        rank.parse().ok().filter(|&rank| rank < MAX_RANKS as usize).ok_or_else(form)?;
    // Daemons run under the user's own name.
    let host = host.split_once('@').map_or(host, |(_, host)| host);
    let host = match host.strip_prefix("+n").or_else(|| host.strip_prefix("+N")) {
        Some(place) => RankHost::Place(place.parse().map_err(|_| form())?),
        None if is_host_name(host) => RankHost::Name(host.to_owned()),
        None => return Err(format!("{host:?} is not the name of a host")),
    };
    let wrong = || format!("{slots:?} is no list of slots, like 0-1, 1:0-2 or 0:*");
    let cpus = match slots {
        "*" => None,
        slots => Some(parse_slots(slots).ok_or_else(wrong)?),
    };
    Ok((rank, RankLine { host, cpus }))
}

fn parse_slots(text: &str) -> Option<CpuChoice> {
    let mut ranges = Vec::new();
    for group in text.split(';') {
        let mut current = None;
        for item in group.split(',') {
            // A socket is valid up to the next one.
            let range = match item.split_once(':') {
                Some((socket, range)) => {
                    current = Some(number(socket)?);
                    range
                }
                None => item,
            };
            if let (Some(socket), "*") = (current, range) {
                ranges.push(CpuRange { of: CpuNumbers::Sockets, low: socket, high: socket });
                continue;
            }
            let (of, range) = match (current, range.strip_prefix(['p', 'P'])) {
                (Some(socket), None) => (CpuNumbers::CoresOf(socket), range),
                (None, None) => (CpuNumbers::Cores, range),
                (None, Some(range)) => (CpuNumbers::System, range),
                (Some(_), Some(_)) => return None,
            };
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high) = (number(low)?, number(high)?);
            ranges.push(CpuRange { of, low, high });
        }
    }
    ranges.iter().all(|range| range.low <= range.high && range.high <= MAX_CPU).then_some(())?;
    Some(CpuChoice(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_list::show;

    fn shown(text: &str) -> Vec<(String, String)> {
        let host = |line: &RankLine| match &line.host {
            RankHost::Name(name) => name.clone(),
            RankHost::Place(place) => format!("+n{place}"),
        };
        let cpus = |line: &RankLine| line.cpus.as_ref().map_or("all".to_owned(), show);
        parse(text.as_bytes()).unwrap().iter().map(|line| (host(line), cpus(line))).collect()
    }

    fn problem(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn lines_name_the_host_and_the_cpus_of_each_rank() {
        let text = "# of the manual\nrank 1=bb slot=0:0,1\nrank 0=aa slot=1:0-2\n\
                    rank 2=+n2 slot=1-2 # relative\nrank 3 = cc slot = 0:*\nrank 4=cc slot=p5\n\
                    rank 5=cc slot=0:0;1:1\nrank 6=cc\nrank 7=cc slot=*\n\
                    rank 8=cc slot=0:0,0:1\nrank 9=al@cc slot=0:*,1:*\nrank 10=+N0 slot=0:1,1:0-2\n";
        let expected = [
            ("aa", "s1c0-2"),
            ("bb", "s0c0+s0c1"),
            ("+n2", "c1-2"),
            ("cc", "s0"),
            ("cc", "5"),
            ("cc", "s0c0+s1c1"),
            ("cc", "all"),
            ("cc", "all"),
            ("cc", "s0c0+s0c1"),
            ("cc", "s0+s1"),
            ("+n0", "s0c1+s1c0-2"),
        ];
        assert_eq!(shown(text), expected.map(|(host, cpus)| (host.into(), cpus.into())));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, expected) in [
            ("", "line 1: no line has a rank"),
            ("rank 0=a\nrang 1=b", "line 2: it must be 'rank N=HOST slot=CPUS'"),
            ("rank 0=a slot", "line 1: it must be"),
            ("rank x=a", "line 1: it must be"),
            ("rank 0=a slot=0 slot=1", "line 1: it must be"),
            ("rank 0=-oX slot=0", "line 1: \"-oX\" is not the name of a host"),
            ("rank 0=+nx", "line 1: it must be"),
            ("rank 0=a slot=2-1", "line 1: \"2-1\" is no list of slots"),
            ("rank 0=a slot=0:", "line 1: \"0:\" is no list of slots"),
            ("rank 0=a\n\nrank 0=b", "line 3: rank 0 has a line already"),
            ("rank 0=a\nrank 2=b", "line 2: no line has rank 1"),
            ("rank 4000000000=a", "line 1: it must be"),
        ] {
            assert!(problem(text).starts_with(expected), "{text}: {}", problem(text));
        }
    }
}
