//! A deterministic simulation of tiers: what policies lead to, in counts of reads.

use super::*;

/// Bytes of a unit.
const BYTES: u64 = 1 << 20;

/// Units, of which a fifth have room in the fast tier.
const UNITS: usize = 500;
const FAST: usize = 100;

/// Reads of a round.
const READS: usize = 20_000;

/// The part of the hotness that is kept from round to round.
const KEPT: f64 = 0.8;

struct Simulation {
    units: Vec<Unit>,
    tiers: [Tier; 2],
    /// The rank of each unit: the most popular has 0.
    ranks: Vec<usize>,
    random: fastrand::Rng,
    /// The sums of 1 / rank^0.99.
    sums: Vec<f64>,
}

impl Simulation {
    /// Units at random places of which the fast tier has as many as it holds.
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let tier = |units: usize, all: usize| Tier {
            taken: all as u64 * BYTES,
            limit: units as u64 * BYTES * 95 / 100,
        };
        let tiers = [tier(FAST, FAST * 95 / 100), tier(4 * UNITS, UNITS - FAST * 95 / 100)];
        let unit = |tier| Unit { tier, bytes: BYTES, hotness: 0.0, frees: true };
        let units = (0..UNITS).map(|at| unit(usize::from(at >= FAST * 95 / 100))).collect();
        let mut ranks: Vec<usize> = (0..UNITS).collect();
        random.shuffle(&mut ranks);
        let mut sum = 0.0;
        let sums = (1..=UNITS).map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        });
        Self { units, tiers, ranks, random, sums: sums.collect() }
    }

    /// Reads, and returns the share that the fast tier has served.
    fn read(&mut self) -> f64 {
        self.units.iter_mut().for_each(|unit| unit.hotness *= KEPT);
        let mut fast = 0;
        for _ in 0..READS {
            let at = self.random.f64() * self.sums[UNITS - 1];
            let rank = self.sums.partition_point(|sum| *sum <= at).min(UNITS - 1);
            let unit = &mut self.units[self.ranks[rank]];
            unit.hotness += 1.0;
            fast += usize::from(unit.tier == 0);
        }
        fast as f64 / READS as f64
    }

    /// Lets a policy move. Returns the moves.
    fn migrate(&mut self, policy: &mut dyn MigrationPolicy) -> usize {
        let budget = 16 * BYTES;
        let moves = policy.plan(&self.tiers, &self.units, budget);
        assert!(moves.len() as u64 * BYTES <= budget);
        for one in &moves {
            let unit = &mut self.units[one.unit];
            assert_ne!(unit.tier, one.to);
            self.tiers[unit.tier].taken -= BYTES;
            self.tiers[one.to].taken += BYTES;
            unit.tier = one.to;
        }
        assert!(self.tiers[0].taken <= self.tiers[0].limit);
        moves.len()
    }
}

fn hot_data_ends_in_the_fast_tier_and_stays(policy: &mut dyn MigrationPolicy, seed: u64) {
    let mut simulation = Simulation::new(seed);
    let before = (0..5).map(|_| simulation.read()).sum::<f64>() / 5.0;
    for _ in 0..40 {
        simulation.read();
        simulation.migrate(policy);
    }
    let (mut after, mut moves) = (0.0, 0);
    for _ in 0..20 {
        after += simulation.read() / 20.0;
        moves += simulation.migrate(policy);
    }
    println!("seed {seed}: {before:.3} to {after:.3}, {moves} late moves");
    assert!(after >= 1.3 * before && after > 0.6, "{before} to {after}");
    assert!(moves <= 40, "{moves} moves in 20 rounds of the same reads");
    // Other data becomes hot.
    simulation.ranks.reverse();
    let shifted = simulation.read();
    for _ in 0..60 {
        simulation.read();
        simulation.migrate(policy);
    }
    let again = simulation.read();
    assert!(again > 0.6 && again > 1.3 * shifted, "{shifted} to {again}");
}

#[test]
fn lfu_brings_hot_data_to_the_fast_tier_and_leaves_it_there() {
    (0..4).for_each(|seed| hot_data_ends_in_the_fast_tier_and_stays(&mut Lfu, seed));
}

#[test]
fn reinforcement_converges_to_hot_data_in_the_fast_tier() {
    for seed in 0..4 {
        hot_data_ends_in_the_fast_tier_and_stays(&mut Reinforcement::default(), seed);
    }
}

#[test]
fn the_same_history_leads_to_the_same_moves() {
    let moves = || {
        let (mut simulation, mut policy) = (Simulation::new(9), Reinforcement::default());
        let round = |_| {
            simulation.read();
            policy.plan(&simulation.tiers, &simulation.units, 9 * BYTES)
        };
        (0..5).map(round).collect::<Vec<_>>()
    };
    assert_eq!(moves(), moves());
}

#[test]
fn tiers_of_no_data_and_data_of_no_use_move_nothing() {
    let none = Tier { taken: 0, limit: 0 };
    for policy in [&mut Lfu as &mut dyn MigrationPolicy, &mut Reinforcement::default()] {
        assert!(policy.plan(&[], &[], 0).is_empty());
        for _ in 0..3 {
            assert!(policy.plan(&[none, none], &[], 100).is_empty());
            let cold = Unit { tier: 1, bytes: 1, hotness: 0.0, frees: true };
            assert!(policy.plan(&[none, none], &[cold], 100).is_empty());
        }
    }
}
