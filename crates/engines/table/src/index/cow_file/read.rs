//! Lookups and scans of the trees of a directory, the dirty one or a committed one.

use std::borrow::Cow;

use super::cache::ByPage;
use super::chain::{self, Value};
use super::shared::{Shared, decode_root};
use super::writer::Writer;
use crate::component::Component;
use crate::index::btree::scan::Scan;
use crate::index::btree::{Read, Root, get};
use crate::index::{Error, Result};

/// The root of a tree, by the directory.
pub(super) fn root_of<S: Read<Error = Error>>(
    store: &S,
    shared: &Shared,
    directory: Option<Root>,
    tree: u32,
) -> Result<Option<Root>> {
    let found = get(store, directory, &tree.to_be_bytes(), decode_root)?;
    let damaged = || shared.damaged(0, "the directory has no root for a tree");
    found.map(|root| root.ok_or_else(damaged)).transpose()
}

/// The value of a key of a tree.
pub(super) fn value_of<S: Read<Error = Error>>(
    store: &S,
    shared: &Shared,
    dirty: &ByPage<Box<[u8]>>,
    root: Option<Root>,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let found = get(store, root, key, |bytes| {
        Ok::<_, &'static str>(match Value::decode(bytes)? {
            Value::Whole(bytes) => Ok(bytes.to_vec()),
            Value::Chain(chain) => Err(chain),
        })
    })?;
    match found {
        None => Ok(None),
        Some(Err(reason)) => Err(shared.damaged(root.map_or(0, |root| root.id as u32), reason)),
        Some(Ok(Ok(bytes))) => Ok(Some(bytes)),
        Some(Ok(Err(chain))) => chain::read(shared, dirty, chain.first, chain.len).map(Some),
    }
}

/// The entries of a range of a tree, one after the other.
pub struct CowScan<'a>(Either<'a>);

enum Either<'a> {
    Dirty(Scan<'a, Writer>, &'a Writer),
    Committed(Scan<'a, Shared>, &'a Shared),
}

/// An entry that is lent until the scan goes on. A value is a copy if it is in pages of its own.
pub type Lent<'a> = (&'a [u8], Cow<'a, [u8]>);

impl<'a> CowScan<'a> {
    pub(super) fn dirty(scan: Scan<'a, Writer>, writer: &'a Writer) -> Self {
        Self(Either::Dirty(scan, writer))
    }

    pub(super) fn committed(scan: Scan<'a, Shared>, shared: &'a Shared) -> Self {
        Self(Either::Committed(scan, shared))
    }

    /// The next entry.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Disk`].
    #[expect(clippy::should_implement_trait, reason = "the entry is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Lent<'_>>> {
        let _in = Component::Index.enter();
        let (is_there, shared) = match &mut self.0 {
            Either::Dirty(scan, writer) => (scan.advance()?, &*writer.shared),
            Either::Committed(scan, shared) => (scan.advance()?, *shared),
        };
        if !is_there {
            return Ok(None);
        }
        let no_dirty = ByPage::default();
        let (key, stored, dirty) = match &self.0 {
            Either::Dirty(scan, writer) => (scan.key(), scan.value(), &writer.dirty),
            Either::Committed(scan, _) => (scan.key(), scan.value(), &no_dirty),
        };
        let value = match Value::decode(stored).map_err(|reason| shared.damaged(0, reason))? {
            Value::Whole(bytes) => Cow::Borrowed(bytes),
            Value::Chain(chain) => Cow::Owned(chain::read(shared, dirty, chain.first, chain.len)?),
        };
        Ok(Some((key, value)))
    }
}
