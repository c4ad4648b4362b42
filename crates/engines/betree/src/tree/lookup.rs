//! Finding a key: from the root down, in each node through the buffer of one slot, the newest run first.
//!
//! The first complete message ends the search; messages before it are merged with it. A lookup hashes the key once for
//! the filters of all runs.

use halite_contract::Bytes;
use halite_sst::hash_key;

use crate::large::use_large;
use crate::message::{self, Block, HeldMessage, Kind, Message, MessageAction, Payload};
use crate::run::{Found, Run};
use crate::tree::node::Link;
use crate::tree::{Context, Tree, in_run};
use crate::{Error, Result};

/// The message of a key, which older ones may be behind.
#[derive(Default)]
pub(crate) struct Search {
    found: Option<HeldMessage>,
    /// Upserts that are older than the found one, the newest first. They are put together once: one after the other,
    /// each would cost as much as all before it.
    upserts: Vec<HeldMessage>,
    is_over: bool,
}

impl Search {
    /// Adds the next older message. Returns whether older ones do not matter.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        older: HeldMessage,
        action: Option<&dyn MessageAction>,
    ) -> message::Parsed<bool> {
        self.is_over = older.kind.is_complete();
        let is_upsert = |message: &HeldMessage| message.kind == Kind::Upsert;
        if is_upsert(&older) && self.found.as_ref().is_some_and(is_upsert) {
            self.upserts.push(older);
            return Ok(false);
        }
        self.join();
        self.found = Some(match self.found.take() {
            None => older,
            Some(newer) => newer.after(key, older.message(), action, &mut |_| ())?,
        });
        Ok(self.is_over)
    }

    /// Makes one upsert of all: their operations apply one after the other, the oldest first.
    fn join(&mut self) {
        if let Some(found) = self.found.take_if(|_| !self.upserts.is_empty()) {
            let mut payload = Vec::new();
            for upsert in self.upserts.drain(..).rev().chain([found]) {
                payload.extend_from_slice(&upsert.payload);
            }
            self.found = Some(HeldMessage { kind: Kind::Upsert, payload: Payload::Owned(payload) });
        }
    }

    /// Notes that the key had no value before.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Whether nothing was found yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    /// Whether older messages do not matter.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The message that was found; if there is nothing older, one that does not depend on it.
    pub(crate) fn into_message(
        mut self,
        key: &[u8],
        action: Option<&dyn MessageAction>,
    ) -> message::Parsed<Option<HeldMessage>> {
        let are_many = !self.upserts.is_empty();
        self.join();
        let Some(found) = self.found else { return Ok(None) };
        if self.is_over && !found.kind.is_complete() {
            return found.after(key, Message::DELETE, action, &mut |_| ()).map(Some);
        }
        // The normal form, whose length is bounded.
        let nothing = Message { kind: Kind::Upsert, payload: &[] };
        match are_many {
            true => found.after(key, nothing, action, &mut |_| ()).map(Some),
            false => Ok(Some(found)),
        }
    }

    /// The value.
    pub(crate) fn value(
        mut self,
        context: &Context,
        key: &[u8],
        action: Option<&dyn MessageAction>,
    ) -> Result<Option<Bytes>> {
        self.join();
        self.found.map_or(Ok(None), |message| value_of(context, key, message, action))
    }
}

/// The value of a key by its message, before which it had none.
pub(crate) fn value_of(
    context: &Context,
    key: &[u8],
    message: HeldMessage,
    action: Option<&dyn MessageAction>,
) -> Result<Option<Bytes>> {
    match (message.kind, message.payload) {
        (Kind::Delete, _) => Ok(None),
        (Kind::Insert, Payload::Owned(bytes)) => Ok(Some(bytes.into())),
        (Kind::Insert, Payload::Shared(Block::InPlace(pinned), range)) => {
            Ok(Some(Bytes::from(pinned).slice(range)))
        }
        (Kind::Insert, payload) => Ok(Some(Bytes::from(&payload[..]))),
        (kind, payload) => {
            let message = Message { kind, payload: &payload };
            let damaged = |why: &str| Error::Message { why: why.to_owned() };
            let large = message.large().map_err(damaged)?;
            let large = large.map(|large| use_large(context, &large)).transpose()?;
            let value = message::apply(key, message, large, action).map_err(damaged)?;
            Ok(value.map(Bytes::from))
        }
    }
}

impl Tree {
    /// Looks a key up, below the messages that a search has found.
    pub(crate) fn find(
        &self,
        context: &Context,
        key: &[u8],
        search: &mut Search,
        action: Option<&dyn MessageAction>,
    ) -> Result<()> {
        let hash = hash_key(key);
        let mut node = context.node(&self.root)?;
        loop {
            let slot = &node.slots[node.slot_of(key)];
            for run in &slot.runs {
                if find_in(run, key, hash, search, action)? {
                    return Ok(());
                }
            }
            node = match &slot.link {
                Link::Leaf(base) => {
                    if let Some(base) = base {
                        find_in(base, key, hash, search, action)?;
                    }
                    search.end();
                    return Ok(());
                }
                link => context.node(link)?,
            };
        }
    }
}

/// Looks a key up in a run. Returns whether older ones do not matter.
fn find_in(
    run: &Run,
    key: &[u8],
    hash: u64,
    search: &mut Search,
    action: Option<&dyn MessageAction>,
) -> Result<bool> {
    match run.find(key, hash)? {
        Found::Nothing => {}
        Found::Deleted => search.end(),
        Found::Message { message, was_deleted } => {
            in_run(run, search.add(key, message, action))?;
            if was_deleted {
                search.end();
            }
        }
    }
    Ok(search.is_over())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Merged, UpsertBuilder, merge};

    /// Messages on the first bytes of a value.
    fn message() -> impl Strategy<Value = (Kind, Vec<u8>)> {
        let bytes = prop::collection::vec(any::<u8>(), 0..6);
        (0_u8..5, 0_usize..9, bytes).prop_map(|(kind, offset, bytes)| match kind {
            0 => (Kind::Delete, Vec::new()),
            1 => (Kind::Insert, bytes),
            _ => {
                let mut upsert = UpsertBuilder::default();
                upsert.overwrite(offset, &bytes);
                (Kind::Upsert, upsert.finish())
            }
        })
    }

    proptest! {
        #[test]
        fn a_search_finds_what_its_messages_merge_to_one_by_one(
            messages in prop::collection::vec(message(), 1..8),
            ends in any::<bool>(),
        ) {
            let mut search = Search::default();
            let mut expected: Option<HeldMessage> = None;
            for (kind, payload) in messages {
                let older = HeldMessage { kind, payload: Payload::Owned(payload) };
                expected = Some(match expected {
                    None => older.clone(),
                    Some(newer) => newer.after(b"k", older.message(), None, &mut |_| ()).unwrap(),
                });
                if search.add(b"k", older, None).unwrap() {
                    break;
                }
            }
            let mut expected = expected.unwrap();
            if ends {
                search.end();
                let merged = merge(b"k", expected.message(), Message::DELETE, None, &mut |_| ());
                if let Merged::Owned(kind, payload) = merged.unwrap() {
                    expected = HeldMessage { kind, payload: Payload::Owned(payload) };
                }
            }
            let found = search.into_message(b"k", None).unwrap().unwrap();
            prop_assert_eq!(found.message(), expected.message());
        }
    }
}
