//! The refusal of a job whose programs are linked with MPI libraries that cannot work together, or not without PMIx.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use mpd_wire::job::{Argset, Bytes, JobSpec, MpiLibrary};

use crate::linked::{Found, Linked, Visible};
use crate::usage::Usage;

/// Most different programs that are examined.
const MAX_PROGRAMS: usize = 16;

/// Examines the programs of a job with several programs or without PMIx, as far as their files on this host show it.
///
/// # Errors
/// One program is linked with Open MPI, and another one with MPICH or a library that was made from it. Their ranks would
/// wait for each other forever. Or a program is linked with Open MPI, and there is no PMIx.
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
        if spec.no_pmix && library == MpiLibrary::OpenMpi {
            return Err(Usage::new(format!(
                "rank {rank} is linked with {linked}, which needs PMIx; omit -no-pmix"
            )));
        }
        match &known {
            None => known = Some((rank, library, linked)),
            Some((_, other, _)) if *other == library => {}
            Some((other, _, its)) => {
                return Err(Usage::new(format!(
                    "rank {other} is linked with {its}, and rank {rank} with {linked}; all ranks must use the same MPI library"
                )));
            }
        }
    }
    Ok(())
}

/// The kind of MPI library, if the names of all MPI libraries of a program agree on it.
fn kind_of(linked: &Linked) -> Option<MpiLibrary> {
    let kind = |family: &str| match family {
        "Open MPI" => Some(MpiLibrary::OpenMpi),
        "MPICH" | "Intel MPI" | "MVAPICH" | "Cray MPICH" | "MPICH, Intel MPI or MVAPICH" => {
            Some(MpiLibrary::Mpich)
        }
        _ => None,
    };
    let mut kinds = linked.libraries.iter().map(|library| kind(library.family));
    let first = kinds.next()??;
    kinds.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linked::Library;

    /// The name of a program is the implementation with which it is linked.
    fn look(argset: &Argset, _: &[Bytes]) -> Found {
        let family = match argset.program.as_slice() {
            b"open-mpi" => "Open MPI",
            b"mpich" => "MPICH",
            b"intel" => "Intel MPI",
            b"any" => "any MPI library with the standard ABI",
            _ => return Found::Unusable("missing".into()),
        };
        let library = Library { family, name: "libmpi.so".into(), path: None, by: None };
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
            args: Vec::new(),
            substitute: false,
            environment: 0,
            directory: b"/".to_vec(),
            search: Vec::new(),
            umask: 0o022,
            limits: Vec::new(),
            hosts: None,
            pty: None,
        };
        let argsets = programs.iter().map(argset).collect();
        check(&JobSpec { argsets, ..spec.clone() }, look)
    }

    #[test]
    fn a_program_of_open_mpi_is_refused_without_pmix_even_alone() {
        let spec = JobSpec { no_pmix: true, ..JobSpec::default() };
        let refused = checked_as(&["tool", "open-mpi"], &spec).unwrap_err().to_string();
        assert!(refused.contains("rank 2 is linked with Open MPI ("), "{refused}");
        assert!(refused.ends_with("which needs PMIx; omit -no-pmix"), "{refused}");
        assert!(checked_as(&["open-mpi"], &spec).is_err());
        assert!(checked_as(&["mpich"], &spec).is_ok() && checked(&["open-mpi"]).is_ok());
    }

    #[test]
    fn programs_of_open_mpi_and_of_mpich_in_one_job_are_refused_with_both_ranks() {
        let refused = checked(&["tool", "mpich", "mpich", "open-mpi"]).unwrap_err().to_string();
        for part in ["rank 2 is linked with MPICH (", "rank 6 with Open MPI ("] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(checked(&["open-mpi", "intel"]).is_err());
    }

    #[test]
    fn programs_whose_libraries_may_work_together_run() {
        let programs: [&[&str]; 4] =
            [&["open-mpi", "any", "open-mpi"], &["mpich", "intel"], &["tool", "mpich"], &["mpich"]];
        for programs in programs {
            assert!(checked(programs).is_ok(), "{programs:?}");
        }
    }
}
