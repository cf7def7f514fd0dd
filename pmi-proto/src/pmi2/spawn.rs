//! A spawn as pairs of a message: the pairs of one program follow its `subcmd`.

use super::Message;
use super::content::Content;
use super::numbered::{self, Lists, Pair, find};
use crate::error::ProtocolError;
use crate::keyval::{Attributes, parse_number};
use crate::spawn::{SpawnCommand, SpawnRequest};

/// Parses the pairs of a spawn. The length of the message bounds them.
pub(super) fn read(message: &Message) -> Result<SpawnRequest, ProtocolError> {
    let pairs = message.pairs();
    let starts: Vec<usize> = (0..pairs.len()).filter(|&at| pairs[at].0 == b"subcmd").collect();
    let ends = starts.iter().skip(1).copied().chain([pairs.len()]);
    let before = starts.first().map_or(pairs, |&first| &pairs[..first]);
    let preput = SPAWN.pairs(before, "preputcount", "ppkey", "ppval")?;
    let commands: Result<Vec<_>, _> =
        starts.iter().zip(ends).map(|(&start, end)| command(&pairs[start..end])).collect();
    let commands = commands?;
    if commands.is_empty() {
        return Err(SPAWN.missing("subcmd"));
    }
    if let Some(text) = message.get("ncmds")
        && parse_number(text) != Some(commands.len())
    {
        return Err(SPAWN.bad_number("ncmds", text));
    }
    Ok(SpawnRequest { commands, preput })
}

/// Writes the pairs of a spawn.
pub(super) fn write(request: &SpawnRequest, message: &mut Message) {
    message.push("ncmds", request.commands.len().to_string());
    message.push("preputcount", request.preput.len().to_string());
    numbered::write(&request.preput, "ppkey", "ppval", message);
    for command in &request.commands {
        message.push("subcmd", command.program.clone());
        message.push("maxprocs", command.size.to_string());
        message.push("argc", command.args.len().to_string());
        for (number, arg) in command.args.iter().enumerate() {
            message.push(&format!("argv{number}"), arg.clone());
        }
        numbered::write_info(&command.info, message);
    }
}

/// Parses the response to a spawn.
pub(super) fn outcome(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    let codes = found.get("errcodes").unwrap_or_default();
    let errors: Option<Vec<i32>> = match codes {
        b"" => Some(Vec::new()),
        codes => codes.split(|&byte| byte == b',').map(parse_number).collect(),
    };
    let errors = errors.ok_or_else(|| found.bad_number("errcodes", codes))?;
    Ok(Content::Spawned { jobid: found.owned("jobid")?, errors })
}

/// Parses one program, from its `subcmd` on.
fn command(pairs: &[Pair]) -> Result<SpawnCommand, ProtocolError> {
    let program = find(pairs, "subcmd").unwrap_or_default().to_vec();
    if program.is_empty() {
        return Err(SPAWN.missing("subcmd"));
    }
    let size = find(pairs, "maxprocs").ok_or_else(|| SPAWN.missing("maxprocs"))?;
    let size = match parse_number(size) {
        Some(number) if number > 0 => number,
        _ => return Err(SPAWN.bad_number("maxprocs", size)),
    };
    let args = SPAWN.values(pairs, SPAWN.count(pairs, "argc")?, "argv")?;
    let info = SPAWN.info(pairs)?;
    Ok(SpawnCommand { program, args, size, info })
}

const SPAWN: Lists = Lists("spawn");

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(body: &str) -> Result<SpawnRequest, ProtocolError> {
        read(&Message::parse(format!("cmd=spawn;{body}").as_bytes()).unwrap())
    }

    #[test]
    fn spawns_of_mpich_are_understood() {
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
    fn an_incomplete_spawn_is_refused() {
        let cases = [
            ("ncmds=0;preputcount=0;", SPAWN.missing("subcmd")),
            ("ncmds=1;subcmd=;maxprocs=1;", SPAWN.missing("subcmd")),
            ("ncmds=1;subcmd=x;", SPAWN.missing("maxprocs")),
            ("ncmds=1;subcmd=x;maxprocs=0;", SPAWN.bad_number("maxprocs", b"0")),
            ("ncmds=2;subcmd=x;maxprocs=1;", SPAWN.bad_number("ncmds", b"2")),
            ("subcmd=x;maxprocs=1;argc=2;argv0=a;argv2=c;", SPAWN.missing("argv")),
            ("subcmd=x;maxprocs=1;argc=99;", SPAWN.bad_number("argc", b"99")),
            ("preputcount=1;ppkey0=k;subcmd=x;maxprocs=1;", SPAWN.missing("ppval")),
        ];
        for (body, error) in cases {
            assert_eq!(spawn(body), Err(error), "{body}");
        }
    }
}
