//! The table of data types: the number, the name and the composition of each.

use std::fmt;

/// The number of a type of data in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataType(pub u16);

/// The composition of the data of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No bytes.
    Nothing,
    Byte,
    /// An unsigned number with this number of bytes.
    Unsigned(u8),
    /// A signed number with this number of bytes.
    /// A length with the terminating zero, and the bytes; a length of 0 is no string.
    Signed(u8),
    /// A length with the terminating zero, and the bytes; a length of 0 is no string.
    Text,
    /// A length that includes the terminating zero, and the bytes. A length of 0 means that there is no string.
    /// A size and this number of bytes.
    Bytes,
    /// A type and its data.
    Value,
    /// A type, a size and this number of data.
    Array,
    /// Several fields.
    Record(&'static [Field]),
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// One datum.
    One(DataType),
    /// A number of data, itself of the first type, and the data.
    Run(DataType, DataType),
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct TypeRow {
    pub(crate) kind: DataType,
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
}

impl DataType {
    pub(crate) fn row(self) -> Option<&'static TypeRow> {
        let row = TYPES.binary_search_by_key(&self, |row| row.kind).ok()?;
        TYPES.get(row)
    }

    pub(crate) fn shape(self) -> Option<Shape> {
        self.row().map(|row| row.shape)
    }

    /// The largest unsigned number with this number of bytes.
    pub(crate) const fn largest(bytes: u8) -> u64 {
        if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some(row) => f.write_str(row.name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Writes the table and the constants from one list.
macro_rules! types {
    ($($number:literal $constant:ident $name:literal $shape:expr;)*) => {
        impl DataType {
            $(pub const $constant: Self = Self($number);)*
        }

        /// Ordered by number.
        pub(crate) const TYPES: &[TypeRow] = &[
            $(TypeRow { kind: DataType($number), name: $name, shape: $shape },)*
        ];
    };
}

use DataType as T;
use Field::{One, Run};
use Shape::{Array, Byte, Bytes, Nothing, Record, Signed, Text, Unsigned, Value};

types! {
    0 UNDEFINED "undef" Nothing;
    1 BOOL "bool" Byte;
    2 BYTE "byte" Byte;
    3 STRING "string" Text;
    4 SIZE "size" Unsigned(8);
    5 PID "pid" Unsigned(4);
    6 INT "int" Signed(4);
    7 I8 "int8" Byte;
    8 I16 "int16" Signed(2);
    9 I32 "int32" Signed(4);
    10 I64 "int64" Signed(8);
    11 UINT "uint" Unsigned(4);
    12 U8 "uint8" Byte;
    13 U16 "uint16" Unsigned(2);
    14 U32 "uint32" Unsigned(4);
    15 U64 "uint64" Unsigned(8);
    16 FLOAT "float" Text;
    17 DOUBLE "double" Text;
    18 TIMEVAL "timeval" Record(&[One(T::I64), One(T::I64)]);
    19 TIME "time" Unsigned(8);
    20 STATUS "status" Signed(4);
    21 VALUE "value" Value;
    22 PROC "proc" Record(&[One(T::STRING), One(T::RANK)]);
    23 APP "app" Record(&[
        One(T::STRING), Run(T::INT, T::STRING), Run(T::I32, T::STRING), One(T::STRING), One(T::INT),
        Run(T::SIZE, T::INFO),
    ]);
    24 INFO "info" Record(&[One(T::STRING), One(T::INFO_FLAGS), One(T::VALUE)]);
    25 PDATA "pdata" Record(&[One(T::PROC), One(T::STRING), One(T::VALUE)]);
    26 BUFFER "buffer" Record(&[One(T::BYTE), One(T::BYTE_OBJECT)]);
    27 BYTE_OBJECT "byte-object" Bytes;
    28 KVAL "kval" Record(&[One(T::STRING), One(T::VALUE)]);
    30 PERSISTENCE "persistence" Byte;
    31 POINTER "pointer" Byte;
    32 SCOPE "scope" Byte;
    33 RANGE "range" Byte;
    34 COMMAND "command" Byte;
    35 INFO_FLAGS "info-flags" Unsigned(4);
    36 DATA_TYPE "data-type" Unsigned(2);
    37 PROC_STATE "proc-state" Byte;
    38 PROC_INFO "proc-info" Record(&[
        One(T::PROC), One(T::STRING), One(T::STRING), One(T::PID), One(T::PROC_STATE),
    ]);
    39 ARRAY "array" Array;
    40 RANK "rank" Unsigned(4);
    41 QUERY "query" Record(&[Run(T::I32, T::STRING), Run(T::SIZE, T::INFO)]);
    42 COMPRESSED_STRING "compressed-string" Bytes;
    43 ALLOC_DIRECTIVE "alloc-directive" Byte;
    44 INFO_ARRAY "info-array" Record(&[Run(T::SIZE, T::INFO)]);
    45 IOF_CHANNEL "iof-channel" Unsigned(2);
    46 ENVAR "envar" Record(&[One(T::STRING), One(T::STRING), One(T::BYTE)]);
    47 COORD "coord" Record(&[One(T::U8), Run(T::SIZE, T::U32)]);
    48 REGATTR "regattr" Record(&[
        One(T::STRING), One(T::STRING), One(T::DATA_TYPE), Run(T::I32, T::STRING),
    ]);
    49 REGEX "regex" Text;
    50 JOB_STATE "job-state" Byte;
    51 LINK_STATE "link-state" Byte;
    52 CPUSET "cpuset" Text;
    53 GEOMETRY "geometry" Record(&[
        One(T::SIZE), One(T::STRING), One(T::STRING), Run(T::SIZE, T::COORD),
    ]);
    54 DEVICE_DISTANCE "device-distance" Record(&[
        One(T::STRING), One(T::STRING), One(T::DEVICE_TYPE), One(T::U16), One(T::U16),
    ]);
    55 ENDPOINT "endpoint" Record(&[One(T::STRING), One(T::STRING), One(T::BYTE_OBJECT)]);
    57 DEVICE_TYPE "device-type" Unsigned(8);
    58 LOCALITY "locality" Unsigned(2);
    59 COMPRESSED_BYTES "compressed-bytes" Bytes;
    60 NAMESPACE "namespace" Text;
    65 DATA_BUFFER "data-buffer" Bytes;
    66 STORAGE_MEDIUM "storage-medium" Unsigned(8);
    67 STORAGE_ACCESS "storage-access" Unsigned(8);
    68 STORAGE_PERSISTENCE "storage-persistence" Unsigned(8);
    69 STORAGE_ACCESS_TYPE "storage-access-type" Unsigned(2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_and_names_no_type_twice() {
        assert!(TYPES.is_sorted_by_key(|row| row.kind));
        let mut names: Vec<_> = TYPES.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TYPES.len());
    }

    #[test]
    fn every_field_has_a_type_of_the_table() {
        for row in TYPES {
            let Record(fields) = row.shape else { continue };
            for field in fields {
                match field {
                    One(kind) => assert!(kind.row().is_some(), "{}", row.name),
                    Run(count, kind) => {
                        assert!(matches!(count.shape(), Some(Signed(4) | Unsigned(8))));
                        assert!(kind.row().is_some(), "{}", row.name);
                    }
                }
            }
        }
    }
}
