//! Status codes of PMIx.

/// The outcome of a request, or the code of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub i32);

impl Status {
    /// The request succeeded.
    pub const SUCCESS: Self = Self(0);
    /// An error without a code of its own.
    pub const ERROR: Self = Self(-1);
    /// A process ended abnormally.
    pub const PROC_ABORTED: Self = Self(-7);
    /// The name is published already.
    pub const EXISTS: Self = Self(-11);
    /// The claimed identity is wrong.
    pub const INVALID_CRED: Self = Self(-12);
    /// The message cannot be decoded.
    pub const UNPACK_FAILURE: Self = Self(-20);
    /// The request is not allowed.
    pub const NO_PERMISSIONS: Self = Self(-23);
    /// The time that the client gave is over.
    pub const TIMEOUT: Self = Self(-24);
    /// A parameter is invalid.
    pub const BAD_PARAM: Self = Self(-27);
    /// A limit is reached.
    pub const OUT_OF_RESOURCE: Self = Self(-29);
    /// The data do not exist.
    pub const NOT_FOUND: Self = Self(-46);
    /// The server does not support the request.
    pub const NOT_SUPPORTED: Self = Self(-47);
    /// Some members of a collective operation have ended.
    pub const PARTIAL_SUCCESS: Self = Self(-52);
    /// The connection of a process is lost.
    pub const LOST_CONNECTION: Self = Self(-61);
    /// All processes of a job ended.
    pub const JOB_TERMINATED: Self = Self(-145);
    /// The spawned job cannot be started.
    pub const FAILED_TO_LAUNCH: Self = Self(-181);
    /// The program to spawn does not exist.
    pub const EXE_NOT_FOUND: Self = Self(-190);
    /// A process ended without finalizing.
    pub const TERM_WO_SYNC: Self = Self(-200);
    /// A process was ended by a signal.
    pub const ABORTED_BY_SIGNAL: Self = Self(-402);
    /// Registers a handler for all codes without a handler of their own.
    pub const DEFAULT_HANDLER: Self = Self(i32::MIN);

    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}
