//! Patches: upserts and messages of users that change a value one after the other.
//!
//! ```text
//! patches:        patch, patch, ...     the oldest first
//!   patch         tag u8 | len varint | bytes       tag 0: an upsert; 1: a message of the dataset's action
//! patched value:  0 | patches           the key had no value
//!                 1 | len varint | value | patches
//! ```
//!
//! Neighbours of a kind become one patch, as long as the action can be called; else they stay one beside the other. A message
//! of kind `Custom` is patches; a value whose patches cannot be applied now is of kind `PatchedInsert`.

use std::borrow::Cow;

use halite_codec::{Reader, put_bytes};

use super::action::Action;
use super::{Parsed, upsert};

const UPSERT: u8 = 0;
const CUSTOM: u8 = 1;

/// The reason of a message in a dataset that has no action.
const NO_ACTION: &str = "the dataset has no action for it";

/// A patch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Patch<'a> {
    is_custom: bool,
    bytes: Cow<'a, [u8]>,
}

fn read(payload: &[u8]) -> Parsed<Vec<Patch<'_>>> {
    let (mut reader, mut patches) = (Reader(payload), Vec::new());
    while !reader.is_empty() {
        let is_custom = match reader.u8()? {
            UPSERT => false,
            CUSTOM => true,
            _ => return Err("a patch is of an unknown kind"),
        };
        patches.push(Patch { is_custom, bytes: reader.bytes()?.into() });
    }
    Ok(patches)
}

fn push(to: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    to.push(tag);
    put_bytes(to, bytes);
}

/// The patches that are one message of a user.
pub(crate) fn of_message(message: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    push(&mut to, CUSTOM, message);
    to
}

/// The patches that are one upsert.
pub(crate) fn of_upsert(payload: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    push(&mut to, UPSERT, payload);
    to
}

/// The patches of both, with neighbours as one where that can be.
pub(super) fn compose(
    key: &[u8],
    newer: &[u8],
    older: &[u8],
    action: Option<&Action>,
) -> Parsed<Vec<u8>> {
    let mut all = read(older)?;
    all.extend(read(newer)?);
    let mut to = Vec::new();
    for patch in join(key, all, action)? {
        push(&mut to, if patch.is_custom { CUSTOM } else { UPSERT }, &patch.bytes);
    }
    Ok(to)
}

/// Joins neighbours: halves, and then their ends, as joining one after the other would copy long ones often.
fn join<'a>(
    key: &[u8],
    mut patches: Vec<Patch<'a>>,
    action: Option<&Action>,
) -> Parsed<Vec<Patch<'a>>> {
    if patches.len() < 2 {
        return Ok(patches);
    }
    let behind = patches.split_off(patches.len() / 2);
    let (mut all, behind) = (join(key, patches, action)?, join(key, behind, action)?);
    let mut behind = behind.into_iter();
    if let (Some(older), Some(newer)) = (all.last_mut(), behind.next()) {
        let joined = match (older.is_custom, newer.is_custom) {
            (false, false) => Some(upsert::compose(&newer.bytes, &older.bytes)?),
            // Without the action, they stay apart.
            (true, true) => {
                action.and_then(|action| action.merge(key, &newer.bytes, &older.bytes).ok())
            }
            _ => None,
        };
        match joined {
            Some(joined) => older.bytes = joined.into(),
            None => all.push(newer),
        }
    }
    all.extend(behind);
    Ok(all)
}

/// The value after patches.
pub(super) fn apply(
    key: &[u8],
    payload: &[u8],
    mut value: Option<Vec<u8>>,
    action: Option<&Action>,
) -> Parsed<Option<Vec<u8>>> {
    for patch in read(payload)? {
        match patch.is_custom {
            false => upsert::apply(&patch.bytes, value.get_or_insert_default())?,
            true => value = action.ok_or(NO_ACTION)?.apply(key, &patch.bytes, value)?,
        }
    }
    Ok(value)
}

/// A value with patches that cannot be applied now.
pub(super) fn patched(value: Option<&[u8]>, patches: &[u8]) -> Vec<u8> {
    let mut to = vec![value.is_some().into()];
    value.iter().for_each(|value| put_bytes(&mut to, value));
    to.extend_from_slice(patches);
    to
}

/// The value and the patches of such a payload.
pub(super) fn read_patched(payload: &[u8]) -> Parsed<(Option<&[u8]>, &[u8])> {
    let mut reader = Reader(payload);
    let value = match reader.u8()? {
        0 => None,
        1 => Some(reader.bytes()?),
        _ => return Err("a patched value is neither there nor absent"),
    };
    Ok((value, reader.0))
}
