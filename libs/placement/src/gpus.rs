//! The GPUs of each rank: the local ranks use the GPUs of their host in turn.

/// The GPUs of a host, by the variables that select them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gpus {
    /// GPUs of NVIDIA.
    pub nvidia: u32,
    /// GPUs of other vendors.
    pub others: u32,
}

/// All variables that select GPUs.
pub const VARIABLES_OF_GPUS: [&str; 3] = [NVIDIA[0], OTHERS[0], OTHERS[1]];

/// The variables that select GPUs of NVIDIA, and those of others.
const NVIDIA: [&str; 1] = ["CUDA_VISIBLE_DEVICES"];
const OTHERS: [&str; 2] = ["ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"];

impl Gpus {
    /// The GPUs among names of devices: `nvidia0` in /dev, and `renderD128` in /dev/dri. Drivers of NVIDIA make both, so
    /// the second kind counts only without the first.
    pub fn of_devices<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for name in names {
            let is_numbered = |beginning: &str| {
                let number = name.strip_prefix(beginning);
                number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            };
            found.nvidia += u32::from(is_numbered("nvidia"));
            found.others += u32::from(is_numbered("renderD"));
        }
        if found.nvidia > 0 {
            found.others = 0;
        }
        found
    }

    /// So many GPUs of an unknown vendor: they have all variables.
    pub const fn of_number(number: u32) -> Self {
        Self { nvidia: number, others: number }
    }

    /// The number of GPUs.
    pub fn count(self) -> u32 {
        self.nvidia.max(self.others)
    }

    /// Whether so many ranks with `each` GPUs share some of them.
    pub fn are_shared(self, ranks: usize, each: u32) -> bool {
        ranks as u64 * u64::from(each) > u64::from(self.count())
    }

    /// The variables of a rank by its number on the host. No host may have no GPU.
    pub fn variables(self, local: usize, each: u32) -> Vec<(&'static str, String)> {
        let count = u64::from(self.count()).max(1);
        let first = local as u64 * u64::from(each);
        let mut chosen: Vec<u64> =
            (0..u64::from(each).min(count)).map(|i| (first + i) % count).collect();
        chosen.sort_unstable();
        let value = chosen.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let nvidia = NVIDIA.iter().filter(|_| self.nvidia > 0);
        let names = nvidia.chain(OTHERS.iter().filter(|_| self.others > 0));
        names.map(|&name| (name, value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gpus: Gpus, local: usize, each: u32) -> String {
        let texts = gpus.variables(local, each);
        texts.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn devices_are_counted_by_their_names() {
        let nvidia = ["null", "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "renderD128"];
        assert_eq!(Gpus::of_devices(nvidia), Gpus { nvidia: 2, others: 0 });
        let others = ["card0", "renderD128", "renderD129", "by-path"];
        assert_eq!(Gpus::of_devices(others), Gpus { nvidia: 0, others: 2 });
        assert_eq!(Gpus::of_devices(["null", "nvidia", "renderD"]).count(), 0);
    }

    #[test]
    fn local_ranks_get_gpus_in_turn() {
        let two = Gpus { nvidia: 2, others: 0 };
        assert_eq!(of(two, 0, 1), "CUDA_VISIBLE_DEVICES=0");
        assert_eq!(of(two, 3, 1), "CUDA_VISIBLE_DEVICES=1");
        assert_eq!(of(two, 1, 2), "CUDA_VISIBLE_DEVICES=0,1");
        let four = Gpus { nvidia: 0, others: 4 };
        assert_eq!(of(four, 1, 2), "ROCR_VISIBLE_DEVICES=2,3 ZE_AFFINITY_MASK=2,3");
        assert_eq!(of(four, 1, 3), "ROCR_VISIBLE_DEVICES=0,1,3 ZE_AFFINITY_MASK=0,1,3");
        assert_eq!(Gpus::of_number(4).variables(0, 9).len(), 3);
        assert!(of(Gpus::of_number(4), 0, 9).ends_with("ZE_AFFINITY_MASK=0,1,2,3"));
    }

    #[test]
    fn gpus_are_shared_if_there_are_too_few() {
        let four = Gpus { nvidia: 4, others: 0 };
        assert!(!four.are_shared(4, 1) && four.are_shared(5, 1) && four.are_shared(3, 2));
    }
}
