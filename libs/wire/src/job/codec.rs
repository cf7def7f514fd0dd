//! A job specification as bytes: length-prefixed fields in a fixed order, all numbers big-endian.
//!
//! JSON would be unsuitable, because arguments and environments are bytes and may be megabytes.
//! docs/PROTOCOL.md lists the fields. The decoder checks every count against the number of remaining
//! bytes.

use std::time::Duration;

use crate::RankSet;
use crate::job::bounds::MAX_ARGSETS;
use crate::job::cpu_choice::{CpuChoice, CpuChoices, CpuNumbers, CpuRange};
use crate::job::crash::OnCrash;
use crate::job::debug::Debug;
use crate::job::fields::{InvalidSpec, Reader, Writer};
use crate::job::placement_options::{Binding, HostChoice, PlacementSpec, RankOrder, Spread};
use crate::job::spawn_options::{SpawnOptions, SpawnPolicy};
use crate::job::spec::{AbortScope, Argset, JobSpec, LabelFormat, Limit, OnFailure, OutputSpec};

/// Format number, the first byte of every encoded specification.
const VERSION: u8 = 18;

impl JobSpec {
    /// The specification as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(4096));
        w.u8(VERSION);
        w.option(self.alias.as_ref().map(|a| a.as_bytes()));
        w.bytes(&self.tmpdir);
        w.ranks(&self.stdin);
        w.flag(self.stdin_switch);
        w.option(self.output.label.as_ref().map(LabelFormat::as_bytes));
        w.flag(self.output.merge);
        w.flag(self.output.timestamp);
        w.option(self.output.outfile.as_ref().map(LabelFormat::as_bytes));
        w.option(self.output.errfile.as_ref().map(LabelFormat::as_bytes));
        w.flag(self.output.copy);
        w.flag(self.output.joined);
        w.flag(self.output.only.is_some());
        self.output.only.iter().for_each(|only| w.ranks(only));
        w.flag(self.on_failure == OnFailure::Continue);
        w.choice(&AbortScope::ALL, self.abort_scope);
        w.flag(self.elastic);
        w.flag(self.unique_names);
        w.u64(self.timeout.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)));
        w.u64(self.universe_size.map_or(u64::MAX, u64::from));
        w.option(self.memory_kinds.as_ref().map(|kinds| kinds.as_bytes()));
        w.flag(self.report_ends);
        w.flag(self.trace);
        w.flag(self.preload);
        self.placement.encode(&mut w);
        w.choice(&SpawnPolicy::ALL, self.spawn.policy);
        w.number(self.spawn.limit);
        w.u8(self.spawn.nice_step.cast_unsigned());
        w.number(self.spawn.depth);
        w.flag(self.adopted);
        Debug::encode(self.debug.as_ref(), &mut w);
        OnCrash::encode(self.on_crash.as_ref(), &mut w);
        w.flag(self.hold);
        self.closed.iter().for_each(|&closed| w.flag(closed));
        w.flag(self.niceness.is_some());
        if let Some(niceness) = self.niceness {
            w.u8(niceness.cast_unsigned());
        }
        w.number(self.host_timeout);
        w.flag(self.allow_alone);
        w.flag(self.no_pmix);
        w.option(self.record.as_deref());
        w.u32(self.environments.len());
        for environment in &self.environments {
            w.list(environment);
        }
        w.u32(self.argsets.len());
        for argset in &self.argsets {
            argset.encode(&mut w);
        }
        w.0
    }

    /// Reads an encoded specification. The caller then checks it by [`JobSpec::check`].
    ///
    /// # Errors
    /// [`InvalidSpec`] with the offset of the invalid field.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidSpec> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(InvalidSpec { at: 0 });
        }
        let alias = if r.flag()? { Some(r.text()?) } else { None };
        let tmpdir = r.bytes()?;
        let stdin = r.ranks()?;
        let stdin_switch = r.flag()?;
        let output = OutputSpec::decode(&mut r)?;
        let on_failure = if r.flag()? { OnFailure::Continue } else { OnFailure::End };
        let abort_scope = r.choice(&AbortScope::ALL)?;
        let [elastic, unique_names] = [r.flag()?, r.flag()?];
        let timeout = Some(r.u64()?).filter(|&ms| ms != 0).map(Duration::from_millis);
        let universe_size = match r.u64()? {
            u64::MAX => None,
            n => Some(u32::try_from(n).map_err(|_| r.invalid())?),
        };
        let memory_kinds = if r.flag()? { Some(r.text()?) } else { None };
        let [report_ends, trace, preload] = [r.flag()?, r.flag()?, r.flag()?];
        let placement = PlacementSpec::decode(&mut r)?;
        let spawn = SpawnOptions {
            policy: r.choice(&SpawnPolicy::ALL)?,
            limit: r.number()?,
            nice_step: r.u8()?.cast_signed(),
            depth: r.number()?,
        };
        let (adopted, debug) = (r.flag()?, Debug::decode(&mut r)?);
        let on_crash = OnCrash::decode(&mut r)?;
        let hold = r.flag()?;
        let closed = [r.flag()?, r.flag()?, r.flag()?];
        let niceness = if r.flag()? { Some(r.u8()?.cast_signed()) } else { None };
        let (host_timeout, [allow_alone, no_pmix]) = (r.number()?, [r.flag()?, r.flag()?]);
        let record = r.option()?;
        let count = r.count(4)?;
        let environments = (0..count).map(|_| r.list()).collect::<Result<_, _>>()?;
        let argsets = r.argsets()?;
        if !r.is_done() {
            return Err(r.invalid());
        }
        Ok(Self {
            argsets,
            environments,
            alias,
            tmpdir,
            stdin,
            stdin_switch,
            output,
            on_failure,
            abort_scope,
            elastic,
            unique_names,
            timeout,
            universe_size,
            memory_kinds,
            report_ends,
            trace,
            preload,
            placement,
            spawn,
            adopted,
            debug,
            on_crash,
            hold,
            record,
            closed,
            niceness,
            host_timeout,
            allow_alone,
            no_pmix,
        })
    }
}

impl OutputSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self, InvalidSpec> {
        Ok(Self {
            label: r.format()?,
            merge: r.flag()?,
            timestamp: r.flag()?,
            outfile: r.format()?,
            errfile: r.format()?,
            copy: r.flag()?,
            joined: r.flag()?,
            only: if r.flag()? { Some(r.ranks()?) } else { None },
        })
    }
}

impl PlacementSpec {
    fn encode(&self, w: &mut Writer) {
        w.hosts(&self.hosts);
        w.u32(self.exclude.len());
        for name in &self.exclude {
            w.bytes(name.as_bytes());
        }
        w.number(self.per_host);
        w.choice(&RankOrder::ALL, self.order);
        w.number(self.group);
        w.flag(self.here_first);
        w.choice(&Binding::ALL, self.binding);
        w.u32(self.width as usize);
        w.flag(self.if_room);
        w.flag(self.spread.is_some());
        if let Some(spread) = self.spread {
            w.choice(&Binding::ALL, spread.over);
            w.number(spread.block);
            w.u32(spread.joined as usize);
        }
        w.u32(self.cpus.lists.len());
        self.cpus.lists.iter().for_each(|choice| w.cpus(choice));
        w.flag(self.cpus.by_rank);
        w.flag(self.cpus.only.is_some());
        self.cpus.only.iter().for_each(|choice| w.cpus(choice));
        w.number(self.gpus);
        w.flag(self.strict);
        w.flag(self.print_rank_map);
        w.flag(self.report_bindings);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, InvalidSpec> {
        Ok(Self {
            hosts: r.hosts()?,
            exclude: {
                let count = r.count(4)?;
                (0..count).map(|_| r.text()).collect::<Result<_, _>>()?
            },
            per_host: r.number()?,
            order: r.choice(&RankOrder::ALL)?,
            group: r.number()?,
            here_first: r.flag()?,
            binding: r.choice(&Binding::ALL)?,
            width: r.u32()?,
            if_room: r.flag()?,
            spread: match r.flag()? {
                true => Some(Spread {
                    over: r.choice(&Binding::ALL)?,
                    block: r.number()?,
                    joined: r.u32()?,
                }),
                false => None,
            },
            cpus: CpuChoices {
                lists: {
                    let count = r.count(4)?;
                    (0..count).map(|_| r.cpus()).collect::<Result<_, _>>()?
                },
                by_rank: r.flag()?,
                only: if r.flag()? { Some(r.cpus()?) } else { None },
            },
            gpus: r.number()?,
            strict: r.flag()?,
            print_rank_map: r.flag()?,
            report_bindings: r.flag()?,
        })
    }
}

impl Argset {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.size as usize);
        w.bytes(&self.program);
        w.list(&self.args);
        w.flag(self.substitute);
        w.u32(self.environment as usize);
        w.bytes(&self.directory);
        w.bytes(&self.search);
        w.u32(self.umask as usize);
        w.u32(self.limits.len());
        for limit in &self.limits {
            w.u8(limit.resource);
            w.u64(limit.soft);
            w.u64(limit.hard);
        }
        w.flag(self.hosts.is_some());
        if let Some(hosts) = &self.hosts {
            w.hosts(hosts);
        }
        w.flag(self.pty.is_some());
        if let Some((columns, lines)) = self.pty {
            w.u16(columns);
            w.u16(lines);
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, InvalidSpec> {
        Ok(Self {
            size: r.u32()?,
            program: r.bytes()?,
            args: r.list()?,
            substitute: r.flag()?,
            environment: r.u32()?,
            directory: r.bytes()?,
            search: r.bytes()?,
            umask: r.u32()?,
            limits: {
                let count = r.count(17)?;
                let limit = |r: &mut Reader<'_>| {
                    Ok(Limit { resource: r.u8()?, soft: r.u64()?, hard: r.u64()? })
                };
                (0..count).map(|_| limit(r)).collect::<Result<_, _>>()?
            },
            hosts: if r.flag()? { Some(r.hosts()?) } else { None },
            pty: if r.flag()? { Some((r.u16()?, r.u16()?)) } else { None },
        })
    }
}

impl Writer {
    fn hosts(&mut self, hosts: &[HostChoice]) {
        self.u32(hosts.len());
        for host in hosts {
            self.bytes(host.name.as_bytes());
            self.number(host.slots);
            self.number(host.max);
            self.number(host.gpus);
            self.number(host.speed);
        }
    }

    fn ranks(&mut self, ranks: &RankSet) {
        self.u32(ranks.ranges().len());
        for &(low, high) in ranks.ranges() {
            self.u32(low as usize);
            self.u32(high as usize);
        }
    }

    fn cpus(&mut self, choice: &CpuChoice) {
        self.u32(choice.0.len());
        for range in &choice.0 {
            let (kind, socket) = match range.of {
                CpuNumbers::System => (0, 0),
                CpuNumbers::Cores => (1, 0),
                CpuNumbers::CoresOf(socket) => (2, socket),
                CpuNumbers::Sockets => (3, 0),
            };
            self.u8(kind);
            [socket, range.low, range.high].iter().for_each(|&number| self.u32(number as usize));
        }
    }
}

impl Reader<'_> {
    fn format(&mut self) -> Result<Option<LabelFormat>, InvalidSpec> {
        match self.option()? {
            Some(pattern) => LabelFormat::new(&pattern).map(Some).map_err(|_| self.invalid()),
            None => Ok(None),
        }
    }

    fn ranks(&mut self) -> Result<RankSet, InvalidSpec> {
        let count = self.count(8)?;
        let ranges = (0..count).map(|_| Ok((self.u32()?, self.u32()?)));
        ranges.collect::<Result<_, _>>().map(RankSet::from_ranges)
    }

    fn argsets(&mut self) -> Result<Vec<Argset>, InvalidSpec> {
        let count = self.count(4)?;
        if count > MAX_ARGSETS {
            return Err(self.invalid());
        }
        (0..count).map(|_| Argset::decode(self)).collect()
    }

    fn hosts(&mut self) -> Result<Vec<HostChoice>, InvalidSpec> {
        let count = self.count(8)?;
        let host = |r: &mut Self| {
            let (name, slots) = (r.text()?, r.number()?);
            let (max, gpus, speed) = (r.number()?, r.number()?, r.number()?);
            Ok(HostChoice { name, slots, max, gpus, speed })
        };
        (0..count).map(|_| host(self)).collect()
    }

    fn cpus(&mut self) -> Result<CpuChoice, InvalidSpec> {
        let count = self.count(13)?;
        let range = |r: &mut Self| {
            let (kind, socket) = (r.u8()?, r.u32()?);
            let of = match (kind, socket) {
                (0, 0) => CpuNumbers::System,
                (1, 0) => CpuNumbers::Cores,
                (2, socket) => CpuNumbers::CoresOf(socket),
                (3, 0) => CpuNumbers::Sockets,
                _ => return Err(r.invalid()),
            };
            Ok(CpuRange { of, low: r.u32()?, high: r.u32()? })
        };
        (0..count).map(|_| range(self)).collect::<Result<_, _>>().map(CpuChoice)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::bounds::Bytes;

    fn cpus() -> CpuChoices {
        CpuChoices {
            lists: vec![CpuChoice(vec![
                CpuRange { of: CpuNumbers::System, low: 0, high: 3 },
                CpuRange { of: CpuNumbers::CoresOf(1), low: 2, high: 2 },
            ])],
            by_rank: true,
            only: Some(CpuChoice(vec![CpuRange { of: CpuNumbers::Sockets, low: 0, high: 1 }])),
        }
    }

    fn host() -> HostChoice {
        let mut host = HostChoice::new("h1".into(), Some(4));
        (host.max, host.gpus, host.speed) = (Some(8), Some(2), Some(150));
        host
    }

    fn spawn_options() -> SpawnOptions {
        let policy = SpawnPolicy::Pack;
        SpawnOptions { policy, limit: Some(2), nice_step: -1, depth: Some(3) }
    }

    fn sample(program: Bytes, variable: Bytes, size: u32) -> JobSpec {
        JobSpec {
            argsets: vec![Argset {
                size,
                program,
                args: vec![b"a b".to_vec(), Vec::new()],
                substitute: true,
                environment: 0,
                directory: b"/tmp".to_vec(),
                search: b"/bin:/usr/bin".to_vec(),
                umask: 0o22,
                limits: vec![Limit { resource: 7, soft: 1024, hard: u64::MAX }],
                hosts: Some(vec![HostChoice::new("h3".into(), None)]),
                pty: Some((132, 43)),
            }],
            environments: vec![vec![variable], vec![]],
            alias: Some("name".into()),
            tmpdir: b"/tmp".to_vec(),
            stdin: "0,3-5".parse().unwrap(),
            stdin_switch: size > 1,
            output: OutputSpec {
                label: Some(LabelFormat::new(b"%r").unwrap()),
                merge: true,
                timestamp: false,
                outfile: None,
                errfile: Some(LabelFormat::new(b"err.%r").unwrap()),
                copy: true,
                joined: false,
                only: Some("0-1,4".parse().unwrap()),
            },
            on_failure: OnFailure::Continue,
            abort_scope: AbortScope::Connected,
            elastic: true,
            unique_names: true,
            timeout: Some(Duration::from_secs(3)),
            universe_size: Some(12),
            memory_kinds: Some("mpi,system".into()),
            report_ends: true,
            trace: true,
            preload: true,
            placement: PlacementSpec {
                hosts: vec![host()],
                exclude: vec!["h2".into()],
                per_host: Some(2),
                order: RankOrder::RoundRobin,
                group: Some(2),
                here_first: false,
                binding: Binding::Socket,
                width: 2,
                if_room: true,
                spread: Some(Spread { over: Binding::Numa, block: Some(3), joined: 2 }),
                cpus: cpus(),
                gpus: Some(2),
                strict: true,
                print_rank_map: true,
                report_bindings: true,
            },
            spawn: spawn_options(),
            adopted: true,
            debug: Some(Debug { gdb: b"gdb".to_vec(), attach: vec![7, 9] }),
            on_crash: Some(OnCrash { gdb: b"gdb".to_vec(), hold: true }),
            hold: true,
            closed: [false, true, false],
            niceness: Some(-3),
            host_timeout: Some(20),
            allow_alone: true,
            no_pmix: true,
            record: Some(b"/tmp/logs".to_vec()),
        }
    }

    proptest! {
        #[test]
        fn decoding_an_encoded_specification_gives_it_back(
            program in proptest::collection::vec(any::<u8>(), 0..20),
            variable in proptest::collection::vec(any::<u8>(), 0..20),
            size in any::<u32>(),
        ) {
            let spec = sample(program, variable, size);
            prop_assert!(JobSpec::decode(&spec.encode()).unwrap() == spec);
        }

        #[test]
        fn a_damaged_specification_is_an_error_and_never_a_panic(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sample(b"p".to_vec(), b"A=b".to_vec(), 4).encode();
            let whole = bytes.len();
            bytes[at.index(whole)] = byte;
            let _ = JobSpec::decode(&bytes);
            bytes.truncate(cut.index(whole));
            prop_assert!(JobSpec::decode(&bytes).is_err());
        }
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_are_specifications_of_this_version() {
        let whole = include_bytes!("../../../../fuzz/corpus-seeds/job_spec/whole");
        let small = include_bytes!("../../../../fuzz/corpus-seeds/job_spec/small");
        assert!(JobSpec::decode(whole) == Ok(sample(b"p".to_vec(), b"A=b".to_vec(), 4)));
        assert!(JobSpec::decode(small) == Ok(JobSpec::default()));
    }

    #[test]
    fn a_count_larger_than_the_bytes_that_follow_allocates_nothing() {
        let mut bytes = sample(b"p".to_vec(), b"A=b".to_vec(), 4).encode();
        bytes.truncate(1);
        bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(JobSpec::decode(&bytes), Err(InvalidSpec { at: 6 }));
    }
}
