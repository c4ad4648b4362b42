//! Messages: the changes that travel down the tree, at most one for each key in a run.
//!
//! | kind | payload | changes the value to |
//! |---|---|---|
//! | `Delete` | none | none |
//! | `Insert` | the value | the payload |
//! | `Upsert` | operations on ranges of the value (`upsert`) | the older value with the operations applied |
//! | `InsertLarge` | a reference (`large_value`) | the bytes of extents of the value's own |
//! | `PatchedLarge` | a reference, and a patch: a kind and a payload | these bytes with the patch applied |
//! | `Custom` | patches (`patches`), some of which only a [`MessageAction`] understands | what they make of the older value |
//! | `PatchedInsert` | a value, and patches for which the action is missing | what they make of that value |
//!
//! A message is *complete* if it does not depend on the older value: all but `Upsert` and `Custom`. Two messages of one
//! key merge into one (`merge`): a complete newer one wins and is not copied; another one is applied to an older value,
//! or composed with an older message. A value in extents of its own is not read for it: it becomes `PatchedLarge`,
//! which the merge of a leaf resolves. Payloads come from devices, so each defect is a reason, to which the caller adds
//! the place.

mod action;
mod held;
mod kinds;
mod large_value;
mod merge;
mod patches;
mod upsert;

pub use action::MessageAction;
pub(crate) use action::{ACTION_FAILED, ACTION_MISSING, Action};
pub(crate) use held::{Block, HeldMessage, Payload};
pub(crate) use kinds::{Kind, Message};
pub(crate) use large_value::{
    LargeValue, NOT_ENTERED, Piece, byte_len, elsewhere, enter, is_elsewhere, put_extent,
    read_extent,
};
#[cfg(test)]
pub(crate) use merge::Merged;
pub(crate) use merge::{apply, is_defect, merge};
pub(crate) use patches::{of_message, of_upsert};
pub(crate) use upsert::UpsertBuilder;

/// The outcome of parsing bytes whose place the caller knows: the error is only the defect.
pub(crate) type Parsed<T> = Result<T, &'static str>;
