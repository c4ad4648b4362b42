//! Changing how a store's keys are spread over partitions.
//!
//! All live pairs are copied into partitions of the next generation, which are on devices of their own; when all of
//! them are durable, one word makes these partitions the store's. The remains of a crash on the devices of the other
//! generation are released when the store opens next. So the pool needs room for the live pairs twice.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{
    Bytes, Direction, Durability, Engine, Error, KeyRange, KeySpaceId, Op, Partitioned,
    Partitioning, Result,
};

use crate::engine::IndexLog;
use crate::error::Error as IndexLogError;
use crate::index::Form;
use crate::layout::Layout;
use crate::{PARTITIONS_MAX, device_numbers};

/// Bytes of pairs that are copied by one batch.
const BATCH_LEN: usize = 256 << 10;

/// Releases the segments on the devices of the generation that is not the store's.
pub(crate) fn release_other_generation(segments: &Arc<Segments>, layout: Layout) -> Result<u64> {
    let mut released = 0;
    for number in device_numbers(layout.generation.wrapping_add(1), 0..PARTITIONS_MAX) {
        released += segments.device(number).retain(|_| false)?;
    }
    Ok(released)
}

/// Spreads the keys of `store` anew; returns the store that then has them.
pub(crate) fn repartition(
    segments: &Arc<Segments>,
    store: IndexLog,
    layout: Layout,
    wanted: &Partitioning,
    form: Form,
    snapshots: Option<u64>,
    on_threads: bool,
) -> Result<IndexLog> {
    // The pool needs room for the live pairs twice, and this store will not open again.
    store.release_index_snapshots()?;
    let new_layout = Layout::new(layout.generation.wrapping_add(1), wanted, layout.changes);
    let made = IndexLog::make(segments, new_layout, wanted, on_threads)
        .and_then(|()| IndexLog::open_partitions(segments, new_layout, form, snapshots, on_threads))
        .and_then(|made| match copy(&store, &made) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.closing.forget();
                Err(error)
            }
        });
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            release_other_generation(segments, layout)?;
            return Err(match error {
                Error::Full { .. } | Error::Alloc(halite_alloc::Error::Full { .. }) => {
                    let (from, to) = (layout.partitions, wanted.count());
                    let reason = Box::new(error);
                    IndexLogError::RepartitionFull { from, to, reason }.into()
                }
                other => other,
            });
        }
    };
    new_layout.write(segments)?;
    store.closing.forget();
    drop(store);
    release_other_generation(segments, new_layout)?;
    Ok(made)
}

/// Copies all pairs, durably.
fn copy(from: &IndexLog, to: &IndexLog) -> Result<()> {
    let mut spaces = from.key_spaces()?;
    spaces.sort_by_key(|(_, id)| *id);
    for (name, old) in spaces {
        let space = to.key_space(&name)?;
        let mut waiting = vec![Waiting::default(); to.partitions()];
        for pair in from.scan(old, KeyRange::all(), Direction::Forward)? {
            let (key, value) = pair?;
            let waiting = &mut waiting[to.partition_of(&key)];
            waiting.len += key.len() + value.len();
            waiting.pairs.push((key, value));
            if waiting.len > BATCH_LEN {
                waiting.write(to, space)?;
            }
        }
        waiting.iter_mut().try_for_each(|waiting| waiting.write(to, space))?;
    }
    to.sync()
}

/// Pairs for one partition.
#[derive(Clone, Default)]
struct Waiting {
    pairs: Vec<(Bytes, Bytes)>,
    len: usize,
}

impl Waiting {
    fn write(&mut self, to: &IndexLog, space: KeySpaceId) -> Result<()> {
        let ops: Vec<_> =
            self.pairs.iter().map(|(key, value)| Op::Put { space, key, value }).collect();
        to.write(&ops, Durability::Deferred)?;
        self.pairs.clear();
        self.len = 0;
        Ok(())
    }
}
