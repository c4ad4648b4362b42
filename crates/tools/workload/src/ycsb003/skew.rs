//! Which tuple a transaction is about.

use fastrand::Rng;

use super::permutation::Permutation;
use crate::{Error, Result};

/// How unevenly tuples are met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// A share of the transactions goes to a share of the tuples, and the others go to the other tuples. The hot tuples
    /// lie anywhere among the keys.
    Hot {
        /// The share of the transactions, in (0, 1].
        transactions: f64,
        /// The share of the tuples, in (0, 1].
        tuples: f64,
    },
    /// nstore's `simple_skew`: a draw z < alpha is about the key 10 z, rounded down; any other is about the key
    /// 10 + z (n - 10).
    ///
    /// So with alpha 0.1 the key 0 takes 10 % of the accesses, and the keys 1 to 9 and the lowest tenth of the others
    /// are never met. It is for runs beside nstore alone.
    Simple {
        /// alpha, in (0, 1].
        alpha: f64,
    },
}

impl Skew {
    /// Half of the transactions go to a fifth of the tuples.
    pub const LOW: Self = Self::Hot { transactions: 0.5, tuples: 0.2 };

    /// Nine tenths of the transactions go to a tenth of the tuples.
    pub const HIGH: Self = Self::Hot { transactions: 0.9, tuples: 0.1 };

    /// Checks the shares.
    ///
    /// # Errors
    /// [`Error::Skew`] if one is not in (0, 1].
    pub fn check(self) -> Result<()> {
        let shares = match self {
            Self::Hot { transactions, tuples } => [transactions, tuples],
            Self::Simple { alpha } => [alpha, alpha],
        };
        match shares.into_iter().find(|share| !(*share > 0.0 && *share <= 1.0)) {
            Some(found) => Err(Error::Skew { found }),
            None => Ok(()),
        }
    }
}

/// Draws tuples.
#[derive(Debug, Clone)]
pub struct TupleChooser {
    skew: Skew,
    tuples: u64,
    hot: u64,
    permutation: Permutation,
}

impl TupleChooser {
    /// A chooser among the tuples 0 to `tuples` - 1; the seed tells which are hot.
    ///
    /// # Errors
    /// As [`Skew::check`]; [`Error::Tuples`] if there are fewer than 11 tuples, or more than 2^60.
    pub fn new(skew: Skew, tuples: u64, seed: u64) -> Result<Self> {
        skew.check()?;
        if !(11..=1 << 60).contains(&tuples) {
            return Err(Error::Tuples { found: tuples });
        }
        let hot = match skew {
            Skew::Hot { tuples: share, .. } => ((tuples as f64 * share) as u64).clamp(1, tuples),
            Skew::Simple { .. } => 0,
        };
        Ok(Self { skew, tuples, hot, permutation: Permutation::new(tuples, seed) })
    }

    /// A tuple.
    #[must_use]
    pub fn next(&self, random: &mut Rng) -> u64 {
        match self.skew {
            Skew::Hot { transactions, .. } => {
                let is_hot = random.f64() < transactions || self.hot == self.tuples;
                let ranks = if is_hot { 0..self.hot } else { self.hot..self.tuples };
                self.permutation.of(random.u64(ranks))
            }
            Skew::Simple { alpha } => {
                let z = random.f64();
                match z < alpha {
                    true => (10.0 * z) as u64,
                    false => 10 + (z * (self.tuples - 10) as f64) as u64,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    fn drawn(skew: Skew, tuples: u64) -> Vec<u32> {
        let chooser = TupleChooser::new(skew, tuples, 3).unwrap();
        let mut random = Rng::with_seed(8);
        let mut drawn = vec![0; tuples as usize];
        (0..DRAWS).for_each(|_| drawn[chooser.next(&mut random) as usize] += 1);
        drawn
    }

    #[test]
    fn hot_tuples_take_their_share_and_lie_anywhere() {
        for (skew, tuples, share) in [(Skew::LOW, 200, 0.5), (Skew::HIGH, 100, 0.9)] {
            let drawn = drawn(skew, 1000);
            let mut sorted = drawn.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let hot: u32 = sorted[..tuples].iter().sum();
            let met = f64::from(hot) / f64::from(DRAWS);
            assert!((met - share).abs() < 0.02, "{met} instead of {share}");
            let limit = sorted[tuples - 1];
            let first: usize = drawn[..500].iter().filter(|count| **count >= limit).count();
            assert!(first > tuples / 3 && first < tuples * 2 / 3, "{first} of {tuples} hot ones");
        }
    }

    #[test]
    fn the_skew_of_nstore_is_as_it_is() {
        let drawn = drawn(Skew::Simple { alpha: 0.1 }, 1000);
        assert!(drawn[0].abs_diff(DRAWS / 10) < DRAWS / 100);
        assert!(drawn[1..10].iter().all(|count| *count == 0));
        assert!(drawn[10..109].iter().all(|count| *count == 0), "the lowest tenth is never met");
        assert!(drawn[200..].iter().all(|count| *count > 0));
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        for share in [0.0, -0.1, 1.1, f64::NAN] {
            let skew = Skew::Hot { transactions: 0.5, tuples: share };
            assert!(matches!(skew.check(), Err(Error::Skew { .. })));
            assert!(Skew::Simple { alpha: share }.check().is_err());
        }
        assert!(matches!(TupleChooser::new(Skew::LOW, 0, 1), Err(Error::Tuples { found: 0 })));
        assert!(Skew::Hot { transactions: 1.0, tuples: 1.0 }.check().is_ok());
    }
}
