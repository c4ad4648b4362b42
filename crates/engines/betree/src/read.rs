//! Reading a key: memtables, the newest first, and the tree of the dataset.

use halite_contract::{Bytes, Result};

use crate::Error;
use crate::layers::InSource;
use crate::memtable::{Version, message_of};
use crate::message::{HeldMessage, Kind, Payload};
use crate::record::{DATASET, full_key};
use crate::store::view::{Below, Graft, Layer, View};
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
    let mut action = None;
    let mut has_asked = false;
    // The dataset and the sequence whose layers come next, and the key there.
    let (mut of, mut moved) = ((dataset, at), None::<Vec<u8>>);
    let tree = loop {
        let (full, at) = (moved.as_deref().unwrap_or(full), of.1);
        let (layers, below) = view.of(of.0, at);
        for layer in layers {
            let memtable = match layer {
                Layer::Memtable(memtable) => memtable,
                Layer::Graft(graft) => {
                    action = context.actions.of(dataset);
                    let Some(found) = get_in_graft(context, graft, key)? else { continue };
                    if let Some(value) = found {
                        let message = HeldMessage {
                            kind: Kind::Insert,
                            payload: Payload::Owned(value.to_vec()),
                        };
                        let added = search.add(key, message, action.as_deref());
                        added.map_err(|why| Error::Message { why: why.to_owned() })?;
                    }
                    search.end();
                    return explained(
                        context,
                        dataset,
                        search.value(context, key, action.as_deref()),
                    );
                }
            };
            // Mostly, it is one short value.
            if let Version::Change(stored) = memtable.find(full, at)
                && search.is_empty()
                && message_of(stored).kind == Kind::Insert
            {
                return Ok(Some(Bytes::from(stored.payload)));
            }
            if !has_asked {
                (action, has_asked) = (context.actions.of(dataset), true);
            }
            let found = memtable.search(full, DATASET, at, &mut search, action.as_deref());
            found.map_err(|why| Error::Message { why: why.to_owned() })?;
            if search.is_over() {
                return explained(context, dataset, search.value(context, key, action.as_deref()));
            }
        }
        match below {
            Below::Tree(tree) => break tree,
            Below::Dataset(dataset, at) => {
                (of, moved) = ((dataset, at), Some(full_key(dataset, key)));
            }
        }
    };
    if !has_asked {
        action = context.actions.of(dataset);
    }
    let found = (|| {
        if let Some(tree) = tree {
            tree.find(context, key, &mut search, action.as_deref())?;
        }
        search.value(context, key, action.as_deref())
    })();
    explained(context, dataset, found)
}

/// The outcome of reading a dataset: an error of its action gets a name.
fn explained<T>(context: &Context, dataset: u32, found: crate::Result<T>) -> Result<T> {
    Ok(found.map_err(|error| context.actions.explain(dataset, error))?)
}

/// The word of a graft on a key: its value, or none; `None` if the graft does not have the key.
fn get_in_graft(context: &Context, graft: &Graft, key: &[u8]) -> Result<Option<Option<Bytes>>> {
    for part in &graft.of.parts {
        if let InSource::At(in_source) = part.find(key)
            && part.has(&in_source)
            && let Some(value) = get(context, &graft.view, graft.at, part.source, &in_source)?
        {
            return Ok(Some((!part.deletes).then_some(value)));
        }
    }
    Ok(graft.of.ranges.covering(key).is_some().then_some(None))
}

/// The value of a key in a tree.
pub(crate) fn get_in_tree(
    context: &Context,
    (dataset, tree): (u32, &Tree),
    key: &[u8],
) -> Result<Option<Bytes>> {
    let (mut search, action) = (Search::default(), context.actions.of(dataset));
    let found = tree.find(context, key, &mut search, action.as_deref());
    explained(context, dataset, found.and_then(|()| search.value(context, key, action.as_deref())))
}
