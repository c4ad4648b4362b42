//! Finding a key: from the root down, in each node through the buffer of one slot, the newest run first.
//!
//! The first complete message ends the search; messages before it are merged with it. A lookup hashes the key once for
//! the filters of all runs.

use std::sync::Arc;

use halite_contract::Bytes;
use halite_sst::hash_key;

use crate::large::use_large;
use crate::message::{self, Action, Block, HeldMessage, Kind, LargeValue, Message, Payload};
use crate::run::{Found, Run};
use crate::tree::node::Link;
use crate::tree::{Context, Tree, in_run};
use crate::{Error, Result};

/// The message of a key, which older ones may be behind.
#[derive(Default)]
pub(crate) struct Search {
    found: Option<HeldMessage>,
    /// Messages that depend on older ones, and are older than the found one, the newest first. They are put together once:
    /// one after the other, each would cost as much as all before it.
    patches: Vec<HeldMessage>,
    is_over: bool,
}

impl Search {
    /// Adds the next older message. Returns whether older ones do not matter.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        older: HeldMessage,
        action: Option<&Action>,
    ) -> message::Parsed<bool> {
        self.is_over = older.kind.is_complete();
        let depends = |message: &HeldMessage| !message.kind.is_complete();
        if depends(&older) && self.found.as_ref().is_some_and(depends) {
            self.patches.push(older);
            return Ok(false);
        }
        self.join();
        self.found = Some(match self.found.take() {
            None => older,
            Some(newer) => newer.after(key, older.message(), action, &mut |_| ())?,
        });
        Ok(self.is_over)
    }

    /// Makes one message of all, whose parts apply one after the other, the oldest first.
    fn join(&mut self) {
        if let Some(found) = self.found.take_if(|_| !self.patches.is_empty()) {
            let all: Vec<HeldMessage> = self.patches.drain(..).rev().chain([found]).collect();
            let are_upserts = all.iter().all(|message| message.kind == Kind::Upsert);
            let mut payload = Vec::new();
            for message in all {
                match are_upserts || message.kind == Kind::Custom {
                    true => payload.extend_from_slice(&message.payload),
                    false => payload.extend_from_slice(&message::of_upsert(&message.payload)),
                }
            }
            let kind = if are_upserts { Kind::Upsert } else { Kind::Custom };
            self.found = Some(HeldMessage { kind, payload: Payload::Owned(payload) });
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
        action: Option<&Action>,
    ) -> message::Parsed<Option<HeldMessage>> {
        let are_many = !self.patches.is_empty();
        self.join();
        let Some(found) = self.found else { return Ok(None) };
        if self.is_over && !found.kind.is_complete() {
            return found.after(key, Message::DELETE, action, &mut |_| ()).map(Some);
        }
        // The normal form, whose length is bounded.
        let nothing = Message { kind: found.kind, payload: &[] };
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
        action: Option<&Action>,
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
    action: Option<&Action>,
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

/// A value, or where it lies.
pub(crate) enum FoundValue {
    Value(Bytes),
    Extents(LargeValue),
}

/// The value of a key by its message, before which it had none. One that lies in extents of its own is not read.
pub(crate) fn found_of(
    context: &Context,
    key: &[u8],
    message: HeldMessage,
    action: Option<&Action>,
) -> Result<Option<FoundValue>> {
    if message.kind == Kind::InsertLarge {
        let large = LargeValue::of_bytes(&message.payload);
        let large = large.map_err(|why| Error::Message { why: why.to_owned() })?;
        return Ok(Some(FoundValue::Extents(large)));
    }
    Ok(value_of(context, key, message, action)?.map(FoundValue::Value))
}

impl Tree {
    /// Looks a key up, below the messages that a search has found.
    pub(crate) fn find(
        &self,
        context: &Context,
        key: &[u8],
        search: &mut Search,
        action: Option<&Action>,
    ) -> Result<()> {
        find_below(context, &[], &self.root, key, search, action)
    }
}

/// Looks a key up in runs, the newest first, and in what a link leads to, below the messages that a search has found.
pub(crate) fn find_below(
    context: &Context,
    runs: &[Arc<Run>],
    link: &Link,
    key: &[u8],
    search: &mut Search,
    action: Option<&Action>,
) -> Result<()> {
    let hash = hash_key(key);
    let find_in_all = |runs: &[Arc<Run>], search: &mut Search| -> Result<bool> {
        for run in runs {
            if find_in(run, key, hash, search, action)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let find_in_leaf = |base: &Option<Arc<Run>>, search: &mut Search| -> Result<()> {
        find_in_all(base.as_slice(), search)?;
        search.end();
        Ok(())
    };
    if find_in_all(runs, search)? {
        return Ok(());
    }
    let mut node = match link {
        Link::Leaf(base) => return find_in_leaf(base, search),
        link => context.node(link)?,
    };
    loop {
        let slot = &node.slots[node.slot_of(key)];
        if find_in_all(&slot.runs, search)? {
            return Ok(());
        }
        node = match &slot.link {
            Link::Leaf(base) => return find_in_leaf(base, search),
            link => context.node(link)?,
        };
    }
}

/// Looks a key up in a run. Returns whether older ones do not matter.
fn find_in(
    run: &Run,
    key: &[u8],
    hash: u64,
    search: &mut Search,
    action: Option<&Action>,
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
