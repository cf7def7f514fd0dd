//! The MPI libraries of ranks, as far as their requests show them. Bare clients of PMI and of PMIx show none.

/// Keys that only MPICH and libraries that were made from it get from the process manager at their start.
/// `PMI_process_mapping` is not one of them: libraries beside MPI get it too, also in programs of Open MPI.
const FROM_MANAGER: [&[u8]; 2] = [b"PMI_hwloc_xmlfile", b"PMI_mpi_memory_alloc_kinds"];

/// Beginnings of keys under which these libraries put addresses.
const ADDRESSES_OF_MPICH: [&[u8]; 3] = [b"-bcast-", b"-allgather-", b"hostname["];

/// Beginnings of keys under which Open MPI commits addresses: the names of its frameworks for communication.
const ADDRESSES_OF_OPEN_MPI: [&[u8]; 5] = [b"btl.", b"bml.", b"mtl.", b"pml.", b"smsc."];

/// Whether a key that a client of PMI puts or gets is one of MPICH.
pub(super) fn is_of_mpich(key: &[u8]) -> bool {
    FROM_MANAGER.contains(&key)
        || ADDRESSES_OF_MPICH.iter().any(|begin| key.starts_with(begin))
        || key.ends_with(b"-businesscard")
}

/// Whether a key that a client of PMIx commits is one of Open MPI, such as `btl.tcp.4.1`.
pub(super) fn is_of_open_mpi(key: &[u8]) -> bool {
    let has_version = key.last().is_some_and(u8::is_ascii_digit);
    has_version && ADDRESSES_OF_OPEN_MPI.iter().any(|begin| key.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_mpi_libraries_are_recognised_and_others_are_not() {
        let mpich = ["PMI_hwloc_xmlfile", "-bcast-1-0", "-allgather-shm-1-1", "P0-businesscard"];
        assert!(mpich.iter().all(|key| is_of_mpich(key.as_bytes())));
        let open_mpi = ["btl.tcp.4.1", "btl.sm.5.0", "smsc.cma.5.0", "pml.ucx.5.0"];
        assert!(open_mpi.iter().all(|key| is_of_open_mpi(key.as_bytes())));
        for key in [
            "key-1",
            "PMI_process_mapping",
            "test.address",
            "PMI_dead_processes",
            "pmix/0/key",
            "btl.mine",
            "",
        ] {
            assert!(!is_of_mpich(key.as_bytes()) && !is_of_open_mpi(key.as_bytes()), "{key}");
        }
    }
}
