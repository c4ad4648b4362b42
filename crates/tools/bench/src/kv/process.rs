//! The resources that the measuring process takes.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all threads since the process began, in ns.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of memory that belong to no file: DRAM in any case, where mapped files may be the medium.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    status("RssAnon:")
}

/// The most bytes that were resident at once, mapped files included, since [`forget_peak`].
pub(crate) fn peak_bytes() -> Option<u64> {
    status("VmHWM:")
}

/// Resets the peak to the memory that is resident now.
pub(crate) fn forget_peak() {
    // Where the kernel does not know this, the peak is that of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Bytes that the process had written to disks, or is going to: those of the page cache too. Files in
/// memory do not count.
pub(crate) fn disk_written_bytes() -> Option<u64> {
    io("write_bytes:")
}

/// Bytes that the process handed to calls of the kernel that write, to files in memory as well as to those on disks.
/// Stores through mappings of files are not among them.
pub(crate) fn call_written_bytes() -> Option<u64> {
    io("wchar:")
}

/// Calls of the kernel that read, and their bytes. What the process reads through mappings of files is not among them.
pub(crate) fn call_reads() -> Option<(u64, u64)> {
    io("syscr:").zip(io("rchar:"))
}

fn io(name: &str) -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_memory() {
        let (cpu, anonymous) = (cpu_ns(), anonymous_bytes().unwrap());
        let bytes: Vec<u8> = (0..32 << 20).map(|at| at as u8 | 1).collect();
        assert!(std::hint::black_box(&bytes).iter().all(|byte| *byte > 0));
        assert!(cpu_ns() > cpu);
        assert!(anonymous_bytes().unwrap() > anonymous + (16 << 20));
        assert!(peak_bytes().unwrap() >= 32 << 20);
    }
}
