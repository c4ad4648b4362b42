//! Which record an operation is about.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use super::records::fnv_hash;
use super::zipfian::Zipfian;
use crate::Error;

/// How likely each record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipfian, the likely ones anywhere among the records.
    Zipfian,
    /// A part `h` of the records is met by 1 - `h` of the operations, and so is each such part in it
    /// (Gray et al.).
    SelfSimilar,
    /// Zipfian, the newest first.
    Latest,
}

const NAMES: [(&str, Distribution); 4] = [
    ("uniform", Distribution::Uniform),
    ("zipfian", Distribution::Zipfian),
    ("self-similar", Distribution::SelfSimilar),
    ("latest", Distribution::Latest),
];

impl Distribution {
    /// The default parameter: theta 0.99, or h 0.2.
    #[must_use]
    pub fn default_skew(self) -> f64 {
        if self == Self::SelfSimilar { 0.2 } else { 0.99 }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, distribution)| distribution == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, distribution)| *distribution).ok_or_else(|| {
            Error::unknown("distribution", name, NAMES.iter().map(|(known, _)| *known))
        })
    }
}

/// YCSB scrambles a zipfian distribution over this many items, for any number of records, so that new records do
/// not change which of them are likely.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// The sum of 1 / i^0.99 over them.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Draws records.
#[derive(Debug, Clone)]
pub(crate) enum Chooser {
    Uniform,
    /// Hashes of zipfian items, modulo the records there are and may come.
    Scrambled {
        zipfian: Zipfian,
        space: u64,
    },
    /// The first records are the likeliest; their keys lie anywhere.
    Zipfian(Zipfian),
    SelfSimilar {
        exponent: f64,
    },
    Latest(Zipfian),
}

impl Chooser {
    /// Creates the distribution of that many records, and new ones that may come. `ycsb` scrambles zipfian items as
    /// YCSB does.
    pub(crate) fn new(
        distribution: Distribution,
        skew: f64,
        records: u64,
        to_come: u64,
        ycsb: bool,
    ) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian if ycsb => {
                let zipfian = if skew == Distribution::Zipfian.default_skew() {
                    Zipfian::with_zeta(SCRAMBLED_ITEMS, skew, SCRAMBLED_ZETA)
                } else {
                    Zipfian::new(records.max(2), skew)
                };
                Self::Scrambled { zipfian, space: records + to_come }
            }
            Distribution::Zipfian => Self::Zipfian(Zipfian::new(records.max(2), skew)),
            Distribution::SelfSimilar => {
                Self::SelfSimilar { exponent: skew.ln() / (1.0 - skew).ln() }
            }
            Distribution::Latest => Self::Latest(Zipfian::new(records.max(2), skew)),
        }
    }

    /// The number of one of the `known` records, which become more while a workload inserts.
    #[inline]
    pub(crate) fn next(&mut self, random: &mut Rng, known: u64) -> u64 {
        match self {
            Self::Uniform => random.u64(..known),
            Self::Scrambled { zipfian, space } => loop {
                let number = fnv_hash(zipfian.next(random)) % *space;
                if number < known {
                    return number;
                }
            },
            Self::Zipfian(zipfian) => zipfian.next(random).min(known - 1),
            Self::SelfSimilar { exponent } => {
                ((known as f64 * random.f64().powf(*exponent)) as u64).min(known - 1)
            }
            Self::Latest(zipfian) => {
                zipfian.grow(known);
                known - 1 - zipfian.next(random).min(known - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn drawn(distribution: Distribution, ycsb: bool, records: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(distribution, distribution.default_skew(), records, 0, ycsb);
        let mut random = Rng::with_seed(5);
        let mut drawn = vec![0; records as usize];
        (0..DRAWS).for_each(|_| drawn[chooser.next(&mut random, records) as usize] += 1);
        drawn
    }

    fn share(drawn: &[u64]) -> f64 {
        drawn.iter().sum::<u64>() as f64 / DRAWS as f64
    }

    #[test]
    fn uniform_meets_all_records_alike() {
        let drawn = drawn(Distribution::Uniform, true, 1000);
        assert!(drawn.iter().all(|count| (250..600).contains(count)), "{drawn:?}");
    }

    #[test]
    fn a_fifth_of_the_records_gets_four_fifths_of_the_operations_and_so_on() {
        let drawn = drawn(Distribution::SelfSimilar, false, 10_000);
        assert!((share(&drawn[..2000]) - 0.8).abs() < 0.01);
        assert!((share(&drawn[..400]) - 0.64).abs() < 0.01);
        assert!((share(&drawn[..80]) - 0.512).abs() < 0.01);
    }

    #[test]
    fn latest_prefers_the_newest_as_a_zipfian_does_and_follows_inserts() {
        let newest_first: Vec<u64> =
            drawn(Distribution::Latest, true, 1000).into_iter().rev().collect();
        let zeta: f64 = (1..=1000).map(|item| f64::from(item).powf(-0.99)).sum();
        assert!((share(&newest_first[..1]) * zeta - 1.0).abs() < 0.02);
        assert!(share(&newest_first[..10]) > 0.3);

        let mut chooser = Chooser::new(Distribution::Latest, 0.99, 1000, 0, true);
        let mut random = Rng::with_seed(1);
        for known in 1000..3000 {
            assert!(chooser.next(&mut random, known) < known);
        }
        let newest = (0..1000).filter(|_| chooser.next(&mut random, 3000) == 2999).count();
        assert!(newest > 50, "{newest}");
    }

    #[test]
    fn scrambling_puts_the_likely_items_where_ycsb_does() {
        let drawn = drawn(Distribution::Zipfian, true, 1000);
        // The two likeliest of YCSB's ten billion items, exact by definition.
        for (item, weight) in [(0, 1.0), (1, 0.5_f64.powf(0.99))] {
            let place = (fnv_hash(item) % 1000) as usize;
            let expected = weight / SCRAMBLED_ZETA;
            let found = share(&drawn[place..=place]);
            // Other items share the place.
            assert!((expected * 0.97..expected + 0.01).contains(&found), "{found} {expected}");
        }
        assert!(drawn.iter().all(|count| *count > 0), "every record is met");
    }

    #[test]
    fn only_known_records_are_drawn_and_a_seed_repeats() {
        for (_, distribution) in NAMES {
            let chooser = Chooser::new(distribution, distribution.default_skew(), 100, 100, true);
            let draw = |seed| -> Vec<u64> {
                let (mut chooser, mut random) = (chooser.clone(), Rng::with_seed(seed));
                (100..200).map(|known| chooser.next(&mut random, known)).collect()
            };
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
            assert!(draw(1).iter().zip(100..).all(|(number, known)| *number < known));
        }
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for (name, distribution) in NAMES {
            assert_eq!(name.parse::<Distribution>().unwrap(), distribution);
            assert_eq!(distribution.to_string(), name);
        }
        let error = "gauss".parse::<Distribution>().unwrap_err().to_string();
        assert!(error.contains("uniform, zipfian, self-similar, latest"), "{error}");
    }
}
