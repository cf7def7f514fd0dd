/// The names under which the program is installed. The build script makes them.
pub const NAMES: [&str; 4] = ["mpirun", "mpiexec", "mpdexec", "mpigdb"];
