//! Limits of the unfinished handshakes. Pure.
//!
//! A stranger can open connections and send nothing. Beyond the limits, a handshake chosen at random is dropped for
//! the newest one. A member finishes its handshake in milliseconds and is rarely hit. A silent connection is hit
//! sooner or later.

use std::net::IpAddr;

/// Most handshakes under way.
pub(crate) const MAX_UNDER_WAY: usize = 64;

/// Most handshakes under way from one address.
pub(crate) const MAX_PER_ADDRESS: usize = 8;

/// The handshake to drop before a connection from `from` is accepted; `under_way` has tokens and addresses.
pub(crate) fn evicted(
    under_way: &[(usize, IpAddr)],
    from: IpAddr,
    limit: usize,
    chance: u64,
) -> Option<usize> {
    let of_same: Vec<usize> =
        under_way.iter().filter(|(_, ip)| *ip == from).map(|(token, _)| *token).collect();
    if of_same.len() >= MAX_PER_ADDRESS {
        return pick(&of_same, chance);
    }
    if under_way.len() >= limit {
        let all: Vec<usize> = under_way.iter().map(|(token, _)| *token).collect();
        return pick(&all, chance);
    }
    None
}

fn pick(tokens: &[usize], chance: u64) -> Option<usize> {
    let count = u64::try_from(tokens.len()).ok().filter(|count| *count > 0)?;
    usize::try_from(chance % count).ok().map(|index| tokens[index])
}

/// The number of handshakes that may be under way if this process may have `descriptors` open. Strangers must not
/// use up the descriptors of jobs and members.
pub(crate) fn limit(descriptors: u64) -> usize {
    usize::try_from(descriptors / 4).unwrap_or(MAX_UNDER_WAY).clamp(2, MAX_UNDER_WAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn within_the_limits_every_connection_is_accepted() {
        let few: Vec<(usize, IpAddr)> = (0..7).map(|n| (n, ip(1))).collect();
        assert_eq!(evicted(&few, ip(1), 64, 5), None);
        assert_eq!(evicted(&[], ip(1), 64, 5), None);
    }

    #[test]
    fn a_flood_from_one_address_displaces_only_its_own_connections() {
        let mut many: Vec<(usize, IpAddr)> = (0..8).map(|n| (n, ip(1))).collect();
        many.push((99, ip(2)));
        for chance in 0..100 {
            assert!(evicted(&many, ip(1), 64, chance).is_some_and(|token| token != 99));
            assert_eq!(evicted(&many, ip(2), 64, chance), None);
        }
    }

    #[test]
    fn a_flood_from_everywhere_is_thinned_at_random() {
        let many: Vec<(usize, IpAddr)> =
            (0..64).map(|n| (n, ip(u8::try_from(n).unwrap()))).collect();
        let hit: std::collections::BTreeSet<usize> =
            (0..64).filter_map(|chance| evicted(&many, ip(200), 64, chance)).collect();
        assert_eq!(hit.len(), 64);
    }

    #[test]
    fn few_descriptors_mean_few_handshakes() {
        assert_eq!(limit(40), 10);
        assert_eq!(limit(4), 2);
        assert_eq!(limit(1 << 20), 64);
    }
}
