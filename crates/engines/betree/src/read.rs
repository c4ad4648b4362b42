//! Reading a key: memtables, the newest first, and the tree of the dataset.

use halite_contract::{Bytes, Result};

use crate::Error;
use crate::memtable::{Version, message_of};
use crate::message::Kind;
use crate::record::{DATASET, full_key};
use crate::store::view::View;
use crate::tree::lookup::Search;
use crate::tree::{Context, Tree};

/// Keys up to this length are put together without memory from the heap.
const SHORT: usize = 124;

/// The value of a key as of a sequence.
pub(crate) fn get(
    context: &Context,
    view: &View,
    at: u64,
    dataset: u32,
    key: &[u8],
) -> Result<Option<Bytes>> {
    if key.len() > SHORT {
        return get_full(context, view, at, dataset, &full_key(dataset, key));
    }
    let mut full = [0; DATASET + SHORT];
    full[..DATASET].copy_from_slice(&dataset.to_be_bytes());
    full[DATASET..][..key.len()].copy_from_slice(key);
    get_full(context, view, at, dataset, &full[..DATASET + key.len()])
}

fn get_full(
    context: &Context,
    view: &View,
    at: u64,
    dataset: u32,
    full: &[u8],
) -> Result<Option<Bytes>> {
    let key = &full[DATASET..];
    let mut search = Search::default();
    let (memtables, tree) = view.of(dataset, at);
    for memtable in memtables {
        // Mostly, it is one short value.
        if let Version::Change(stored) = memtable.find(full, at)
            && search.is_empty()
            && message_of(stored).kind == Kind::Insert
        {
            return Ok(Some(Bytes::from(stored.payload)));
        }
        let found = memtable.search(full, DATASET, at, &mut search, None);
        found.map_err(|why| Error::Message { why: why.to_owned() })?;
        if search.is_over() {
            return Ok(search.value(context, key, None)?);
        }
    }
    if let Some(tree) = tree {
        tree.find(context, key, &mut search, None)?;
    }
    Ok(search.value(context, key, None)?)
}

/// The value of a key in a tree.
pub(crate) fn get_in_tree(context: &Context, tree: &Tree, key: &[u8]) -> Result<Option<Bytes>> {
    let mut search = Search::default();
    tree.find(context, key, &mut search, None)?;
    Ok(search.value(context, key, None)?)
}
