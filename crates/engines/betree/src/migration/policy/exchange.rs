//! The exchange of data between neighbouring tiers.

use std::cmp::Ordering;

use super::{Move, Tier, Unit};

/// How many times as hot a unit has to be as those that make room for it: otherwise two that are about as hot would
/// change places for ever.
const HYSTERESIS: f64 = 2.0;

/// Uses below which a unit is not moved to a faster tier.
const USES_MIN: f64 = 2.0;

/// Units of a slower tier for which there is no room, after which the exchange ends: those behind them are no hotter.
const MISSES_MAX: usize = 64;

/// A step: moves that are done together, or not at all.
pub(super) struct Step<'a> {
    pub(super) moves: &'a [Move],
    /// Whether it is for a tier that is above its limit.
    pub(super) is_overfull: bool,
}

/// The state of an exchange, as it is planned.
struct Exchange<'a> {
    tiers: Vec<Tier>,
    units: &'a [Unit],
    has_moved: Vec<bool>,
    budget: u64,
    moves: Vec<Move>,
}

/// The moves of a round. `judge` says of each step whether it is to be done.
pub(super) fn exchange(
    tiers: &[Tier],
    units: &[Unit],
    budget: u64,
    judge: &mut dyn FnMut(&Step<'_>) -> bool,
) -> Vec<Move> {
    let has_moved = vec![false; units.len()];
    let mut all = Exchange { tiers: tiers.to_vec(), units, has_moved, budget, moves: Vec::new() };
    for fast in 0..tiers.len().saturating_sub(1) {
        let mut cold = all.of(fast);
        cold.retain(|unit| units[*unit].frees);
        let mut coldest = cold.as_slice();
        while all.tiers[fast].taken > all.tiers[fast].limit
            && let [unit, behind @ ..] = coldest
        {
            let moves = [Move { unit: *unit, to: fast + 1 }];
            if !all.fits(&moves) || !judge(&Step { moves: &moves, is_overfull: true }) {
                break;
            }
            all.apply(&moves);
            coldest = behind;
        }
        let mut misses = 0;
        for unit in all.of(fast + 1).into_iter().rev() {
            let hot = &units[unit];
            if hot.hotness < USES_MIN {
                continue;
            }
            let mut moves = vec![Move { unit, to: fast }];
            let room = all.tiers[fast].limit.saturating_sub(all.tiers[fast].taken);
            let mut lacks = hot.bytes.saturating_sub(room);
            let mut making = coldest;
            while lacks > 0
                && let [unit, behind @ ..] = making
                && units[*unit].density() * HYSTERESIS <= hot.density()
            {
                lacks = lacks.saturating_sub(units[*unit].bytes);
                moves.push(Move { unit: *unit, to: fast + 1 });
                making = behind;
            }
            if lacks == 0 && all.fits(&moves) && judge(&Step { moves: &moves, is_overfull: false })
            {
                all.apply(&moves);
                coldest = making;
                continue;
            }
            misses += 1;
            if misses == MISSES_MAX {
                break;
            }
        }
    }
    all.moves
}

impl Exchange<'_> {
    /// The units of a tier that have not moved, the coldest first; of those that are as cold, the longest.
    fn of(&self, tier: usize) -> Vec<usize> {
        let is_there = |unit: &usize| self.units[*unit].tier == tier && !self.has_moved[*unit];
        let mut all: Vec<usize> = (0..self.units.len()).filter(is_there).collect();
        all.sort_by(|a, b| {
            let (one, other) = (&self.units[*a], &self.units[*b]);
            let by_heat = one.density().partial_cmp(&other.density()).unwrap_or(Ordering::Equal);
            by_heat.then(other.bytes.cmp(&one.bytes))
        });
        all
    }

    /// Whether moves are within the budget, and no tier is above its limit behind them that was not before.
    fn fits(&self, moves: &[Move]) -> bool {
        let mut tiers = self.tiers.clone();
        let mut bytes = 0;
        for one in moves {
            bytes += self.units[one.unit].bytes;
            move_bytes(&mut tiers, self.units, *one);
        }
        let mut all = tiers.iter().zip(&self.tiers);
        bytes <= self.budget && all.all(|(to, from)| to.taken <= to.limit.max(from.taken))
    }

    fn apply(&mut self, moves: &[Move]) {
        for one in moves {
            move_bytes(&mut self.tiers, self.units, *one);
            self.budget -= self.units[one.unit].bytes;
            self.has_moved[one.unit] = true;
            self.moves.push(*one);
        }
    }
}

fn move_bytes(tiers: &mut [Tier], units: &[Unit], one: Move) {
    let unit = &units[one.unit];
    tiers[one.to].taken += unit.bytes;
    if unit.frees {
        tiers[unit.tier].taken = tiers[unit.tier].taken.saturating_sub(unit.bytes);
    }
}
