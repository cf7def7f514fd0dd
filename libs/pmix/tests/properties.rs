//! Properties that hold for any data and any bytes, in both encodings.

use pmix_proto::encoding::{Data, DataType, Encoding, Reader, Value, Writer};
use pmix_proto::limits::MAX_DEPTH;
use proptest::collection::vec;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Data> {
    prop_oneof![
        1 => Just(Data::Text(None)),
        9 => vec(any::<u8>(), 0..20).prop_map(|text| Data::Text(Some(text))),
    ]
}

fn unsigned(largest: u64) -> impl Strategy<Value = Data> {
    prop_oneof![0..=largest, Just(largest), Just(0), 0..=largest.min(300)].prop_map(Data::Unsigned)
}

fn signed(largest: i64) -> impl Strategy<Value = Data> {
    let least = -largest - 1;
    prop_oneof![least..=largest, Just(least), Just(largest), -9..9_i64].prop_map(Data::Signed)
}

const PLAIN: [DataType; 30] = [
    DataType::BOOL,
    DataType::BYTE,
    DataType::STRING,
    DataType::SIZE,
    DataType::PID,
    DataType::INT,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::UINT,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::TIME,
    DataType::STATUS,
    DataType::BYTE_OBJECT,
    DataType::PERSISTENCE,
    DataType::SCOPE,
    DataType::RANGE,
    DataType::COMMAND,
    DataType::PROC_STATE,
    DataType::RANK,
    DataType::ALLOC_DIRECTIVE,
    DataType::IOF_CHANNEL,
    DataType::COMPRESSED_STRING,
    DataType::DATA_TYPE,
];

fn plain(kind: DataType) -> BoxedStrategy<Data> {
    match kind {
        DataType::STRING | DataType::FLOAT | DataType::DOUBLE => text().boxed(),
        DataType::BYTE_OBJECT | DataType::COMPRESSED_STRING => {
            vec(any::<u8>(), 0..20).prop_map(Data::Bytes).boxed()
        }
        DataType::SIZE | DataType::U64 | DataType::TIME => unsigned(u64::MAX).boxed(),
        DataType::PID | DataType::UINT | DataType::U32 | DataType::RANK => {
            unsigned(u32::MAX.into()).boxed()
        }
        DataType::U16 | DataType::IOF_CHANNEL | DataType::DATA_TYPE => {
            unsigned(u16::MAX.into()).boxed()
        }
        DataType::INT | DataType::I32 | DataType::STATUS => signed(i32::MAX.into()).boxed(),
        DataType::I16 => signed(i16::MAX.into()).boxed(),
        DataType::I64 => signed(i64::MAX).boxed(),
        _ => unsigned(u8::MAX.into()).boxed(),
    }
}

/// A type and data of this type, with nested records, values and arrays.
fn typed(encoding: Encoding) -> BoxedStrategy<Value> {
    let leaf = prop::sample::select(PLAIN.to_vec())
        .prop_flat_map(|kind| plain(kind).prop_map(move |data| Value::new(kind, data).unwrap()));
    let more: Vec<DataType> = match encoding {
        Encoding::Fixed => Vec::new(),
        Encoding::Flexible => vec![DataType::COORD, DataType::REGATTR, DataType::ENDPOINT],
    };
    let leaf = prop_oneof![
        9 => leaf,
        1 => prop::sample::select([vec![DataType::TIMEVAL], more].concat()).prop_flat_map(record),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        let boxed = inner.clone().prop_map(|value| Data::Value(Box::new(value)));
        let value = boxed.clone().prop_map(|data| Value::new(DataType::VALUE, data).unwrap());
        let info = (text(), unsigned(u32::MAX.into()), boxed.clone())
            .prop_map(|(key, flags, value)| Data::Record(vec![key, flags, value]))
            .boxed();
        let pair = (text(), boxed.clone()).prop_map(|(key, value)| Data::Record(vec![key, value]));
        let infos = vec(info.clone(), 0..4);
        let app = (text(), vec(text(), 0..4), vec(text(), 0..3), signed(9), infos.clone())
            .prop_map(|(command, arguments, environment, size, infos)| {
                let (arguments, environment) = (Data::Run(arguments), Data::Run(environment));
                let infos = Data::Run(infos);
                Data::Record(vec![command.clone(), arguments, environment, command, size, infos])
            });
        let query = (vec(text(), 0..4), infos.clone())
            .prop_map(|(keys, infos)| Data::Record(vec![Data::Run(keys), Data::Run(infos)]));
        let of = |kind| move |data| Value::new(kind, data).unwrap();
        let array = move |kind| {
            move |elements| Value::new(DataType::ARRAY, Data::Array(kind, elements)).unwrap()
        };
        let numbers = prop::sample::select(vec![DataType::SIZE, DataType::PID, DataType::INT])
            .prop_flat_map(move |kind| vec(plain(kind), 0..5).prop_map(array(kind)));
        prop_oneof![
            value,
            info.clone().prop_map(of(DataType::INFO)),
            pair.prop_map(of(DataType::KVAL)),
            app.prop_map(of(DataType::APP)),
            query.prop_map(of(DataType::QUERY)),
            infos.prop_map(array(DataType::INFO)),
            vec(boxed, 0..4).prop_map(array(DataType::VALUE)),
            numbers,
        ]
    })
    .boxed()
}

fn record(kind: DataType) -> BoxedStrategy<Value> {
    let data = match kind {
        DataType::TIMEVAL => {
            (signed(i64::MAX), signed(i64::MAX)).prop_map(|(a, b)| vec![a, b]).boxed()
        }
        DataType::COORD => (unsigned(255), vec(unsigned(u32::MAX.into()), 0..4))
            .prop_map(|(view, run)| vec![view, Data::Run(run)])
            .boxed(),
        DataType::REGATTR => (text(), text(), unsigned(65535), vec(text(), 0..3))
            .prop_map(|(a, b, c, run)| vec![a, b, c, Data::Run(run)])
            .boxed(),
        _ => (text(), text(), vec(any::<u8>(), 0..9))
            .prop_map(|(a, b, bytes)| vec![a, b, Data::Bytes(bytes)])
            .boxed(),
    };
    data.prop_map(move |fields| Value::new(kind, Data::Record(fields)).unwrap()).boxed()
}

fn encodings() -> impl Strategy<Value = Encoding> {
    prop::sample::select(Encoding::ALL.to_vec())
}

fn value_with_encoding() -> impl Strategy<Value = (Encoding, Value)> {
    encodings().prop_flat_map(|encoding| (Just(encoding), typed(encoding)))
}

fn encoded(encoding: Encoding, value: &Value) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    writer.one(DataType::VALUE, &Data::Value(Box::new(value.clone())));
    writer.into_bytes()
}

fn decoded(encoding: Encoding, bytes: &[u8]) -> Result<Value, pmix_proto::DecodeError> {
    let mut reader = Reader::new(encoding, bytes);
    let data = reader.one(DataType::VALUE)?;
    reader.finish()?;
    match data {
        Data::Value(value) => Ok(*value),
        other => panic!("{other:?} is no value"),
    }
}

/// A message with a few changed bytes. Its beginning is usually valid, unlike that of random bytes.
fn any_bytes() -> impl Strategy<Value = (Encoding, Vec<u8>)> {
    let changed = (value_with_encoding(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..4))
        .prop_map(|((encoding, value), changes)| {
            let mut bytes = encoded(encoding, &value);
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            (encoding, bytes)
        });
    prop_oneof![changed, (encodings(), vec(any::<u8>(), 0..60))]
}

proptest! {
    #[test]
    fn a_value_is_the_same_after_it_is_written_and_read((encoding, value) in value_with_encoding()) {
        let bytes = encoded(encoding, &value);
        prop_assert_eq!(decoded(encoding, &bytes), Ok(value));
    }

    #[test]
    fn a_value_that_is_cut_short_is_an_error((encoding, value) in value_with_encoding()) {
        let bytes = encoded(encoding, &value);
        for length in 0..bytes.len() {
            prop_assert!(decoded(encoding, &bytes[..length]).is_err());
        }
    }

    #[test]
    fn any_value_that_was_read_is_the_same_after_it_is_written_and_read(
        (encoding, bytes) in any_bytes(),
    ) {
        if let Ok(value) = decoded(encoding, &bytes) {
            let again = encoded(encoding, &value);
            prop_assert!(again.len() <= bytes.len() + 2, "{:?} became {:?}", bytes, again);
            prop_assert_eq!(decoded(encoding, &again), Ok(value));
        }
    }

    #[test]
    fn in_the_fixed_encoding_a_value_that_was_read_is_written_as_the_same_bytes(
        (encoding, bytes) in any_bytes(),
    ) {
        if encoding == Encoding::Fixed {
            // Only an array without a type has a second form.
            let has_untyped_array = bytes.windows(2).any(|two| two == [0, 39]);
            if let (Ok(value), false) = (decoded(encoding, &bytes), has_untyped_array) {
                prop_assert_eq!(encoded(encoding, &value), bytes);
            }
        }
    }

    #[test]
    fn packs_are_read_one_after_the_other(
        encoding in encodings(), sizes in vec(any::<u64>(), 0..9), numbers in vec(any::<i32>(), 0..9),
    ) {
        let sizes: Vec<_> = sizes.into_iter().map(Data::Unsigned).collect();
        let numbers: Vec<_> = numbers.into_iter().map(|one| Data::Signed(one.into())).collect();
        let mut writer = Writer::new(encoding);
        writer.pack(DataType::SIZE, &sizes);
        writer.pack(DataType::INT, &numbers);
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(encoding, &bytes);
        prop_assert_eq!(reader.pack(DataType::SIZE), Ok(sizes));
        prop_assert_eq!(reader.pack(DataType::INT), Ok(numbers));
        prop_assert_eq!(reader.finish(), Ok(()));
    }
}

#[test]
fn values_are_nested_up_to_a_limit() {
    let nested = |depth| {
        (0..depth).fold(Value::u32(7), |value, _| {
            Value::new(DataType::VALUE, Data::Value(Box::new(value))).unwrap()
        })
    };
    for encoding in Encoding::ALL {
        // The pack itself is one level.
        let bytes = encoded(encoding, &nested(MAX_DEPTH - 1));
        assert_eq!(decoded(encoding, &bytes), Ok(nested(MAX_DEPTH - 1)));
        let bytes = encoded(encoding, &nested(MAX_DEPTH));
        assert_eq!(decoded(encoding, &bytes), Err(pmix_proto::DecodeError::TooDeep));
    }
}

#[test]
fn a_number_of_elements_beyond_the_message_is_an_error_at_once() {
    // An array of 2^60 bytes, and an array of 2^60 strings.
    for kind in [2_u8, 3] {
        let flexible = [&[2, 39, kind][..], &[0x80; 8][..], &[0x10]].concat();
        assert!(decoded(Encoding::Flexible, &flexible).is_err());
        let fixed = [&[0, 0, 0, 1, 0, 39, 0, kind, 0, 15, 0x10][..], &[0; 7]].concat();
        assert!(decoded(Encoding::Fixed, &fixed).is_err());
    }
}
