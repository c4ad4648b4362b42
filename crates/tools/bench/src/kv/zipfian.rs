//! The zipfian distribution: item `i` of `n`, from 0, has a probability of 1 / (i + 1)^theta, scaled
//! to a sum of 1.
//!
//! Drawn as by Gray et al. ("Quickly generating billion-record synthetic databases", SIGMOD 1994),
//! as YCSB and `PiBench` do: the first two items are exact, the others follow an approximation of the
//! inverse by one power.

use fastrand::Rng;

/// A zipfian distribution over a number of items that may grow.
#[derive(Debug, Clone)]
pub(crate) struct Zipfian {
    theta: f64,
    items: u64,
    /// The sum of 1 / i^theta for i from 1 to `items`.
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `items`, at least 2; it takes time in proportion to them. `theta` is between 0 and 1.
    pub(crate) fn new(items: u64, theta: f64) -> Self {
        let mut zipfian = Self { theta, items: 0, zeta: 0.0, eta: 0.0 };
        zipfian.grow(items);
        zipfian
    }

    /// Over so many items that the sum is better known than computed.
    pub(crate) fn with_zeta(items: u64, theta: f64, zeta: f64) -> Self {
        let mut zipfian = Self { theta, items, zeta, eta: 0.0 };
        zipfian.set_eta();
        zipfian
    }

    /// More items.
    pub(crate) fn grow(&mut self, items: u64) {
        if items > self.items {
            let more = (self.items + 1..=items).map(|item| (item as f64).powf(-self.theta));
            self.zeta += more.sum::<f64>();
            self.items = items;
            self.set_eta();
        }
    }

    fn set_eta(&mut self) {
        let (items, theta) = (self.items as f64, self.theta);
        let zeta_2 = 1.0 + 0.5_f64.powf(theta);
        self.eta = (1.0 - (2.0 / items).powf(1.0 - theta)) / (1.0 - zeta_2 / self.zeta);
    }

    /// The next item; the first is the likeliest.
    #[inline]
    pub(crate) fn next(&self, random: &mut Rng) -> u64 {
        let fraction = random.f64();
        let scaled = fraction * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let power = (self.eta * fraction - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        ((self.items as f64 * power) as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_as_frequent_as_the_definition_says() {
        const DRAWS: u64 = 1_000_000;
        for (items, theta) in [(1000, 0.99), (1000, 0.5), (100_000, 0.99)] {
            let zipfian = Zipfian::new(items, theta);
            let mut random = Rng::with_seed(3);
            let mut drawn = vec![0_u64; items as usize];
            (0..DRAWS).for_each(|_| drawn[zipfian.next(&mut random) as usize] += 1);
            let weight = |item: u64| ((item + 1) as f64).powf(-theta);
            let zeta: f64 = (0..items).map(weight).sum();
            for first in [1, 2, 10, 100, 1000] {
                let expected: f64 = (0..first).map(weight).sum::<f64>() / zeta;
                let found = drawn[..first as usize].iter().sum::<u64>() as f64 / DRAWS as f64;
                // The approximation is a little off from the third item on.
                let off = if first <= 2 { 0.01 } else { 0.1 };
                assert!((found / expected - 1.0).abs() < off, "{first}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn growing_is_the_same_as_starting_large() {
        let mut grown = Zipfian::new(10, 0.99);
        grown.grow(5000);
        let large = Zipfian::new(5000, 0.99);
        assert!((grown.zeta / large.zeta - 1.0).abs() < 1e-9);
        assert!((grown.eta / large.eta - 1.0).abs() < 1e-9);
    }
}
