//! The connect message of a client, its checks, and the answer.

use crate::encoding::Encoding;
use crate::error::ProtocolError;
use crate::limits::MAX_NAMESPACE;
use crate::status::Status;

/// The content of a connect message. A client may claim anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// The method by which the client proves its identity: `native` or `none`.
    pub security: Vec<u8>,
    /// The effective user and group; only with `native`.
    pub user: Option<(u32, u32)>,
    /// The role: 0 is a client, other numbers are tools and singletons.
    pub role: u8,
    /// The namespace of the client's job.
    pub namespace: Vec<u8>,
    /// The client's rank.
    pub rank: u32,
    /// The version of the client's library.
    pub version: Vec<u8>,
    /// The name of the client's encoding.
    pub encoding: Vec<u8>,
    /// The kind of the client's buffers: 1 is without, 2 with descriptions of the data.
    pub buffers: u8,
    /// The name of the client's store of data.
    pub store: Vec<u8>,
}

/// The server's facts about a client that may connect.
#[derive(Debug, Clone, Copy)]
pub struct Expectation<'a> {
    /// The namespace, which is the secret.
    pub namespace: &'a [u8],
    /// The user that the ranks run as.
    pub uid: u32,
    /// The user of the connection, if the system provides it.
    pub peer_uid: Option<u32>,
    /// Whether the rank was started here and still runs.
    pub is_running: bool,
    /// Whether the rank has an open connection.
    pub is_connected: bool,
}

/// The reason why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client is a tool or a singleton.
    #[error("it connects as a tool or singleton, which is not supported")]
    Role,
    /// The namespace is not that of the job.
    #[error("its namespace is not that of the job")]
    Namespace,
    /// The rank does not run here.
    #[error("no such rank runs here")]
    Rank,
    /// The client belongs to another user.
    #[error("it belongs to another user")]
    User,
    /// The client's method of proof is not supported.
    #[error("it requires a security module other than native and none")]
    Security,
    /// The rank has an open connection.
    #[error("its rank is connected already")]
    Connected,
    /// The client's encoding is unknown.
    #[error("its encoding is unknown")]
    Encoding,
    /// The client's buffers have descriptions of the data.
    #[error("it describes its data (PMIX_BFROP_BUFFER_TYPE), which is not supported")]
    Described,
}

impl Refusal {
    /// The status for the client.
    pub const fn status(self) -> Status {
        match self {
            Self::Role | Self::Security | Self::Encoding | Self::Described => Status::NOT_SUPPORTED,
            Self::Namespace | Self::Rank | Self::User => Status::INVALID_CRED,
            Self::Connected => Status::NO_PERMISSIONS,
        }
    }
}

impl Introduction {
    /// Reads the payload of a connect message. Bytes after the known fields are ignored.
    ///
    /// # Errors
    ///
    /// A field is missing or longer than allowed.
    pub fn read(payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(payload);
        let security = fields.text("its security module")?;
        let proof = usize::try_from(fields.u32()?).unwrap_or(usize::MAX);
        let proof = fields.take(proof, "its credential")?;
        let role = fields.byte()?;
        if role != 0 {
            // Tools and singletons send other fields. They are refused because of their role.
            let nothing = Vec::new;
            return Ok(Self {
                security,
                user: user(proof),
                role,
                namespace: nothing(),
                rank: 0,
                version: nothing(),
                encoding: nothing(),
                buffers: 0,
                store: nothing(),
            });
        }
        Ok(Self {
            security,
            user: user(proof),
            role,
            namespace: fields.text("its namespace")?,
            rank: fields.u32()?,
            version: fields.text("its version")?,
            encoding: fields.text("its encoding")?,
            buffers: fields.byte()?,
            store: fields.text("its store")?,
        })
    }

    /// Writes the payload of a connect message.
    pub fn write(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let text = |payload: &mut Vec<u8>, text: &[u8]| {
            payload.extend_from_slice(text);
            payload.push(0);
        };
        text(&mut payload, &self.security);
        match self.user {
            Some((uid, gid)) => {
                payload.extend_from_slice(&8_u32.to_be_bytes());
                payload.extend_from_slice(&uid.to_ne_bytes());
                payload.extend_from_slice(&gid.to_ne_bytes());
            }
            None => payload.extend_from_slice(&0_u32.to_be_bytes()),
        }
        payload.push(self.role);
        if self.role == 0 {
            text(&mut payload, &self.namespace);
            payload.extend_from_slice(&self.rank.to_be_bytes());
            text(&mut payload, &self.version);
            text(&mut payload, &self.encoding);
            payload.push(self.buffers);
            text(&mut payload, &self.store);
        }
        payload
    }

    /// The first three numbers of the version of the library.
    pub fn release(&self) -> [u32; 3] {
        let mut release = [0; 3];
        let numbers = self.version.split(|byte| !byte.is_ascii_digit()).map(|digits| {
            str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
        });
        release.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
        release
    }

    /// Decides whether this is the expected client. Returns its encoding.
    ///
    /// # Errors
    ///
    /// The reason of the refusal.
    pub fn check(&self, expected: &Expectation<'_>) -> Result<Encoding, Refusal> {
        if self.role != 0 {
            return Err(Refusal::Role);
        }
        if !equal_in_constant_time(&self.namespace, expected.namespace) {
            return Err(Refusal::Namespace);
        }
        if !expected.is_running {
            return Err(Refusal::Rank);
        }
        match (self.security.as_slice(), self.user) {
            (b"native", Some((uid, _))) if uid == expected.uid => {}
            (b"native", _) => return Err(Refusal::User),
            (b"none", _) => {}
            _ => return Err(Refusal::Security),
        }
        if expected.peer_uid.is_some_and(|uid| uid != expected.uid) {
            return Err(Refusal::User);
        }
        if expected.is_connected {
            return Err(Refusal::Connected);
        }
        if self.buffers != NOT_DESCRIBED {
            return Err(Refusal::Described);
        }
        Encoding::named(&self.encoding).ok_or(Refusal::Encoding)
    }
}

/// Buffers without descriptions of the data: the types follow from the protocol.
const NOT_DESCRIBED: u8 = 1;

/// The answer to a connect message.
pub(crate) fn answer(status: Status, index: u32) -> [u8; 8] {
    let mut answer = [0; 8];
    answer[..4].copy_from_slice(&status.0.to_be_bytes());
    answer[4..].copy_from_slice(&index.to_be_bytes());
    answer
}

/// Compares two texts. The time of the comparison does not depend on the number of equal bytes.
pub fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differing = left.iter().zip(right).fold(0, |sum, (left, right)| sum | (left ^ right));
    left.len() == right.len() && differing == 0
}

fn user(proof: &[u8]) -> Option<(u32, u32)> {
    let (uid, gid) = proof.split_first_chunk()?;
    let gid: [u8; 4] = gid.try_into().ok()?;
    Some((u32::from_ne_bytes(*uid), u32::from_ne_bytes(gid)))
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn text(&mut self, field: &'static str) -> Result<Vec<u8>, ProtocolError> {
        let most = &self.0[..self.0.len().min(MAX_NAMESPACE + 1)];
        let end = most.iter().position(|byte| *byte == 0).ok_or(ProtocolError::Handshake(field))?;
        let text = self.0[..end].to_vec();
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    fn take(&mut self, number: usize, field: &'static str) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) =
            self.0.split_at_checked(number).ok_or(ProtocolError::Handshake(field))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.take(1, "it ends too early")?[0])
    }

    fn u32(&mut self) -> Result<u32, ProtocolError> {
        let bytes = self.take(4, "it ends too early")?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}
