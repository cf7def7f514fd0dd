//! The launchers whose command lines are understood, and the choice of one.

use mpd_placement::cpu::Cpu;

/// The names of programs of other launchers. `scripts/install --with-aliases` makes a link for each.
pub(super) const PROGRAMS: [(&str, Dialect); 13] = [
    ("mpiexec.hydra", Dialect::Hydra),
    ("mpirun.hydra", Dialect::Hydra),
    ("mpiexec.mpich", Dialect::Hydra),
    ("mpirun.mpich", Dialect::Hydra),
    ("mpiexec.openmpi", Dialect::OpenMpi4),
    ("mpirun.openmpi", Dialect::OpenMpi4),
    ("orterun", Dialect::OpenMpi4),
    ("prterun", Dialect::OpenMpi5),
    ("mpirun_rsh", Dialect::Mvapich),
    ("mpirun.lam", Dialect::Lam),
    ("mpiexec.lam", Dialect::Lam),
    ("mpdrun", Dialect::Mpd),
    ("mpiexec.mpd", Dialect::Mpd),
];

/// A launcher whose command lines are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    /// MPICH's `mpiexec.hydra`.
    Hydra,
    /// Intel MPI.
    Intel,
    /// Open MPI up to version 4.
    OpenMpi4,
    /// Open MPI 5 and PRRTE.
    OpenMpi5,
    /// MVAPICH's `mpirun_rsh`.
    Mvapich,
    /// Cray PALS.
    Pals,
    /// LAM/MPI.
    Lam,
    /// The original MPD.
    Mpd,
    /// Slurm's `srun`.
    Srun,
}

impl Dialect {
    /// All of them, in the order of the manual.
    pub(crate) const ALL: [Self; 9] = [
        Self::Hydra,
        Self::Intel,
        Self::OpenMpi4,
        Self::OpenMpi5,
        Self::Mvapich,
        Self::Pals,
        Self::Lam,
        Self::Mpd,
        Self::Srun,
    ];

    /// Its name for `-dialect`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hydra => "hydra",
            Self::Intel => "intel",
            Self::OpenMpi4 => "openmpi4",
            Self::OpenMpi5 => "openmpi5",
            Self::Mvapich => "mvapich",
            Self::Pals => "pals",
            Self::Lam => "lam",
            Self::Mpd => "mpd",
            Self::Srun => "srun",
        }
    }

    /// Its name for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Hydra => "MPICH (Hydra)",
            Self::Intel => "Intel MPI",
            Self::OpenMpi4 => "Open MPI 4",
            Self::OpenMpi5 => "Open MPI 5 (PRRTE)",
            Self::Mvapich => "MVAPICH (mpirun_rsh)",
            Self::Pals => "Cray PALS",
            Self::Lam => "LAM/MPI",
            Self::Mpd => "the original MPD",
            Self::Srun => "Slurm (srun)",
        }
    }

    /// The words of its `--version`, for which scripts search.
    pub(crate) const fn words_of_version(self) -> &'static str {
        match self {
            Self::Hydra => "HYDRA of MPICH",
            Self::OpenMpi4 => "OpenRTE of Open MPI",
            Self::OpenMpi5 => "PRRTE of Open MPI",
            _ => self.title(),
        }
    }

    /// The dialect of a name for `-dialect`; `Some(None)` for our own options.
    pub(crate) fn of_name(name: &str) -> Option<Option<Self>> {
        match name {
            "ours" => Some(None),
            "openmpi" => Some(Some(Self::OpenMpi5)),
            "mpich" => Some(Some(Self::Hydra)),
            _ => Self::ALL.into_iter().find(|dialect| dialect.name() == name).map(Some),
        }
    }

    /// The dialect of a program's name.
    pub(crate) fn of_program(name: &str) -> Option<Self> {
        PROGRAMS.into_iter().find(|(known, _)| *known == name).map(|(_, dialect)| dialect)
    }

    /// Whether it is a version of Open MPI.
    pub(crate) const fn is_open_mpi(self) -> bool {
        matches!(self, Self::OpenMpi4 | Self::OpenMpi5)
    }

    /// The first of these dialects.
    pub(crate) fn first_of(bits: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| bits & dialect.bit() != 0)
    }

    /// Its bit in a set of dialects.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Facts about the caller that a translation can need.
pub(crate) trait Facts: std::fmt::Debug {
    /// The value of a variable.
    fn variable(&self, name: &[u8]) -> Option<&[u8]>;
    /// The names of all variables that begin so.
    fn variables(&self, beginning: &[u8]) -> Vec<String>;
    /// The CPUs of this host.
    fn cpus(&self) -> Vec<Cpu>;
    /// Whether a program of this name is in the search path.
    fn has_program(&self, name: &str) -> bool;
    /// Whether a library of this name is in the search path of libraries.
    fn has_library(&self, name: &str) -> bool;
}

/// How options are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language<'a> {
    /// The chosen dialect; `None` for our own options.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) caller: &'a dyn Facts,
}
