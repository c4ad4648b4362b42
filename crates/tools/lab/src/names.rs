//! Changes of a folder that are not certainly durable.
//!
//! Changes of one name persist in their order, changes of different names in any order, and a rename with both of its
//! names at once. So a power cut leaves a set of changes that contains, with each of them, the earlier ones that have a
//! name in common with it.

use std::collections::BTreeSet;

use halite_disk::FileEvent;

use crate::files::{Names, rename, renamed};

/// The most changes of which all sets are listed; of more, those near to all, to none and to every moment.
const LISTED_MAX: usize = 7;

/// The changes, in order, and their places in the trace.
#[derive(Default)]
pub(crate) struct PendingNames(Vec<(u32, FileEvent)>);

impl PendingNames {
    /// A change begins; other events are ignored.
    pub(crate) fn begin(&mut self, number: u32, event: FileEvent) {
        if renamed(&event).next().is_some() {
            self.0.push((number, event));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are some of names in a folder, which begin with its prefix.
    pub(crate) fn has_some_in(&self, folder: &str) -> bool {
        self.0.iter().any(|(_, event)| is_in(folder, event))
    }

    /// Those of names in a folder become durable.
    pub(crate) fn settle(&mut self, folder: &str, names: &mut Names) {
        let settled = self.0.extract_if(.., |(_, event)| is_in(folder, event));
        settled.for_each(|(_, event)| rename(names, &event));
    }

    /// The files that a name may lead to after a power cut.
    pub(crate) fn reachable(&self, certain: &Names) -> BTreeSet<u32> {
        let new = self.0.iter().filter_map(|(_, event)| match event {
            FileEvent::Create { file, .. } | FileEvent::Rename { file, .. } => Some(*file),
            _ => None,
        });
        certain.values().copied().chain(new).collect()
    }

    /// The states that may be left, each with the event since which it is possible; the certain one comes first, the
    /// newest last. Empty if all is certain.
    pub(crate) fn ways(&self, certain: &Names) -> Vec<(u32, Names)> {
        if self.is_empty() {
            return Vec::new();
        }
        let left = |set: Vec<usize>| {
            let (mut since, mut names) = (0, certain.clone());
            for change in set {
                let (number, event) = &self.0[change];
                since = since.max(*number);
                rename(&mut names, event);
            }
            (since, names)
        };
        self.sets().into_iter().map(left).collect()
    }

    /// Whether a change cannot be durable without an earlier one.
    fn needs(&self, later: usize, earlier: usize) -> bool {
        let (later, earlier) = (&self.0[later].1, &self.0[earlier].1);
        renamed(later).any(|name| renamed(earlier).any(|other| other == name))
    }

    /// Sets of changes that may be durable, each in order; the empty one first, all of them last.
    fn sets(&self) -> Vec<Vec<usize>> {
        let count = self.0.len();
        let is_closed = |set: &Vec<usize>| {
            set.iter().all(|&later| {
                (0..later).all(|earlier| set.contains(&earlier) || !self.needs(later, earlier))
            })
        };
        if count <= LISTED_MAX {
            let set = |bits: u32| (0..count).filter(|at| bits & 1 << at != 0).collect();
            return (0..1 << count).map(set).filter(is_closed).collect();
        }
        let mut sets: Vec<Vec<usize>> = (0..count).map(|until| (0..until).collect()).collect();
        for change in 0..count {
            // The change alone, with those that it needs; and all changes but it and those that need it.
            let mut alone = BTreeSet::from([change]);
            for earlier in (0..change).rev() {
                if alone.iter().any(|&later| later > earlier && self.needs(later, earlier)) {
                    alone.insert(earlier);
                }
            }
            let mut missing = BTreeSet::from([change]);
            for later in change + 1..count {
                if missing.iter().any(|&earlier| self.needs(later, earlier)) {
                    missing.insert(later);
                }
            }
            sets.push(alone.into_iter().collect());
            sets.push((0..count).filter(|at| !missing.contains(at)).collect());
        }
        sets.push((0..count).collect());
        sets
    }
}

/// Whether a change is of names in a folder; a rename is of two names in one.
fn is_in(folder: &str, event: &FileEvent) -> bool {
    let in_it = |name: &str| name.strip_prefix(folder).is_some_and(|rest| !rest.contains('/'));
    renamed(event).all(|name| in_it(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(file: u32, name: &str) -> FileEvent {
        FileEvent::Create { file, name: name.into() }
    }

    fn rename(file: u32, from: &str, to: &str) -> FileEvent {
        FileEvent::Rename { file, from: from.into(), to: to.into() }
    }

    fn pending(events: Vec<FileEvent>) -> PendingNames {
        let mut pending = PendingNames::default();
        (10..).zip(events).for_each(|(number, event)| pending.begin(number, event));
        pending
    }

    fn told(ways: &[(u32, Names)]) -> Vec<String> {
        let tell = |(since, names): &(u32, Names)| {
            let names: Vec<_> = names.iter().map(|(name, file)| format!("{name}={file}")).collect();
            format!("{since}: {}", names.join(" "))
        };
        ways.iter().map(tell).collect()
    }

    #[test]
    fn a_rename_is_there_with_both_names_or_not_at_all() {
        let certain = Names::from([("current".into(), 0)]);
        let pending = pending(vec![create(1, "new"), rename(1, "new", "current")]);
        assert_eq!(
            told(&pending.ways(&certain)),
            ["0: current=0", "10: current=0 new=1", "11: current=1"]
        );
        assert_eq!(pending.reachable(&certain), BTreeSet::from([0, 1]));
    }

    #[test]
    fn different_names_persist_in_any_order_and_one_name_in_its_own() {
        let certain = Names::from([("a".into(), 0)]);
        let pending =
            pending(vec![FileEvent::Remove { name: "a".into() }, create(1, "b"), create(2, "a")]);
        assert_eq!(
            told(&pending.ways(&certain)),
            ["0: a=0", "10: ", "11: a=0 b=1", "11: b=1", "12: a=2", "12: a=2 b=1"]
        );
    }

    #[test]
    fn a_sync_of_a_folder_settles_its_own_names_only() {
        let mut pending = pending(vec![create(0, "a"), create(1, "0/a"), create(2, "1/a")]);
        let mut certain = Names::new();
        for (folder, left) in [("2/", 3), ("0/", 2), ("", 1)] {
            pending.settle(folder, &mut certain);
            assert_eq!(pending.0.len(), left);
        }
        assert!(pending.has_some_in("1/") && !pending.has_some_in(""));
        assert_eq!(certain, Names::from([("a".into(), 0), ("0/a".into(), 1)]));
    }

    #[test]
    fn of_many_changes_every_set_that_is_tried_is_closed() {
        let names = ["a", "b", "c", "d"];
        let events = (0..24).map(|file| {
            let (from, to) = (names[file % 3], names[file % 4]);
            if from == to || file < 4 { create(file as u32, from) } else { rename(0, from, to) }
        });
        let pending = pending(events.collect());
        let sets = pending.sets();
        assert_eq!((sets[0].len(), sets[sets.len() - 1].len()), (0, 24));
        for set in sets {
            for &later in &set {
                for earlier in 0..later {
                    assert!(set.contains(&earlier) || !pending.needs(later, earlier), "{set:?}");
                }
            }
        }
    }
}
