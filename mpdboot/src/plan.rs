//! Who starts whom: pure.
//!
//! As long as there are remote shells enough, every host gets one. Beyond that the hosts are cut into
//! groups of nearly one size, in their order: the first of a group is started from here and starts
//! the others, cutting them in the same way.

/// A host that waits for its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Which one.
    pub(crate) host: usize,
    /// It is started from here, and starts no other.
    pub(crate) alone: bool,
}

/// Hosts behind one remote shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The one that the remote shell goes to.
    pub(crate) head: usize,
    /// Those that it starts.
    pub(crate) carried: Vec<usize>,
}

/// Takes from `waiting` what `slots` further remote shells can start.
pub(crate) fn share(waiting: &mut Vec<Waiting>, slots: usize) -> Vec<Group> {
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
        // No lone one is left, or there would be no free slot.
        let hosts: Vec<usize> = waiting.drain(..).map(|one| one.host).collect();
        groups.extend(cut(&hosts, free));
    }
    groups
}

/// At most `parts` groups, none empty, whose sizes differ by at most one.
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
    fn with_shells_enough_everybody_gets_one() {
        let groups = share(&mut waiting(3), 32);
        assert_eq!(groups.iter().map(|g| g.head).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(groups.iter().all(|group| group.carried.is_empty()));
        assert_eq!(share(&mut waiting(0), 32), []);
        assert_eq!(share(&mut waiting(3), 0), []);
    }

    #[test]
    fn beyond_that_groups_cover_each_host_once_in_order_with_sizes_alike() {
        for (hosts, slots) in [(5, 2), (33, 32), (1000, 32), (7, 1), (8192, 32)] {
            let groups = share(&mut waiting(hosts), slots);
            assert_eq!(groups.len(), slots);
            let all: Vec<usize> =
                groups.iter().flat_map(|g| [vec![g.head], g.carried.clone()].concat()).collect();
            assert_eq!(all, (0..hosts).collect::<Vec<_>>());
            let sizes: Vec<usize> = groups.iter().map(|group| group.carried.len()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn lone_ones_come_first_and_wait_for_a_shell_of_their_own() {
        let mut waiting = waiting(4);
        waiting[1].alone = true;
        waiting[3].alone = true;
        let groups = share(&mut waiting, 1);
        assert_eq!(groups, [Group { head: 1, carried: vec![] }]);
        assert_eq!(waiting.iter().map(|w| w.host).collect::<Vec<_>>(), [0, 2, 3]);
        let groups = share(&mut waiting, 2);
        assert_eq!(groups[0], Group { head: 3, carried: vec![] });
        assert_eq!(groups[1], Group { head: 0, carried: vec![2] });
        assert!(waiting.is_empty());
    }
}
