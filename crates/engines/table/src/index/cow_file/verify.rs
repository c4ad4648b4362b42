//! The check of a whole file.

use std::collections::HashSet;
use std::ops::Bound;

use super::cache::ByPage;
use super::chain;
use super::read::root_of;
use super::shared::{Shared, decode_root};
use super::space::Space;
use super::walk::{Part, walk};
use crate::index::Result;
use crate::index::btree::scan::{Direction, Scan};
use crate::index::btree::{Read, Root, get};
use crate::index::node::{self, Shape};

/// The sizes of the parts of a file, as a check found them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Trees with entries.
    pub trees: u64,
    /// Entries of all trees.
    pub entries: u64,
    /// Pages to which the directory leads, its own ones too.
    pub pages: u64,
}

/// Checks the directory, its trees, and the maps.
pub(super) fn verify(shared: &Shared, space: &Space, directory: Option<Root>) -> Result<Verified> {
    let mut verified = Verified::default();
    let mut reachable = HashSet::new();
    // The values of the directory are roots, in which a walk would look for chains.
    check_directory(shared, directory, &mut |page| claim(shared, &mut reachable, page))?;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut trees = Scan::new(shared, directory, all, Direction::Forward)?;
    while trees.advance()? {
        let tree = trees.key().first_chunk().map_or(0, |tree| u32::from_be_bytes(*tree));
        let root = root_of(shared, shared, directory, tree)?;
        let Some(root) = root.filter(|_| trees.key().len() == 4) else {
            return Err(
                shared.damaged(directory.map_or(0, |root| root.id as u32), "a tree has no number")
            );
        };
        verified.trees += 1;
        verified.entries += check_tree(shared, root, &mut reachable)?;
    }
    verified.pages = reachable.len() as u64;
    for page in 0..space.len() {
        match (space.is_used(page), reachable.contains(&page), space.is_own(page)) {
            (true, true, false) | (true, false, true) | (false, false, false) => {}
            (true, false, false) => return Err(shared.damaged(page, "it is leaked")),
            (_, true, true) => {
                return Err(shared.damaged(page, "a tree leads to it, and it is no page for trees"));
            }
            (false, ..) => return Err(shared.damaged(page, "a tree leads to it, and it is free")),
        }
    }
    match reachable.iter().find(|&&page| page >= space.len()) {
        Some(&page) => Err(shared.damaged(page, "a tree leads to it, and it is behind the end")),
        None => Ok(verified),
    }
}

/// Takes note of a page that something leads to.
fn claim(shared: &Shared, reachable: &mut HashSet<u32>, page: u32) -> Result<()> {
    match reachable.insert(page) {
        true => Ok(()),
        false => Err(shared.damaged(page, "it is in two places of the trees")),
    }
}

/// Visits the nodes of the directory, and checks that each value is a root.
fn check_directory(
    shared: &Shared,
    root: Option<Root>,
    visit: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<()> {
    let Some(Root { id, level }) = root else { return Ok(()) };
    visit(id as u32)?;
    let page = shared.node(id, level)?;
    for index in 0..node::count(&page) {
        if level > 0 {
            let root =
                Root { id: node::child(&page, Shape::BYTES.inner(), index), level: level - 1 };
            check_directory(shared, Some(root), visit)?;
        } else if decode_root(node::value(&page, Shape::BYTES, index)).is_none() {
            return Err(shared.damaged(id as u32, "the directory has no root for a tree"));
        }
    }
    Ok(())
}

/// Checks a tree; returns how many entries it has.
fn check_tree(shared: &Shared, root: Root, reachable: &mut HashSet<u32>) -> Result<u64> {
    walk(shared, shared, Some(root), &mut |part| match part {
        Part::Node(page) => claim(shared, reachable, page),
        Part::Chain(chain) => {
            let mut pages = chain::numbers(shared, &ByPage::default(), chain)?.into_iter();
            pages.try_for_each(|page| claim(shared, reachable, page))
        }
    })?;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut scan = Scan::new(shared, Some(root), all, Direction::Forward)?;
    let (mut entries, mut last) = (0, Vec::new());
    while scan.advance()? {
        if entries > 0 && last.as_slice() >= scan.key() {
            return Err(shared.damaged(root.id as u32, "the keys below it are not in order"));
        }
        // A key in the wrong subtree is not found.
        if get(shared, Some(root), scan.key(), |_| ())?.is_none() {
            return Err(shared.damaged(root.id as u32, "a key below it is in the wrong place"));
        }
        last.clear();
        last.extend_from_slice(scan.key());
        entries += 1;
    }
    Ok(entries)
}
