//! Host slices on the wire: a list for each field. A list of 10,000 host slices is then a quarter as long, so that one
//! scatter can carry it. The managers of most hosts have consecutive instances, and most hosts need no addresses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{HostSlice, HostSlices, MAX_ADDRESSES, MAX_HOST_SLICES};
use crate::bounded::at_most;
use crate::{Address, DaemonName, Instance, RankSet};

/// The host slices by field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Columns {
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    members: Vec<DaemonName>,
    /// Instances of managers, and how many hosts have this and the following ones.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    managers: Vec<(Instance, u32)>,
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    ranks: Vec<RankSet>,
    /// The hosts that have addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    addresses: Vec<Addressed>,
}

/// The addresses of the host slice at `at`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Addressed {
    at: u32,
    #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
    addresses: Vec<Address>,
}

/// The lists do not have one item for each host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} of the host slices do not fit the hosts")]
pub(super) struct InvalidColumns(&'static str);

impl From<HostSlices> for Columns {
    fn from(host_slices: HostSlices) -> Self {
        let mut columns = Self {
            members: Vec::with_capacity(host_slices.len()),
            managers: Vec::new(),
            ranks: Vec::with_capacity(host_slices.len()),
            addresses: Vec::new(),
        };
        for (at, host_slice) in (0..).zip(host_slices.iter()) {
            columns.members.push(host_slice.member.clone());
            columns.ranks.push(host_slice.ranks.clone());
            match columns.managers.last_mut() {
                Some((first, count)) if first.plus(*count) == host_slice.manager => *count += 1,
                _ => columns.managers.push((host_slice.manager, 1)),
            }
            if !host_slice.addresses.is_empty() {
                columns.addresses.push(Addressed { at, addresses: host_slice.addresses.clone() });
            }
        }
        columns
    }
}

impl TryFrom<Columns> for HostSlices {
    type Error = InvalidColumns;

    fn try_from(columns: Columns) -> Result<Self, InvalidColumns> {
        let Columns { members, managers, ranks, addresses } = columns;
        let count: u64 = managers.iter().map(|(_, count)| u64::from(*count)).sum();
        if count != members.len() as u64 {
            return Err(InvalidColumns("managers"));
        }
        if ranks.len() != members.len() {
            return Err(InvalidColumns("ranks"));
        }
        let instances =
            managers.into_iter().flat_map(|(first, count)| (0..count).map(move |n| first.plus(n)));
        let hosts = members.into_iter().zip(instances).zip(ranks);
        let mut list: Vec<HostSlice> = hosts
            .map(|((member, manager), ranks)| HostSlice {
                member,
                manager,
                addresses: Vec::new(),
                ranks,
            })
            .collect();
        for Addressed { at, addresses } in addresses {
            let host_slice = list.get_mut(at as usize).ok_or(InvalidColumns("addresses"))?;
            host_slice.addresses = addresses;
        }
        Ok(Self(Arc::new(list)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_slices(hosts: u32) -> HostSlices {
        let first = Instance::from_bytes([0xff; 16]);
        let host_slice = |host: u32| HostSlice {
            member: DaemonName::new(&format!("node-{host:05}")).unwrap(),
            manager: first.plus(host),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(host * 64, host * 64 + 63)]),
        };
        let mut list = HostSlices::new((0..hosts).map(host_slice).collect(), hosts * 64).unwrap();
        let address = Address::new("10.11.12.13:40001").unwrap();
        list.address(|_| Some(vec![address.clone()]));
        list
    }

    #[test]
    fn host_slices_are_read_back_as_they_were_written() {
        let mut list = host_slices(40);
        let odd = HostSlice {
            member: DaemonName::new("late").unwrap(),
            manager: Instance::from_bytes([7; 16]),
            addresses: vec![Address::new("10.0.0.9:1").unwrap()],
            ranks: RankSet::none(),
        };
        list.extend(vec![odd]).unwrap();
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<HostSlices>(&text).unwrap(), list);
        assert!(text.contains(r#"["07070707070707070707070707070707",1]"#), "{text}");
    }

    #[test]
    fn lists_of_unequal_lengths_are_refused() {
        let managers = r#"[["00000000000000000000000000000001",2]]"#;
        let good = format!(r#"{{"members":["a","b"],"managers":{managers},"ranks":["0","1"]}}"#);
        assert_eq!(serde_json::from_str::<HostSlices>(&good).unwrap().len(), 2);
        let bad = [
            (r#""members":["a","b"]"#, r#""members":["a"]"#, "managers"),
            (r#","ranks":["0","1"]"#, r#","ranks":["0"]"#, "ranks"),
            (
                r#""ranks":["0","1"]"#,
                r#""ranks":["0","1"],"addresses":[{"at":2,"addresses":[]}]"#,
                "addresses",
            ),
            (",2]]", ",4294967295]]", "managers"),
        ];
        for (from, to, what) in bad {
            let problem = serde_json::from_str::<HostSlices>(&good.replace(from, to)).unwrap_err();
            assert!(problem.to_string().contains(what), "{to}: {problem}");
        }
    }

    #[test]
    fn a_scatter_can_carry_a_job_on_all_hosts_of_the_largest_ring() {
        let hosts = u32::try_from(MAX_HOST_SLICES).unwrap();
        let bytes = serde_json::to_vec(&host_slices(hosts)).unwrap().len();
        // The rest of the order takes less than 4 KiB, unless the path of the directory is long.
        assert!(bytes + 4096 < 512 * 1024, "{bytes} bytes");
    }
}
