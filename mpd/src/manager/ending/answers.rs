//! Answers to the questions of the machine: system calls, and reads of `/proc`, control groups and `/dev/shm`.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, AsRawFd as _};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_ending::{Answer, FileKind, Killing, Question};
use mpd_io::clean_up::leftovers::{clocks, life, lifetime};
use mpd_io::clean_up::shm;
use mpd_io::clock;
use mpd_io::process::tree;
use mpd_wire::Pid;
use nix::unistd::getpgid;

use super::Ending;
use crate::manager::context::Common;
use crate::manager::ranks::Ranks;
use crate::manager::tokens::SHM_USERS;
use crate::users::Helper;
use mpd_io::process::identity::{number_of, process_of};

impl Ending {
    /// Answers a question. The ranks are lent.
    pub(in crate::manager) fn answer(
        &mut self,
        common: &Common,
        ranks: &mut Ranks,
        question: Question,
    ) -> Answer {
        match question {
            Question::Children => pids(tree::own_children()),
            Question::ChildrenOf(pid) => pids(tree::children(process_of(pid))),
            Question::Descendants => pids(tree::descendants()),
            Question::Signal(signal, target) => {
                let ways = common.node.ranks().ways(signal, &target).collect();
                Answer::Pids(ranks.signal(signal, ways))
            }

            Question::IsStill(pid, also_traced) => {
                Answer::Is(tree::is_still(process_of(pid), also_traced))
            }
            Question::Stop(pid) => Answer::Is(tree::stop(process_of(pid))),
            Question::Freeze => {
                let group = self.cgroup.as_ref();
                self.is_frozen = group.is_some_and(|group| group.freeze(true).is_ok());
                Answer::Is(self.is_frozen)
            }
            Question::IsFrozen => {
                Answer::Is(self.cgroup.as_ref().is_some_and(|group| group.is_frozen()))
            }
            Question::RemoveEmptyGroup => Answer::Is(self.remove_empty_group()),
            Question::StartHelper(kind, inodes) => {
                Answer::Is(self.start_helper(common, kind, &inodes))
            }

            Question::Members => {
                let members = self.cgroup.as_ref().and_then(|group| group.members().ok());
                Answer::Members(members.map(|pids| pids.into_iter().map(number_of).collect()))
            }
            Question::RankOf(pid, whole_group) => {
                let pid = process_of(pid);
                let leader = if whole_group { getpgid(Some(pid)).ok() } else { Some(pid) };
                let rank_of = |leader| common.node.ranks().of_pid(number_of(leader));
                Answer::Rank(leader.and_then(rank_of))
            }
            Question::Effect(pid, signal) => {
                let (takes, was_stopped) = tree::effect(process_of(pid), signal);
                Answer::Effect { takes, was_stopped }
            }
            Question::KillChildren(spared) => Answer::Killing(kill_children(&spared)),
            Question::Life(pid, begin, over) => {
                let pid = process_of(pid);
                let known = begin.map(|begin| life(pid, begin, over));
                Answer::Life(known.or_else(|| lifetime(pid, over)))
            }
            Question::Clocks => Answer::Clocks(clocks()),
            Question::ShmTime => Answer::ShmTime(shm::changed()),
            Question::ShmFiles => {
                let files = shm::list();
                Answer::ShmFiles(files, clock::wall() * 1000)
            }
        }
    }

    /// Removes the control group if it is empty. Whether that succeeded.
    fn remove_empty_group(&mut self) -> bool {
        let is_removed = self.cgroup.as_ref().is_some_and(|group| group.remove_empty().is_ok());
        if is_removed {
            self.cgroup = None;
        }
        is_removed
    }

    /// Starts a helper. Whether that succeeded.
    fn start_helper(&mut self, common: &Common, kind: FileKind, inodes: &[u64]) -> bool {
        self.helper = Helper::start(kind, inodes, common.null.as_fd())
            .and_then(|helper| {
                let fd = helper.as_raw_fd();
                let registry = common.poll.registry();
                registry.register(&mut SourceFd(&fd), Token(SHM_USERS), Interest::READABLE)?;
                Ok(helper)
            })
            .inspect_err(|e| log::warn!("cannot find the users of shared memory: {e:#}"))
            .ok();
        self.helper.is_some()
    }
}

fn pids(pids: impl IntoIterator<Item = nix::unistd::Pid>) -> Answer {
    Answer::Pids(pids.into_iter().map(number_of).collect())
}

fn kill_children(spared: &BTreeSet<Pid>) -> Killing {
    let tree::Killing { immune, found_any } =
        tree::kill_children(|pid| spared.contains(&number_of(pid)));
    Killing { immune: immune.into_iter().map(number_of).collect(), found_any }
}
