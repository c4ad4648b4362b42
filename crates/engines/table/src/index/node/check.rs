//! The check of a node that was read: its checksum says that the bytes were written so, and this that they are a node.

use super::{HEAD, IN_SLOT, SLOT, Shape, Slot, count, dead, prefix_len, records};
use crate::index::KEY_LEN_MAX;

/// Checks all that the other functions rely on, of bytes that come from outside.
///
/// # Errors
/// The defect.
pub(crate) fn check(node: &[u8], shape: Shape) -> Result<(), &'static str> {
    let (count, records) = (count(node), records(node));
    let records_end = node.len().checked_sub(prefix_len(node)).ok_or("its prefix is too long")?;
    if prefix_len(node) > Shape::prefix_max(node.len()) {
        return Err("its prefix is too long");
    }
    if count == 0 || HEAD + count * SLOT > records || records > records_end {
        return Err("it has no entries, or more than fit");
    }
    let (mut taken, mut last) = (dead(node), None::<(u64, Option<(&[u8], usize)>)>);
    for index in 0..count {
        let slot = Slot::of(node, index);
        let start = slot.at;
        let fixed = if shape.value.is_none() { 2 } else { 0 };
        if start < records || start + fixed > records_end {
            return Err("a record is not among the records");
        }
        let len = slot.record_len(node, shape);
        if start + len > records_end {
            return Err("a record ends outside the node");
        }
        taken += len;
        let (key_len, is_long) = (slot.key_len(), slot.is_long());
        let whole_len = if is_long { key_len } else { key_len + prefix_len(node) };
        if whole_len > KEY_LEN_MAX || is_long && key_len <= shape.key_max(node.len()) {
            return Err("a key has a wrong length");
        }
        if index < shape.keyless {
            if slot.key != 0 || slot.head != 0 {
                return Err("its first child has a key");
            }
            continue;
        }
        let padding = IN_SLOT.saturating_sub(key_len) as u32 * 8;
        if !is_long && slot.head.trailing_zeros() < padding {
            return Err("a short key has bytes behind its end");
        }
        // The rest of a long key is elsewhere.
        let behind_head = (!is_long).then(|| (slot.rest(node, shape), key_len));
        let is_behind = last.is_none_or(|(head, before)| {
            let by_rest = || before.is_none() || behind_head.is_none() || before < behind_head;
            head < slot.head || head == slot.head && by_rest()
        });
        if !is_behind {
            return Err("its keys are not in order");
        }
        last = Some((slot.head, behind_head));
    }
    match taken == records_end - records {
        true => Ok(()),
        false => Err("its records do not fill their room"),
    }
}
