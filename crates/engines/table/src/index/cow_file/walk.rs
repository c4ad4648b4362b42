//! A walk over all pages of a tree.

use super::chain::{Chain, Value};
use super::shared::Shared;
use crate::index::btree::{Read, Root};
use crate::index::node::{self, Key, Shape};
use crate::index::{Error, Result};

/// A part of a tree.
pub(super) enum Part {
    Node(u32),
    Chain(Chain),
}

/// Visits all nodes of a tree and all chains of its keys and values, parents first. The visitor refuses a node that it
/// has seen, as a damaged tree may lead to it again and again.
pub(super) fn walk<S: Read<Error = Error>>(
    store: &S,
    shared: &Shared,
    root: Option<Root>,
    visit: &mut dyn FnMut(Part) -> Result<()>,
) -> Result<()> {
    let Some(Root { id, level }) = root else { return Ok(()) };
    visit(Part::Node(id as u32))?;
    let node = store.node(id, level)?;
    let shape = if level == 0 { Shape::BYTES } else { Shape::BYTES.inner() };
    for index in 0..node::count(&node) {
        if index >= shape.keyless
            && let Key::Long(first, len) = node::key(&node, shape, index)
        {
            visit(Part::Chain(Chain { first: first as u32, len }))?;
        }
        if level > 0 {
            let root = Root { id: node::child(&node, shape, index), level: level - 1 };
            walk(store, shared, Some(root), visit)?;
            continue;
        }
        match Value::decode(node::value(&node, shape, index)) {
            Ok(Value::Chain(chain)) => visit(Part::Chain(chain))?,
            Ok(Value::Whole(_)) => {}
            Err(reason) => return Err(shared.damaged(id as u32, reason)),
        }
    }
    Ok(())
}
