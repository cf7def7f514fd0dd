//! A spawn among the pairs of a message: what belongs to one program follows its `subcmd`.

use super::Message;
use super::response::Content;
use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attributes, parse_number};
use crate::spawn::{SpawnCommand, SpawnRequest};

/// Reads the pairs of a spawn. Bounded by the message.
pub(super) fn read(message: &Message) -> Result<SpawnRequest, ProtocolError> {
    let pairs = message.pairs();
    let starts: Vec<usize> = (0..pairs.len()).filter(|&at| pairs[at].0 == b"subcmd").collect();
    let ends = starts.iter().skip(1).copied().chain([pairs.len()]);
    let before = starts.first().map_or(pairs, |&first| &pairs[..first]);
    let preput = numbered_pairs(before, "preputcount", "ppkey", "ppval")?;
    let commands: Result<Vec<_>, _> =
        starts.iter().zip(ends).map(|(&start, end)| command(&pairs[start..end])).collect();
    let commands = commands?;
    if commands.is_empty() {
        return Err(missing("subcmd"));
    }
    if let Some(said) = message.get("ncmds")
        && parse_number(said) != Some(commands.len())
    {
        return Err(bad_number("ncmds", said));
    }
    Ok(SpawnRequest { commands, preput })
}

/// Writes the pairs of a spawn.
pub(super) fn write(request: &SpawnRequest, message: &mut Message) {
    message.push("ncmds", request.commands.len().to_string());
    message.push("preputcount", request.preput.len().to_string());
    write_numbered(&request.preput, "ppkey", "ppval", message);
    for command in &request.commands {
        message.push("subcmd", command.program.clone());
        message.push("maxprocs", command.size.to_string());
        message.push("argc", command.args.len().to_string());
        for (number, arg) in command.args.iter().enumerate() {
            message.push(&format!("argv{number}"), arg.clone());
        }
        message.push("infokeycount", command.info.len().to_string());
        write_numbered(&command.info, "infokey", "infoval", message);
    }
}

/// What came of a spawn, out of its response.
pub(super) fn outcome(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    let codes = found.get("errcodes").unwrap_or_default();
    let errors: Option<Vec<i32>> = match codes {
        b"" => Some(Vec::new()),
        codes => codes.split(|&byte| byte == b',').map(parse_number).collect(),
    };
    let errors = errors.ok_or_else(|| found.bad_number("errcodes", codes))?;
    Ok(Content::Spawned { jobid: found.owned("jobid")?, errors })
}

/// One program, from its `subcmd` on.
fn command(pairs: &[Pair]) -> Result<SpawnCommand, ProtocolError> {
    let program = find(pairs, "subcmd").unwrap_or_default().to_vec();
    if program.is_empty() {
        return Err(missing("subcmd"));
    }
    let size = find(pairs, "maxprocs").ok_or_else(|| missing("maxprocs"))?;
    let size = match parse_number(size) {
        Some(number) if number > 0 => number,
        _ => return Err(bad_number("maxprocs", size)),
    };
    let args = numbered(pairs, count(pairs, "argc")?, "argv")?;
    let info = numbered_pairs(pairs, "infokeycount", "infokey", "infoval")?;
    Ok(SpawnCommand { program, args, size, info })
}

type Pair = (Vec<u8>, Vec<u8>);

fn find<'p>(pairs: &'p [Pair], key: &str) -> Option<&'p [u8]> {
    let found = pairs.iter().find(|(name, _)| name == key.as_bytes())?;
    Some(&found.1)
}

/// A count; 0 when it is not there.
fn count(pairs: &[Pair], name: &'static str) -> Result<usize, ProtocolError> {
    let Some(said) = find(pairs, name) else { return Ok(0) };
    // Nobody can have written more of them than there are pairs.
    parse_number(said).filter(|&count| count <= pairs.len()).ok_or_else(|| bad_number(name, said))
}

/// The values of `name0`, `name1`, …: as they come in order, in one pass.
fn numbered(
    pairs: &[Pair],
    count: usize,
    name: &'static str,
) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut values = Vec::with_capacity(count);
    let mut wanted = format!("{name}0");
    for (key, value) in pairs {
        if values.len() < count && key == wanted.as_bytes() {
            values.push(value.clone());
            wanted = format!("{name}{}", values.len());
        }
    }
    if values.len() < count { Err(missing(name)) } else { Ok(values) }
}

fn numbered_pairs(
    pairs: &[Pair],
    counted: &'static str,
    keys: &'static str,
    values: &'static str,
) -> Result<Vec<Pair>, ProtocolError> {
    let count = count(pairs, counted)?;
    let keys = numbered(pairs, count, keys)?;
    Ok(keys.into_iter().zip(numbered(pairs, count, values)?).collect())
}

fn write_numbered(pairs: &[Pair], keys: &str, values: &str, message: &mut Message) {
    for (number, (key, value)) in pairs.iter().enumerate() {
        message.push(&format!("{keys}{number}"), key.clone());
        message.push(&format!("{values}{number}"), value.clone());
    }
}

fn missing(attribute: &'static str) -> ProtocolError {
    ProtocolError::MissingAttribute { command: "spawn", attribute }
}

fn bad_number(attribute: &'static str, value: &[u8]) -> ProtocolError {
    ProtocolError::BadNumber { command: "spawn", attribute, value: excerpt(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(body: &str) -> Result<SpawnRequest, ProtocolError> {
        read(&Message::parse(format!("cmd=spawn;{body}").as_bytes()).unwrap())
    }

    #[test]
    fn what_mpich_sends_is_understood() {
        let request = spawn(
            "ncmds=2;preputcount=1;ppkey0=PARENT_ROOT_PORT_NAME;ppval0=port!;subcmd=/tmp/spawn2;\
             maxprocs=1;argc=3;argv0=x y;argv1=a;b;argv2=;infokeycount=1;infokey0=wdir;infoval0=/tmp;\
             subcmd=./x;maxprocs=2;argc=0;infokeycount=0;",
        );
        let one = SpawnCommand {
            program: b"/tmp/spawn2".into(),
            args: vec![b"x y".into(), b"a;b".into(), b"".into()],
            size: 1,
            info: vec![(b"wdir".into(), b"/tmp".into())],
        };
        let two = SpawnCommand { program: b"./x".into(), size: 2, ..SpawnCommand::default() };
        let preput = vec![(b"PARENT_ROOT_PORT_NAME".into(), b"port!".into())];
        assert_eq!(request, Ok(SpawnRequest { commands: vec![one, two], preput }));
    }

    #[test]
    fn a_spawn_that_is_not_whole_is_refused() {
        let cases = [
            ("ncmds=0;preputcount=0;", missing("subcmd")),
            ("ncmds=1;subcmd=;maxprocs=1;", missing("subcmd")),
            ("ncmds=1;subcmd=x;", missing("maxprocs")),
            ("ncmds=1;subcmd=x;maxprocs=0;", bad_number("maxprocs", b"0")),
            ("ncmds=2;subcmd=x;maxprocs=1;", bad_number("ncmds", b"2")),
            ("subcmd=x;maxprocs=1;argc=2;argv0=a;argv2=c;", missing("argv")),
            ("subcmd=x;maxprocs=1;argc=99;", bad_number("argc", b"99")),
            ("preputcount=1;ppkey0=k;subcmd=x;maxprocs=1;", missing("ppval")),
        ];
        for (body, error) in cases {
            assert_eq!(spawn(body), Err(error), "{body}");
        }
    }
}
