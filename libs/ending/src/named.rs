//! Files in `/dev/shm` whose names prove their job.
//!
//! MPICH 5 keeps such files from `MPI_Init` to `MPI_Finalize`: `mpich_shm_ID_NODE` and `mpich_vci_ID_NODE`. ID is a hash of
//! the name of the world's key-value space, in hexadecimal digits (FNV-1a, 32 bits). That name is random, and only
//! the processes of the world know it. Tried with MPICH 5.0.2.

use std::collections::BTreeSet;

/// Most worlds of one job whose files are known by name. Those of further worlds are known by their users alone.
const MAX_WORLDS: usize = 1 << 16;

/// What precedes the hash in the names of files.
const KINDS: [&str; 2] = ["mpich_shm_", "mpich_vci_"];

/// The worlds of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named(BTreeSet<u32>);

impl Named {
    /// Adds the world with this key-value space.
    pub(crate) fn add(&mut self, kvsname: &str) {
        if self.0.len() < MAX_WORLDS {
            self.0.insert(hash(kvsname));
        }
    }

    /// Whether a file of this name is that of a world.
    pub(crate) fn has(&self, file: &str) -> bool {
        let rest = KINDS.iter().find_map(|kind| file.strip_prefix(kind));
        let Some((id, node)) = rest.and_then(|rest| rest.split_once('_')) else { return false };
        let is_number = !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit());
        // Only this form of the number is MPICH's.
        let id = u32::from_str_radix(id, 16).ok().filter(|number| format!("{number:x}") == id);
        is_number && id.is_some_and(|id| self.0.contains(&id))
    }
}

/// FNV-1a of 32 bits.
pub(crate) fn hash(text: &str) -> u32 {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_mpich_5_is_known_by_the_name_of_the_key_value_space() {
        let mut named = Named::default();
        assert!(!named.has("mpich_shm_3d316568_0"));
        // Seen with MPICH 5.0.2.
        named.add("kvs_97ead45a581e36db2e68b0833b6f68ad");
        assert!(named.has("mpich_shm_3d316568_0") && named.has("mpich_vci_3d316568_17"));
        for other in [
            "mpich_shm_3d316569_0",
            "mpich_shm_3d316568_",
            "mpich_shm_3d316568_x",
            "mpich_shm_03d316568_0",
            "mpich_shm_3D316568_0",
            "mpich_shm_3d316568",
            "mpich_foo_3d316568_0",
            "sem.mpich_shm_3d316568_0",
        ] {
            assert!(!named.has(other), "{other}");
        }
    }
}
