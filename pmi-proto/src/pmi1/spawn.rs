//! A spawn as blocks of lines: one block for each program, and all blocks of a call make one request.
//!
//! Input beyond the limits is dropped as it arrives, and the call is refused at its last block.

use std::collections::BTreeMap;

use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attributes, parse_number, split_pair};
use crate::limits::{MAX_SPAWN_BYTES, MAX_SPAWN_LINES};
use crate::spawn::{SpawnCommand, SpawnRequest};

type Pair = (Vec<u8>, Vec<u8>);

/// One complete block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpawnBlock {
    /// How many blocks the call has.
    pub(crate) total: u32,
    /// The number of this block, counted from 1.
    pub(crate) number: u32,
    /// The program, and the pairs to put before its start; or the error of the block.
    pub(crate) content: Result<(SpawnCommand, Vec<Pair>), ProtocolError>,
    /// Its share of the call's limits.
    cost: Cost,
}

/// Lines and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    lines: usize,
    bytes: usize,
}

/// The numbered lines of a block, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    lines: BTreeMap<Vec<u8>, Vec<u8>>,
    cost: Cost,
}

/// The blocks of one call that have arrived.
#[derive(Debug, Default)]
pub(crate) struct SpawnCall {
    request: SpawnRequest,
    cost: Cost,
    blocks: u32,
    problem: Option<ProtocolError>,
}

impl Cost {
    fn and(self, other: Self) -> Self {
        Self { lines: self.lines + other.lines, bytes: self.bytes + other.bytes }
    }

    fn fits(self) -> bool {
        self.lines <= MAX_SPAWN_LINES && self.bytes <= MAX_SPAWN_BYTES
    }
}

impl Numbered {
    /// Takes a line that is no attribute of the table. Only numbered lines are kept.
    pub(crate) fn add(&mut self, line: &[u8]) {
        let Some((name, value)) = split_pair(line) else { return };
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let stem = &name[..name.len() - digits];
        if digits == 0 || !STEMS.iter().any(|known| known.as_bytes() == stem) {
            return;
        }
        self.cost = self.cost.and(Cost { lines: 1, bytes: line.len() });
        if self.cost.fits() {
            self.lines.entry(name.to_vec()).or_insert_with(|| value.to_vec());
        } else {
            self.lines.clear();
        }
    }

    fn take(
        &self,
        found: &Attributes<'_>,
        counted: &'static str,
        stem: &'static str,
        first: usize,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Some(text) = found.get(counted) else { return Ok(Vec::new()) };
        let bad = || bad_number(counted, text);
        let count: usize = parse_number(text).ok_or_else(bad)?;
        let missing = ProtocolError::MissingAttribute { command: "spawn", attribute: stem };
        (first..first.saturating_add(count))
            .map(|number| self.lines.get(format!("{stem}{number}").as_bytes()).cloned())
            .map(|value| value.ok_or_else(|| missing.clone()))
            .collect()
    }

    fn take_pairs(
        &self,
        found: &Attributes<'_>,
        counted: &'static str,
        [keys, values]: [&'static str; 2],
    ) -> Result<Vec<Pair>, ProtocolError> {
        let keys = self.take(found, counted, keys, 0)?;
        Ok(keys.into_iter().zip(self.take(found, counted, values, 0)?).collect())
    }

    fn content(&self, found: &Attributes<'_>) -> Result<(SpawnCommand, Vec<Pair>), ProtocolError> {
        if !self.cost.fits() {
            return Err(ProtocolError::SpawnTooLarge);
        }
        let size = found.number("nprocs")?;
        if size == 0 {
            return Err(bad_number("nprocs", b"0"));
        }
        let program = found.owned("execname")?;
        if program.is_empty() {
            return Err(ProtocolError::MissingAttribute {
                command: "spawn",
                attribute: "execname",
            });
        }
        let args = self.take(found, "argcnt", "arg", 1)?;
        let preput = self.take_pairs(found, "preput_num", ["preput_key_", "preput_val_"])?;
        let info = self.take_pairs(found, "info_num", ["info_key_", "info_val_"])?;
        Ok((SpawnCommand { program, args, size, info }, preput))
    }
}

impl SpawnBlock {
    /// Makes a block from these attributes and numbered lines.
    ///
    /// # Errors
    ///
    /// The number of the block is missing.
    pub(crate) fn build(
        found: &Attributes<'_>,
        numbered: &Numbered,
    ) -> Result<Self, ProtocolError> {
        Ok(Self {
            total: found.number("totspawns")?,
            number: found.number("spawnssofar")?,
            content: numbered.content(found),
            cost: numbered.cost.and(Cost { lines: 1, bytes: found.length() }),
        })
    }
}

impl SpawnCall {
    /// Takes the next block. After the last one it returns the request or its error.
    pub(crate) fn add(&mut self, block: SpawnBlock) -> Option<Result<SpawnRequest, ProtocolError>> {
        if block.number != self.blocks.saturating_add(1) {
            *self = Self::default();
            let number = block.number.to_string();
            return Some(Err(bad_number("spawnssofar", number.as_bytes())));
        }
        self.blocks = block.number;
        self.cost = self.cost.and(block.cost);
        let content =
            if self.cost.fits() { block.content } else { Err(ProtocolError::SpawnTooLarge) };
        match content {
            Ok(_) if self.problem.is_some() => {}
            Ok((command, preput)) => {
                // Some clients repeat the pairs in every block.
                if self.request.commands.is_empty() {
                    self.request.preput = preput;
                }
                self.request.commands.push(command);
            }
            Err(problem) => {
                self.request = SpawnRequest::default();
                self.problem.get_or_insert(problem);
            }
        }
        if block.number < block.total {
            return None;
        }
        let call = std::mem::take(self);
        Some(call.problem.map_or(Ok(call.request), Err))
    }
}

fn bad_number(attribute: &'static str, value: &[u8]) -> ProtocolError {
    ProtocolError::BadNumber { command: "spawn", attribute, value: excerpt(value) }
}

/// The names of numbered lines without their numbers.
const STEMS: &[&str] = &["arg", "preput_key_", "preput_val_", "info_key_", "info_val_"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi1::command::{Block, Command};

    fn block(text: &str) -> Result<SpawnBlock, ProtocolError> {
        let mut block = Block::begin(b"mcmd=spawn").unwrap();
        assert!(text.lines().all(|line| !block.add(line.as_bytes())));
        assert!(block.add(b"endcmd"));
        let Command::Spawn(block) = block.finish()? else { panic!("{text}") };
        Ok(*block)
    }

    fn call(blocks: &[&str]) -> Result<SpawnRequest, ProtocolError> {
        let mut call = SpawnCall::default();
        for (number, text) in blocks.iter().enumerate() {
            let (number, total) = (number + 1, blocks.len());
            let text = format!("totspawns={total}\nspawnssofar={number}\n{text}");
            let result = call.add(block(&text).unwrap());
            assert_eq!(result.is_some(), number == total);
            if let Some(result) = result {
                return result;
            }
        }
        panic!("a call has blocks")
    }

    #[test]
    fn blocks_of_mpich_are_understood() {
        let one = "nprocs=1\nexecname=bin/spawnm.m5\nargcnt=3\narg1=A =b\narg2=\narg3=endcmd x\n\
                   preput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$c#7[8]$\n\
                   info_num=1\ninfo_key_0=host\ninfo_val_0=local host";
        let two = "nprocs=2\nexecname=./x y\narg1=B\nargcnt=1\npreput_num=1\npreput_key_0=other\n\
                   preput_val_0=\ninfo_num=0";
        let request = call(&[one, two]).unwrap();
        assert_eq!(request.preput, [(b"PARENT_ROOT_PORT_NAME".into(), b"tag#0$c#7[8]$".into())]);
        let one = SpawnCommand {
            program: b"bin/spawnm.m5".into(),
            args: vec![b"A =b".into(), b"".into(), b"endcmd x".into()],
            size: 1,
            info: vec![(b"host".into(), b"local host".into())],
        };
        let args = vec![b"B".into()];
        let two = SpawnCommand { program: b"./x y".into(), args, size: 2, info: vec![] };
        assert_eq!(request.commands, [one, two]);
    }

    #[test]
    fn a_call_with_an_error_is_refused_at_its_last_block() {
        let missing = |attribute| ProtocolError::MissingAttribute { command: "spawn", attribute };
        let cases = [
            ("execname=x", missing("nprocs")),
            ("nprocs=1", missing("execname")),
            ("nprocs=1\nexecname=", missing("execname")),
            ("nprocs=0\nexecname=x", bad_number("nprocs", b"0")),
            ("nprocs=1\nexecname=x\nargcnt=2\narg1=a\narg3=c", missing("arg")),
            (
                "nprocs=1\nexecname=x\nargcnt=99999999999999999999",
                bad_number("argcnt", b"99999999999999999999"),
            ),
            ("nprocs=1\nexecname=x\ninfo_num=1\ninfo_key_0=k", missing("info_val_")),
        ];
        for (text, error) in cases {
            assert_eq!(call(&[text]), Err(error.clone()), "{text}");
            let good = "nprocs=1\nexecname=x";
            assert_eq!(call(&[good, text, good]), Err(error), "{text}");
        }
    }

    #[test]
    fn blocks_out_of_order_are_refused_at_once() {
        let mut call = SpawnCall::default();
        let text = "nprocs=1\nexecname=x\ntotspawns=3\nspawnssofar=2";
        let error = bad_number("spawnssofar", b"2");
        assert_eq!(call.add(block(text).unwrap()), Some(Err(error)));
        assert!(block("nprocs=1\nexecname=x\ntotspawns=3").is_err());
    }

    #[test]
    fn a_call_beyond_the_limits_is_refused() {
        let args = |count: usize, length: usize| {
            let arg = "x".repeat(length);
            let lines: Vec<String> = (1..=count).map(|n| format!("arg{n}={arg}")).collect();
            format!("nprocs=1\nexecname=x\nargcnt={count}\n{}", lines.join("\n"))
        };
        let many = MAX_SPAWN_LINES - 1;
        assert_eq!(call(&[&args(many, 0)]).unwrap().commands[0].args.len(), many);
        assert_eq!(call(&[&args(many + 1, 0)]), Err(ProtocolError::SpawnTooLarge));
        let half = args(many / 2 + 1, 0);
        assert_eq!(call(&[&half, &half]), Err(ProtocolError::SpawnTooLarge));
        let long = MAX_SPAWN_BYTES / 32;
        assert!(call(&[&args(31, long)]).is_ok());
        assert_eq!(call(&[&args(33, long)]), Err(ProtocolError::SpawnTooLarge));
    }
}
