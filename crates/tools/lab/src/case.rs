//! A case: the numbers from which one crash is reproduced.

use std::fmt;
use std::str::FromStr;

use crate::Rules;

/// One crash of a history, with the crashes of the recoveries after it. Its text is the argument of
/// `halite lab crash --replay`: `memory:1f2e3d:120.3/8.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The rules of persistency.
    pub rules: Rules,
    /// The seed of the history.
    pub seed: u64,
    /// The schedule, if the history is concurrent.
    pub schedule: Option<u32>,
    /// The crashes, the first one first.
    pub crashes: Vec<Crash>,
}

/// A power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The event of the run before which the power is cut.
    pub point: u32,
    /// Which of the images that it may leave.
    pub image: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.rules.name(), self.seed)?;
        if let Some(schedule) = self.schedule {
            write!(f, ".{schedule}")?;
        }
        for (depth, crash) in self.crashes.iter().enumerate() {
            let separator = if depth == 0 { ':' } else { '/' };
            write!(f, "{separator}{}.{}", crash.point, crash.image)?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a case; one looks like `memory:1f2e3d:120.3/8.1`");
        let mut parts = text.splitn(3, ':');
        let rules = parts.next().and_then(Rules::named).ok_or_else(wrong)?;
        let history = parts.next().ok_or_else(wrong)?;
        let (seed, schedule) = match history.split_once('.') {
            Some((seed, schedule)) => (seed, Some(schedule.parse().map_err(|_| wrong())?)),
            None => (history, None),
        };
        let seed = u64::from_str_radix(seed, 16).map_err(|_| wrong())?;
        let crashes = parts.next().map_or(Ok(Vec::new()), |crashes| {
            let crash = |text: &str| {
                let (point, image) = text.split_once('.')?;
                Some(Crash { point: point.parse().ok()?, image: image.parse().ok()? })
            };
            crashes.split('/').map(|text| crash(text).ok_or_else(wrong)).collect()
        })?;
        Ok(Self { rules, seed, schedule, crashes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_back() {
        for text in
            ["memory:0:", "memory:zz", "memory", "soup:1:2.3", "memory:1:2.3/4", "memory:1.x:2.3"]
        {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
        for text in ["memory:1f:12.0/3.7/0.1", "page-cache:0:1.2", "platform:5", "memory:a.4:0.1"] {
            assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
        }
    }
}
