//! The operating system's figures of the process and of its machine.

use std::fs;

/// Bytes of the process in memory, the pool's pages that it has touched included; 0 where the
/// operating system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|statm| {
        statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok())
    });
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Bytes of the process in memory that are no pages of a pool: its own, and its code as far as that may be; 0 where the
/// operating system does not tell.
pub(crate) fn program_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split_ascii_whitespace().map(|pages| pages.parse::<u64>().unwrap_or(0));
    // The size, the resident pages, those of files among them, and the code.
    let (Some(_), Some(resident), Some(of_files), Some(code)) =
        (pages.next(), pages.next(), pages.next(), pages.next())
    else {
        return 0;
    };
    (resident.saturating_sub(of_files) + code.min(of_files)) * rustix::param::page_size() as u64
}

/// Seconds in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuSeconds {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl CpuSeconds {
    /// Those of the process; 0 where the operating system does not tell.
    pub(crate) fn of_process() -> Self {
        Self::read("/proc/self/stat").unwrap_or_default()
    }

    /// Those of this thread.
    pub(crate) fn of_thread() -> Self {
        Self::read("/proc/thread-self/stat").unwrap_or_default()
    }

    fn read(path: &str) -> Option<Self> {
        let stat = fs::read_to_string(path).ok()?;
        // Behind the name, which may hold any character, utime and stime are the 12th and 13th fields.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / per_second);
        Some(Self { user: seconds()?, system: seconds()? })
    }
}

/// Bytes of memory that the machine has; 0 where the operating system does not tell.
pub(crate) fn machine_bytes() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The operating system's name and version, and the processor's architecture.
pub(crate) fn system() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/ostype");
    let name = name.unwrap_or_else(|_| std::env::consts::OS.to_owned());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", name.trim(), release.trim(), std::env::consts::ARCH)
}
