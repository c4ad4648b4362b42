//! Long keys and values: chains of pages.
//!
//! ```text
//!  page:   head | next page u32, 0 at the end | bytes
//!  value:  0 | bytes                          in a leaf, as it is
//!          1 | first page u32 | length u32    in a chain
//! ```
//!
//! A reader fetches pages ahead in the hope that a chain has adjacent ones, as it does if it was written while there
//! was free space in one piece. Chains are not kept in the cache.

use std::borrow::Cow;

use super::cache::ByPage;
use super::page::{CHAIN, HEAD, VALUE_LEN_MAX, blank};
use super::shared::Shared;
use crate::index::Result;

/// Bytes of the number of the next page.
const NEXT: usize = 4;

/// Pages that a reader fetches at once at most.
const AHEAD: usize = 64;

/// A value as a leaf has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Whole(&'a [u8]),
    Chain(Chain),
}

/// Where a value is that a leaf has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) first: u32,
    pub(super) len: usize,
}

impl<'a> Value<'a> {
    /// Decodes the bytes of a leaf.
    pub(super) fn decode(bytes: &'a [u8]) -> std::result::Result<Self, &'static str> {
        match bytes.split_first() {
            Some((0, bytes)) => Ok(Self::Whole(bytes)),
            Some((1, bytes)) => {
                let (first, len) = bytes.split_first_chunk().ok_or("a value is cut")?;
                let len = u32::from_le_bytes(*len.as_array().ok_or("a value is cut")?) as usize;
                match len <= VALUE_LEN_MAX {
                    true => Ok(Self::Chain(Chain { first: u32::from_le_bytes(*first), len })),
                    false => Err("a value is too long"),
                }
            }
            _ => Err("a value is of no known kind"),
        }
    }

    /// The bytes for a leaf.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => [&[0], *bytes].concat(),
            Self::Chain(Chain { first, len }) => {
                [&[1], &first.to_le_bytes()[..], &(*len as u32).to_le_bytes()].concat()
            }
        }
    }
}

/// Pages of a chain of so many bytes; one at least.
pub(super) fn pages_of(shared: &Shared, len: usize) -> usize {
    len.div_ceil(shared.pages.len - HEAD - NEXT).max(1)
}

/// The pages of a chain that leads through the given ones.
pub(super) fn build(shared: &Shared, pages: &[u32], bytes: &[u8]) -> Vec<(u32, Box<[u8]>)> {
    let parts = bytes.chunks(shared.pages.len - HEAD - NEXT).chain([&[][..]]);
    let build = |(at, part): (usize, &[u8])| {
        let mut page = blank(shared.pages.len, CHAIN);
        let next = pages.get(at + 1).copied().unwrap_or(0);
        page[HEAD..HEAD + NEXT].copy_from_slice(&next.to_le_bytes());
        page[HEAD + NEXT..][..part.len()].copy_from_slice(part);
        (pages[at], page)
    };
    parts.take(pages.len()).enumerate().map(build).collect()
}

/// The bytes of a chain.
pub(super) fn read(
    shared: &Shared,
    dirty: &ByPage<Box<[u8]>>,
    first: u32,
    len: usize,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    visit(shared, dirty, Chain { first, len }, |_, part| bytes.extend_from_slice(part))?;
    Ok(bytes)
}

/// The numbers of the pages of a chain.
pub(super) fn numbers(
    shared: &Shared,
    dirty: &ByPage<Box<[u8]>>,
    chain: Chain,
) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    visit(shared, dirty, chain, |page, _| numbers.push(page))?;
    Ok(numbers)
}

/// Goes along a chain, and hands over each page's number and bytes.
fn visit(
    shared: &Shared,
    dirty: &ByPage<Box<[u8]>>,
    Chain { first, len }: Chain,
    mut take: impl FnMut(u32, &[u8]),
) -> Result<()> {
    let (part, page_len) = (shared.pages.len - HEAD - NEXT, shared.pages.len);
    let (mut left, mut number) = (len, first);
    // Pages that were fetched: from which number on.
    let (mut fetched, mut start, mut ahead) = (Vec::new(), 0_u32, AHEAD);
    for at in (0..pages_of(shared, len)).rev() {
        let content: Cow<'_, [u8]> = match dirty.get(&number) {
            Some(page) => Cow::Borrowed(&page[HEAD - 1..]),
            None => {
                let mut place = (number.wrapping_sub(start) as usize).saturating_mul(page_len);
                if place >= fetched.len() {
                    let behind = shared.file.len().saturating_sub(shared.pages.place(number));
                    let there = (behind / page_len as u64).max(1) as usize;
                    fetched.resize((at + 1).min(ahead).min(there) * page_len, 0);
                    shared.read(number, &mut fetched)?;
                    (start, place) = (number, 0);
                    ahead = 1;
                }
                ahead = (ahead * 2).min(AHEAD);
                let page = &fetched[place..place + page_len];
                let checked = shared.pages.check(number, page);
                checked.map_err(|reason| shared.damaged(number, reason))?;
                Cow::Borrowed(&page[HEAD - 1..])
            }
        };
        let next = content[1..].first_chunk().map_or(0, |next| u32::from_le_bytes(*next));
        if content[0] != CHAIN || (next == 0) != (at == 0) {
            return Err(shared.damaged(number, "it is not the next page of a long key or value"));
        }
        let taken = left.min(part);
        take(number, &content[1 + NEXT..][..taken]);
        left -= taken;
        number = next;
    }
    Ok(())
}
