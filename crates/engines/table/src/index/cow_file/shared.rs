//! The state that the writer and all snapshots share: the file, the cache, and which directories are being read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use halite_disk::{Disk, PositionedFile};
use halite_sim::locks::Mutex;

use super::cache::Cache;
use super::page::{self, Pages};
use crate::component::Component;
use crate::index::btree::{LEVELS_MAX, Read, Root, shape_of};
use crate::index::node::{self, Shape};
use crate::index::{Error, Result};

pub(super) struct Shared {
    pub(super) file: PositionedFile,
    pub(super) pages: Pages,
    pub(super) cache: Mutex<Cache>,
    /// Snapshots by the sequences of their directories.
    snapshots: Mutex<BTreeMap<u64, usize>>,
    /// The lock of the folder, as long as anybody reads the file.
    _disk: Disk,
}

impl Shared {
    pub(super) fn new(disk: Disk, file: PositionedFile, pages: Pages, cache_bytes: usize) -> Self {
        let cache = Mutex::new(Cache::new((cache_bytes / pages.len).max(16)));
        Self { file, pages, cache, snapshots: Mutex::default(), _disk: disk }
    }

    /// The error of a damaged page.
    pub(super) fn damaged(&self, page: u32, reason: &'static str) -> Error {
        Error::Damaged { path: self.file.path().to_owned(), page, reason }
    }

    /// Bytes of a node.
    pub(super) fn node_len(&self) -> usize {
        self.pages.len - page::HEAD
    }

    /// Reads adjacent pages into a buffer of their length.
    pub(super) fn read(&self, page: u32, to: &mut [u8]) -> Result<()> {
        let _in = Component::Storage.enter();
        let place = self.pages.place(page);
        if page == 0 || place + to.len() as u64 > self.file.len() {
            return Err(self.damaged(page, "it is outside the file"));
        }
        Ok(self.file.read_at(place, to)?)
    }

    /// The page of a node, checked.
    fn node_page(&self, number: u32) -> Result<Arc<[u8]>> {
        if let Some(page) = self.cache.lock().get(number) {
            return Ok(page);
        }
        let mut bytes = vec![0; self.pages.len];
        self.read(number, &mut bytes)?;
        let damaged = |reason| self.damaged(number, reason);
        let (level, node) = self.pages.check(number, &bytes).map_err(damaged)?;
        if usize::from(level) >= LEVELS_MAX {
            return Err(damaged("it is no node"));
        }
        node::check(node, shape_of::<Self>(level)).map_err(damaged)?;
        let page: Arc<[u8]> = bytes.into();
        self.cache.lock().insert(number, Arc::clone(&page));
        Ok(page)
    }

    /// Takes note of a snapshot.
    pub(super) fn begin_snapshot(&self, sequence: u64) {
        *self.snapshots.lock().entry(sequence).or_default() += 1;
    }

    /// Takes note that one ends.
    pub(super) fn end_snapshot(&self, sequence: u64) {
        let mut snapshots = self.snapshots.lock();
        if let Some(count) = snapshots.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&sequence);
            }
        }
    }

    /// The sequence of the oldest directory that a snapshot reads.
    pub(super) fn oldest_snapshot(&self) -> Option<u64> {
        self.snapshots.lock().keys().next().copied()
    }
}

/// The page of a node that is being read.
pub(super) enum NodePage<'a> {
    Kept(Arc<[u8]>),
    Dirty(&'a [u8]),
}

impl Deref for NodePage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Kept(page) => &page[page::HEAD..],
            Self::Dirty(page) => &page[page::HEAD..],
        }
    }
}

impl Read for Shared {
    type Error = Error;
    type Node<'a> = NodePage<'a>;

    const LEAF: Shape = Shape::BYTES;

    fn node(&self, id: u64, level: u8) -> Result<NodePage<'_>> {
        // The number of a page has four bytes.
        let id = id as u32;
        let page = self.node_page(id)?;
        match page[page::HEAD - 1] == level {
            true => Ok(NodePage::Kept(page)),
            false => Err(self.damaged(id, "it is of another level of the tree")),
        }
    }

    fn long_key(&self, reference: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(super::chain::read(self, &Default::default(), reference as u32, len)?))
    }
}

/// Bytes of a root in the directory.
const ROOT_LEN: usize = 5;

/// The root of a tree as the directory has it.
pub(super) fn encode_root(root: Root) -> [u8; ROOT_LEN] {
    let mut bytes = [0; ROOT_LEN];
    bytes[..4].copy_from_slice(&(root.id as u32).to_le_bytes());
    bytes[4] = root.level;
    bytes
}

/// The root that these bytes are.
pub(super) fn decode_root(bytes: &[u8]) -> Option<Root> {
    let bytes: &[u8; ROOT_LEN] = bytes.as_array()?;
    let root = Root { id: u32::from_le_bytes(*bytes.first_chunk()?).into(), level: bytes[4] };
    (usize::from(root.level) < LEVELS_MAX).then_some(root)
}
