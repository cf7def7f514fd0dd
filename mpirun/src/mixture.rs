//! The refusal of a job whose programs are linked with MPI libraries that cannot work together, or not without PMIx.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use mpd_wire::job::{Argset, Bytes, JobSpec, MpiLibrary};

use crate::linked::{Found, Library, Linked, Visible};
use crate::usage::Usage;

/// Most different programs that are examined.
const MAX_PROGRAMS: usize = 16;

/// Examines the programs of a job with several programs or without PMIx, as far as their files on this host show it.
///
/// # Errors
/// Two programs are linked with MPI libraries that cannot send each other messages. Their ranks would wait for each other
/// forever. Or a program is linked with Open MPI, and there is no PMIx.
pub(crate) fn check(spec: &JobSpec, look: fn(&Argset, &[Bytes]) -> Found) -> Result<(), Usage> {
    if spec.argsets.len() < 2 && !spec.no_pmix {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    let mut known: Option<(Rank, MpiLibrary, Linked)> = None;
    let mut first = 0;
    for argset in &spec.argsets {
        let rank = Rank(first);
        first += argset.size;
        let found_by = (&argset.program, &argset.directory, &argset.search, argset.environment);
        if seen.len() == MAX_PROGRAMS || !seen.insert(found_by) {
            continue;
        }
        let environment = spec.environments.get(argset.environment as usize);
        let found = look(argset, environment.map_or(&[][..], Vec::as_slice));
        let Found::Program(_, Visible::Linked(linked)) = found else { continue };
        let Some(library) = kind_of(&linked) else { continue };
        if spec.no_pmix && library.is_open_mpi() {
            return Err(Usage::new(format!(
                "rank {rank} is linked with {linked}, which needs PMIx; omit -no-pmix"
            )));
        }
        match &known {
            Some((_, other, _)) if other.goes_with(library) => {}
            Some((other_rank, other, its)) if !other.goes_with(library) => {
                return Err(Usage::new(format!(
                    "rank {other_rank} is linked with {}, and rank {rank} with {}; all ranks must use the same MPI library",
                    described(its, *other),
                    described(&linked, library)
                )));
            }
            _ => known = Some((rank, library, linked)),
        }
    }
    Ok(())
}

/// The libraries of a program, with the exact kind of the first one.
fn described(linked: &Linked, kind: MpiLibrary) -> String {
    let family = linked.libraries.first().map_or("", |library| library.family);
    linked.to_string().replacen(family, &kind.to_string(), 1)
}

/// The kind of MPI library, if all MPI libraries of a program agree on it.
fn kind_of(linked: &Linked) -> Option<MpiLibrary> {
    let kind = |library: &Library| match library.family {
        // Its file was not found.
        "MPICH, Intel MPI or MVAPICH" => None,
        _ => library.kind,
    };
    let mut kinds = linked.libraries.iter().map(kind);
    let first = kinds.next()??;
    kinds.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a program is the implementation with which it is linked.
    fn look(argset: &Argset, _: &[Bytes]) -> Found {
        let (family, kind) = match argset.program.as_slice() {
            b"open-mpi-4" => ("Open MPI", Some(MpiLibrary::OpenMpi4)),
            b"open-mpi-5" => ("Open MPI", Some(MpiLibrary::OpenMpi5)),
            b"mpich-4" => ("MPICH", Some(MpiLibrary::Mpich)),
            b"mpich-5" => ("MPICH", Some(MpiLibrary::LateMpich)),
            b"intel" => ("Intel MPI", Some(MpiLibrary::Intel)),
            b"any" => ("any MPI library with the standard ABI", None),
            b"not-found" => ("MPICH, Intel MPI or MVAPICH", None),
            _ => return Found::Unusable("missing".into()),
        };
        let library = Library { family, kind, name: "libmpi.so".into(), path: None, by: None };
        let linked = Linked { libraries: vec![library], missing: None };
        Found::Program("/x".into(), Visible::Linked(linked))
    }

    fn checked(programs: &[&str]) -> Result<(), Usage> {
        checked_as(programs, &JobSpec::default())
    }

    fn checked_as(programs: &[&str], spec: &JobSpec) -> Result<(), Usage> {
        let argset = |program: &&str| Argset {
            size: 2,
            program: program.as_bytes().to_vec(),
            directory: b"/".to_vec(),
            search: Vec::new(),
            umask: 0o022,
            ..Argset::default()
        };
        let argsets = programs.iter().map(argset).collect();
        check(&JobSpec { argsets, ..spec.clone() }, look)
    }

    #[test]
    fn a_program_of_open_mpi_is_refused_without_pmix_even_alone() {
        let spec = JobSpec { no_pmix: true, ..JobSpec::default() };
        let refused = checked_as(&["tool", "open-mpi-5"], &spec).unwrap_err().to_string();
        assert!(refused.contains("rank 2 is linked with Open MPI ("), "{refused}");
        assert!(refused.ends_with("which needs PMIx; omit -no-pmix"), "{refused}");
        assert!(checked_as(&["open-mpi-5"], &spec).is_err());
        assert!(checked_as(&["mpich-4"], &spec).is_ok() && checked(&["open-mpi-5"]).is_ok());
    }

    #[test]
    fn programs_of_two_libraries_in_one_job_are_refused_with_both_ranks_and_libraries() {
        let refused =
            checked(&["tool", "mpich-4", "mpich-4", "open-mpi-5"]).unwrap_err().to_string();
        for part in
            ["rank 2 is linked with MPICH 4.1 or earlier (", "rank 6 with Open MPI 5 or later ("]
        {
            assert!(refused.contains(part), "{refused}");
        }
        let mixtures = [
            ["open-mpi-4", "intel"],
            ["mpich-5", "intel"],
            ["mpich-5", "mpich-4"],
            ["open-mpi-4", "open-mpi-5"],
            ["mpich-4", "intel"],
        ];
        for mixture in mixtures {
            assert!(checked(&mixture).is_err(), "{mixture:?}");
        }
    }

    #[test]
    fn programs_whose_libraries_may_work_together_run() {
        let programs: [&[&str]; 4] = [
            &["open-mpi-5", "any", "open-mpi-5"],
            &["mpich-5", "not-found", "any"],
            &["tool", "mpich-4"],
            &["mpich-4"],
        ];
        for programs in programs {
            assert!(checked(programs).is_ok(), "{programs:?}");
        }
    }
}
