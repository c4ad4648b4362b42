//! Which transactions a terminal runs, and how often (§5.2.3).

use std::fmt;

use fastrand::Rng;

use crate::{Error, Result};

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A customer orders items (§2.4).
    NewOrder,
    /// A customer pays (§2.5).
    Payment,
    /// A customer asks for the last order (§2.6).
    OrderStatus,
    /// The oldest order of each district is delivered (§2.7).
    Delivery,
    /// The items of the newest orders whose stock is low are counted (§2.8).
    StockLevel,
}

impl Kind {
    /// All, in the order of the specification.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["new-order", "payment", "order-status", "delivery", "stock-level"][self as usize]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How the next transaction is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// From a shuffled deck of cards, so that each deck has the shares exactly (§5.2.4.2).
    #[default]
    Deck,
    /// By chance, each time anew.
    Weighted,
}

/// The shares of the transactions, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    percent: [u32; 5],
}

impl Default for Mix {
    /// 45, 43, 4, 4, 4: the most New-Order transactions that the specification permits.
    fn default() -> Self {
        Self { percent: [45, 43, 4, 4, 4] }
    }
}

impl Mix {
    /// The shares in the order of [`Kind::ALL`].
    ///
    /// # Errors
    /// [`Error::MixSum`] if their sum is not 100.
    pub fn new(percent: [u32; 5]) -> Result<Self> {
        let sum = percent.iter().map(|share| u64::from(*share)).sum();
        if sum != 100 {
            return Err(Error::MixSum { sum });
        }
        Ok(Self { percent })
    }

    /// The shares, in percent.
    #[must_use]
    pub fn percent(&self) -> [u32; 5] {
        self.percent
    }

    /// Whether the shares are within the limits of §5.2.3: at least 43 % Payment, and 4 % of each other but New-Order.
    #[must_use]
    pub fn is_permitted(&self) -> bool {
        let min = [0, 43, 4, 4, 4];
        self.percent.iter().zip(min).all(|(share, min)| *share >= min)
    }

    /// The share of the transaction at a place among a hundred.
    fn at(&self, mut place: u32) -> Kind {
        for (kind, share) in Kind::ALL.into_iter().zip(self.percent) {
            if place < share {
                return kind;
            }
            place -= share;
        }
        unreachable!("the shares add up to 100")
    }
}

/// Chooses one terminal's transactions.
#[derive(Debug)]
pub struct Chooser {
    mix: Mix,
    choice: Choice,
    deck: Vec<Kind>,
}

impl Chooser {
    /// A chooser of transactions with these shares.
    #[must_use]
    pub fn new(mix: Mix, choice: Choice) -> Self {
        Self { mix, choice, deck: Vec::new() }
    }

    /// The next transaction.
    pub fn next(&mut self, random: &mut Rng) -> Kind {
        if self.choice == Choice::Weighted {
            return self.mix.at(random.u32(..100));
        }
        if self.deck.is_empty() {
            self.deck.extend((0..100).map(|place| self.mix.at(place)));
            random.shuffle(&mut self.deck);
        }
        self.deck.pop().expect("a deck has a hundred cards")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(choice: Choice, draws: u32) -> [u32; 5] {
        let mut random = Rng::with_seed(4);
        let mut chooser = Chooser::new(Mix::default(), choice);
        let mut counts = [0; 5];
        (0..draws).for_each(|_| counts[chooser.next(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn each_deck_has_the_shares_exactly() {
        assert_eq!(counts(Choice::Deck, 100), [45, 43, 4, 4, 4]);
        assert_eq!(counts(Choice::Deck, 500), [225, 215, 20, 20, 20]);
    }

    #[test]
    fn chance_has_the_shares_in_the_long_run() {
        for (count, share) in counts(Choice::Weighted, 100_000).into_iter().zip([45, 43, 4, 4, 4]) {
            assert!(count.abs_diff(share * 1000) < 600, "{count} instead of {share} %");
        }
    }

    #[test]
    fn shares_that_do_not_add_up_are_refused() {
        assert!(matches!(Mix::new([45, 43, 4, 4, 5]), Err(Error::MixSum { sum: 101 })));
        assert!(matches!(Mix::new([u32::MAX; 5]), Err(Error::MixSum { .. })));
        assert!(Mix::default().is_permitted());
        assert!(!Mix::new([100, 0, 0, 0, 0]).unwrap().is_permitted());
    }
}
