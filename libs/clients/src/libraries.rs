//! The MPI libraries of ranks, as far as their requests show them. Bare clients of PMI and of PMIx show none.

use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;

/// The key that MPICH 4.2 and later get from the process manager at their start, before any put and any fence.
/// `PMI_hwloc_xmlfile` shows no version, since MPICH 4.1 gets it on hosts with several ranks. `PMI_process_mapping` shows
/// no library: libraries beside MPI get it too, also in programs of Open MPI.
const OF_LATE_MPICH: &[u8] = b"PMI_mpi_memory_alloc_kinds";

/// Beginnings of keys under which MPICH and libraries that were made from it put addresses.
const ADDRESSES_OF_MPICH: [&[u8]; 3] = [b"-bcast-", b"-allgather-", b"hostname["];

/// Beginnings of keys under which Open MPI commits addresses: the names of its frameworks for communication.
const ADDRESSES_OF_OPEN_MPI: [&[u8]; 5] = [b"btl.", b"bml.", b"mtl.", b"pml.", b"smsc."];

/// The library of a client of PMI that puts or gets this key, after a key that showed `known`. `None`: nothing new.
pub(super) fn by_key_of_pmi(key: &[u8], known: Option<MpiLibrary>) -> Option<MpiLibrary> {
    let is_of_intel = || {
        let number = key.strip_prefix(b"bc-").unwrap_or_default();
        !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    };
    match known {
        None if key == OF_LATE_MPICH => Some(MpiLibrary::LateMpich),
        None | Some(MpiLibrary::LikeMpich) if is_of_intel() => Some(MpiLibrary::Intel),
        None if is_address_of_mpich(key) => Some(MpiLibrary::LikeMpich),
        _ => None,
    }
}

/// The library of a client of PMIx that commits this key. `btl.tcp.4.1` is of Open MPI 4. Some keys have the version of an
/// interface, such as `pml.base.2.0`, which all versions of Open MPI commit.
pub(super) fn by_key_of_pmix(key: &[u8]) -> Option<MpiLibrary> {
    if is_address_of_mpich(key) {
        return Some(MpiLibrary::PmixMpich);
    }
    if !ADDRESSES_OF_OPEN_MPI.iter().any(|begin| key.starts_with(begin)) {
        return None;
    }
    let mut parts = key.rsplit(|byte| *byte == b'.').map(|part| std::str::from_utf8(part).ok());
    let (minor, major) = (parts.next()??, parts.next()??);
    match (minor.parse::<u32>(), major.parse::<u32>()) {
        (Ok(_), Ok(0..=2)) => Some(MpiLibrary::OpenMpi),
        (Ok(_), Ok(3..=4)) => Some(MpiLibrary::OpenMpi4),
        (Ok(_), Ok(_)) => Some(MpiLibrary::OpenMpi5),
        _ => None,
    }
}

/// Ranks of one world on this host before their first fence has ended.
///
/// MPICH 4.2 and later wait in shared memory for the other ranks of the host, most versions before their first fence.
/// Earlier MPICH and Intel MPI wait in a fence first. Such ranks of one world would wait for each other forever. An early
/// rank alone shows nothing, because a bare client may begin in the same way.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    has_late: bool,
    early: Option<Rank>,
}

impl Beginnings {
    /// Notes a rank with MPICH 4.2 or later. Returns a rank that waits in its first fence like earlier ones.
    pub(super) fn note_late(&mut self) -> Option<Rank> {
        self.has_late = true;
        self.early.take()
    }

    /// Notes a rank that has entered its first fence like MPICH 4.1 or a relative. Returns it if there is a late one.
    pub(super) fn note_early(&mut self, rank: Rank) -> Option<Rank> {
        if self.has_late {
            return Some(rank);
        }
        self.early.get_or_insert(rank);
        None
    }
}

fn is_address_of_mpich(key: &[u8]) -> bool {
    ADDRESSES_OF_MPICH.iter().any(|begin| key.starts_with(begin)) || key.ends_with(b"-businesscard")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library after these keys of one rank.
    fn after(keys: &[&str]) -> Option<MpiLibrary> {
        keys.iter().fold(None, |known, key| by_key_of_pmi(key.as_bytes(), known).or(known))
    }

    #[test]
    fn mpich_and_intel_mpi_are_known_by_their_first_keys() {
        let late = ["PMI_hwloc_xmlfile", "PMI_mpi_memory_alloc_kinds", "-bcast-1-0"];
        assert_eq!(after(&late), Some(MpiLibrary::LateMpich));
        for key in ["-bcast-1-0", "-allgather-shm-1-1", "P0-businesscard", "hostname[0]"] {
            assert_eq!(after(&[key]), Some(MpiLibrary::LikeMpich), "{key}");
        }
        assert_eq!(after(&["-bcast-1-0", "bc-0"]), Some(MpiLibrary::Intel));
        assert_eq!(after(&["PMI_mpi_memory_alloc_kinds", "bc-0"]), Some(MpiLibrary::LateMpich));
        for key in
            ["key-1", "PMI_process_mapping", "PMI_dead_processes", "pmix/0/key", "bc-", "bc-x", ""]
        {
            assert_eq!(after(&[key]), None, "{key}");
        }
    }

    #[test]
    fn mpich_4_1_is_the_same_library_on_hosts_with_one_rank_and_with_several() {
        let several = after(&["PMI_process_mapping", "PMI_hwloc_xmlfile", "-bcast-1-0"]);
        let one = after(&["PMI_process_mapping", "-allgather-shm-1-2"]);
        assert_eq!((several, one), (Some(MpiLibrary::LikeMpich), Some(MpiLibrary::LikeMpich)));
    }

    #[test]
    fn an_early_rank_is_reported_only_beside_a_late_one_in_either_order() {
        let mut beginnings = Beginnings::default();
        assert_eq!(beginnings.note_early(Rank(1)), None);
        assert_eq!(beginnings.note_early(Rank(2)), None, "two bare clients");
        assert_eq!(beginnings.note_late(), Some(Rank(1)));
        let mut beginnings = Beginnings::default();
        assert_eq!(beginnings.note_late(), None);
        assert_eq!(beginnings.note_late(), None);
        assert_eq!(beginnings.note_early(Rank(3)), Some(Rank(3)));
    }

    #[test]
    fn open_mpi_is_known_by_its_keys_with_its_version() {
        let of = |key: &str| by_key_of_pmix(key.as_bytes());
        assert_eq!(of("btl.tcp.4.1"), Some(MpiLibrary::OpenMpi4));
        assert_eq!(of("pml.base.2.0"), Some(MpiLibrary::OpenMpi));
        for key in ["btl.sm.5.0", "smsc.cma.5.0", "pml.ucx.6.0", "btl.tcp.10.1"] {
            assert_eq!(of(key), Some(MpiLibrary::OpenMpi5), "{key}");
        }
        assert_eq!(of("-allgather-shm-1-0"), Some(MpiLibrary::PmixMpich));
        for key in ["test.address", "btl.mine", "btl.tcp.4.x", "btl", "1.0", ""] {
            assert_eq!(of(key), None, "{key}");
        }
    }
}
