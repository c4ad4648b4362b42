//! Writing nodes: children before their parents.

use std::sync::Arc;

use crate::allocation::Purpose;
use crate::message::Parsed;
use crate::storage::{Extent, Extents};
use crate::tree::node::{Link, Node};
use crate::tree::pointer::{NodePointer, encode, seed_of};
use crate::tree::{Context, Tree};
use crate::{Error, Result};

impl Context {
    /// Writes the nodes of a tree that are not stored yet. The written nodes are noted, also if that fails.
    pub(crate) fn write_back(&self, tree: &Tree, written: &mut Vec<Extent>) -> Result<Tree> {
        Ok(Tree { root: self.write_link(&tree.root, written)? })
    }

    fn write_link(&self, link: &Link, written: &mut Vec<Extent>) -> Result<Link> {
        let Link::Fresh(node) = link else { return Ok(link.clone()) };
        let mut stored = Node::clone(node);
        for slot in &mut stored.slots {
            slot.link = self.write_link(&slot.link, written)?;
        }
        let bytes = encode(&stored);
        check_len(bytes.len(), self.storage.extent_bytes_max())
            .map_err(|why| Error::Message { why: why.to_owned() })?;
        let extent =
            self.storage.write_for(Purpose::Reserve, self.settings.placement.metadata, &bytes)?;
        written.push(extent);
        let birth = self.epoch();
        let checksum = seed_of(self.seed, extent.address, birth).checksum(&bytes);
        let pointer = NodePointer { extent, len: bytes.len() as u32, checksum, birth };
        self.remember(&pointer, &Arc::new(stored));
        Ok(Link::Stored(Arc::new(pointer)))
    }
}

fn check_len(len: usize, max: usize) -> Parsed<()> {
    match len <= max {
        true => Ok(()),
        false => Err("a node is longer than an extent; make its keys shorter"),
    }
}
