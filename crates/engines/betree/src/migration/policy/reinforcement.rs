//! Reinforcement learning: each tier is an agent that learns the value of its states, and a step is done if the sum of
//! all tiers' values rises with it (Vengerov 2008; Zhang, Hellander and Toor 2022, which Haura follows).
//!
//! A tier's state is the mean hotness `h` of its bytes, and its occupancy `o`. Fuzzy sets cut both in two:
//!
//! ```text
//!  hot(h) = h / (h + mean of all tiers)      full(o) = 0 up to 0.8, rising to 1 at the limit
//!
//!  value = Σ weight of rule k · membership of rule k       rules: {cold, hot} x {not full, full}
//! ```
//!
//! Each round, TD(λ) corrects the weights by `δ = r + γ V(now) - V(before)`. The reward `r` is the cost that the round
//! had: `-cost of the tier · hot(uses a byte in the round)`, and a penalty above the limit. Classes have no measured cost
//! here, so that the same history has the same moves: each costs four times as much a use as the next faster one.
//!
//! Departures: a tier's value counts by its share of the bytes, so that a move of a unit weighs alike in tiers of
//! different size (Vengerov weighs by the rate of requests); the steps that are judged are those of LFU's order, so a
//! wrong value keeps data where it is, and never moves cold data up. Data goes down from a tier above its limit in any
//! case.

use super::exchange::exchange;
use super::{MigrationPolicy, Move, Tier, Unit};

/// The discount of later rewards, the decay of traces, and the rate of learning.
const GAMMA: f64 = 0.9;
const LAMBDA: f64 = 0.8;
const RATE: f64 = 0.1;

/// The cost of a use in a tier, beside that in the next faster one.
const COST_RATIO: f64 = 4.0;

/// The penalty of a tier above its limit.
const OVERFULL: f64 = 4.0;

/// The occupancy from which on a tier begins to be full.
const FULL_FROM: f64 = 0.8;

const RULES: usize = 4;

/// The state of a tier.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Decayed uses of all its units.
    heat: f64,
    /// Bytes of these.
    bytes: f64,
    taken: f64,
    limit: f64,
}

/// The learnt weights of a tier.
#[derive(Debug, Clone)]
struct Agent {
    cost: f64,
    weights: [f64; RULES],
    traces: [f64; RULES],
    /// The memberships of the state before.
    before: Option<[f64; RULES]>,
}

/// The policy.
#[derive(Default)]
pub(in crate::migration) struct Reinforcement {
    agents: Vec<Agent>,
}

impl State {
    /// How hot it is, beside the mean of all tiers.
    fn hot(&self, mean: f64) -> f64 {
        let hotness = self.heat / self.bytes.max(1.0);
        if hotness > 0.0 { hotness / (hotness + mean) } else { 0.0 }
    }

    fn memberships(&self, mean: f64) -> [f64; RULES] {
        let hot = self.hot(mean);
        let occupancy = self.taken / self.limit.max(1.0);
        let full = ((occupancy - FULL_FROM) / (1.0 - FULL_FROM)).clamp(0.0, 1.0);
        [(1.0 - hot) * (1.0 - full), (1.0 - hot) * full, hot * (1.0 - full), hot * full]
    }
}

impl Agent {
    /// An agent that takes each use for as dear as it is, and knows nothing of the future.
    fn new(tier: usize) -> Self {
        let cost = COST_RATIO.powi(tier as i32);
        let weights = [0.0, 0.0, -cost, -cost];
        Self { cost, weights, traces: [0.0; RULES], before: None }
    }

    fn value(&self, memberships: &[f64; RULES]) -> f64 {
        self.weights.iter().zip(memberships).map(|(weight, of)| weight * of).sum()
    }

    /// Learns from the state that a round has led to.
    fn learn(&mut self, state: &State, mean: f64) {
        let now = state.memberships(mean);
        let overfull = f64::from(u8::from(state.taken > state.limit));
        let reward = -(1.0 - GAMMA) * (self.cost * state.hot(mean) + OVERFULL * overfull);
        if let Some(before) = self.before.replace(now) {
            let error = reward + GAMMA * self.value(&now) - self.value(&before);
            let rules = self.traces.iter_mut().zip(&mut self.weights).zip(before);
            for ((trace, weight), membership) in rules {
                *trace = GAMMA * LAMBDA * *trace + membership;
                *weight += RATE * error * *trace;
            }
        }
    }
}

/// The sum of the tiers' values, each by its share of the bytes.
fn sum(agents: &[Agent], states: &[State], mean: f64) -> f64 {
    let all: f64 = states.iter().map(|state| state.bytes).sum();
    let of = |(agent, state): (&Agent, &State)| {
        state.bytes / all.max(1.0) * agent.value(&state.memberships(mean))
    };
    agents.iter().zip(states).map(of).sum()
}

fn states(tiers: &[Tier], units: &[Unit]) -> Vec<State> {
    let of = |tier: &Tier| State {
        taken: tier.taken as f64,
        limit: tier.limit as f64,
        ..State::default()
    };
    let mut states: Vec<State> = tiers.iter().map(of).collect();
    for unit in units {
        states[unit.tier].heat += unit.hotness;
        states[unit.tier].bytes += unit.bytes as f64;
    }
    states
}

fn apply(states: &mut [State], unit: &Unit, to: usize) {
    let bytes = unit.bytes as f64;
    for (tier, sign) in [(unit.tier, -1.0), (to, 1.0)] {
        states[tier].heat += sign * unit.hotness;
        states[tier].bytes += sign * bytes;
        if sign > 0.0 || unit.frees {
            states[tier].taken += sign * bytes;
        }
    }
}

impl MigrationPolicy for Reinforcement {
    fn plan(&mut self, tiers: &[Tier], units: &[Unit], budget: u64) -> Vec<Move> {
        let mut states = states(tiers, units);
        let (heat, bytes) =
            states.iter().fold((0.0, 0.0), |(h, b), state| (h + state.heat, b + state.bytes));
        // Of data that no one uses, none is hotter.
        let mean = (heat / f64::max(bytes, 1.0)).max(f64::MIN_POSITIVE);
        if self.agents.len() != tiers.len() {
            self.agents = (0..tiers.len()).map(Agent::new).collect();
        }
        for (agent, state) in self.agents.iter_mut().zip(&states) {
            agent.learn(state, mean);
        }
        let agents = &self.agents;
        exchange(tiers, units, budget, &mut |step| {
            let mut behind = states.clone();
            step.moves.iter().for_each(|one| apply(&mut behind, &units[one.unit], one.to));
            let rises = sum(agents, &behind, mean) > sum(agents, &states, mean);
            let is_done = step.is_overfull || rises;
            if is_done {
                states = behind;
            }
            is_done
        })
    }
}
