//! A job specification as bytes, in the compact encoding.

use crate::frame::compact;
use crate::job::spec::JobSpec;

/// The bytes are not a job specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed job specification: {0}")]
pub struct InvalidSpec(#[from] compact::Malformed);

impl JobSpec {
    /// The specification as bytes.
    pub fn encode(&self) -> Vec<u8> {
        compact::to_vec(self)
    }

    /// Reads an encoded specification. The caller then checks it by [`JobSpec::check`].
    ///
    /// # Errors
    /// [`InvalidSpec`].
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidSpec> {
        Ok(compact::from_slice(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::job::bounds::Bytes;
    use crate::job::{
        AbortScope, Argset, Binding, CpuChoice, CpuChoices, CpuNumbers, CpuRange, Debug,
        HostChoice, LabelFormat, Limit, OnCrash, OnFailure, OutputSpec, PlacementSpec, RankOrder,
        SpawnOptions, SpawnPolicy, Spread,
    };
    use crate::job::{Allowance, CpuAmount, MemorySize};

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

    fn allowance() -> Allowance {
        let cpus = CpuAmount::try_from(1500).ok();
        Allowance { memory: MemorySize::try_from(4 << 30).ok(), cpus }
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
            allowance: allowance(),
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
    fn a_specification_without_options_has_their_defaults_and_unknown_ones_are_ignored() {
        let bytes = compact::to_vec(&std::collections::BTreeMap::from([("later", 7)]));
        assert_eq!(JobSpec::decode(&bytes), Ok(JobSpec::default()));
    }
}
