//! The dirty pages above the file: nodes that are copied on write.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::cache::ByPage;
use super::chain::{self, Chain, Value};
use super::page::{HEAD, blank};
use super::shared::{NodePage, Shared};
use super::space::Space;
use super::walk::{Part, walk};
use crate::component::Component;
use crate::index::btree::{Nodes, Read, Root};
use crate::index::node::Shape;
use crate::index::node::entries::Entries;
use crate::index::{Error, Result};

/// The dirty pages above the file.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) dirty: ByPage<Box<[u8]>>,
    pub(super) space: Space,
    scratch: Entries,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, space: Space) -> Self {
        Self { shared, dirty: ByPage::default(), space, scratch: Entries::default() }
    }

    /// Allocates a page.
    fn take_page(&mut self) -> Result<u32> {
        let full = || Error::Full { path: self.shared.file.path().to_owned() };
        self.space.allocate().ok_or_else(full)
    }

    /// Puts bytes into a chain.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<Chain> {
        let _in = Component::Storage.enter();
        let count = chain::pages_of(&self.shared, bytes.len());
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            match self.take_page() {
                Ok(page) => pages.push(page),
                Err(error) => {
                    pages.into_iter().for_each(|page| self.space.release_new(page));
                    return Err(error);
                }
            }
        }
        self.dirty.extend(chain::build(&self.shared, &pages, bytes));
        Ok(Chain { first: pages[0], len: bytes.len() })
    }

    /// Gives the pages of a chain back.
    fn release_chain(&mut self, chain: Chain) -> Result<()> {
        for page in chain::numbers(&self.shared, &self.dirty, chain)? {
            self.release(page.into());
        }
        Ok(())
    }

    /// Gives back what a value has beside its leaf, by the bytes that the leaf had.
    pub(super) fn release_value(&mut self, stored: &[u8]) -> Result<()> {
        match Value::decode(stored) {
            Ok(Value::Chain(chain)) => self.release_chain(chain),
            Ok(Value::Whole(_)) => Ok(()),
            Err(reason) => Err(self.shared.damaged(0, reason)),
        }
    }

    /// Gives all pages of a tree back.
    pub(super) fn release_tree(&mut self, root: Option<Root>) -> Result<()> {
        let (mut parts, mut nodes) = (Vec::new(), HashSet::new());
        walk(self, &self.shared, root, &mut |part| {
            if let Part::Node(page) = part
                && !nodes.insert(page)
            {
                return Err(self.shared.damaged(page, "it is in two places of the tree"));
            }
            parts.push(part);
            Ok(())
        })?;
        for part in parts {
            match part {
                Part::Node(page) => self.release(page.into()),
                Part::Chain(chain) => self.release_chain(chain)?,
            }
        }
        Ok(())
    }
}

impl Read for Writer {
    type Error = Error;
    type Node<'a> = NodePage<'a>;

    const LEAF: Shape = Shape::BYTES;

    fn node(&self, id: u64, level: u8) -> Result<NodePage<'_>> {
        match self.dirty.get(&(id as u32)) {
            Some(page) if page[HEAD - 1] == level => Ok(NodePage::Dirty(page)),
            Some(_) => Err(self.shared.damaged(id as u32, "it is of another level of the tree")),
            None => self.shared.node(id, level),
        }
    }

    fn long_key(&self, reference: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(chain::read(&self.shared, &self.dirty, reference as u32, len)?))
    }
}

impl Nodes for Writer {
    fn make_own(&mut self, id: u64, level: u8) -> Result<u64> {
        let _in = Component::Recovery.enter();
        if self.dirty.contains_key(&(id as u32)) {
            return Ok(id);
        }
        let copy = {
            let mut copy = blank(self.shared.pages.len, level);
            copy[HEAD..].copy_from_slice(&self.shared.node(id, level)?);
            copy
        };
        let own = self.take_page()?;
        self.dirty.insert(own, copy);
        self.space.release_old(id as u32);
        Ok(own.into())
    }

    fn node_mut(&mut self, id: u64) -> &mut [u8] {
        let page = self.dirty.get_mut(&(id as u32));
        &mut page.expect("a node is made writable before it is changed")[HEAD..]
    }

    fn allocate(&mut self, level: u8) -> Result<u64> {
        let page = self.take_page()?;
        self.dirty.insert(page, blank(self.shared.pages.len, level));
        Ok(page.into())
    }

    fn release(&mut self, id: u64) {
        let id = id as u32;
        match self.dirty.remove(&id) {
            Some(_) => self.space.release_new(id),
            None => self.space.release_old(id),
        }
    }

    fn keep_long_key(&mut self, key: &[u8]) -> Result<u64> {
        Ok(self.keep(key)?.first.into())
    }

    fn release_long_key(&mut self, reference: u64, len: usize) -> Result<()> {
        self.release_chain(Chain { first: reference as u32, len })
    }

    fn scratch(&mut self) -> &mut Entries {
        &mut self.scratch
    }
}
