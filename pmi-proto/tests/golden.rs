//! Starts of real libraries, line by line. `->` marks the client's line, `<-` the expected reply.

mod manager;

use manager::Manager;
use pmi_proto::{Dialect, Operation, Phase};

/// Debian's MPICH 4.0.2, rank 0 of two on one node.
const MPICH_4_0_2: &str = "
-> cmd=init pmi_version=1 pmi_subversion=1
<- cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
-> cmd=get_maxes
<- cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
-> cmd=get_appnum
<- cmd=appnum appnum=0
-> cmd=get_my_kvsname
<- cmd=my_kvsname kvsname=kvs_22138_0
-> cmd=get kvsname=kvs_22138_0 key=PMI_process_mapping
<- cmd=get_result rc=0 msg=success value=(vector,(0,1,2))
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=put kvsname=kvs_22138_0 key=-bcast-1-0 value=2F6465762F73686D2F6D706963685F736861725F746D7042596C3346
<- cmd=put_result rc=0
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=put kvsname=kvs_22138_0 key=-allgather-shm-1-0 value=0B0081B4C2F0E1A5D3862100030000000188A1
<- cmd=put_result rc=0
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=get kvsname=kvs_22138_0 key=-allgather-shm-1-1
<- cmd=get_result rc=0 msg=success value=0B0081B4C2F0E1A5D3862100030000000199B2
-> cmd=get kvsname=kvs_22138_0 key=-allgather-shm-1-0
<- cmd=get_result rc=0 msg=success value=0B0081B4C2F0E1A5D3862100030000000188A1
-> cmd=get_universe_size
<- cmd=universe_size size=-1
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=finalize
<- cmd=finalize_ack rc=0
";

/// The wheel of MPICH 5.0.2, a node leader of two nodes. It asks for missing keys and puts its address in pieces.
const MPICH_5_0_2: &str = "
-> cmd=init pmi_version=1 pmi_subversion=1
<- cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
-> cmd=get_maxes
<- cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
-> cmd=get_appnum
<- cmd=appnum appnum=0
-> cmd=get_my_kvsname
<- cmd=my_kvsname kvsname=kvs_22138_0
-> cmd=get kvsname=kvs_22138_0 key=PMI_process_mapping
<- cmd=get_result rc=0 msg=success value=(vector,(0,1,2))
-> cmd=get kvsname=kvs_22138_0 key=PMI_hwloc_xmlfile
<- cmd=get_result rc=-1 msg=key_PMI_hwloc_xmlfile_not_found value=unknown
-> cmd=get kvsname=kvs_22138_0 key=PMI_mpi_memory_alloc_kinds
<- cmd=get_result rc=-1 msg=key_PMI_mpi_memory_alloc_kinds_not_found value=unknown
-> cmd=put kvsname=kvs_22138_0 key=-allgather-1-2 value=segments=9
<- cmd=put_result rc=0
-> cmd=put kvsname=kvs_22138_0 key=-allgather-1-2-seg-1/9 value=2013BA[2]637577
<- cmd=put_result rc=0
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=get kvsname=kvs_22138_0 key=-allgather-1-2
<- cmd=get_result rc=0 msg=success value=segments=9
-> cmd=get kvsname=kvs_22138_0 key=-allgather-1-2-seg-1/9
<- cmd=get_result rc=0 msg=success value=2013BA[2]637577
-> cmd=get_universe_size
<- cmd=universe_size size=-1
-> cmd=barrier_in
<- cmd=barrier_out
-> cmd=finalize
<- cmd=finalize_ack rc=0
";

/// A client that connected to `PMI_PORT`.
const PREAMBLE: &str = "
-> cmd=initack pmiid=0
<- cmd=initack rc=0
<- cmd=set size=2
<- cmd=set rank=0
<- cmd=set debug=0
-> cmd=init pmi_version=1 pmi_subversion=1
<- cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
";

/// Calls that no current library makes.
const LEGACY: &str = "
-> cmd=init pmi_version=1 pmi_subversion=1
<- cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
-> cmd=create_kvs
<- cmd=newkvs kvsname=kvs_22138_0
-> cmd=put kvsname=kvs_22138_0 key=a value=b c
<- cmd=put_result rc=0
-> cmd=getbyidx kvsname=kvs_22138_0 idx=2
<- cmd=getbyidx_results rc=0 nextidx=3 key=a val=b c
-> cmd=getbyidx kvsname=kvs_22138_0 idx=3
<- cmd=getbyidx_results rc=-2 reason=no_more_keyvals
-> cmd=destroy_kvs kvsname=kvs_22138_0
<- cmd=kvs_destroyed rc=0
-> cmd=destroy_kvs kvsname=kvs_1_0
<- cmd=kvs_destroyed rc=-1 msg=unknown_kvsname
";

const FIRST: Operation = Operation::Initialized { first: true, dialect: Dialect::Pmi1 };

/// Plays a transcript; the KVS holds what the manager and the other rank have put.
fn play(transcript: &str) -> Manager {
    let mut manager = Manager::new();
    manager.kvs.put(b"PMI_process_mapping", b"(vector,(0,1,2))").unwrap();
    let address = b"0B0081B4C2F0E1A5D3862100030000000199B2";
    manager.kvs.put(b"-allgather-shm-1-1", address).unwrap();
    let mut expected = String::new();
    for line in transcript.lines().filter(|line| !line.is_empty()) {
        match line.split_at(3) {
            ("-> ", request) => {
                assert_eq!(String::from_utf8_lossy(&manager.written), expected);
                manager.say(request);
            }
            ("<- ", reply) => expected += &format!("{reply}\n"),
            (other, _) => panic!("{other:?} begins no line of a transcript"),
        }
    }
    assert_eq!(String::from_utf8_lossy(&manager.written), expected);
    manager
}

#[test]
fn mpich_4_0_2_starts_as_it_did_in_the_lab() {
    let manager = play(MPICH_4_0_2);
    assert_eq!(manager.session.phase(), Phase::Finalized);
    assert_eq!(manager.operations.first(), Some(&FIRST));
    assert_eq!(manager.operations.last(), Some(&Operation::Finalized));
    let fences = manager.operations.iter().filter(|operation| **operation == Operation::Fence);
    assert_eq!(fences.count(), 4);
    assert_eq!(manager.errors(), []);
}

#[test]
fn mpich_5_0_2_starts_as_it_did_in_the_lab() {
    let manager = play(MPICH_5_0_2);
    assert_eq!(manager.session.phase(), Phase::Finalized);
    assert_eq!(manager.errors(), []);
}

#[test]
fn a_client_by_port_gets_its_rank_before_init() {
    let manager = play(PREAMBLE);
    assert_eq!(manager.operations, [FIRST]);
}

#[test]
fn the_legacy_calls_are_answered() {
    play(LEGACY);
}
