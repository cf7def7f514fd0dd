//! Whose a System V object is.

use std::fmt;

use super::Known;

/// A kind of System V objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shared memory segments.
    Memory,
    /// Semaphore sets.
    Semaphores,
    /// Message queues.
    Messages,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "shared memory segment",
            Self::Semaphores => "semaphore set",
            Self::Messages => "message queue",
        })
    }
}

/// A use of an object: by which process, and in which second since 1970. The number is 0 if there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The number of the process then.
    pub pid: u32,
    /// When.
    pub at: u64,
}

/// What the kernel records of an object, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A segment.
    Memory {
        /// Its creation.
        made: Use,
        /// How many attachments it has now.
        attached: u64,
    },
    /// A set.
    Semaphores {
        /// The last user of each semaphore, without 0; none if they could not be asked.
        pids: Option<Vec<u32>>,
        /// When the set was last used.
        at: u64,
    },
    /// A queue.
    Messages {
        /// The last message that was sent.
        sent: Use,
        /// The last message that was received.
        received: Use,
    },
}

/// A System V object that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its number among those of its kind.
    pub id: i32,
    /// Users: its owner, and its creator.
    pub users: [u32; 2],
    /// The rest.
    pub state: State,
}

impl Object {
    /// Of which kind it is.
    pub const fn kind(&self) -> Kind {
        match self.state {
            State::Memory { .. } => Kind::Memory,
            State::Semaphores { .. } => Kind::Semaphores,
            State::Messages { .. } => Kind::Messages,
        }
    }

    /// The processes that the kernel names.
    fn pids(&self) -> Vec<u32> {
        match &self.state {
            State::Memory { made, .. } => vec![made.pid],
            State::Semaphores { pids, .. } => pids.clone().unwrap_or_default(),
            State::Messages { sent, received } => vec![sent.pid, received.pid],
        }
    }
}

/// An object is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Why.
    pub reason: Reason,
    /// Whether the kernel names a process whose number the job had, too.
    pub is_doubtful: bool,
}

/// Why an object is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Of another user.
    #[error("it belongs to another user")]
    OtherUser,
    /// It is older.
    #[error("it existed before the job")]
    Older,
    /// It is in use.
    #[error("it is attached to a process")]
    Attached,
    /// Nothing says whose it is.
    #[error("no process has used it")]
    Unused,
    /// It has too many members.
    #[error("its users cannot be determined")]
    Unknown,
    /// Somebody else made or used it.
    #[error("process {0}, which is not of the job, made or used it")]
    Stranger(u32),
    /// The number was another's then.
    #[error("no process of the job had the number {0} when process {0} made or used it")]
    AnotherTime(u32),
    /// No time can be compared.
    #[error("the system's clock was set while the job ran")]
    ClockWasSet,
}

impl Known {
    /// Whether the job may remove this object of user `uid`. A segment is the job's if a process of the job made
    /// it. The kernel does not record who made a set or a queue: one is the job's if all its last users are, and the
    /// last of them was a process of the job when it used it.
    ///
    /// # Errors
    /// Why it is kept.
    pub fn judge(&self, object: &Object, uid: u32) -> Result<(), Kept> {
        let judgement = if object.users != [uid; 2] {
            Err(Reason::OtherUser)
        } else if self.existed(object) {
            Err(Reason::Older)
        } else {
            match &object.state {
                State::Memory { made, attached } => {
                    let is_free = if *attached == 0 { Ok(()) } else { Err(Reason::Attached) };
                    self.lives.cover(*made, self.clock).and(is_free)
                }
                State::Semaphores { pids: None, .. } => Err(Reason::Unknown),
                State::Semaphores { pids: Some(pids), at } => {
                    let uses: Vec<Use> = pids.iter().map(|&pid| Use { pid, at: *at }).collect();
                    self.judge_uses(&uses, &uses)
                }
                State::Messages { sent, received } => {
                    let mut uses = vec![*sent, *received];
                    uses.retain(|used| used.pid != 0);
                    let last = uses.iter().map(|used| used.at).max();
                    let last: Vec<Use> =
                        uses.iter().copied().filter(|used| Some(used.at) == last).collect();
                    self.judge_uses(&uses, &last)
                }
            }
        };
        judgement.map_err(|reason| {
            let is_doubtful = object.pids().iter().any(|&pid| self.lives.have(pid));
            Kept { reason, is_doubtful: is_doubtful && reason != Reason::OtherUser }
        })
    }

    /// All `uses` are by processes of the job, and one that may be the `last` of them was at its time.
    fn judge_uses(&self, uses: &[Use], last: &[Use]) -> Result<(), Reason> {
        if let Some(stranger) = uses.iter().find(|used| !self.lives.have(used.pid)) {
            return Err(Reason::Stranger(stranger.pid));
        }
        let mut judgement = Err(Reason::Unused);
        for &used in last {
            judgement = self.lives.cover(used, self.clock);
            if judgement.is_ok() {
                break;
            }
        }
        judgement
    }

    fn existed(&self, object: &Object) -> bool {
        let ids = match object.kind() {
            Kind::Memory => &self.before.memory,
            Kind::Semaphores => &self.before.semaphores,
            Kind::Messages => &self.before.messages,
        };
        ids.contains(&object.id)
    }
}
