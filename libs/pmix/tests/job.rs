//! The job information, committed data, and collective operations.

use std::collections::BTreeMap;

use pmix_proto::Status;
use pmix_proto::collective::{Collectives, Key, Kind};
use pmix_proto::encoding::{Data, DataType, Encoding, Reader, Value};
use pmix_proto::environment::{Settings, variables};
use pmix_proto::job_info::{Job, Node, Program, Rank, answer, blob, describe};
use pmix_proto::limits::MAX_RANK_BYTES;
use pmix_proto::message::{Put, Scope, read_pairs};
use pmix_proto::modex::{Modex, View, qualified};
use pmix_proto::view::{Info, Pair, Proc};

/// Three ranks of two programs on two hosts.
fn job() -> Job {
    let node = |name: &str| Node {
        name: name.into(),
        processes_before: 4,
        is_oversubscribed: name == "h1",
    };
    let app = |size| Program { size, directory: b"/work".into() };
    let rank = |node| Rank { node, cpuset: Some(b"0-1".into()), locality: None };
    Job {
        namespace: b"job".into(),
        server: b"server".into(),
        universe_size: Some(8),
        parent: Some(Proc::new("parent", 2)),
        directory: b"/tmp".into(),
        nodes: vec![node("h0"), node("h1")],
        apps: vec![app(1), app(2)],
        ranks: vec![rank(0), rank(1), rank(0)],
    }
}

fn described(node: Option<u32>, encoding: Encoding) -> Vec<Pair> {
    read_pairs(encoding, &describe(&job(), node, encoding)).unwrap()
}

fn find<'a>(pairs: &'a [Pair], key: &str) -> Option<&'a Value> {
    pairs.iter().find(|pair| pair.key == key.as_bytes()).map(|pair| &pair.value)
}

#[test]
fn the_job_information_has_sizes_hosts_and_parents() {
    for encoding in Encoding::ALL {
        let pairs = described(Some(0), encoding);
        let number = |key| find(&pairs, key).and_then(Value::as_number);
        let text = |key| find(&pairs, key).and_then(Value::as_text);
        assert_eq!(number("pmix.job.size"), Some(3));
        assert_eq!(number("pmix.univ.size"), Some(8));
        assert_eq!(number("pmix.num.nodes"), Some(2));
        assert_eq!(number("pmix.local.size"), Some(2));
        assert_eq!(number("pmix.node.size"), Some(6));
        assert_eq!(number("pmix.lldr"), Some(0));
        assert_eq!(text("pmix.lpeers"), Some(&b"0,2"[..]));
        assert_eq!(text("pmix.nlist"), Some(&b"h0,h1"[..]));
        assert_eq!(text("OMPI_APP_SIZES"), Some(&b"1 2"[..]));
        assert_eq!(text("OMPI_FIRST_RANKS"), Some(&b"0 1"[..]));
        assert_eq!(find(&pairs, "pmix.spawned"), Some(&Value::bool(true)));
        assert_eq!(find(&pairs, "pmix.parent"), None, "the parent is a fact about each rank");
        assert_eq!(find(&pairs, "pmix.ndosub"), None);
        assert_eq!(pairs.iter().filter(|pair| pair.key == b"pmix.node.arr").count(), 2);
        assert_eq!(find(&pairs, "pmix.mblob").is_some(), encoding == Encoding::Fixed);
    }
}

#[test]
fn a_client_gets_the_facts_of_its_own_host() {
    let pairs = described(Some(1), Encoding::Flexible);
    assert_eq!(find(&pairs, "pmix.lpeers").and_then(Value::as_text), Some(&b"1"[..]));
    assert!(find(&pairs, "pmix.ndosub").is_some());
    for elsewhere in [None, Some(7)] {
        let pairs = described(elsewhere, Encoding::Flexible);
        assert_eq!(find(&pairs, "pmix.lpeers"), None);
        assert!(find(&pairs, "pmix.job.size").is_some());
    }
}

#[test]
fn each_rank_has_a_blob_with_its_host_its_numbers_and_its_parent() {
    for encoding in Encoding::ALL {
        let pairs = described(Some(0), encoding);
        let blobs: Vec<_> = pairs.iter().filter(|pair| pair.key == b"pmix.pblob").collect();
        assert_eq!(blobs.len(), 3);
        let Data::Bytes(bytes) = blobs[2].value.data() else { panic!("a blob is bytes") };
        let mut reader = Reader::new(encoding, bytes);
        assert_eq!(reader.one(DataType::RANK), Ok(Data::Unsigned(2)));
        let facts = read_pairs(encoding, reader.rest()).unwrap();
        let number = |key| find(&facts, key).and_then(Value::as_number);
        assert_eq!(number("pmix.lrank"), Some(1));
        assert_eq!(number("pmix.nrank"), Some(5));
        assert_eq!(number("pmix.appnum"), Some(1));
        assert_eq!(number("pmix.apprank"), Some(1));
        assert_eq!(number("pmix.nodeid"), Some(0));
        assert_eq!(find(&facts, "pmix.hname").and_then(Value::as_text), Some(&b"h0"[..]));
        assert_eq!(find(&facts, "pmix.cpuset").and_then(Value::as_text), Some(&b"0-1"[..]));
        let parent = find(&facts, "pmix.parent").and_then(Value::as_proc);
        assert_eq!(parent, Some(Proc::new("parent", 2)));
    }
}

#[test]
fn a_job_of_another_namespace_is_its_name_and_its_information() {
    let bytes = answer(Encoding::Flexible, b"job", b"pairs");
    assert_eq!(bytes, [&[2, 8][..], b"job\0pairs"].concat());
    let bytes = blob(Encoding::Flexible, &Proc::new("job", 1), b"pairs");
    assert_eq!(bytes, [&[2, 8][..], b"job\0\x01pairs"].concat());
}

fn put(scope: Scope, key: &str, value: &str) -> Put {
    Put { scope, pair: Pair::new(key, Value::text(value)) }
}

/// The keys and values in the data of rank 0.
fn data(modex: &Modex, view: View) -> Vec<(String, String)> {
    let data = modex.data(&Proc::new("job", 0), view, Encoding::Flexible).unwrap();
    let mut reader = Reader::new(Encoding::Flexible, &data);
    reader.one(DataType::PROC).unwrap();
    let pairs = read_pairs(Encoding::Flexible, reader.rest()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    pairs.iter().map(|pair| (text(&pair.key), text(pair.value.as_text().unwrap()))).collect()
}

#[test]
fn committed_pairs_are_visible_in_their_scope_and_the_last_pair_counts() {
    let mut modex = Modex::default();
    assert!(!modex.has(0));
    let puts = [put(Scope::Local, "l", "1"), put(Scope::Remote, "r", "2")];
    assert_eq!(modex.commit(0, puts), Ok(()));
    assert_eq!(
        modex.commit(0, [put(Scope::Global, "g", "3"), put(Scope::Local, "l", "4")]),
        Ok(())
    );
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(data(&modex, View::Local), [pair("g", "3"), pair("l", "4")]);
    assert_eq!(data(&modex, View::Remote), [pair("g", "3"), pair("r", "2")]);
    assert!(modex.has_key(0, b"l", View::Local) && !modex.has_key(0, b"l", View::Remote));
    assert_eq!(modex.data(&Proc::new("job", 1), View::Local, Encoding::Fixed), None);
    modex.forget(0);
    assert!(!modex.has(0));
}

#[test]
fn a_rank_commits_a_bounded_number_of_bytes() {
    let mut modex = Modex::default();
    let large = "x".repeat(MAX_RANK_BYTES / 4);
    let commit = |modex: &mut Modex, key: &str| modex.commit(0, [put(Scope::Global, key, &large)]);
    for _ in 0..9 {
        assert_eq!(commit(&mut modex, "same"), Ok(()));
    }
    let results: Vec<_> = ["a", "b", "c"].map(|key| commit(&mut modex, key)).to_vec();
    assert_eq!(results, [Ok(()), Ok(()), Err(Status::OUT_OF_RESOURCE)]);
}

#[test]
fn a_contribution_to_a_group_is_found_by_its_key() {
    let mut modex = Modex::default();
    let contribution = [Info::new("pmix.grp.lclid", Value::size(3))];
    for pair in qualified(&contribution, &Value::size(1)) {
        assert_eq!(pair.key, b"pmix.qual.val");
        assert_eq!(modex.qualify(0, pair), Ok(()));
    }
    assert!(modex.has_key(0, b"pmix.grp.lclid", View::Remote));
}

fn key(members: &[Proc]) -> Key {
    Key { kind: Kind::Fence, members: members.to_vec() }
}

fn ranks(alive: &[bool]) -> BTreeMap<Proc, bool> {
    (0..).map(|rank| Proc::new("job", rank)).zip(alive.iter().copied()).collect()
}

#[test]
fn a_fence_is_complete_when_all_members_of_the_host_arrived() {
    let mut fences = Collectives::default();
    let (all, [zero, one]) = (key(&[Proc::all("job")]), [0, 1].map(|rank| Proc::new("job", rank)));
    let local = ranks(&[true, true]);
    assert_eq!(fences.arrive(all.clone(), &zero, 'a', &local), Ok(None));
    // A member that arrives again begins the next fence. Another set of members has another fence.
    assert_eq!(fences.arrive(all.clone(), &zero, 'b', &local), Ok(None));
    let own = key(std::slice::from_ref(&one));
    let alone = BTreeMap::from([(one.clone(), true)]);
    assert!(fences.arrive(own, &one, 'c', &alone).unwrap().is_some());
    let first = fences.arrive(all.clone(), &one, 'd', &local).unwrap().unwrap();
    let waiters = vec![(zero.clone(), 'a'), (one.clone(), 'd')];
    assert_eq!((first.count, first.waiters, first.status), (0, waiters, Status::SUCCESS));
    let second = fences.arrive(all.clone(), &one, 'e', &local).unwrap().unwrap();
    assert_eq!((second.count, second.waiters), (1, vec![(zero, 'b'), (one, 'e')]));
    assert!(fences.is_empty());
    let stranger = Proc::new("job", 2);
    assert_eq!(fences.arrive(all, &stranger, 'f', &local), Err(Status::BAD_PARAM));
}

#[test]
fn the_death_of_a_member_completes_a_fence_with_an_error() {
    let mut fences = Collectives::default();
    let all = key(&[Proc::all("job")]);
    let [zero, one, two] = [0, 1, 2].map(|rank| Proc::new("job", rank));
    let local = ranks(&[true, true, true]);
    for (proc, waiter) in [(&zero, 'a'), (&two, 'b')] {
        assert_eq!(fences.arrive(all.clone(), proc, waiter, &local), Ok(None));
    }
    // A member that has arrived dies too. It gets no answer.
    assert_eq!(fences.remove(&two), []);
    let completions = fences.remove(&one);
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].waiters, [(zero.clone(), 'a')]);
    assert_eq!(completions[0].status, Status::PARTIAL_SUCCESS);
    // A later fence does not wait for dead members.
    let local = ranks(&[true, false, false]);
    let later = fences.arrive(all, &zero, 'c', &local).unwrap().unwrap();
    assert_eq!((later.count, later.status), (1, Status::PARTIAL_SUCCESS));
}

#[test]
fn a_member_whose_timeout_expired_gets_no_second_answer() {
    let mut fences = Collectives::default();
    let all = key(&[Proc::all("job")]);
    let [zero, one] = [0, 1].map(|rank| Proc::new("job", rank));
    let local = ranks(&[true, true]);
    assert_eq!(fences.arrive(all.clone(), &zero, 'a', &local), Ok(None));
    fences.withdraw(|waiter| *waiter == 'a');
    let completion = fences.arrive(all, &one, 'b', &local).unwrap().unwrap();
    assert_eq!(completion.waiters, [(one, 'b')]);
}

#[test]
fn the_variables_of_a_rank_offer_every_encoding_and_no_more() {
    let settings = Settings {
        namespace: "job",
        rank: 3,
        server: "server",
        port: 4711,
        hostname: "h1",
        directory: "/tmp",
    };
    let variables: BTreeMap<_, _> = variables(&settings).into_iter().collect();
    let uri = "server.0;tcp4://127.0.0.1:4711";
    let uris: Vec<_> =
        variables.iter().filter(|(_, value)| *value == uri).map(|(name, _)| *name).collect();
    let expected = ["PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3"];
    assert_eq!(uris, [&expected[..], &["PMIX_SERVER_URI4", "PMIX_SERVER_URI41"]].concat());
    assert_eq!(variables["PMIX_RANK"], "3");
    assert_eq!(variables["PMIX_HOSTNAME"], "h1");
}
