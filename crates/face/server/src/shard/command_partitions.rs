//! Which partitions a command needs, by its words.

use crate::commands::scripting::keys as script_keys;
use crate::commands::{Command, flags};
use crate::partition_set::PartitionSet;
use crate::resp::Args;
use crate::store::Store;

/// The partitions whose keys a command looks at or changes.
pub(crate) fn partitions_of(
    store: &Store,
    command: &'static Command,
    args: Args<'_>,
) -> PartitionSet {
    if command.is(flags::ALL_KEYS) {
        return PartitionSet::first(store.partitions());
    }
    let mut parts = PartitionSet::EMPTY;
    if command.is(flags::SCANS) {
        parts.insert(scanned(store, args));
    }
    if command.is(flags::SCRIPT) {
        let keys = script_keys(args).into_iter().flatten();
        keys.for_each(|key| parts.insert(store.partition_of(key)));
    }
    for index in command.key_indexes(args.len()) {
        if let Some(key) = args.get(index) {
            parts.insert(store.partition_of(key));
        }
    }
    parts
}

/// The partition in which a scan goes on; a malformed cursor is refused on any thread.
fn scanned(store: &Store, args: Args<'_>) -> usize {
    let cursor = args.get(1).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    (cursor.unwrap_or(0) % store.partitions() as u64) as usize
}
