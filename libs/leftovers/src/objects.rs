//! The decision whether a System V object belongs to the job.

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

/// A use of an object: the process and the time. The number of the process is 0 if there was no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The number of the process at that time.
    pub pid: u32,
    /// The time in seconds since 1970.
    pub at: u64,
}

/// The kernel's record of an object, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A segment.
    Memory {
        /// Its creation.
        made: Use,
        /// The present number of attachments.
        attached: u64,
    },
    /// A set.
    Semaphores {
        /// The last user of each semaphore, without 0; `None` if they could not be read.
        pids: Option<Vec<u32>>,
        /// The last use of the set.
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
    /// Its id among those of its kind.
    pub id: i32,
    /// Users: its owner and its creator.
    pub users: [u32; 2],
    /// The kernel's record.
    pub state: State,
}

impl Object {
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

/// The answer that an object is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub reason: Reason,
    /// Whether the kernel names a process whose number a process of the job had as well.
    pub is_doubtful: bool,
}

/// The reason why an object is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It belongs to another user.
    #[error("it belongs to another user")]
    OtherUser,
    /// It is older than the job.
    #[error("it existed before the job")]
    Older,
    /// It is in use.
    #[error("it is attached to a process")]
    Attached,
    /// The kernel records no use of it.
    #[error("no process has used it")]
    Unused,
    /// The last users of a set could not be read.
    #[error("its users cannot be determined")]
    Unknown,
    /// A process outside of the job made or used it.
    #[error("process {0}, which is not of the job, made or used it")]
    Stranger(u32),
    /// Another process had the number at that time.
    #[error("no process of the job had the number {0} when process {0} made or used it")]
    AnotherTime(u32),
    /// The wall clock was set, so times cannot be compared.
    #[error("the system's clock was set while the job ran")]
    ClockWasSet,
}

impl Known {
    /// Decides whether the job of user `uid` may remove this object. A segment is the job's if a
    /// process of the job made it. The kernel does not record the maker of a set or a queue. All last
    /// users of such an object must belong to the job. The latest of them must have been a process of
    /// the job at the time of its use.
    ///
    /// # Errors
    /// The reason why it is kept.
    pub fn judge(&self, object: &Object, uid: u32) -> Result<(), Kept> {
        let judgement = if object.users != [uid; 2] {
            Err(Reason::OtherUser)
        } else if self.existed(object) {
            Err(Reason::Older)
        } else {
            match &object.state {
                State::Memory { made, attached } => {
                    let is_free = if *attached == 0 { Ok(()) } else { Err(Reason::Attached) };
                    self.lifetimes.cover(*made, self.clock).and(is_free)
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
            let is_doubtful = object.pids().iter().any(|&pid| self.lifetimes.have(pid));
            Kept { reason, is_doubtful: is_doubtful && reason != Reason::OtherUser }
        })
    }

    /// Checks that all `uses` are by processes of the job, and that one of the `last` was by a process of the job at
    /// the time of the use.
    fn judge_uses(&self, uses: &[Use], last: &[Use]) -> Result<(), Reason> {
        if let Some(stranger) = uses.iter().find(|used| !self.lifetimes.have(used.pid)) {
            return Err(Reason::Stranger(stranger.pid));
        }
        let mut judgement = Err(Reason::Unused);
        for &used in last {
            judgement = self.lifetimes.cover(used, self.clock);
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
