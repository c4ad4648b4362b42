//! The bytes that lead to a node, read as far as an operation needs them.

use super::Records;
use super::lock::Restart;
use super::node::Node;
use super::reclaim::Pin;
use super::sought::{Sought, common_len};
use super::word::Child;

/// Returns where a key parts from the path to a node, and the path's byte there; none if all bytes up to the
/// node's level are the path's. The first `known` are.
pub(super) fn parting(
    node: Node,
    sought: &Sought,
    known: usize,
    pin: &Pin,
    records: &impl Records,
) -> Result<Option<(usize, u8)>, Restart> {
    let level = node.level();
    if node.window_start() > known {
        // Some bytes of the path are in no node, so they are read from a record.
        let path = records.key(any_entry(node, pin)?);
        let path = path.get(..level).unwrap_or(path);
        let at = common_len(path, sought.key);
        return Ok(path.get(at).map(|&byte| (at, byte)));
    }
    let differences = sought.window(level) ^ node.window();
    let equal = node.window_start() + differences.trailing_zeros() as usize / 8;
    let at = equal.min(level).min(sought.key.len());
    Ok((at < level).then(|| (at, node.window_byte(at))))
}

/// An entry of a key below a node.
fn any_entry(node: Node, _pin: &Pin) -> Result<u64, Restart> {
    let mut node = node;
    loop {
        let version = node.lock().read()?;
        let word = (0..node.places()).map(|place| node.at(place).1).find(|&word| word != 0);
        // SAFETY: the word was loaded from a slot, after pinning.
        let child = unsafe { Child::of(word.unwrap_or_default()) };
        match child {
            Child::Nothing => {
                // Every node has a child, so this one was changed.
                return Err(Restart);
            }
            Child::Leaf(leaf) => {
                let entry = leaf.newest();
                return node.lock().validate(version).map(|()| entry);
            }
            Child::Node(below) => {
                node.lock().validate(version)?;
                node = below;
            }
        }
    }
}
