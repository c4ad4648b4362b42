//! The policies of eviction, by name, and their settings.

use std::time::Duration;

use crate::store::{EvictionOrder, Usage};

/// The keys that may go, and their order, by the name in CONFIG `maxmemory-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy(usize);

/// The keys of a policy: whether only those with deadlines, and by what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Nothing,
    LastUse,
    Frequency,
    Deadline,
    Chance,
}

/// The policies, in Redis' order.
const POLICIES: [(&str, bool, By); 8] = [
    ("volatile-lru", true, By::LastUse),
    ("volatile-lfu", true, By::Frequency),
    ("volatile-random", true, By::Chance),
    ("volatile-ttl", true, By::Deadline),
    ("allkeys-lru", false, By::LastUse),
    ("allkeys-lfu", false, By::Frequency),
    ("allkeys-random", false, By::Chance),
    ("noeviction", false, By::Nothing),
];

impl Policy {
    const NONE: Self = Self(7);

    /// The policy of this name.
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let is_named = |policy: &(&str, bool, By)| name.eq_ignore_ascii_case(policy.0.as_bytes());
        POLICIES.iter().position(is_named).map(Self)
    }

    pub(crate) fn name(self) -> &'static str {
        POLICIES[self.0].0
    }

    /// The names of all.
    pub(crate) fn names() -> String {
        POLICIES.map(|(name, ..)| name).join(", ")
    }

    /// Whether keys are evicted at all.
    pub(crate) fn evicts(self) -> bool {
        self != Self::NONE
    }

    /// Whether it is counted how often keys are used.
    pub(crate) fn is_lfu(self) -> bool {
        POLICIES[self.0].2 == By::Frequency
    }

    /// Whether only keys with deadlines go.
    pub(crate) fn is_volatile(self) -> bool {
        POLICIES[self.0].1
    }

    /// The order in which keys go.
    pub(crate) fn order(self) -> EvictionOrder {
        match POLICIES[self.0].2 {
            By::LastUse | By::Frequency => EvictionOrder::ByUsage,
            By::Deadline => EvictionOrder::ByDeadline,
            By::Chance | By::Nothing => EvictionOrder::Random,
        }
    }
}

/// The settings of evictions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvictionSettings {
    pub(crate) policy: Policy,
    /// Keys of each database that are looked at for one that goes.
    pub(crate) samples: usize,
    /// How long a command may be kept, from 0 to 100.
    pub(crate) tenacity: u32,
    /// The larger, the less likely a counter of LFU rises.
    pub(crate) lfu_log_factor: u32,
    /// Minutes in which a counter of LFU falls by one; 0: it does not.
    pub(crate) lfu_decay_minutes: u32,
}

impl Default for EvictionSettings {
    fn default() -> Self {
        Self {
            policy: Policy::NONE,
            samples: 5,
            tenacity: 10,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
        }
    }
}

impl EvictionSettings {
    /// The use of keys that is noted.
    pub(crate) fn usage(&self) -> Usage {
        match self.policy.is_lfu() {
            true => Usage::Frequent {
                log_factor: self.lfu_log_factor,
                decay_minutes: self.lfu_decay_minutes,
            },
            false => Usage::Recent,
        }
    }

    /// Whether keys are evicted by their use.
    pub(crate) fn evicts_by_usage(&self) -> bool {
        matches!(POLICIES[self.policy.0].2, By::LastUse | By::Frequency)
    }

    /// How long a command may be kept; `None`: until there is room.
    pub(crate) fn time(&self) -> Option<Duration> {
        let step = Duration::from_micros(50);
        match self.tenacity {
            0..=10 => Some(step * self.tenacity),
            11..=99 => Some((step * 10).mul_f64(1.15_f64.powi(self.tenacity as i32 - 10))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_as_in_redis() {
        for (name, is_volatile, _) in POLICIES {
            let policy = Policy::parse(name.to_uppercase().as_bytes()).unwrap();
            assert_eq!((policy.name(), policy.is_volatile()), (name, is_volatile));
            assert_eq!(policy.evicts(), name != "noeviction");
            assert_eq!(policy.is_lfu(), name.ends_with("lfu"));
        }
        assert_eq!(Policy::parse(b"lru"), None);
    }

    #[test]
    fn tenacity_is_a_time() {
        let time = |tenacity| EvictionSettings { tenacity, ..EvictionSettings::default() }.time();
        assert_eq!(time(0), Some(Duration::ZERO));
        assert_eq!(time(10), Some(Duration::from_micros(500)));
        assert!(time(99) > Some(Duration::from_secs(100)));
        assert_eq!(time(100), None);
    }
}
