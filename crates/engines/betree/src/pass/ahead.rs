//! Extents that a pass visits ahead: read, checked and repaired by the queues of the vdevs, up to [`AHEAD`] requests at
//! a time, and counted in the order of the walk.
//!
//! The extents of a run are one request, and read in the order in which a scrub goes through them: the directory first,
//! because a check of the other extents reads it, which repairs it. The checks are done where the bytes were read. A
//! request keeps the view whose extents it reads, so that none of them is written again meanwhile.
//!
//! Memory: two copies of an extent, 2 MiB at most, for each request that is under way.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{KeyRange, KeySpaceId, LOST_MAX, Lost};
use halite_sim::locks::Mutex;
use halite_vdev::{BLOCK, ScrubMemory, ScrubResult, Ticket, Vdev};

use super::{BEHIND_DATASETS, Flow, Kind, Pass, Stop};
use crate::catalogue::SnapshotId;
use crate::storage::{Extent, run_of};
use crate::store::view::View;
use crate::tree::node::Bounds;

/// Requests that wait, are under way, or are not counted yet.
const AHEAD: usize = 32;

/// Tells whether the bytes of an extent are right.
pub(super) type Check = Box<dyn Fn(&[u8]) -> bool + Send>;

/// The meaning of an extent, for messages.
pub(super) struct Place {
    what: &'static str,
    /// The dataset or the snapshot that has it, and the keys: of what is below a tree.
    dataset: u32,
    snapshot: Option<SnapshotId>,
    keys: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Whether it leads to other extents.
    leads_on: bool,
}

impl Place {
    pub(super) fn leads_on(self) -> Self {
        Self { leads_on: true, ..self }
    }
}

/// An extent that is to be visited.
pub(super) struct Visit {
    pub(super) place: Place,
    pub(super) extent: Extent,
    pub(super) check: Check,
}

/// The outcome of a visit: the damage and the repairs; or whether the extent is lost, and the reason.
type Healed = Result<ScrubResult, (bool, String)>;

/// A request that was submitted.
pub(super) struct Ahead {
    ticket: Ticket<Vec<halite_vdev::Result<ScrubResult>>>,
    places: Vec<(Place, Extent)>,
    /// Dropped behind the ticket.
    _view: Arc<View>,
}

/// The memory of requests that are not under way.
pub(super) type Memory = Arc<Mutex<Vec<ScrubMemory>>>;

/// Reads an extent with all its redundancy, and repairs what is wrong.
fn heal(
    kind: Kind,
    vdev: &Vdev,
    extent: Extent,
    check: &dyn Fn(&[u8]) -> bool,
    memory: &Memory,
) -> halite_vdev::Result<ScrubResult> {
    let mut own = memory.lock().pop().unwrap_or_default();
    let healed = match kind {
        Kind::Scrub => vdev.scrub(run_of(extent), check, &mut own),
        Kind::Resilver => vdev.resilver(run_of(extent), check, &mut own).map(|was_needed| {
            let leaves = if was_needed { vec![0] } else { Vec::new() };
            ScrubResult { damaged: leaves.clone(), repaired: leaves }
        }),
    };
    memory.lock().push(own);
    healed
}

/// A leaf that does not take what it lacks has lost nothing.
fn described(error: &halite_vdev::Error) -> (bool, String) {
    (!matches!(error, halite_vdev::Error::BadLeaf { .. }), error.to_string())
}

impl Pass<'_> {
    /// The place of an extent that the walk comes to.
    pub(super) fn place(&self, what: &'static str, keys: Option<Bounds<'_>>) -> Place {
        let keys =
            keys.map(|(low, high)| (low.unwrap_or_default().to_vec(), high.map(<[u8]>::to_vec)));
        Place { what, dataset: self.record.dataset, snapshot: self.snapshot, keys, leads_on: false }
    }

    /// Visits an extent before it returns.
    pub(super) fn visit_now(
        &mut self,
        place: &Place,
        extent: Extent,
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Flow {
        self.take_from_view(extent);
        let healed = match self.store.trees.storage.vdev(extent.address) {
            Ok(vdev) => heal(self.kind, vdev, extent, check, &self.memory)
                .map_err(|error| described(&error)),
            Err(error) => Err((true, error.to_string())),
        };
        self.count(place, extent, healed)
    }

    /// Visits extents one after the other, and goes on before that is done, where a view keeps them.
    pub(super) fn visit(&mut self, visits: Vec<Visit>) -> Flow {
        let Some(view) = self.view.clone() else {
            return visits
                .into_iter()
                .try_for_each(|visit| self.visit_now(&visit.place, visit.extent, &visit.check));
        };
        let (mut places, mut requests) = (Vec::new(), Vec::new());
        for Visit { place, extent, check } in visits {
            self.take_from_view(extent);
            match self.store.trees.storage.vdev(extent.address) {
                Ok(vdev) => {
                    places.push((place, extent));
                    requests.push((Arc::clone(vdev), extent, check));
                }
                Err(error) => self.count(&place, extent, Err((true, error.to_string())))?,
            }
        }
        let Some((_, first)) = places.first() else { return ControlFlow::Continue(()) };
        let (kind, memory) = (self.kind, Arc::clone(&self.memory));
        let ticket = self.store.trees.storage.submit(first.address, move |_| {
            let heal = |(vdev, extent, check): (Arc<Vdev>, Extent, Check)| {
                heal(kind, &vdev, extent, &check, &memory)
            };
            Ok(requests.into_iter().map(heal).collect())
        });
        let ticket = ticket.expect("the vdev of the first extent is there");
        self.ahead.push_back(Ahead { ticket, places, _view: view });
        while self.ahead.len() > AHEAD {
            self.count_oldest()?;
        }
        ControlFlow::Continue(())
    }

    /// Waits until everything that the walk has come to was visited, and counts it, also if the pass is to stop.
    pub(super) fn settle(&mut self) -> Flow {
        let mut flow = ControlFlow::Continue(());
        while !self.ahead.is_empty() {
            let counted = self.count_oldest();
            flow = if flow.is_break() { flow } else { counted };
        }
        flow
    }

    fn count_oldest(&mut self) -> Flow {
        let Some(Ahead { ticket, places, _view }) = self.ahead.pop_front() else {
            return ControlFlow::Continue(());
        };
        let healed: Vec<Healed> = match ticket.wait() {
            Ok(healed) => {
                let described = |healed: halite_vdev::Result<ScrubResult>| {
                    healed.map_err(|error| described(&error))
                };
                healed.into_iter().map(described).collect()
            }
            Err(error) => places.iter().map(|_| Err((false, error.to_string()))).collect(),
        };
        let mut flow = ControlFlow::Continue(());
        for ((place, extent), healed) in places.into_iter().zip(healed) {
            let counted = self.count(&place, extent, healed);
            flow = if flow.is_break() { flow } else { counted };
        }
        flow
    }

    fn take_from_view(&mut self, extent: Extent) {
        let bytes = self.store.trees.storage.actual_blocks(extent) * BLOCK as u64;
        self.left = self.left.saturating_sub(bytes);
    }

    /// Counts an extent that was visited.
    fn count(&mut self, place: &Place, extent: Extent, healed: Healed) -> Flow {
        self.record.extents += 1;
        match healed {
            Ok(ScrubResult { damaged, repaired }) => {
                self.record.damaged += damaged.len() as u64;
                self.record.repaired += repaired.len() as u64;
            }
            Err((is_lost, why)) => {
                self.record.lost += u64::from(is_lost);
                self.is_partial |= !is_lost || place.leads_on;
                self.note(place, extent, why);
            }
        }
        self.record.bytes += self.store.trees.storage.actual_blocks(extent) * BLOCK as u64;
        match (self.progress)(self.record.bytes.min(self.all), self.all) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Stop::Asked),
        }
    }

    fn note(&mut self, place: &Place, extent: Extent, why: String) {
        if self.errors.len() >= LOST_MAX {
            return;
        }
        let dataset = (place.keys.is_some() && place.dataset != BEHIND_DATASETS).then(|| {
            let catalogue = self.store.catalogue.load();
            let name = catalogue.name(KeySpaceId(place.dataset));
            name.map_or_else(|_| format!("dataset {}", place.dataset), |name| name.to_string())
        });
        let snapshot = place
            .snapshot
            .map(|(dataset, number)| format!("snapshot {number} of dataset {dataset}"));
        let dataset = dataset.or(snapshot);
        let keys = place.keys.as_ref().filter(|_| dataset.is_some());
        let keys = keys.map(|(low, high)| KeyRange::new(&low[..], high.clone()));
        let address = extent.address.into();
        self.errors.push(Lost { what: place.what, address, dataset, keys, why });
    }
}
