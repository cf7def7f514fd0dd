//! The memory of this process: what the allocator keeps, and pages that are there before they are needed.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::{io, ptr, slice};

/// Bytes of the heap and of the stack that [`prepare_memory`] touches: about as many as a manager of one rank uses.
const HEAP: usize = 80 << 10;
const STACK: usize = 48 << 10;

/// Most bytes of a block of the heap. Larger ones may be outside of it.
const BLOCK: usize = 16 << 10;

/// Returns free memory in the middle of the heap to the system, if the allocator supports it.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator's own function, which touches free memory alone.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Keeps large blocks out of the heap, if the allocator supports it: small blocks that live longer would keep their
/// memory from the system. By default glibc puts blocks of up to 32 MiB there after the first one was freed.
pub fn part_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 10);
    }
}

/// Maps the code of the program for this process, and touches some memory of heap and stack. A process that
/// does this while it waits is faster later: each page that it touches first would interrupt it.
pub fn prepare_memory() {
    // If the code cannot be mapped, the process only becomes slower.
    let _ = map_code();
    touch_stack();
    let blocks = [(); HEAP / BLOCK].map(|()| vec![1_u8; BLOCK]);
    black_box(blocks);
}

/// Maps the code and the constants of the program, and reads from disk what is not in memory. The linker may leave a hole
/// between the two, so each segment is mapped by a call of its own. Kernels before 5.14 refuse with `EINVAL`.
fn map_code() -> io::Result<()> {
    let mut result: io::Result<()> = Ok(());
    // SAFETY: the callback has the type that the loader expects, and `result` lives longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(map_segments), (&raw mut result).cast()) };
    result
}

/// Maps the read-only segments of the first object, which is the program. `result` is an [`io::Result`].
unsafe extern "C" fn map_segments(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    result: *mut c_void,
) -> c_int {
    const FIRST_ONLY: c_int = 1;
    // SAFETY: the loader passes the headers of a loaded object, and the pointer of `map_code`.
    let (info, result) = unsafe { (&*info, &mut *result.cast::<io::Result<()>>()) };
    // SAFETY: as above.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    // SAFETY: the call has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD) {
        let (Ok(at), Ok(bytes)) =
            (usize::try_from(info.dlpi_addr + header.p_vaddr), usize::try_from(header.p_memsz))
        else {
            continue;
        };
        if header.p_flags & libc::PF_W == 0 {
            let begin = at & !(page - 1);
            let bytes = at + bytes - begin;
            let place = ptr::with_exposed_provenance_mut(begin);
            // SAFETY: the call reads pages of this program, and changes no memory.
            if unsafe { libc::madvise(place, bytes, libc::MADV_POPULATE_READ) } != 0 {
                *result = Err(io::Error::last_os_error());
            }
        }
    }
    FIRST_ONLY
}

#[inline(never)]
fn touch_stack() {
    black_box([1_u8; STACK]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mapped and the present kibibytes of this program's code.
    fn code() -> (u64, u64) {
        let program = std::env::current_exe().unwrap();
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let lines = all.lines();
        let mut ours = lines.skip_while(|line| {
            !(line.contains("r-xp") && line.ends_with(program.to_str().unwrap()))
        });
        let mut of = |name| {
            let line = ours.find(|line: &&str| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        (of("Size:"), of("Rss:"))
    }

    #[test]
    fn all_code_is_there_before_it_is_needed() {
        match map_code() {
            // An old kernel.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return,
            result => result.unwrap(),
        }
        let (mapped, present) = code();
        // The end of the code and the end of its last page may differ by the tables of the linker.
        assert!(mapped - present < 64, "{present} KiB of {mapped}");
    }
}
