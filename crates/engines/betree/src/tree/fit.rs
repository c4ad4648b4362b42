//! Messages as a run can have them: a value that is another dataset's is copied, and what is too long for a run goes to
//! extents of its own.
//!
//! Merging may make a message longer than an entry of a run. A value becomes a reference then. A message that depends on
//! the older value is applied to that, which is looked up below the run: once for so many bytes of messages.

use std::sync::Arc;

use crate::Error;
use crate::Result;
use crate::allocation::Purpose;
use crate::large::{copy_large, write_large};
use crate::message::{Action, Kind, LargeValue, Message, enter, is_elsewhere};
use crate::placement::Placed;
use crate::run::{ENTRY_BYTES_MAX, Run};
use crate::storage::{Extent, Writes};
use crate::tree::Context;
use crate::tree::lookup::{Search, find_below};
use crate::tree::node::Link;

/// The place below a run that is written.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    pub(super) runs: &'a [Arc<Run>],
    /// `None`: there is nothing.
    pub(super) link: Option<&'a Link>,
}

/// Where large values go, and those that are not needed any more.
pub(super) struct Values {
    placed: Placed,
    pub(super) written: Vec<Extent>,
    pub(super) dropped: Vec<LargeValue>,
}

impl Values {
    /// Values that are placed as their dataset has it.
    pub(super) fn new(placed: Placed) -> Self {
        Self { placed, written: Vec::new(), dropped: Vec::new() }
    }
}

/// The payload, and the kind, that a run of an epoch has in the place of a message's; `None`: those of the message.
pub(super) fn fit(
    context: &Context,
    birth: u64,
    (key, message): (&[u8], Message<'_>),
    below: Below<'_>,
    action: Option<&Action>,
    values: &mut Values,
) -> Result<Option<(Kind, Vec<u8>)>> {
    let damaged = |why: &str| Error::Message { why: why.to_owned() };
    let is_too_long = key.len() + message.payload.len() > ENTRY_BYTES_MAX;
    match message.kind {
        Kind::InsertLarge if is_elsewhere(message.payload) => {
            let Some(large) = message.large().map_err(damaged)? else { return Ok(None) };
            let class = values.placed.large_value(key, large.len);
            let copy = copy_large(context, class, Purpose::Metadata, &large, &mut values.written)?;
            Ok(Some((Kind::InsertLarge, encoded(&copy))))
        }
        Kind::Insert if is_too_long => {
            let payload = write_value(context, birth, (key, message.payload), values)?;
            Ok(Some((Kind::InsertLarge, payload)))
        }
        Kind::PatchedLarge | Kind::PatchedInsert | Kind::Upsert | Kind::Custom if is_too_long => {
            values.dropped.extend(message.large().map_err(damaged)?);
            let mut search = Search::default();
            let is_over = search.add(key, message.into(), action).map_err(damaged)?;
            match below.link {
                Some(link) if !is_over => {
                    find_below(context, below.runs, link, key, &mut search, action)?;
                }
                _ => search.end(),
            }
            let Some(value) = search.value(context, key, action)? else {
                return Ok(Some((Kind::Delete, Vec::new())));
            };
            let payload = write_value(context, birth, (key, &value), values)?;
            Ok(Some((Kind::InsertLarge, payload)))
        }
        Kind::InsertLarge | Kind::PatchedLarge => {
            Ok(enter(message.payload, birth).map(|payload| (message.kind, payload)))
        }
        _ => Ok(None),
    }
}

/// Writes a value to extents. Returns the reference.
fn write_value(
    context: &Context,
    birth: u64,
    (key, value): (&[u8], &[u8]),
    values: &mut Values,
) -> Result<Vec<u8>> {
    let class = values.placed.large_value(key, value.len() as u64);
    let mut writes = Writes::new(&context.storage);
    let to = (&mut writes, &mut values.written);
    let large = write_large(context, class, Purpose::Metadata, birth, value, to)?;
    writes.finish()?;
    Ok(encoded(&large))
}

/// The reference to a value.
pub(super) fn encoded(large: &LargeValue) -> Vec<u8> {
    let mut payload = Vec::new();
    large.encode(&mut payload);
    payload
}
