//! Files of programs, which `mpirun -dry-run` reads.

use mpirun::linked::elf::{self, Elf};

/// Any bytes are an ELF file or are refused; names are not empty and come from the file.
pub(crate) fn elf(data: &[u8]) {
    let marks: [&[u8]; 2] = [b"I_MPI_", b"ompi_mpi_"];
    let Some(Elf::Dynamic(parts)) = elf::read(data, &marks) else { return };
    assert!(parts.needed.len() <= 256 && parts.marks < 4);
    let in_file = |name: &[u8]| data.windows(name.len()).any(|part| part == name);
    assert!(parts.needed.iter().all(|name| !name.is_empty() && in_file(name)));
}
