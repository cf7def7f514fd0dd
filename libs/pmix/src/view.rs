//! Typed views of the structures that the server reads or writes itself.

use crate::encoding::{Data, DataType, Value};
use crate::error::DecodeError;

/// The number that means all ranks of a namespace.
pub const WILDCARD: u32 = 0xffff_fffe;

/// The number that means no particular rank. A get with it looks for a key that only one rank has.
pub const UNDEFINED_RANK: u32 = 0xffff_ffff;

/// A process, or all processes of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proc {
    /// The namespace of the job.
    pub namespace: Vec<u8>,
    /// The rank, or [`WILDCARD`].
    pub rank: u32,
}

/// A key with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub key: Vec<u8>,
    pub value: Value,
}

/// A key with a value, as an argument of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    pub key: Vec<u8>,
    /// Flags: 1 required, 8 a qualifier.
    pub flags: u32,
    pub value: Value,
}

/// A published key with its publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The publisher.
    pub owner: Proc,
    pub key: Vec<u8>,
    pub value: Value,
}

/// A program of a spawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// The program.
    pub command: Vec<u8>,
    /// The arguments. The first is the name of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Variables of the environment, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The working directory.
    pub directory: Option<Vec<u8>>,
    pub processes: i32,
    /// Further options.
    pub info: Vec<Info>,
}

/// A question about the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The keys of the wanted values.
    pub keys: Vec<Vec<u8>>,
    /// Restrictions.
    pub qualifiers: Vec<Info>,
}

/// A structure with a typed view.
pub(crate) trait View: Sized {
    /// The type of the structure.
    const KIND: DataType;

    /// The view of decoded data.
    fn view(data: Data) -> Result<Self, DecodeError>;

    fn data(&self) -> Data;
}

impl Proc {
    /// A process.
    pub fn new(namespace: impl Into<Vec<u8>>, rank: u32) -> Self {
        Self { namespace: namespace.into(), rank }
    }

    /// All processes of a namespace.
    pub fn all(namespace: impl Into<Vec<u8>>) -> Self {
        Self::new(namespace, WILDCARD)
    }

    /// The value with this process.
    pub fn value(&self) -> Value {
        Value::decoded_view(self)
    }
}

impl Pair {
    pub fn new(key: impl Into<Vec<u8>>, value: Value) -> Self {
        Self { key: key.into(), value }
    }
}

impl Info {
    /// An info without flags.
    pub fn new(key: impl Into<Vec<u8>>, value: Value) -> Self {
        Self { key: key.into(), flags: 0, value }
    }

    /// The value of a key. If the key repeats, the last value is used.
    pub fn find<'a>(infos: &'a [Self], key: &str) -> Option<&'a Value> {
        infos.iter().rfind(|info| info.key == key.as_bytes()).map(|info| &info.value)
    }

    /// Whether a boolean option is given and true.
    pub fn is_set(infos: &[Self], key: &str) -> bool {
        Self::find(infos, key).is_some_and(Value::is_true)
    }
}

impl Value {
    /// A value of a typed view.
    pub(crate) fn decoded_view<T: View>(view: &T) -> Self {
        Self::new(T::KIND, view.data()).unwrap_or_else(Self::nothing)
    }

    /// An array of typed views.
    pub(crate) fn array_of<T: View>(views: &[T]) -> Self {
        Self::array(T::KIND, views.iter().map(View::data).collect())
    }

    /// An array of infos.
    pub fn of_infos(infos: &[Info]) -> Self {
        Self::array_of(infos)
    }

    /// An array of processes.
    pub fn of_procs(procs: &[Proc]) -> Self {
        Self::array_of(procs)
    }

    /// The process, if the value is a process.
    pub fn as_proc(&self) -> Option<Proc> {
        match self.kind() {
            DataType::PROC => Proc::view(self.data().clone()).ok(),
            _ => None,
        }
    }

    /// The processes, if the value is a process or an array of processes.
    pub fn as_procs(&self) -> Option<Vec<Proc>> {
        match self.data() {
            Data::Array(DataType::PROC, procs) => {
                procs.iter().map(|proc| Proc::view(proc.clone()).ok()).collect()
            }
            _ => self.as_proc().map(|proc| vec![proc]),
        }
    }

    /// The infos, if the value is an array of infos.
    pub fn as_infos(&self) -> Option<Vec<Info>> {
        match self.data() {
            Data::Array(DataType::INFO, infos) => {
                infos.iter().map(|info| Info::view(info.clone()).ok()).collect()
            }
            _ => None,
        }
    }
}

impl View for Proc {
    const KIND: DataType = DataType::PROC;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "a process")?;
        Ok(Self { namespace: fields.text()?.unwrap_or_default(), rank: fields.u32()? })
    }

    fn data(&self) -> Data {
        Data::Record(vec![text(&self.namespace), Data::Unsigned(self.rank.into())])
    }
}

impl View for Pair {
    const KIND: DataType = DataType::KVAL;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "a key with a value")?;
        Ok(Self { key: fields.text()?.unwrap_or_default(), value: fields.value()? })
    }

    fn data(&self) -> Data {
        Data::Record(vec![text(&self.key), Data::Value(Box::new(self.value.clone()))])
    }
}

impl View for Info {
    const KIND: DataType = DataType::INFO;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "information")?;
        let (key, flags) = (fields.text()?.unwrap_or_default(), fields.u32()?);
        Ok(Self { key, flags, value: fields.value()? })
    }

    fn data(&self) -> Data {
        let value = Data::Value(Box::new(self.value.clone()));
        Data::Record(vec![text(&self.key), Data::Unsigned(self.flags.into()), value])
    }
}

impl View for Published {
    const KIND: DataType = DataType::PDATA;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "published data")?;
        let owner = Proc::view(fields.next()?)?;
        Ok(Self { owner, key: fields.text()?.unwrap_or_default(), value: fields.value()? })
    }

    fn data(&self) -> Data {
        let value = Data::Value(Box::new(self.value.clone()));
        Data::Record(vec![self.owner.data(), text(&self.key), value])
    }
}

impl View for App {
    const KIND: DataType = DataType::APP;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "an application")?;
        Ok(Self {
            command: fields.text()?.unwrap_or_default(),
            arguments: fields.texts()?,
            environment: fields.texts()?,
            directory: fields.text()?,
            processes: fields.i32()?,
            info: fields.run()?,
        })
    }

    fn data(&self) -> Data {
        Data::Record(vec![
            text(&self.command),
            texts(&self.arguments),
            texts(&self.environment),
            Data::Text(self.directory.clone()),
            Data::Signed(self.processes.into()),
            Data::Run(self.info.iter().map(View::data).collect()),
        ])
    }
}

impl View for Query {
    const KIND: DataType = DataType::QUERY;

    fn view(data: Data) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(data, "a query")?;
        Ok(Self { keys: fields.texts()?, qualifiers: fields.run()? })
    }

    fn data(&self) -> Data {
        let qualifiers = self.qualifiers.iter().map(View::data).collect();
        Data::Record(vec![texts(&self.keys), Data::Run(qualifiers)])
    }
}

/// The fields of a record, in their order.
struct Fields {
    fields: std::vec::IntoIter<Data>,
    structure: &'static str,
}

impl Fields {
    fn of(data: Data, structure: &'static str) -> Result<Self, DecodeError> {
        match data {
            Data::Record(fields) => Ok(Self { fields: fields.into_iter(), structure }),
            _ => Err(DecodeError::Form(structure)),
        }
    }

    fn next(&mut self) -> Result<Data, DecodeError> {
        self.fields.next().ok_or(DecodeError::Form(self.structure))
    }

    fn text(&mut self) -> Result<Option<Vec<u8>>, DecodeError> {
        match self.next()? {
            Data::Text(text) => Ok(text),
            _ => Err(DecodeError::Form(self.structure)),
        }
    }

    fn texts(&mut self) -> Result<Vec<Vec<u8>>, DecodeError> {
        let Data::Run(run) = self.next()? else { return Err(DecodeError::Form(self.structure)) };
        let text = |data| match data {
            Data::Text(text) => Ok(text.unwrap_or_default()),
            _ => Err(DecodeError::Form(self.structure)),
        };
        run.into_iter().map(text).collect()
    }

    fn run<T: View>(&mut self) -> Result<Vec<T>, DecodeError> {
        let Data::Run(run) = self.next()? else { return Err(DecodeError::Form(self.structure)) };
        run.into_iter().map(T::view).collect()
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        match self.next()? {
            Data::Unsigned(number) => {
                u32::try_from(number).map_err(|_| DecodeError::Form(self.structure))
            }
            _ => Err(DecodeError::Form(self.structure)),
        }
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        match self.next()? {
            Data::Signed(number) => {
                i32::try_from(number).map_err(|_| DecodeError::Form(self.structure))
            }
            _ => Err(DecodeError::Form(self.structure)),
        }
    }

    fn value(&mut self) -> Result<Value, DecodeError> {
        match self.next()? {
            Data::Value(value) => Ok(*value),
            _ => Err(DecodeError::Form(self.structure)),
        }
    }
}

pub(crate) fn text(text: &[u8]) -> Data {
    Data::Text(Some(text.to_vec()))
}

fn texts(texts: &[Vec<u8>]) -> Data {
    Data::Run(texts.iter().map(|one| text(one)).collect())
}
