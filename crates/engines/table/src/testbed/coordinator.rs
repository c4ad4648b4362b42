//! The coordinator: the decision that is being carried out, and the timestamps that may be in use.
//!
//! ```text
//!  heap of its own:  root "decision" ─► len u64 | check u64 | decision (`decision.rs`)
//!                    root "timestamps" = the end of those that may have been given out
//! ```
//!
//! A decision is there from one publication until another one removes it. Each costs what `Heap::publish` does: one fence
//! and its record. Timestamps are reserved a million at a time.

use std::sync::{Arc, OnceLock};

use halite_alloc::Device;
use halite_alloc::heap::{Heap, NvPtr, Owner, Publication, SLOT_LEN_MAX, Tag, Tagged};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::decision::Decision;
use crate::{Error, Result};

/// Timestamps that are reserved at a time.
pub(super) const TIMESTAMPS: u64 = 1 << 20;

const DECISION: &str = "decision";
const TIMESTAMP: &str = "timestamps";

/// Bytes before a decision's.
const HEAD: u64 = 16;

/// The slot of a decision.
#[derive(Debug)]
enum DecisionSlot {}

impl Tagged for DecisionSlot {
    const TAG: Tag = Tag::new(1);
}

/// The coordinator of a store.
pub(super) struct Coordinator {
    heap: Heap,
    decision: Option<NvPtr<DecisionSlot>>,
    /// Why no transaction can run any more.
    failed: Arc<OnceLock<Box<str>>>,
}

impl Coordinator {
    /// Opens the coordinator in the segments of a device, or makes it.
    pub(super) fn open(device: &Device, failed: Arc<OnceLock<Box<str>>>) -> Result<Self> {
        let heap = Heap::open(device)?;
        let decision = heap.root(DECISION).map(NvPtr::from_word);
        Ok(Self { heap, decision, failed })
    }

    /// No transaction runs any more until the store is opened again, which finishes the decision that may be there.
    pub(super) fn fail(&self, error: &Error) {
        let _ = self.failed.set(error.to_string().into());
    }

    /// The decision that was not removed.
    pub(super) fn pending(&self) -> Result<Option<Decision>> {
        let Some(slot) = self.decision else { return Ok(None) };
        let damaged = |why| Error::damaged("the decision of a transaction over partitions", why);
        let bytes = self.heap.read(slot)?;
        let (head, rest) = bytes.split_first_chunk::<16>().expect("a slot has 16 bytes or more");
        let [len, check] = [0, 8].map(|at| {
            u64::from_le_bytes(*head[at..].first_chunk().expect("the head has two words"))
        });
        let bytes = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let bytes = bytes.ok_or_else(|| damaged("it is longer than its slot"))?;
        if self.check_of(bytes) != check {
            return Err(damaged("it does not have its check"));
        }
        let decision = Decision::decode(bytes);
        decision.map(Some).ok_or_else(|| damaged("its check is right, and its parts are not"))
    }

    fn check_of(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.heap.salt())
    }

    /// Decides, in place of a decision that is there. A failure for lack of room changes nothing, and behind any other the
    /// decision may be there or not.
    pub(super) fn decide(&mut self, decision: &Decision) -> Result<()> {
        let decided = self.publish(&decision.encode());
        if let Err(error) = &decided
            && !error.is_refusal()
        {
            self.fail(error);
        }
        decided
    }

    fn publish(&mut self, bytes: &[u8]) -> Result<()> {
        let len = HEAD + bytes.len() as u64;
        if len > SLOT_LEN_MAX {
            return Err(Error::TransactionTooLarge { len, max: SLOT_LEN_MAX });
        }
        let slot = self.heap.reserve::<DecisionSlot>(owner(), len)?;
        let head = [(bytes.len() as u64).to_le_bytes(), self.check_of(bytes).to_le_bytes()];
        self.heap.write(slot, 0, &[head.as_flattened(), bytes].concat())?;
        let mut publication = Publication::new();
        publication.activate(slot);
        publication.set_root(DECISION, slot.word());
        self.decision.into_iter().for_each(|old| publication.free(old));
        if let Err(error) = self.heap.publish(&mut publication).map_err(Error::from) {
            if error.is_refusal() {
                self.heap.cancel(slot)?;
            }
            return Err(error);
        }
        self.decision = Some(slot);
        Ok(())
    }

    /// Removes the decision, which is carried out.
    pub(super) fn forget(&mut self) -> Result<()> {
        let Some(slot) = planted!("table.decision-stays", None, self.decision) else {
            return Ok(());
        };
        let mut publication = Publication::new();
        publication.remove_root(DECISION);
        publication.free(slot);
        let forgotten = self.heap.publish(&mut publication).map_err(Error::from);
        match &forgotten {
            Ok(()) => self.decision = None,
            // It would be carried out again at the next opening, over later transactions.
            Err(error) => self.fail(error),
        }
        forgotten
    }

    /// The least timestamp that was never given out.
    pub(super) fn next_timestamp(&self) -> u64 {
        self.heap.root(TIMESTAMP).unwrap_or(0).next_multiple_of(TIMESTAMPS)
    }

    /// Reserves the timestamps from this one on, so many and those behind them: a thread that takes the next ones meanwhile
    /// has them.
    pub(super) fn reserve_timestamps(&mut self, from: u64) -> Result<()> {
        planted!("table.timestamps-not-reserved", return Ok(()));
        let mut publication = Publication::new();
        publication.set_root(TIMESTAMP, from + 2 * TIMESTAMPS);
        Ok(self.heap.publish(&mut publication)?)
    }

    /// Checks the heap: the decision is all that is there.
    pub(super) fn verify(&self) -> Result<()> {
        self.pending()?;
        self.heap.check(self.decision.map(NvPtr::any))?;
        Ok(())
    }
}

/// The owner of a decision.
fn owner() -> Owner {
    Owner::new(1).expect("it is small enough")
}
