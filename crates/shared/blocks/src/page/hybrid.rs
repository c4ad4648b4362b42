//! Copy-on-write or micro log, chosen for each flush by a cost model (van Renen §3.2.4).
//!
//! Slots and headers are those of [`CopyOnWrite`](super::CopyOnWrite), the log is that of
//! [`SealedMicroLog`](super::SealedMicroLog). An entry of the log names the version that it changes. So
//! recovery skips an entry whose version a later copy has replaced, and neither technique waits for the
//! other: a copy may be made of a page whose last lines are only in the log, and takes them from there.
//!
//! A flush costs that of the technique that [`CostModel::prefers_log`] picks; a page's first flush is
//! always a copy. The space is that of copy-on-write and two entries.

use halite_pmem::Fresh;

use super::copy::Copier;
use super::ground::{Ground, SPARE_SLOTS, Technique};
use super::sealed_log::{SealedLog, log_len};
use super::slots::Slots;
use super::{CostModel, PageBuffer, PageStore, Shape};
use crate::Result;

const TECHNIQUE: Technique =
    Technique { number: 5, name: "hybrid", spare_slots: SPARE_SLOTS, log_len };

/// A store that picks a technique for each flush.
pub struct Hybrid {
    ground: Ground,
    slots: Slots,
    log: SealedLog,
    copier: Copier,
    model: CostModel,
    /// The model's choice for each number of dirty lines of a partial page, and of a whole one.
    prefers_log: [Vec<bool>; 2],
}

impl Hybrid {
    /// Uses another model than the typical one from now on.
    pub fn set_model(&mut self, model: CostModel) {
        self.model = model;
        let lines = self.ground.shape.page_size.lines();
        self.prefers_log = [false, true]
            .map(|is_whole| (0..=lines).map(|dirty| model.prefers_log(dirty, is_whole)).collect());
    }

    fn new(ground: Ground, slots: Slots, log: SealedLog) -> Self {
        let model = CostModel::typical(ground.shape.page_size);
        let prefers_log = [Vec::new(), Vec::new()];
        let copier = Copier::new();
        let mut store = Self { ground, slots, log, copier, model, prefers_log };
        store.set_model(model);
        store
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> CostModel {
        self.model
    }
}

impl PageStore for Hybrid {
    fn space_len(shape: Shape) -> u64 {
        Ground::len(TECHNIQUE, shape)
    }

    fn create(space: Fresh, shape: Shape) -> Result<Self> {
        let ground = Ground::create(TECHNIQUE, space, shape, |_, _| None)?;
        let (slots, log) = (Slots::empty(&ground), SealedLog::new(&ground));
        Ok(Self::new(ground, slots, log))
    }

    fn open(space: Fresh) -> Result<Self> {
        let mut ground = Ground::open(TECHNIQUE, space)?;
        let slots = Slots::recover(&ground)?;
        let is_newest = |page, version| slots.newest(page) == Some(version);
        let log = SealedLog::recover(&mut ground, is_newest)?;
        Ok(Self::new(ground, slots, log))
    }

    fn shape(&self) -> Shape {
        self.ground.shape
    }

    fn flush(&mut self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        let Self { ground, slots, log, copier, prefers_log, .. } = self;
        ground.check_page(page, buffer.page_size())?;
        let dirty = buffer.dirty().count() as usize;
        if dirty == 0 {
            return Ok(());
        }
        match slots.newest(page) {
            Some(version) if prefers_log[usize::from(buffer.is_whole())][dirty] => {
                log.flush(ground, page, version, buffer)?;
            }
            newest => {
                let slot = slots.spare(ground)?;
                let from = newest.map(|version| version.slot);
                ground.begin_flush()?;
                match log.pending_of(page) {
                    Some(entry) => copier.copy(ground, buffer, from, entry, slot)?,
                    None => copier.copy(ground, buffer, from, &(), slot)?,
                }
                slots.validate(ground, page, slot)?;
                ground.end_flush();
                log.forget(page);
            }
        }
        buffer.was_flushed();
        Ok(())
    }

    fn read(&self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        self.ground.check_page(page, buffer.page_size())?;
        buffer.load(|bytes| match self.slots.newest(page) {
            Some(version) => {
                bytes.copy_from_slice(self.ground.slot(version.slot));
                self.log.put_over(page, bytes);
            }
            None => bytes.fill(0),
        });
        Ok(())
    }
}
