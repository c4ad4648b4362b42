//! Finding the leaves of a pool by their labels.
//!
//! The places where leaves were last are looked at, and where a newer superblock names others, these too; then the
//! folders that options name. A leaf belongs where its guid is in the newest superblock, wherever it was found. A leaf
//! that is not found, or is not to be believed, is left out; what was found wrong is told.
//!
//! ```text
//!  found                                     is
//!  a label of the newest superblock          there
//!  an older label of the same history        there; stale, if the newest superblock says so
//!  a label of another history, or pool       left out
//!  no label, or none that can be read        left out
//!  fewer blocks than were durable            stale
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_contract::Damage;
use halite_vdev::{Label, Leaf, LeafPlace, Position, Topology, Vdev, Verdict};

use super::places::{Places, Seen, width};
use crate::storage::labels::{self, FoundLabels};
use crate::store::pool_record::{LeafRecord, PoolRecord, VdevRecord};
use crate::store::superblock::Superblock;
use crate::{Error, Result};

/// A pool whose leaves were found.
pub(crate) struct Assembled {
    pub(crate) vdevs: Vec<Vec<Arc<Vdev>>>,
    /// The newest label, and what it has.
    pub(crate) current: Label,
    pub(crate) superblock: Superblock,
    /// The label of the generation before.
    pub(crate) previous: Option<Label>,
    /// The state of each leaf as it was found now.
    pub(crate) record: PoolRecord,
    /// The faults of the devices.
    pub(crate) damage: Vec<Damage>,
}

/// The record of the devices in the store's pool.
#[derive(Clone, Copy)]
pub(crate) struct KnownState {
    pub(crate) pool: u128,
    /// The generation of the newest superblock that was durable.
    pub(crate) generation: u64,
    /// The session that wrote it.
    pub(crate) session: Option<u64>,
}

/// The search of all places for leaves of the pool, and the labels seen so far.
struct Search<'a> {
    places: &'a Places,
    known: KnownState,
    seen: Vec<Seen>,
    looked_at: Vec<LeafPlace>,
    damage: Vec<Damage>,
}

/// Finds the leaves of a pool, and makes its vdevs of them.
///
/// # Errors
/// [`Error::NoSuperblock`]; [`Error::RolledBack`]; [`Error::Vdev`], if a vdev lacks more leaves than it can do without.
pub(crate) fn assemble(
    places: &Places,
    state: KnownState,
    likely: Vec<LeafPlace>,
    folders: &[PathBuf],
) -> Result<Assembled> {
    let mut search = Search {
        places,
        known: state,
        seen: Vec::new(),
        looked_at: Vec::new(),
        damage: Vec::new(),
    };
    search.seen = places.in_memory();
    likely.into_iter().for_each(|place| search.look(place));
    let mut has_searched = false;
    let (found, superblock) = loop {
        let found = search.newest()?;
        let known = found.as_ref().map(|found| decode(&found.current)).transpose()?;
        // The newest superblock that was found may name places that were not looked at.
        let mut places =
            known.iter().flat_map(|superblock| super::leaf_places(&superblock.pool.topology));
        if let Some(place) = places.find(|place| !search.has_looked_at(place)) {
            search.look(place);
            continue;
        }
        drop(places);
        if !has_searched && known.as_ref().is_none_or(|known| search.lacks_any(&known.pool)) {
            has_searched = true;
            if !folders.is_empty() {
                folders.iter().for_each(|folder| search.look_into(folder));
                continue;
            }
        }
        match (found, known) {
            (Some(found), Some(superblock)) => break (found, superblock),
            _ => return Err(Error::NoSuperblock { found: search.report() }),
        }
    };
    if found.current.generation < state.generation {
        let lacks = search.absent(&superblock.pool);
        return Err(Error::RolledBack {
            found: found.current.generation,
            newest: state.generation,
            lacks,
        });
    }
    search.make(found, superblock)
}

fn decode(label: &Label) -> Result<Superblock> {
    Superblock::decode(&label.payload).map_err(|why| Error::NoSuperblock {
        found: vec![format!("the newest has a defect: {why}")],
    })
}

impl Search<'_> {
    fn has_looked_at(&self, place: &LeafPlace) -> bool {
        self.looked_at.iter().any(|other| other.to_string() == place.to_string())
    }

    fn look(&mut self, place: LeafPlace) {
        if self.has_looked_at(&place) {
            return;
        }
        match self.places.look(&place) {
            Ok(seen) => self.seen.extend(seen),
            Err(error) => self.note(&place, error.to_string()),
        }
        self.looked_at.push(place);
    }

    /// Looks for leaves of the pool among the files of a folder.
    fn look_into(&mut self, folder: &Path) {
        let files = match self.places.files_of(folder) {
            Ok(files) => files,
            Err(error) => {
                let what = folder.display().to_string();
                self.damage.push(Damage { what, why: error.to_string() });
                return;
            }
        };
        for place in files {
            // A leaf of another pool is left alone.
            let is_known = self.seen.iter().any(|seen| seen.place.path() == place.path());
            if !is_known && let Ok(Some(seen)) = self.places.look(&place) {
                let is_ours = |label: &Label| label.pool == self.known.pool;
                self.seen.extend(
                    Some(seen).filter(|seen| seen.labels.labels.first().is_some_and(is_ours)),
                );
            }
        }
    }

    fn note(&mut self, place: &LeafPlace, why: String) {
        self.damage.push(Damage { what: place.to_string(), why });
    }

    fn newest(&self) -> Result<Option<FoundLabels>> {
        let all: Vec<_> = self.seen.iter().map(|seen| &seen.labels).collect();
        labels::find(self.known.pool, self.known.session, &all)
    }

    /// The findings at the places, for messages.
    fn report(&self) -> Vec<String> {
        let seen = self
            .seen
            .iter()
            .map(|seen| format!("{}: {}", seen.place, labels::describe(&seen.labels)));
        let absent = self.looked_at.iter().filter(|place| {
            !self.seen.iter().any(|seen| seen.place.to_string() == place.to_string())
        });
        seen.chain(absent.map(|place| format!("{place}: not there"))).collect()
    }

    /// The leaf of a guid, of several copies the one with the newest label, and of these the one at its place.
    fn find(&self, guid: u64, place: &LeafPlace) -> Option<usize> {
        let newest = |seen: &Seen| {
            let label = seen.labels.labels.first()?;
            (label.pool == self.known.pool && label.guid == guid).then_some(label.generation)
        };
        let all = self.seen.iter().enumerate().filter_map(|(at, seen)| Some((newest(seen)?, at)));
        let best = all.max_by_key(|(generation, at)| (*generation, self.seen[*at].place == *place));
        best.map(|(_, at)| at)
    }

    fn lacks_any(&self, record: &PoolRecord) -> bool {
        let places = super::leaf_places(&record.topology);
        let mut leaves = record.leaves().zip(&places);
        leaves.any(|((_, leaf), place)| self.find(leaf.guid, place).is_none())
    }

    /// The places of the leaves that were not found.
    fn absent(&self, record: &PoolRecord) -> Vec<String> {
        let places = super::leaf_places(&record.topology);
        let lacks = record
            .leaves()
            .zip(&places)
            .filter(|((_, leaf), place)| self.find(leaf.guid, place).is_none());
        lacks.map(|(_, place)| place.to_string()).collect()
    }

    /// Makes the vdevs.
    fn make(mut self, found: FoundLabels, superblock: Superblock) -> Result<Assembled> {
        let mut record = superblock.pool.clone();
        let mut classes = record.topology.classes().to_vec();
        let mut vdevs = Vec::new();
        let mut is_behind = false;
        for (class, places) in (0_u16..).zip(&mut classes) {
            let mut of_class = Vec::new();
            for (vdev, places) in (0_u16..).zip(&mut places.vdevs) {
                let known = &mut record.vdevs[usize::from(class)][usize::from(vdev)];
                let width = width(places.arrangement, places.leaves.len());
                let rows = known.blocks / width;
                let mut leaves = Vec::new();
                for (leaf, place) in (0_u16..).zip(&mut places.leaves) {
                    let position = Position { class, vdev, leaf };
                    let record = &mut known.leaves[usize::from(leaf)];
                    let (opened, is_current) = self.open(&found, position, place, record, rows);
                    // A leaf that missed writes since lacks the extents that were resilvered.
                    is_behind |= record.is_stale && !is_current;
                    leaves.push(opened);
                }
                of_class.push(Arc::new(self.vdev(places.arrangement, leaves, known)?));
            }
            vdevs.push(of_class);
        }
        for (number, verdict) in found.verdicts.iter().enumerate() {
            let place = self.seen[number].place.clone();
            let why = match verdict {
                Verdict::Foreign { pool } => {
                    format!("it belongs to another store, {pool:032x}; it is not used")
                }
                Verdict::Diverged { generation } => format!(
                    "it was used without the others, up to generation {generation}; it is not used: replace it"
                ),
                _ => continue,
            };
            self.note(&place, why);
        }
        if is_behind {
            record.resilver = None;
        }
        record.topology = Topology::new(classes).map_err(halite_vdev::Error::from)?;
        let Self { damage, .. } = self;
        let FoundLabels { current, previous, .. } = found;
        Ok(Assembled { vdevs, current, superblock, previous, record, damage })
    }

    /// The leaf of a position, if it can be used, and whether its label is the newest. Its place becomes the one where it
    /// was found.
    fn open(
        &mut self,
        found: &FoundLabels,
        position: Position,
        place: &mut LeafPlace,
        record: &mut LeafRecord,
        rows: u64,
    ) -> (Option<Arc<dyn Leaf>>, bool) {
        let Some(at) = self.find(record.guid, place) else {
            // The defect of a leaf that cannot be looked at was noted.
            if !self.damage.iter().any(|damage| damage.what == place.to_string()) {
                let seen = self.seen.iter().find(|seen| seen.place == *place);
                let why = seen.map_or_else(
                    || "it is missing; bring it back, or replace it".to_owned(),
                    |seen| {
                        format!(
                            "it is not what was there ({}); replace it",
                            labels::describe(&seen.labels)
                        )
                    },
                );
                self.note(place, why);
            }
            return (None, false);
        };
        let verdict = found.verdicts[at].clone();
        if !matches!(verdict, Verdict::Current | Verdict::Stale { .. }) {
            // It is noted with the others.
            return (None, false);
        }
        let seen = &mut self.seen[at];
        if let (LeafPlace::File { path: now, .. }, LeafPlace::File { path, .. }) =
            (&seen.place, &mut *place)
        {
            path.clone_from(now);
        }
        seen.place = place.clone();
        let label = seen.labels.labels.first().map(|label| label.position);
        let opened = self.places.open(&self.seen[at]).and_then(|leaf| {
            let is_short = leaf.blocks() < rows;
            leaf.grow_to(rows)?;
            Ok((leaf, is_short))
        });
        match opened {
            Ok((leaf, is_short)) => {
                if is_short && !record.is_stale {
                    record.is_stale = true;
                    self.note(place, format!("it has fewer than its {rows} blocks; resilver it"));
                } else if record.is_stale {
                    self.note(place, "it missed writes; resilver it".into());
                }
                if label.is_some_and(|label| label != position) {
                    let position = (position.class, position.vdev, position.leaf);
                    self.note(
                        place,
                        format!("its label has another position than its own, {position:?}"),
                    );
                }
                (Some(leaf), verdict == Verdict::Current && !is_short)
            }
            Err(error) => {
                self.note(place, error.to_string());
                (None, false)
            }
        }
    }

    /// Makes a vdev, which knows which of its leaves are stale.
    fn vdev(
        &mut self,
        arrangement: halite_vdev::Arrangement,
        leaves: Vec<Option<Arc<dyn Leaf>>>,
        known: &VdevRecord,
    ) -> Result<Vdev> {
        let is_short = arrangement == halite_vdev::Arrangement::Single && known.leaves[0].is_stale;
        if is_short && leaves[0].is_some() {
            // The only leaf has no other one to get its bytes from.
            return Err(Error::NoSuperblock { found: self.reasons() });
        }
        let vdev = Vdev::new(arrangement, leaves);
        let vdev = vdev
            .map_err(|error| Error::Assembly { reason: Arc::new(error), found: self.reasons() })?;
        for (leaf, record) in known.leaves.iter().enumerate() {
            if record.is_stale {
                vdev.set_stale(leaf)?;
            }
            if record.is_offline && vdev.set_offline(leaf).is_err() {
                // It is missing, or the others cannot do without it any more.
                continue;
            }
        }
        Ok(vdev)
    }

    fn reasons(&self) -> Vec<String> {
        self.damage.iter().map(|damage| format!("{}: {}", damage.what, damage.why)).collect()
    }
}
