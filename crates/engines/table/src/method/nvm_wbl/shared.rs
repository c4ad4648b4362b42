//! The state that a partition and its views share: the heap, the versions that only views need, and which views there are.

use std::collections::BTreeMap;
use std::ops::Range;

use halite_alloc::heap::{Heap, NvPtr};
use halite_sim::locks::{Mutex, RwLock};

use super::head::{Head, Versions};
use super::record::Sight;
use crate::tuple::Tuples;
use crate::{Result, Row};

/// A version that has left its head, in DRAM.
pub(super) struct Kept {
    /// The timestamps that see it: from its own to that of the next version.
    pub(super) seen: Range<u64>,
    pub(super) row: Option<Row>,
}

/// What is locked: for a lookup, for some rows of a scan, for a commit or a sync; never for longer.
pub(super) struct State {
    pub(super) heap: Heap,
    /// By the words of their heads.
    kept: BTreeMap<u64, Vec<Kept>>,
}

/// The state, and the views of it.
pub(super) struct Shared {
    pub(super) state: RwLock<State>,
    pub(super) salt: u64,
    /// Views by the timestamps up to which they see.
    views: Mutex<BTreeMap<u64, usize>>,
}

impl State {
    /// The row of a head, as a reader sees it.
    pub(super) fn row(
        &self,
        tuples: Tuples<'_>,
        head: NvPtr<Head>,
        sight: &Sight,
    ) -> Result<Option<Row>> {
        let versions = Versions::read(&self.heap, head)?;
        let Some(place) = versions.seen(sight) else {
            let kept = self.kept.get(&head.word());
            let kept = kept.into_iter().flatten().find(|kept| kept.seen.contains(&sight.until));
            return Ok(kept.and_then(|kept| kept.row.clone()));
        };
        let tuple = versions.0[place].tuple;
        (!tuple.is_null()).then(|| tuples.row(&self.heap, tuple)).transpose()
    }

    pub(super) fn keep(&mut self, head: u64, kept: Kept) {
        self.kept.entry(head).or_default().push(kept);
    }

    /// Forgets the versions that no view needs; `oldest` is that of the oldest one.
    pub(super) fn forget(&mut self, oldest: Option<u64>) {
        let Some(oldest) = oldest else { return self.kept.clear() };
        self.kept.retain(|_, all| {
            all.retain(|kept| kept.seen.end > oldest);
            !all.is_empty()
        });
    }
}

impl Shared {
    pub(super) fn new(heap: Heap) -> Self {
        let (salt, views) = (heap.salt(), Mutex::default());
        Self { state: RwLock::new(State { heap, kept: BTreeMap::new() }), salt, views }
    }

    pub(super) fn begin_view(&self, until: u64) {
        *self.views.lock().entry(until).or_default() += 1;
    }

    pub(super) fn end_view(&self, until: u64) {
        let mut views = self.views.lock();
        if let Some(count) = views.get_mut(&until) {
            *count -= 1;
            if *count == 0 {
                views.remove(&until);
            }
        }
    }

    /// Up to where the oldest view sees.
    pub(super) fn oldest_view(&self) -> Option<u64> {
        self.views.lock().keys().next().copied()
    }

    /// Whether a view sees up to one of some timestamps.
    pub(super) fn is_viewed(&self, timestamps: Range<u64>) -> bool {
        timestamps.start < timestamps.end && self.views.lock().range(timestamps).next().is_some()
    }
}
