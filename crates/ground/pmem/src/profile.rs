//! The costs of a medium, in figures; the emulation works with them.

use std::fmt;
use std::str::FromStr;

use crate::{Error, LINE, MEDIA_BLOCK, Result};

/// The figures of a medium that a pool behaves like: [`crate::PoolOptions::profile`].
///
/// A time is that of one operation that waits, measured by a program on an otherwise idle machine; a
/// bandwidth is that of all threads together. Parsed from a name of [`Profile::NAMES`], or from figures
/// such as `read=300,persist=150,read-bw=8GB,write-bw=2GB,block=256` (times in ns, bandwidths in B/s).
/// Figures that are not given are those of `dram`; `seq-read` is then `read`, and `same-line` is `persist`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// A dependent read of a random line, in ns.
    pub read_ns: u64,
    /// A dependent read of the line behind the last one, in ns: the mean over the lines of blocks,
    /// of which the first is read as any other and the rest from the device's buffer.
    pub sequential_read_ns: u64,
    /// A store to one line, its write-back and a fence, in ns.
    pub persist_ns: u64,
    /// The same, for the line that was persisted just before, in ns.
    pub same_line_ns: u64,
    /// Bytes of media blocks read in a second; [`Profile::UNLIMITED`] if as many as the machine can.
    pub read_bytes_per_s: u64,
    /// Bytes of media blocks written in a second, or [`Profile::UNLIMITED`].
    pub write_bytes_per_s: u64,
    /// The unit in which the medium reads and writes, in bytes: 64 or 256.
    pub block: u64,
}

const GB: u64 = 1_000_000_000;

impl Profile {
    /// The bandwidth that delays no operation.
    pub const UNLIMITED: u64 = u64::MAX;

    /// The named profiles.
    pub const NAMES: [&str; 8] =
        ["dram", "optane", "cxl", "nvm-2x", "nvm-8x", "pcm", "rram", "mram"];

    /// DRAM: 160 ns, the base of Arulraj's configurations ("How to Build a Non-Volatile Memory
    /// Database Management System"), which slow loads and write-backs alike, and no bandwidth.
    #[must_use]
    pub fn dram() -> Self {
        Self {
            name: "dram".to_owned(),
            read_ns: 160,
            sequential_read_ns: 160,
            persist_ns: 160,
            same_line_ns: 160,
            read_bytes_per_s: Self::UNLIMITED,
            write_bytes_per_s: Self::UNLIMITED,
            block: LINE,
        }
    }

    /// Optane persistent memory, first generation, six modules. Reads: 300 ns at random and 175 ns in
    /// sequence (Lersch, table 2.3). Peaks: 39.1 and 12.5 GB/s (van Renen, table 2). Persists: about
    /// 100 ns; the same line again about 8 times that, the factor that padding log entries to lines
    /// brings (van Renen §3.3).
    #[must_use]
    pub fn optane() -> Self {
        Self {
            name: "optane".to_owned(),
            read_ns: 300,
            sequential_read_ns: 175,
            persist_ns: 100,
            same_line_ns: 800,
            read_bytes_per_s: 39_100_000_000,
            write_bytes_per_s: 12_500_000_000,
            block: MEDIA_BLOCK,
        }
    }

    /// DRAM behind CXL, a link of eight lanes of PCIe 5.0. Not from the papers, which are older: 250 ns is
    /// the upper end of the load latencies that vendors and studies of such memory report (170 to 250 ns);
    /// a write-back is taken to be as long; 25 GB/s in each direction is the link's 32 GB/s less its
    /// framing.
    #[must_use]
    pub fn cxl() -> Self {
        Self {
            name: "cxl".to_owned(),
            read_ns: 250,
            sequential_read_ns: 250,
            persist_ns: 250,
            same_line_ns: 250,
            read_bytes_per_s: 25 * GB,
            write_bytes_per_s: 25 * GB,
            block: LINE,
        }
    }

    /// Returns a profile so many times slower than [`Profile::dram`], in latency: Arulraj's low (2: 320 ns) and high
    /// (8: 1280 ns) configurations of NVM.
    fn slower_than_dram(name: &str, factor: u64) -> Self {
        let dram = Self::dram();
        Self {
            name: name.to_owned(),
            read_ns: dram.read_ns * factor,
            sequential_read_ns: dram.sequential_read_ns * factor,
            persist_ns: dram.persist_ns * factor,
            same_line_ns: dram.same_line_ns * factor,
            ..dram
        }
    }

    /// A medium of Arulraj's table of devices: the latencies of a read and of a write alone, by lines.
    fn of_device(name: &str, (read_ns, persist_ns): (u64, u64)) -> Self {
        Self {
            name: name.to_owned(),
            read_ns,
            sequential_read_ns: read_ns,
            persist_ns,
            same_line_ns: persist_ns,
            ..Self::dram()
        }
    }

    /// The profile of a name, if it is one of [`Profile::NAMES`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "dram" => Some(Self::dram()),
            "optane" => Some(Self::optane()),
            "cxl" => Some(Self::cxl()),
            "nvm-2x" => Some(Self::slower_than_dram(name, 2)),
            "nvm-8x" => Some(Self::slower_than_dram(name, 8)),
            // Phase-change, resistive and magnetoresistive memory.
            "pcm" => Some(Self::of_device(name, (50, 150))),
            "rram" => Some(Self::of_device(name, (100, 100))),
            "mram" => Some(Self::of_device(name, (20, 20))),
            _ => None,
        }
    }

    /// Whether the figures make sense together.
    ///
    /// # Errors
    /// [`Error::Profile`].
    pub fn check(&self) -> Result<()> {
        /// Longer waits would be taken for hangs.
        const NS_MAX: u64 = 1_000_000;
        const BYTES_PER_S_MIN: u64 = 1_000_000;
        let wrong = |reason: String| Err(self.wrong(reason));
        for (key, ns) in [
            ("read", self.read_ns),
            ("seq-read", self.sequential_read_ns),
            ("persist", self.persist_ns),
            ("same-line", self.same_line_ns),
        ] {
            if !(1..=NS_MAX).contains(&ns) {
                return wrong(format!("{key} is {ns} ns, and must be from 1 to {NS_MAX}"));
            }
        }
        for (key, rate) in
            [("read-bw", self.read_bytes_per_s), ("write-bw", self.write_bytes_per_s)]
        {
            if rate < BYTES_PER_S_MIN {
                return wrong(format!("{key} is {rate} B/s, and must be at least 1MB"));
            }
        }
        if self.block != LINE && self.block != MEDIA_BLOCK {
            return wrong(format!("block is {}, and must be 64 or 256", self.block));
        }
        if self.sequential_read_ns > self.read_ns {
            return wrong("seq-read is longer than read".to_owned());
        }
        if self.same_line_ns < self.persist_ns {
            return wrong("same-line is shorter than persist".to_owned());
        }
        Ok(())
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Profile { profile: self.name.clone(), reason }
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(profile) = Self::named(text) {
            return Ok(profile);
        }
        let mut profile = Self { name: text.to_owned(), ..Self::dram() };
        let (mut sequential, mut same_line) = (None, None);
        for figure in text.split(',') {
            let Some((key, value)) = figure.split_once('=') else {
                return Err(profile.wrong(format!("{figure:?} is neither a name nor a figure")));
            };
            let number = || {
                let not = || profile.wrong(format!("{key} is {value:?}, which is no whole number"));
                value.parse::<u64>().map_err(|_| not())
            };
            let rate = || {
                let not = || profile.wrong(format!("{key} is {value:?}, which is no bandwidth"));
                bytes_per_s(value).ok_or_else(not)
            };
            match key {
                "read" => profile.read_ns = number()?,
                "seq-read" => sequential = Some(number()?),
                "persist" => profile.persist_ns = number()?,
                "same-line" => same_line = Some(number()?),
                "read-bw" => profile.read_bytes_per_s = rate()?,
                "write-bw" => profile.write_bytes_per_s = rate()?,
                "block" => profile.block = number()?,
                _ => return Err(profile.wrong(format!("there is no figure {key:?}"))),
            }
        }
        profile.sequential_read_ns = sequential.unwrap_or(profile.read_ns);
        profile.same_line_ns = same_line.unwrap_or(profile.persist_ns);
        profile.check()?;
        Ok(profile)
    }
}

/// `12.5GB`, `800MB`, `64KB` or a number of bytes.
fn bytes_per_s(text: &str) -> Option<u64> {
    let units = [("GB", GB), ("MB", 1_000_000), ("KB", 1_000)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text, 1));
    let rate = number.parse::<f64>().ok()? * unit as f64;
    (rate.is_finite() && rate >= 0.0).then_some(rate as u64)
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_profile_that_makes_sense() {
        for name in Profile::NAMES {
            let profile: Profile = name.parse().unwrap();
            assert_eq!(profile.name, name);
            profile.check().unwrap();
        }
        assert_eq!(Profile::named("nvm-8x").unwrap().read_ns, 1280);
        let pcm = Profile::named("pcm").unwrap();
        assert_eq!((pcm.read_ns, pcm.persist_ns), (50, 150));
    }

    #[test]
    fn figures_make_a_profile() {
        let profile: Profile =
            "read=300,persist=150,read-bw=8GB,write-bw=2.5GB,block=256".parse().unwrap();
        assert_eq!((profile.read_ns, profile.sequential_read_ns), (300, 300));
        assert_eq!((profile.persist_ns, profile.same_line_ns), (150, 150));
        assert_eq!((profile.read_bytes_per_s, profile.write_bytes_per_s), (8 * GB, 5 * GB / 2));
        assert_eq!(profile.block, 256);
        let profile: Profile = "read=90,seq-read=40".parse().unwrap();
        assert_eq!((profile.sequential_read_ns, profile.persist_ns), (40, 160));
    }

    #[test]
    fn nonsense_is_an_error_that_says_what_is_known() {
        for (text, says) in [
            ("", "neither"),
            ("flash", "dram, optane, cxl, nvm-2x, nvm-8x, pcm, rram, mram"),
            ("write=5", "no figure \"write\""),
            ("read=5,block=128", "64 or 256"),
            ("read-bw=0", "at least"),
            ("write-bw=0GB", "at least"),
            ("read-bw=-1", "no bandwidth"),
            ("read-bw=NaN", "no bandwidth"),
            ("read-bw=fast", "no bandwidth"),
            ("read=0", "from 1"),
            ("read=2000000", "from 1"),
            ("persist=1.5", "whole number"),
            ("read=100,seq-read=101", "longer"),
            ("persist=100,same-line=99", "shorter"),
        ] {
            let error = text.parse::<Profile>().unwrap_err();
            assert!(matches!(error, Error::Profile { .. }), "{error}");
            assert!(error.to_string().contains(says), "{text}: {error}");
            assert!(error.to_string().contains("read-bw"), "{text}: {error}");
        }
    }
}
