//! Decides which host starts which other hosts: pure.
//!
//! A remote shell may run the agents of many hosts *together*. Then the hosts form as few groups as possible.
//! Otherwise, if there are enough remote shells, every host gets one. Otherwise the hosts are cut into groups
//! of nearly equal size, in their order. The first host of a group is started from here. It starts
//! the other hosts of the group in the same manner.

/// A host that waits for its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Index of the host.
    pub(crate) host: usize,
    /// Whether the host is started from here and starts no others.
    pub(crate) alone: bool,
}

/// The hosts behind one remote shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The host of the remote shell.
    pub(crate) head: usize,
    /// The hosts that the head starts.
    pub(crate) carried: Vec<usize>,
}

/// Most hosts of one group whose agents run together. Their names fit the argument of a command.
const MAX_TOGETHER: usize = 2048;

/// Removes from `waiting` the hosts that `slots` further remote shells can start, and groups them.
pub(crate) fn share(waiting: &mut Vec<Waiting>, slots: usize, together: bool) -> Vec<Group> {
    let mut groups = Vec::new();
    waiting.retain(|one| {
        let taken = one.alone && groups.len() < slots;
        if taken {
            groups.push(Group { head: one.host, carried: Vec::new() });
        }
        !taken
    });
    let free = slots - groups.len();
    if free > 0 {
        // Only hosts without `alone` are left, because otherwise no slot would be free.
        let hosts: Vec<usize> = waiting.drain(..).map(|one| one.host).collect();
        let fewest = if together { hosts.len().div_ceil(MAX_TOGETHER) } else { free };
        groups.extend(cut(&hosts, fewest.min(free)));
    }
    groups
}

/// Cuts hosts into at most `parts` groups. No group is empty; the sizes differ by at most one.
fn cut(hosts: &[usize], parts: usize) -> Vec<Group> {
    let mut rest = hosts;
    let mut groups = Vec::new();
    for left in (1..=parts).rev() {
        let (group, behind) = rest.split_at(rest.len().div_ceil(left));
        rest = behind;
        if let Some((&head, carried)) = group.split_first() {
            groups.push(Group { head, carried: carried.to_vec() });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(hosts: usize) -> Vec<Waiting> {
        (0..hosts).map(|host| Waiting { host, alone: false }).collect()
    }

    #[test]
    fn with_enough_shells_every_host_gets_one() {
        let groups = share(&mut waiting(3), 32, false);
        assert_eq!(groups.iter().map(|g| g.head).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(groups.iter().all(|group| group.carried.is_empty()));
        assert_eq!(share(&mut waiting(0), 32, false), []);
        assert_eq!(share(&mut waiting(3), 0, false), []);
    }

    #[test]
    fn with_fewer_shells_groups_cover_each_host_once_in_order_with_similar_sizes() {
        for (hosts, slots) in [(5, 2), (33, 32), (1000, 32), (7, 1), (16_384, 32)] {
            let groups = share(&mut waiting(hosts), slots, false);
            assert_eq!(groups.len(), slots);
            let all: Vec<usize> =
                groups.iter().flat_map(|g| [vec![g.head], g.carried.clone()].concat()).collect();
            assert_eq!(all, (0..hosts).collect::<Vec<_>>());
            let sizes: Vec<usize> = groups.iter().map(|group| group.carried.len()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn hosts_whose_agents_run_together_form_few_groups() {
        let sizes = |hosts| -> Vec<usize> {
            let groups = share(&mut waiting(hosts), 32, true);
            groups.iter().map(|group| group.carried.len() + 1).collect()
        };
        assert_eq!(sizes(3), [3]);
        assert_eq!(sizes(2048), [2048]);
        assert_eq!(sizes(2049), [1025, 1024]);
        assert_eq!(sizes(16_384), [2048; 8]);
    }

    #[test]
    fn hosts_marked_alone_are_first_and_get_a_shell_of_their_own() {
        let mut waiting = waiting(4);
        waiting[1].alone = true;
        waiting[3].alone = true;
        let groups = share(&mut waiting, 1, false);
        assert_eq!(groups, [Group { head: 1, carried: vec![] }]);
        assert_eq!(waiting.iter().map(|w| w.host).collect::<Vec<_>>(), [0, 2, 3]);
        let groups = share(&mut waiting, 2, false);
        assert_eq!(groups[0], Group { head: 3, carried: vec![] });
        assert_eq!(groups[1], Group { head: 0, carried: vec![2] });
        assert!(waiting.is_empty());
    }
}
