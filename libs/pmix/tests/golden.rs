//! The bytes that libraries send and read: Open MPI 5 (flexible encoding), and Open MPI 4.1 with its PMIx 3 (fixed
//! encoding).

use pmix_proto::connect::{Expectation, Introduction, Refusal};
use pmix_proto::encoding::{Data, DataType, Encoding, Value, Writer};
use pmix_proto::message::{Put, Reply, Request, Scope, read_pairs, write_pairs};
use pmix_proto::transport::Header;
use pmix_proto::view::{Info, Pair, Proc};
use pmix_proto::{ProtocolError, Status};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |two: &[u8]| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn one(encoding: Encoding, kind: DataType, data: &Data) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    writer.one(kind, data);
    writer.into_bytes()
}

const CONNECT: &str = "6e617469766500 00000008 0000000000000000 00 706d6978776972652d3136373030403100 00000001 \
                       352e302e313172633100 76343100 01 6861736800";

fn introduction() -> Introduction {
    Introduction {
        security: b"native".into(),
        user: Some((0, 0)),
        role: 0,
        namespace: b"pmixwire-16700@1".into(),
        rank: 1,
        version: b"5.0.11rc1".into(),
        encoding: b"v41".into(),
        buffers: 1,
        store: b"hash".into(),
    }
}

#[test]
fn the_connect_message_of_open_mpi_5_is_understood() {
    let read = Introduction::read(&hex(CONNECT)).unwrap();
    assert_eq!(read, introduction());
    assert_eq!(read.write(), hex(CONNECT));
    assert_eq!(read.release(), [5, 0, 11]);
    // Later versions append data.
    let longer = [&hex(CONNECT)[..], b"\0more"].concat();
    assert_eq!(Introduction::read(&longer), Ok(introduction()));
    for length in 0..hex(CONNECT).len() {
        let read = Introduction::read(&hex(CONNECT)[..length]);
        assert!(matches!(read, Err(ProtocolError::Handshake(_))), "{length}");
    }
}

#[test]
fn a_client_is_admitted_only_as_the_expected_one() {
    let expected = Expectation {
        namespace: b"pmixwire-16700@1",
        uid: 0,
        peer_uid: Some(0),
        is_running: true,
        is_connected: false,
    };
    let check = |change: fn(&mut Introduction), expected: Expectation<'_>| {
        let mut introduction = introduction();
        change(&mut introduction);
        introduction.check(&expected)
    };
    assert_eq!(check(|_| {}, expected), Ok(Encoding::Flexible));
    assert_eq!(check(|one| one.encoding = b"v3".into(), expected), Ok(Encoding::Fixed));
    assert_eq!(
        check(|one| (one.security, one.user) = (b"none".into(), None), expected),
        Ok(Encoding::Flexible)
    );
    type Change = fn(&mut Introduction);
    let refusals: [(Change, Refusal); 8] = [
        (|one| one.role = 3, Refusal::Role),
        (|one| one.namespace.truncate(15), Refusal::Namespace),
        (|one| one.namespace[0] ^= 1, Refusal::Namespace),
        (|one| one.user = Some((7, 0)), Refusal::User),
        (|one| one.user = None, Refusal::User),
        (|one| one.security = b"munge".into(), Refusal::Security),
        (|one| one.buffers = 2, Refusal::Described),
        (|one| one.encoding = b"v99".into(), Refusal::Encoding),
    ];
    for (change, refusal) in refusals {
        assert_eq!(check(change, expected), Err(refusal));
    }
    let none = |_: &mut Introduction| {};
    let stopped = Expectation { is_running: false, ..expected };
    assert_eq!(check(none, stopped), Err(Refusal::Rank));
    let taken = Expectation { is_connected: true, ..expected };
    assert_eq!(check(none, taken), Err(Refusal::Connected));
    let foreign = Expectation { peer_uid: Some(7), ..expected };
    assert_eq!(check(none, foreign), Err(Refusal::User));
}

#[test]
fn headers_are_big_endian() {
    let header = Header { index: 1, tag: 101, length: 260 };
    assert_eq!(header.write().to_vec(), hex("00000001 00000065 00000104 00000000"));
    assert_eq!(Header::read(header.write()), header);
}

#[test]
fn data_have_the_bytes_of_the_libraries() {
    let text = Data::Text(Some(b"pmix.rank".into()));
    let (fixed, flexible) = (Encoding::Fixed, Encoding::Flexible);
    let rank = Data::Unsigned(0xffff_fffe);
    let cases = [
        (flexible, DataType::STRING, &text, "02 14 706d69782e72616e6b00"),
        (fixed, DataType::STRING, &text, "00000001 0000000a 706d69782e72616e6b00"),
        (flexible, DataType::STRING, &Data::Text(None), "02 00"),
        (fixed, DataType::STRING, &Data::Text(None), "00000001 00000000"),
        (flexible, DataType::RANK, &rank, "02 feffffff0f"),
        (fixed, DataType::RANK, &rank, "00000001 fffffffe"),
        (flexible, DataType::STATUS, &Data::Signed(0), "02 00"),
        (fixed, DataType::STATUS, &Data::Signed(0), "00000001 00000000"),
        (flexible, DataType::STATUS, &Data::Signed(-46), "02 5b"),
        (fixed, DataType::STATUS, &Data::Signed(-46), "00000001 ffffffd2"),
        (flexible, DataType::STATUS, &Data::Signed(i32::MIN.into()), "02 ffffffff0f"),
        (fixed, DataType::SIZE, &Data::Unsigned(1), "00000001 000f 0000000000000001"),
        (fixed, DataType::INT, &Data::Signed(-1), "00000001 0009 ffffffff"),
        (fixed, DataType::UINT, &Data::Unsigned(1), "00000001 0009 00000001"),
        (fixed, DataType::PID, &Data::Unsigned(1), "00000001 000e 00000001"),
        (flexible, DataType::PID, &Data::Unsigned(300), "02 0e ac02"),
        (flexible, DataType::U64, &Data::Unsigned(u64::MAX), "02 ffffffffffffffff ff"),
        (flexible, DataType::U64, &Data::Unsigned(1 << 56), "02 8080808080808080 01"),
        (flexible, DataType::I64, &Data::Signed(i64::MIN), "02 ffffffffffffffff ff"),
    ];
    for (encoding, kind, data, bytes) in cases {
        assert_eq!(one(encoding, kind, data), hex(bytes), "{kind} {encoding:?}");
    }
}

#[test]
fn the_job_information_begins_as_the_libraries_expect() {
    let infos = Value::new(
        DataType::ARRAY,
        Data::Array(
            DataType::INFO,
            vec![Data::Record(vec![
                Data::Text(Some(b"pmix.hname".into())),
                Data::Unsigned(0),
                Data::Value(Box::new(Value::text("vm"))),
            ])],
        ),
    );
    let pairs =
        [Pair::new("pmix.job.size", Value::u32(2)), Pair::new("pmix.node.arr", infos.unwrap())];
    let bytes = hex("02 1c 706d69782e6a6f622e73697a6500 0e 02 \
         02 1c 706d69782e6e6f64652e61727200 27 18 01 16 706d69782e686e616d6500 00 03 06 766d00");
    assert_eq!(write_pairs(Encoding::Flexible, &pairs), bytes);
    assert_eq!(read_pairs(Encoding::Flexible, &bytes), Ok(pairs.to_vec()));
}

#[test]
fn an_abort_of_open_mpi_is_understood() {
    let abort = Request::Abort { status: Status(7), message: None, procs: vec![] };
    let bytes = hex("0201 020e 0200 0200");
    assert_eq!(Request::read(Encoding::Flexible, [5, 0, 11], &bytes), Ok(abort.clone()));
    assert_eq!(abort.write(Encoding::Flexible), bytes);
}

#[test]
fn a_fence_with_its_argument_has_the_bytes_of_both_encodings() {
    let collect = Info::new("pmix.collect", Value::bool(true));
    let fence = Request::Fence { procs: vec![Proc::all("a")], info: vec![collect] };
    let flexible =
        hex("0203 0201 02 04 6100 feffffff0f 0201 02 1a 706d69782e636f6c6c65637400 00 01 01");
    let fixed = hex(
        "00000001 03  00000001 000f 0000000000000001  00000001 00000002 6100 fffffffe \
         00000001 000f 0000000000000001  00000001 0000000d 706d69782e636f6c6c65637400 00000000 0001 01",
    );
    assert_eq!(fence.write(Encoding::Flexible), flexible);
    assert_eq!(fence.write(Encoding::Fixed), fixed);
    assert_eq!(Request::read(Encoding::Flexible, [4, 1, 0], &flexible), Ok(fence.clone()));
    assert_eq!(Request::read(Encoding::Fixed, [3, 2, 5], &fixed), Ok(fence));
}

#[test]
fn a_commit_carries_a_buffer_for_each_scope() {
    let put = Put { scope: Scope::Global, pair: Pair::new("k", Value::bytes(vec![7])) };
    let commit = Request::Commit { puts: vec![put] };
    // Command 2, scope 3, a buffer of type 1 with 7 bytes: one kval.
    let bytes = hex("0202 0203 02 01 07 02 04 6b00 1b 01 07");
    assert_eq!(commit.write(Encoding::Flexible), bytes);
    assert_eq!(Request::read(Encoding::Flexible, [5, 0, 0], &bytes), Ok(commit));
}

#[test]
fn replies_begin_with_their_status() {
    let not_found = Reply::Done(Status::NOT_FOUND);
    assert_eq!(not_found.write(Encoding::Flexible, 4), hex("025b"));
    assert_eq!(not_found.write(Encoding::Fixed, 4), hex("00000001 ffffffd2"));
    let data = Reply::Data(vec![vec![1, 2]]);
    assert_eq!(data.write(Encoding::Flexible, 4), hex("0200 02 02 0102"));
    assert_eq!(
        data.write(Encoding::Fixed, 4),
        hex("00000001 00000000 00000001 000f 0000000000000002 0102")
    );
    let two = Reply::Data(vec![vec![1, 2], vec![3]]);
    assert_eq!(two.write(Encoding::Flexible, 4), hex("0200 02 02 0102 02 01 03"));
    assert_eq!(
        Reply::read(Encoding::Flexible, 4, [5, 0, 0], &hex("0200 02 02 0102 02 01 03")),
        Ok(two)
    );
}
