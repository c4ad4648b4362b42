//! The workloads by name: their records and their operations.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use super::distribution::Distribution;
use super::records::KeyForm;
use crate::Error;

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A get of a record that is there.
    Read,
    /// A put of a new version of a record that is there.
    Update,
    /// A put of a new record.
    Insert,
    /// A scan from a record that is there.
    Scan,
    /// A get, and then a put of a new version.
    ReadModifyWrite,
    /// A delete of a record.
    Delete,
}

/// All kinds, with the names that mixes and metrics use.
pub(crate) const KINDS: [(&str, Kind); 6] = [
    ("read", Kind::Read),
    ("update", Kind::Update),
    ("insert", Kind::Insert),
    ("scan", Kind::Scan),
    ("read-modify-write", Kind::ReadModifyWrite),
    ("delete", Kind::Delete),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| kind == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

/// Kinds of operations and how often each is done, in parts of their sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(Vec<(Kind, u32)>);

impl Mix {
    pub(crate) fn of(parts: &[(Kind, u32)]) -> Self {
        Self(parts.to_vec())
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, part)| u64::from(*part)).sum()
    }

    /// The next operation's kind.
    #[inline]
    pub(crate) fn choose(&self, random: &mut Rng) -> Kind {
        let mut left = if self.0.len() > 1 { random.u64(..self.sum()) } else { 0 };
        for (kind, part) in &self.0 {
            match left.checked_sub(u64::from(*part)) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        self.0[0].0
    }

    /// How much of all operations a kind is.
    pub(crate) fn share(&self, kind: Kind) -> f64 {
        let parts = self.0.iter().filter(|(of, _)| *of == kind).map(|(_, part)| f64::from(*part));
        parts.sum::<f64>() / self.sum() as f64
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.share(kind) > 0.0
    }
}

/// `read=95,update=5`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(kind, part)| format!("{kind}={part}")).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        for pair in text.split(',') {
            let (name, part) = pair.split_once('=').unwrap_or((pair, ""));
            let known = KINDS.iter().find(|(known, _)| *known == name);
            let Some((_, kind)) = known else {
                return Err(Error::unknown("operation", name, KINDS.iter().map(|(name, _)| *name)));
            };
            let wrong = || Error::Wrong {
                option: "--mix",
                why: format!("`{pair}` has no whole number; it is like read=95,update=5"),
            };
            parts.push((*kind, part.parse().map_err(|_| wrong())?));
        }
        let mix = Self(parts);
        if mix.sum() == 0 {
            let why = "all parts are 0; it is like read=95,update=5".to_owned();
            return Err(Error::Wrong { option: "--mix", why });
        }
        Ok(mix)
    }
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// YCSB core A: half reads, half updates.
    YcsbA,
    /// YCSB core B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB core C: reads.
    YcsbC,
    /// YCSB core D: 95 % reads of the latest, 5 % inserts.
    YcsbD,
    /// YCSB core E: 95 % short scans, 5 % inserts.
    YcsbE,
    /// YCSB core F: half reads, half read-modify-writes.
    YcsbF,
    /// `PiBench`: the mix and the distribution that the options say.
    PiBench,
    /// Puts of every record.
    Load,
    /// Puts of every record once more, in another order.
    Overwrite,
    /// Gets of records that are there.
    Get,
    /// Scans of 100 pairs.
    Scan,
    /// Opening after a close.
    Reopen,
    /// Opening after the process was killed.
    Kill,
}

const NAMES: [(&str, Workload); 13] = [
    ("a", Workload::YcsbA),
    ("b", Workload::YcsbB),
    ("c", Workload::YcsbC),
    ("d", Workload::YcsbD),
    ("e", Workload::YcsbE),
    ("f", Workload::YcsbF),
    ("pibench", Workload::PiBench),
    ("load", Workload::Load),
    ("overwrite", Workload::Overwrite),
    ("get", Workload::Get),
    ("scan", Workload::Scan),
    ("reopen", Workload::Reopen),
    ("kill", Workload::Kill),
];

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, workload)| *workload)
            .ok_or_else(|| Error::unknown("workload", name, NAMES.iter().map(|(known, _)| *known)))
    }
}

/// How long scans are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanLength {
    /// 1 to so many, all alike.
    UpTo(u64),
    /// Always so many.
    Always(u64),
}

impl ScanLength {
    pub(crate) fn next(self, random: &mut Rng) -> u64 {
        match self {
            Self::UpTo(most) => 1 + random.u64(..most),
            Self::Always(pairs) => pairs,
        }
    }
}

impl Workload {
    /// YCSB's core workloads, the default.
    pub const YCSB: [Self; 6] =
        [Self::YcsbA, Self::YcsbB, Self::YcsbC, Self::YcsbD, Self::YcsbE, Self::YcsbF];

    pub(crate) fn is_ycsb(self) -> bool {
        Self::YCSB.contains(&self)
    }

    /// The name of the experiment in rows.
    pub(crate) fn experiment(self) -> String {
        let name =
            NAMES.iter().find(|(_, workload)| *workload == self).map_or("", |(name, _)| name);
        if self.is_ycsb() { format!("kv.ycsb-{name}") } else { format!("kv.{name}") }
    }

    /// The operations on the loaded records, for a mix of operations; `pibench` is the mix of that workload.
    pub(crate) fn mix(self, pibench: &Mix) -> Option<Mix> {
        use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
        Some(match self {
            Self::YcsbA => Mix::of(&[(Read, 50), (Update, 50)]),
            Self::YcsbB => Mix::of(&[(Read, 95), (Update, 5)]),
            Self::YcsbC | Self::Get => Mix::of(&[(Read, 100)]),
            Self::YcsbD => Mix::of(&[(Read, 95), (Insert, 5)]),
            Self::YcsbE => Mix::of(&[(Scan, 95), (Insert, 5)]),
            Self::YcsbF => Mix::of(&[(Read, 50), (ReadModifyWrite, 50)]),
            Self::Scan => Mix::of(&[(Scan, 100)]),
            Self::PiBench => pibench.clone(),
            Self::Load | Self::Overwrite | Self::Reopen | Self::Kill => return None,
        })
    }

    /// The distribution, if the options do not say another.
    pub(crate) fn distribution(self) -> Distribution {
        match self {
            Self::YcsbD => Distribution::Latest,
            _ if self.is_ycsb() => Distribution::Zipfian,
            _ => Distribution::Uniform,
        }
    }

    pub(crate) fn scan_length(self) -> ScanLength {
        if self.is_ycsb() { ScanLength::UpTo(100) } else { ScanLength::Always(100) }
    }

    /// How keys are made, if the options do not say how long they are.
    pub(crate) fn key_form(self) -> KeyForm {
        match self {
            _ if self.is_ycsb() => KeyForm::User,
            Self::PiBench => KeyForm::Multiplicative { len: 8 },
            _ => KeyForm::Mixed { len: 16 },
        }
    }

    /// Bytes of a value, if the options do not say. YCSB's come of its fields.
    pub(crate) fn value_len(self) -> usize {
        if self == Self::PiBench { 8 } else { 100 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_drawn_in_its_proportions() {
        let mix: Mix = "read=70,update=20,scan=10".parse().unwrap();
        let mut random = Rng::with_seed(1);
        let drawn: Vec<_> = (0..100_000).map(|_| mix.choose(&mut random)).collect();
        for (_, kind) in KINDS {
            let found = drawn.iter().filter(|drawn| **drawn == kind).count() as f64 / 1e5;
            assert!((found - mix.share(kind)).abs() < 0.01, "{kind}: {found}");
        }
        assert_eq!(mix.to_string().parse::<Mix>().unwrap(), mix);
    }

    #[test]
    fn mixes_that_make_no_sense_are_refused() {
        for (text, part) in [
            ("read", "`read`"),
            ("read=x", "`read=x`"),
            ("read=0", "0"),
            ("raed=1", "read, update, insert, scan, read-modify-write, delete"),
            ("", "read, update"),
        ] {
            let error = text.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn workloads_have_the_names_of_their_experiments() {
        assert_eq!("a".parse::<Workload>().unwrap().experiment(), "kv.ycsb-a");
        assert_eq!("kill".parse::<Workload>().unwrap().experiment(), "kv.kill");
        let error = "g".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("a, b, c, d, e, f, pibench, load"), "{error}");
    }
}
