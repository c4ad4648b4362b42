//! A client's knowledge of its keys: acknowledged writes, and those that were outstanding when the server ended.

use std::collections::VecDeque;

use super::values::Version;

/// A key by itself, or a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Key(u64),
    Group(u64),
}

/// A request without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A new version; of a group, of all its keys in a transaction.
    Put(Place, Version),
    /// No value any more.
    Delete(Place),
    /// Reads the value.
    Get(Place),
    /// A group of another client.
    Look { client: u64, group: u64 },
}

/// The versions that were acknowledged, zero where there is no value, and the requests under way.
pub(super) struct Known {
    keys: Vec<Version>,
    groups: Vec<Version>,
    under_way: VecDeque<Step>,
}

impl Known {
    pub(super) fn new(keys: u64, groups: u64) -> Self {
        let none = |count: u64| vec![0; count as usize];
        Self { keys: none(keys), groups: none(groups), under_way: VecDeque::new() }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    pub(super) fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// The version that was acknowledged.
    pub(super) fn version(&self, place: Place) -> Version {
        match place {
            Place::Key(number) => self.keys[number as usize],
            Place::Group(number) => self.groups[number as usize],
        }
    }

    fn set(&mut self, place: Place, version: Version) {
        match place {
            Place::Key(number) => self.keys[number as usize] = version,
            Place::Group(number) => self.groups[number as usize] = version,
        }
    }

    /// A request is sent.
    pub(super) fn sent(&mut self, step: Step) {
        self.under_way.push_back(step);
    }

    /// The request that is answered next.
    pub(super) fn next(&self) -> Option<Step> {
        self.under_way.front().copied()
    }

    /// The reply was right.
    pub(super) fn answered(&mut self) {
        match self.under_way.pop_front() {
            Some(Step::Put(place, version)) => self.set(place, version),
            Some(Step::Delete(place)) => self.set(place, 0),
            Some(Step::Get(_) | Step::Look { .. }) | None => {}
        }
    }

    /// Whether this may be there after the server ended, acknowledged or under way.
    pub(super) fn may_have(&self, place: Place, found: Version) -> bool {
        let under_way = self.under_way.iter().any(|step| match *step {
            Step::Put(other, version) => other == place && version == found,
            Step::Delete(other) => other == place && found == 0,
            Step::Get(_) | Step::Look { .. } => false,
        });
        under_way || self.version(place) == found
    }

    /// The values found are the current ones from now on; no write is outstanding.
    pub(super) fn goes_on(&mut self, keys: Vec<Version>, groups: Vec<Version>) {
        (self.keys, self.groups) = (keys, groups);
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_there_is_what_was_acknowledged_or_under_way() {
        let mut known = Known::new(2, 1);
        let (key, group) = (Place::Key(1), Place::Group(0));
        known.sent(Step::Put(key, 5));
        known.sent(Step::Put(group, 6));
        known.answered();
        known.sent(Step::Get(key));
        known.sent(Step::Delete(key));
        let of = |known: &Known, place| {
            (0..9).filter(|found| known.may_have(place, *found)).collect::<Vec<_>>()
        };
        assert_eq!(of(&known, key), [0, 5]);
        assert_eq!(of(&known, group), [0, 6]);
        assert_eq!(of(&known, Place::Key(0)), [0]);
        known.goes_on(vec![0, 5], vec![6]);
        assert_eq!((of(&known, key), of(&known, group)), (vec![5], vec![6]));
        assert_eq!(known.next(), None);
    }
}
