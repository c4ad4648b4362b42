//! Sending.

use std::io::Write;
use std::sync::Arc;

use halite_contract::{KeySpaceId, Progress, Result, TransferReport};

use super::content::{ContentWriter, behind};
use super::differences::Differences;
use super::error::StreamError;
use super::header::{Header, ReceiveToken, StreamPart};
use crate::dataset::api::no_snapshot;
use crate::home::pool_id;
use crate::large::read_piece;
use crate::message::{Action, HeldMessage, Kind, byte_len};
use crate::run::Source;
use crate::tree::Context;
use crate::tree::cursor::TreeCursor;
use crate::tree::lookup::value_of;
use crate::{Betree, Error};

/// Keys that were deleted, one after the other, with no key between them.
struct Deleted {
    first: Vec<u8>,
    last: Vec<u8>,
    /// The next key that may have a value.
    next: Option<Vec<u8>>,
}

/// Writes what becomes of keys.
struct Sender<'a, 'p> {
    context: &'a Context,
    action: Option<Arc<Action>>,
    content: ContentWriter<'a>,
    progress: Progress<'p>,
    total: u64,
    deleted: Option<Deleted>,
}

impl Betree {
    /// Sends a snapshot, or what is different in it from an older one of the dataset, to a file or pipe; from a token
    /// on, the rest of a stream that was interrupted. `progress` gets the bytes of the stream and about how many there
    /// will be at the most, and may stop it. Memory is bounded, whatever the lengths of values.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchSnapshot`]; [`Error::Stream`]; those of reading.
    pub fn send(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        from: Option<&str>,
        resume: Option<&ReceiveToken>,
        out: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<TransferReport> {
        let store = &*self.store;
        let catalogue = store.catalogue.load_full();
        let dataset = catalogue.name(space)?.to_string();
        let find = |name: &str| {
            let found = catalogue.snapshot_of(space, name);
            found.ok_or_else(|| no_snapshot(name))
        };
        let to = find(snapshot)?;
        let base = from.map(find).transpose()?;
        if let (Some(base), Some(from)) = (base, from)
            && base.number >= to.number
        {
            let (from, snapshot) = (from.to_owned(), snapshot.to_owned());
            return Err(Error::from(StreamError::NotOlder { from, snapshot }).into());
        }
        let mut part =
            StreamPart { identity: to.identity, from: base.map(|base| base.identity), start: None };
        if let Some(ReceiveToken(asked)) = resume {
            if (asked.identity, asked.from) != (part.identity, part.from) {
                let why = "the token is of another transfer";
                return Err(Error::from(StreamError::NotResumable { why }).into());
            }
            part = asked.clone();
        }
        let start = part.start.clone().unwrap_or_default();
        let (_view, tree) = self.snapshot_tree((space.0, to.number))?;
        let older = match base {
            None => None,
            Some(base) => {
                let id = (space.0, base.number);
                let (view, tree) = self.snapshot_tree(id)?;
                let root = store.checkpoints.lock().histories.snapshot(id).copied();
                let root = root.ok_or_else(|| no_snapshot(from.unwrap_or_default()))?;
                Some((view, tree, root.epoch))
            }
        };
        let pool = &store.home.pool();
        let id = u128::from(pool.random()?) << 64 | u128::from(pool.random()?);
        let header = Header {
            id,
            pool: pool_id(&store.home),
            dataset,
            snapshot: snapshot.to_owned(),
            from: from.unwrap_or_default().to_owned(),
            part,
        };
        let context = &*store.trees;
        let content = ContentWriter::begin(out, &header).map_err(Error::from)?;
        let action = context.actions.of(space.0);
        let mut sender = Sender { context, action, content, progress, total: 0, deleted: None };
        match older {
            None => {
                sender.total = self.bytes_of_tree(&tree)?;
                let action = context.actions.of(space.0);
                let mut cursor = TreeCursor::new(&store.trees, tree, &start, None, action);
                cursor.first()?;
                while let Some(key) = cursor.key() {
                    sender.put(key, cursor.message())?;
                    cursor.next()?;
                }
            }
            Some((_view, older, epoch)) => {
                let mut differences =
                    Differences::new(&store.trees, space.0, (&older, epoch), &tree, start)?;
                sender.total = differences.bytes_max();
                while let Some(difference) = differences.next()? {
                    let has_value = match difference.message {
                        Some(message) => sender.put(&difference.key, message)?,
                        None => false,
                    };
                    if !has_value {
                        sender.delete(difference.key, difference.next)?;
                    }
                }
                sender.end_deleted()?;
            }
        }
        Ok(sender.content.finish().map_err(Error::from)?)
    }
}

impl Sender<'_, '_> {
    /// Sends the value of a key. Returns whether it has one.
    fn put(&mut self, key: &[u8], message: HeldMessage) -> crate::Result<bool> {
        if message.kind == Kind::InsertLarge {
            let large = message.message().large();
            let large = large.map_err(|why| Error::Message { why: why.to_owned() })?;
            let Some(large) = large else { return Ok(false) };
            self.begin_put(key, large.len)?;
            let (mut left, mut bytes) = (large.len, Vec::new());
            for piece in &large.pieces {
                bytes.resize((byte_len(piece.extent) as u64).min(left) as usize, 0);
                left -= bytes.len() as u64;
                read_piece(self.context, &large, piece, &mut bytes)?;
                self.content.add(&bytes)?;
                self.report()?;
            }
            return Ok(true);
        }
        let Some(value) = value_of(self.context, key, message, self.action.as_deref())? else {
            return Ok(false);
        };
        self.begin_put(key, value.len() as u64)?;
        self.content.add(&value)?;
        Ok(true)
    }

    fn begin_put(&mut self, key: &[u8], len: u64) -> crate::Result<()> {
        self.end_deleted()?;
        self.report()?;
        Ok(self.content.put(key, len)?)
    }

    /// Sends that a key is deleted, with its neighbours.
    fn delete(&mut self, key: Vec<u8>, next: Option<Vec<u8>>) -> crate::Result<()> {
        if let Some(deleted) = &mut self.deleted
            && deleted.next.as_ref().is_none_or(|next| key < *next)
        {
            (deleted.last, deleted.next) = (key, next);
            return Ok(());
        }
        self.end_deleted()?;
        self.deleted = Some(Deleted { first: key.clone(), last: key, next });
        Ok(())
    }

    fn end_deleted(&mut self) -> crate::Result<()> {
        let Some(Deleted { first, last, .. }) = self.deleted.take() else { return Ok(()) };
        self.report()?;
        match first == last {
            true => self.content.delete(&first)?,
            false => self.content.delete_range(&first, &behind(&last))?,
        }
        Ok(())
    }

    fn report(&mut self) -> crate::Result<()> {
        let done = self.content.report.bytes;
        match (self.progress)(done, self.total.max(done)).is_continue() {
            true => Ok(()),
            false => Err(StreamError::Stopped.into()),
        }
    }
}

impl Betree {
    /// Bytes of a tree, about.
    fn bytes_of_tree(&self, tree: &crate::tree::Tree) -> crate::Result<u64> {
        let context: &Arc<Context> = &self.store.trees;
        crate::dataset::grafting::bytes_of_tree(context, tree, (None, None))
    }
}
