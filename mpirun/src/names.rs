/// Names of the installed program. The build script makes a link for each.
pub const NAMES: [&str; 4] = ["mpirun", "mpiexec", "mpdexec", "mpigdb"];
