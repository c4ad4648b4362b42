//! The latest memtables, which are kept for the validation of transactions after they were flushed.

use std::collections::VecDeque;
use std::sync::Arc;

use halite_sim::locks::Mutex;

use crate::memtable::Memtable;

/// Memtables that are kept in any case. A transaction whose snapshot is older than what is kept counts as in conflict.
const KEPT: usize = 4;

/// Memtables, and bytes of their records, up to which more are kept.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// The latest memtables.
#[derive(Default)]
pub(crate) struct Recent(Mutex<VecDeque<Arc<Memtable>>>);

impl Recent {
    /// Notes a new memtable; the oldest one goes.
    pub(crate) fn note(&self, memtable: &Arc<Memtable>) {
        let mut kept = self.0.lock();
        kept.push_back(Arc::clone(memtable));
        let bytes =
            |kept: &VecDeque<Arc<Memtable>>| kept.iter().map(|kept| kept.bytes()).sum::<u64>();
        while kept.len() > KEPT && (kept.len() > KEPT_MAX || bytes(&kept) > KEPT_BYTES_MAX) {
            kept.pop_front();
        }
    }

    /// Bytes of memory that their indexes take.
    pub(crate) fn index_len(&self) -> u64 {
        self.0.lock().iter().map(|memtable| memtable.index_len()).sum()
    }
}

/// Runs `changed` on the memtables from one on, up to the active one, as long as it returns false. Returns whether
/// there may be a change: it returned true, or one of them is not kept any more.
pub(crate) fn any_since(from: &Arc<Memtable>, changed: impl Fn(&Memtable) -> bool) -> bool {
    let mut memtable = Arc::clone(from);
    loop {
        if changed(&memtable) {
            return true;
        }
        let Some(next) = memtable.next() else { return false };
        let Some(next) = next.upgrade() else { return true };
        memtable = next;
    }
}
