//! The connect message of a client, the checks of it, and the answer.

use crate::encoding::Encoding;
use crate::error::ProtocolError;
use crate::limits::MAX_NAMESPACE;
use crate::status::Status;

/// What a client says of itself when it connects. All of it is only claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// How it proves its identity: `native` or `none`.
    pub security: Vec<u8>,
    /// The effective user and group, with `native`.
    pub user: Option<(u32, u32)>,
    /// What it is: 0 a client, others tools and singletons.
    pub role: u8,
    /// The namespace of its job.
    pub namespace: Vec<u8>,
    /// Its rank.
    pub rank: u32,
    /// The version of its library.
    pub version: Vec<u8>,
    /// The name of its encoding.
    pub encoding: Vec<u8>,
    /// Whether its data are described: 1 no, 2 yes.
    pub buffers: u8,
    /// Its store of data.
    pub store: Vec<u8>,
}

/// What a server knows of the client that may connect.
#[derive(Debug, Clone, Copy)]
pub struct Expectation<'a> {
    /// The namespace, which is the secret.
    pub namespace: &'a [u8],
    /// The user that the ranks run as.
    pub uid: u32,
    /// The user of the connection, where the system says it.
    pub peer_uid: Option<u32>,
    /// Whether the server started the rank, and it runs.
    pub is_running: bool,
    /// Whether a connection of the rank is open.
    pub is_connected: bool,
}

/// Why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no client of an MPI job.
    #[error("it connects as a tool or singleton, which is not supported")]
    Role,
    /// The namespace is another.
    #[error("its namespace is not that of the job")]
    Namespace,
    /// The rank does not run here.
    #[error("no such rank runs here")]
    Rank,
    /// The user is another.
    #[error("it belongs to another user")]
    User,
    /// Its kind of proof is not offered.
    #[error("it wants a security module other than native and none")]
    Security,
    /// A connection of this rank is open.
    #[error("its rank is connected already")]
    Connected,
    /// Its encoding is not spoken.
    #[error("its encoding is unknown")]
    Encoding,
    /// Its data are described.
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
    /// Reads the payload of a connect message. What follows the known fields is ignored.
    ///
    /// # Errors
    ///
    /// A field is missing or longer than allowed.
    pub fn read(payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(payload);
        let security = fields.word("its security module")?;
        let proof = usize::try_from(fields.u32()?).unwrap_or(usize::MAX);
        let proof = fields.take(proof, "its credential")?;
        let role = fields.byte()?;
        if role != 0 {
            // Tools and singletons send other fields; they are refused by their role alone.
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
            namespace: fields.word("its namespace")?,
            rank: fields.u32()?,
            version: fields.word("its version")?,
            encoding: fields.word("its encoding")?,
            buffers: fields.byte()?,
            store: fields.word("its store")?,
        })
    }

    /// Writes the payload of a connect message.
    pub fn write(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let word = |payload: &mut Vec<u8>, word: &[u8]| {
            payload.extend_from_slice(word);
            payload.push(0);
        };
        word(&mut payload, &self.security);
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
            word(&mut payload, &self.namespace);
            payload.extend_from_slice(&self.rank.to_be_bytes());
            word(&mut payload, &self.version);
            word(&mut payload, &self.encoding);
            payload.push(self.buffers);
            word(&mut payload, &self.store);
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

    /// Decides whether this client is the expected one, and which encoding it speaks.
    ///
    /// # Errors
    ///
    /// Why it is refused.
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

/// Data whose types stand nowhere but where the protocol says so.
const NOT_DESCRIBED: u8 = 1;

/// The answer to a connect message.
pub(crate) fn answer(status: Status, index: u32) -> [u8; 8] {
    let mut answer = [0; 8];
    answer[..4].copy_from_slice(&status.0.to_be_bytes());
    answer[4..].copy_from_slice(&index.to_be_bytes());
    answer
}

/// The time of the comparison does not tell how many bytes of the secret are right.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
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
    fn word(&mut self, what: &'static str) -> Result<Vec<u8>, ProtocolError> {
        let most = &self.0[..self.0.len().min(MAX_NAMESPACE + 1)];
        let end = most.iter().position(|byte| *byte == 0).ok_or(ProtocolError::Handshake(what))?;
        let word = self.0[..end].to_vec();
        self.0 = &self.0[end + 1..];
        Ok(word)
    }

    fn take(&mut self, number: usize, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) =
            self.0.split_at_checked(number).ok_or(ProtocolError::Handshake(what))?;
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
