//! The beginning of a conversation in lines, as far as it shows an MPI library.
//!
//! MPICH and the libraries that were made from it begin with the same requests in the same order. MPICH 4.2 and later
//! then ask for the kinds of memory, before any put and any fence. Earlier MPICH and Intel MPI do not: a rank that puts
//! no key on its host enters its first fence at once. Bare clients seldom send exactly these requests.

use crate::pmi1::command::Command;
use crate::pmi1::reply::VERSION;

/// The last request of a client that has begun like MPICH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Opening {
    #[default]
    Nothing,
    Init,
    Maxes,
    Appnum,
    Kvsname,
    Mapping,
    /// The topology of the host. MPICH 4.1 and later ask for it if the host has several ranks.
    Topology,
    /// The first fence.
    Fence,
    /// Any other request, or a request after the first fence.
    Other,
}

impl Opening {
    /// The state after one more request.
    pub(super) fn after(self, command: &Command) -> Self {
        match (self, command) {
            (Self::Nothing, Command::InitAck { .. }) => Self::Nothing,
            (Self::Nothing, Command::Init { version: VERSION, .. }) => Self::Init,
            (Self::Init, Command::GetMaxes) => Self::Maxes,
            (Self::Maxes, Command::GetAppnum) => Self::Appnum,
            (Self::Appnum, Command::GetMyKvsname) => Self::Kvsname,
            (Self::Kvsname, Command::Get { key, .. }) if key == MAPPING => Self::Mapping,
            (Self::Mapping, Command::Get { key, .. }) if key == TOPOLOGY => Self::Topology,
            (Self::Mapping | Self::Topology, Command::BarrierIn { group: None }) => Self::Fence,
            (_, _) => Self::Other,
        }
    }
}

const MAPPING: &[u8] = b"PMI_process_mapping";
const TOPOLOGY: &[u8] = b"PMI_hwloc_xmlfile";

#[cfg(test)]
mod tests {
    use super::super::{Answer, Facts, Operation, Session};

    /// Sends the requests after an init. For each fence: whether the client has begun like an early MPICH.
    fn fences(requests: &str) -> Vec<bool> {
        let facts = Facts { kvsname: "kvs_1_0".into(), rank: 1, size: 2, appnum: 0, spawner: None };
        let mut session = Session::new(facts);
        session.receive(b"cmd=init pmi_version=1 pmi_subversion=1\n");
        for request in requests.split_whitespace() {
            let line = match request.split_once(':') {
                Some(("put", key)) => format!("cmd=put kvsname=kvs_1_0 key={key} value=1\n"),
                Some((command, key)) => format!("cmd={command} kvsname=kvs_1_0 key={key}\n"),
                None => format!("cmd={request}\n"),
            };
            session.receive(line.as_bytes());
        }
        let mut seen = Vec::new();
        while let Some((ticket, operation)) = session.poll_operation() {
            if matches!(operation, Operation::Initialized { .. }) {
                continue;
            }
            let answer = if operation == Operation::Fence {
                seen.push(session.opens_like_early_mpich());
                Answer::Fence
            } else if matches!(operation, Operation::Put { .. }) {
                Answer::Put(Ok(()))
            } else if matches!(operation, Operation::Get { .. }) {
                Answer::Get(None)
            } else {
                assert_eq!(operation, Operation::UniverseSize);
                Answer::UniverseSize(None)
            };
            session.answer(ticket, answer);
        }
        seen
    }

    /// The requests after those with which MPICH and its relatives begin.
    fn fences_of_mpich(rest: &str) -> Vec<bool> {
        fences(&format!("get_maxes get_appnum get_my_kvsname get:PMI_process_mapping {rest}"))
    }

    #[test]
    fn mpich_before_4_2_and_intel_mpi_show_themselves_in_their_first_fence() {
        for (library, rest) in [
            ("MPICH 3.4.3, second rank of a host", "barrier_in get:-bcast-1-0 barrier_in"),
            ("MPICH 4.0.3, first rank of a host", "barrier_in put:-bcast-1-0 barrier_in"),
            ("MPICH 4.0.3, second rank of a host", "barrier_in barrier_in get:-bcast-1-0"),
            ("MPICH 4.1.3, several ranks of a host", "get:PMI_hwloc_xmlfile barrier_in barrier_in"),
            ("MPICH 4.1.3, one rank of a host", "barrier_in put:-allgather-shm-1-1 barrier_in"),
            ("Intel MPI 2021.18.1, second rank", "barrier_in get:-bcast-1-0 barrier_in"),
        ] {
            assert_eq!(fences_of_mpich(rest), [true, false], "{library}");
        }
    }

    #[test]
    fn ranks_that_put_first_and_mpich_4_2_and_later_do_not_begin_like_an_early_mpich() {
        let late = "get:PMI_hwloc_xmlfile get:PMI_mpi_memory_alloc_kinds";
        for (library, rest) in [
            ("MPICH 3.4.3, first rank of a host", "put:-bcast-1-0 barrier_in"),
            ("Intel MPI 2021.18.1, first rank of a host", "put:-bcast-1-0 barrier_in"),
            ("MPICH 4.2.3", &format!("{late} barrier_in")[..]),
            ("MPICH 4.3.2", &format!("{late} put:-allgather-shm-1-0 barrier_in")),
            ("MPICH 5.0.2", &format!("{late} get_universe_size barrier_in")),
        ] {
            assert_eq!(fences_of_mpich(rest), [false], "{library}");
        }
    }

    #[test]
    fn bare_clients_with_other_requests_do_not_begin_like_an_early_mpich() {
        for requests in [
            "barrier_in",
            "get_maxes barrier_in",
            "get_my_kvsname get:PMI_process_mapping barrier_in",
            "get_maxes get_appnum get_my_kvsname barrier_in",
            "get_maxes get_appnum get_my_kvsname put:key barrier_in",
            "get_maxes get_my_kvsname get_appnum get:PMI_process_mapping barrier_in",
            "get_maxes get_appnum get_my_kvsname get:PMI_hwloc_xmlfile barrier_in",
            "get_maxes get_appnum get_my_kvsname get_universe_size get:PMI_process_mapping barrier_in",
        ] {
            assert_eq!(fences(requests), [false], "{requests}");
        }
        let late =
            "barrier_in get_maxes get_appnum get_my_kvsname get:PMI_process_mapping barrier_in";
        assert_eq!(fences(late), [false, false]);
    }
}
