//! Real MPI libraries over the network of the rig.

use std::path::Path;
use std::time::{Duration, Instant};

use mpd_tests::surroundings::{setting, skip, tell};

use crate::jobs::booted;
use crate::rig::RigOptions;
use crate::run::{comes_true, sample};

/// The name, the variable with the directory of the programs, and the variable with that of the library.
const LIBRARIES: [(&str, &str, &str); 6] = [
    ("Debian's MPICH 4", "MPD_TEST_MPICH4_DIR", ""),
    ("MPICH 5", "MPD_TEST_MPICH5_DIR", "MPD_TEST_MPICH5_LIB"),
    ("Debian's Open MPI", "MPD_TEST_OMPI_DEBIAN_DIR", ""),
    ("Open MPI 4.1.8", "MPD_TEST_OMPI418_DIR", ""),
    ("Open MPI 5.0.8", "MPD_TEST_OMPI508_DIR", ""),
    ("Open MPI 5.0.11", "MPD_TEST_OMPI5011_DIR", ""),
];

/// Directories of this machine that the hosts must see, because each host has its own /tmp.
pub(crate) fn test_environment() -> Vec<String> {
    let directory = setting("MPD_TEST_MPICH4_DIR").or_else(|| setting("MPD_TEST_MPICH5_DIR"));
    let above = directory.as_deref().and_then(|d| Path::new(d).parent());
    above.map(|path| path.display().to_string()).into_iter().collect()
}

#[test]
fn ranks_of_real_mpi_libraries_compute_one_sum_across_hosts() {
    let (count, ranks) = sample((4, 8), (8, 64));
    let share = test_environment();
    if share.is_empty() {
        return skip("neither MPICH 4 nor MPICH 5 is there");
    }
    let options = RigOptions { hosts: Some(count), share, ..RigOptions::default() };
    let Some((rig, hosts)) = booted(options) else { return };
    for (name, directory, search_path) in LIBRARIES {
        let Some(directory) = setting(directory) else {
            skip(&format!("{name} is not there"));
            continue;
        };
        let program = Path::new(&directory).join("allreduce").display().to_string();
        let (size, each) = (ranks.to_string(), (ranks / count).to_string());
        let path = setting(search_path).unwrap_or_default();
        let begin = Instant::now();
        let mut arguments =
            vec!["-np", &size, "-ppn", &each, "-a", "x", "-genv", "FI_PROVIDER", "tcp"];
        if !path.is_empty() {
            arguments.extend(["-genv", "LD_LIBRARY_PATH", &path]);
        }
        arguments.push(&program);
        let mut job = rig.mpirun(&hosts[0], &arguments).deadline(200).start();
        job.shows(&format!("allreduce ok {ranks}\n"));
        let took = begin.elapsed().as_secs_f64();
        rig.figure(&format!("{name}: allreduce of {ranks} ranks: {took:.2} s"));
        // Debian's library, built on UCX, sometimes hangs in MPI_Finalize on several hosts, under any launcher.
        if !comes_true(Duration::from_secs(15), || job.has_ended()) && name == "Debian's MPICH 4" {
            tell(&format!("{name} hangs in MPI_Finalize, as it does under its own mpiexec"));
            rig.run(&hosts[1], &["mpdkilljob", "-a", "x"]);
            job.wait().failed();
        } else {
            job.wait().code(0);
        }
        rig.is_clean(name, &hosts);
    }
    rig.ends(&hosts[0]);
}
