//! The replies to a client.

use super::pack::{Pack, Packing, Packs};
use super::table;
use crate::encoding::{Data, DataType, Encoding, Reader, Writer};
use crate::error::DecodeError;
use crate::status::Status;
use crate::view::{Info, Proc, Published};

/// The form of the reply to a group's construction. It depends on the version of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupForm {
    /// PMIx up to 4.2.3.
    Early,
    /// PMIx 4.2.4 to 5.
    Usual,
    /// PMIx 6.0.
    Six,
    /// PMIx 6.1 and later.
    SixOne,
}

/// A reply with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To a request without results; also every failure.
    Done(Status),
    /// To `job-info`. This reply has no status.
    JobInfo {
        /// The namespace of the client.
        namespace: Vec<u8>,
        /// Encoded pairs.
        info: Vec<u8>,
    },
    /// To `get`: data of processes, that of each on its own. A client keeps those that it has not asked for.
    Data(Vec<Vec<u8>>),
    /// To `lookup`.
    Found(Vec<Published>),
    /// To `spawn`.
    Spawned {
        /// The namespace of the new job.
        namespace: Vec<u8>,
        /// Encoded pairs.
        info: Vec<u8>,
    },
    /// To `connect`: the encoded answer to `job-info` for each other namespace.
    Connected(Vec<Vec<u8>>),
    /// To `query`.
    Answers(Status, Vec<Info>),
    /// To `group-construct`.
    Group {
        /// All members.
        members: Vec<Proc>,
        /// The number of the group.
        context: Option<u64>,
        /// The form for the client's version.
        form: GroupForm,
    },
}

impl GroupForm {
    /// The form for a version.
    pub fn of(release: [u32; 3]) -> Self {
        match release {
            release if release < [4, 2, 4] => Self::Early,
            release if release < [6, 0, 0] => Self::Usual,
            release if release < [6, 1, 0] => Self::Six,
            _ => Self::SixOne,
        }
    }

    const fn list(self) -> &'static [Pack] {
        match self {
            Self::Early => table::GROUP_EARLY,
            Self::Usual => table::GROUP,
            Self::Six => table::GROUP_60,
            Self::SixOne => table::GROUP_61,
        }
    }
}

impl Reply {
    /// Writes the payload of the reply to a command.
    pub fn write(&self, encoding: Encoding, command: u8) -> Vec<u8> {
        let p = Packing::default();
        let done = |p: Packing| p.status(Status::SUCCESS);
        let mut list = table::row(command).and_then(|row| row.reply).unwrap_or_default();
        let p = match self {
            Self::Done(status) => {
                list = table::row(5).and_then(|row| row.reply).unwrap_or_default();
                p.status(*status)
            }
            Self::JobInfo { namespace, info } => p.text(namespace).bytes(info),
            Self::Found(found) => done(p).many(found),
            Self::Spawned { namespace, info } => done(p).text(namespace).bytes(info),
            Self::Data(list) | Self::Connected(list) => {
                done(p).all(list.iter().map(|bytes| Data::Bytes(bytes.clone())).collect())
            }
            Self::Answers(status, info) => p.status(*status).many(info),
            Self::Group { members, context, form } => {
                list = form.list();
                let number = context.unwrap_or(0);
                match form {
                    GroupForm::Early => done(p).number(number),
                    GroupForm::Usual => done(p).many(members).number(number),
                    GroupForm::Six | GroupForm::SixOne => {
                        let contexts = context.iter().map(|context| Data::Unsigned(*context));
                        let p = done(p).many(members).number(u8::from(context.is_some()));
                        let p = p.all(contexts.collect());
                        if *form == GroupForm::SixOne { p.many::<Info>(&[]) } else { p }
                    }
                }
            }
        };
        let mut writer = Writer::new(encoding);
        p.write(list, &mut writer);
        writer.into_bytes()
    }

    /// Reads the payload of the reply to a command, as a client does.
    ///
    /// # Errors
    ///
    /// The payload does not match the table.
    pub fn read(
        encoding: Encoding,
        command: u8,
        release: [u32; 3],
        payload: &[u8],
    ) -> Result<Self, DecodeError> {
        let mut list = table::row(command).and_then(|row| row.reply).unwrap_or_default();
        if command == 24 {
            list = GroupForm::of(release).list();
        }
        let mut reader = Reader::new(encoding, payload);
        if matches!(list.first(), Some(Pack::One(DataType::STATUS, _))) {
            let status = Packs::read(&list[..1], &mut Reader::new(encoding, payload))
                .map_err(|(_, error)| error)?
                .status()?;
            let may_follow = status.is_success() || command == 15;
            if !may_follow || list.len() == 1 {
                return Ok(Self::Done(status));
            }
        }
        let p = &mut Packs::read(list, &mut reader).map_err(|(_, error)| error)?;
        reader.finish()?;
        let status = if command == 0 { Status::SUCCESS } else { p.status()? };
        Ok(match command {
            0 => Self::JobInfo { namespace: p.text()?, info: p.bytes()? },
            4 => Self::Data(Self::read_bytes(p)?),
            7 => Self::Found(p.many()?),
            9 => Self::Spawned { namespace: p.text()?, info: p.bytes()? },
            10 => Self::Connected(Self::read_bytes(p)?),
            15 => Self::Answers(status, p.many()?),
            24 => Self::read_group(GroupForm::of(release), p)?,
            _ => Self::Done(status),
        })
    }

    fn read_bytes(p: &mut Packs) -> Result<Vec<Vec<u8>>, DecodeError> {
        let bytes = |data| match data {
            Data::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::Form("data of a process")),
        };
        p.all().into_iter().map(bytes).collect()
    }

    fn read_group(form: GroupForm, p: &mut Packs) -> Result<Self, DecodeError> {
        let members = if form == GroupForm::Early { Vec::new() } else { p.many()? };
        let context = match form {
            GroupForm::Early | GroupForm::Usual => Some(p.number()?),
            GroupForm::Six | GroupForm::SixOne => {
                let has_context: u64 = p.number()?;
                match p.all().pop() {
                    Some(Data::Unsigned(context)) if has_context != 0 => Some(context),
                    _ => None,
                }
            }
        };
        Ok(Self::Group { members, context, form })
    }
}
