//! Least frequently used, with ageing: density of decayed uses decides, a use a byte.
//!
//! Haura promotes what was used often up to a fixed size; here a unit has to be worth its bytes, which is the greedy
//! order of the knapsack problem that a fast class poses.

use super::exchange::exchange;
use super::{MigrationPolicy, Move, Tier, Unit};

/// The policy.
#[derive(Default)]
pub(in crate::migration) struct Lfu;

impl MigrationPolicy for Lfu {
    fn plan(&mut self, tiers: &[Tier], units: &[Unit], budget: u64) -> Vec<Move> {
        exchange(tiers, units, budget, &mut |_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(capacity: u64, taken: u64) -> Tier {
        Tier { taken, limit: capacity }
    }

    fn unit(tier: usize, hotness: f64) -> Unit {
        Unit { tier, bytes: 10, hotness, frees: true }
    }

    fn plan(tiers: &[Tier], units: &[Unit], budget: u64) -> Vec<(usize, usize)> {
        let mut moves = Lfu.plan(tiers, units, budget);
        moves.sort_by_key(|one| one.unit);
        moves.into_iter().map(|one| (one.unit, one.to)).collect()
    }

    #[test]
    fn the_hottest_come_up_while_there_is_room_and_the_coldest_go_down_when_there_is_none() {
        let tiers = [tier(20, 0), tier(100, 40)];
        let units = [unit(1, 5.0), unit(1, 9.0), unit(1, 1.0), unit(1, 7.0)];
        assert_eq!(plan(&tiers, &units, 100), [(1, 0), (3, 0)]);
        assert_eq!(plan(&tiers, &units, 10), [(1, 0)], "within the budget");
        let tiers = [tier(20, 40), tier(100, 0)];
        let units = [unit(0, 5.0), unit(0, 9.0), unit(0, 1.0), unit(0, 7.0)];
        assert_eq!(plan(&tiers, &units, 100), [(0, 1), (2, 1)]);
    }

    #[test]
    fn two_that_are_about_as_hot_stay_and_a_much_hotter_one_takes_a_place() {
        let tiers = [tier(20, 20), tier(100, 20)];
        let units = [unit(0, 5.0), unit(0, 9.0), unit(1, 9.0), unit(1, 8.0)];
        assert_eq!(plan(&tiers, &units, 100), []);
        let units = [unit(0, 4.0), unit(0, 9.0), unit(1, 9.0), unit(1, 30.0)];
        assert_eq!(plan(&tiers, &units, 100), [(0, 1), (3, 0)]);
    }

    #[test]
    fn what_a_snapshot_has_makes_no_room_and_a_full_slow_tier_takes_nothing() {
        let tiers = [tier(10, 20), tier(100, 0)];
        let kept = Unit { frees: false, ..unit(0, 0.0) };
        assert_eq!(plan(&tiers, &[kept, unit(0, 5.0)], 100), [(1, 1)]);
        assert_eq!(plan(&[tier(10, 20), tier(20, 15)], &[unit(0, 0.0)], 100), []);
        // Over three tiers, a unit moves once.
        let tiers = [tier(10, 0), tier(10, 10), tier(100, 10)];
        assert_eq!(plan(&tiers, &[unit(1, 5.0), unit(2, 50.0)], 100), [(0, 0), (1, 1)]);
    }
}
