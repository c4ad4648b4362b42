//! A layer on its way to the levels: its versions in order.

use std::ops::Bound;

use halite_index::{Direction, RadixCursor};
use halite_sst::{DELETE, Entry, PUT, PUT_FILE, RangeDelete, Span};

use crate::address::Address;
use crate::failure::{POOL, lost};
use crate::layer::Layer;
use crate::levels::{Error, Result};
use crate::levels::{SortedRun, Source};
use crate::pace::Pace;
use crate::record::Kind;
use crate::values::Values;
use crate::version::{file_of, join};

/// All of a layer that is not written to any more.
pub(crate) struct Run<'a, L> {
    pub(crate) layer: &'a L,
    /// Counts each key that was passed.
    pub(crate) pace: &'a Pace,
    /// The files of large values, of which those stay whose versions were passed.
    pub(crate) values: &'a Values,
    pub(crate) tree: u32,
}

impl<L: Layer> SortedRun for Run<'_, L> {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let cursor = self.layer.index().cursor_of_versions(start, end, Direction::Ascending);
        let mut versions = Versions {
            layer: self.layer,
            pace: self.pace,
            values: self.values,
            tree: self.tree,
            passed: 0,
            cursor,
            current: None,
            joined: Vec::new(),
        };
        versions.advance()?;
        Ok(Box::new(versions))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        self.layer.deletes().all()
    }

    fn span(&self) -> Option<Span> {
        let ends = [Direction::Ascending, Direction::Descending].map(|direction| {
            let mut cursor = self.layer.index().cursor_of_versions(
                Bound::Unbounded,
                Bound::Unbounded,
                direction,
            );
            cursor.next(self.layer.index(), self.layer).map(|entry| self.layer.key(entry).into())
        });
        let keys = match ends {
            [Some(first), Some(last)] => Some(Span { first, last, is_open: false }),
            _ => None,
        };
        let deletes =
            self.layer.deletes().all().into_iter().filter(|delete| delete.start < delete.end);
        deletes.fold(keys, |span: Option<Span>, delete| {
            let Some(mut span) = span else {
                return Some(Span { first: delete.start, last: delete.end, is_open: true });
            };
            span.first = span.first.min(delete.start);
            // A delete's end is not in it: an entry at the same key reaches further.
            if delete.end > span.last {
                (span.last, span.is_open) = (delete.end, true);
            }
            Some(span)
        })
    }

    fn split(&self, parts: usize) -> Vec<Box<[u8]>> {
        self.layer.index().split_keys(self.layer, parts).into_iter().map(Into::into).collect()
    }

    fn bytes(&self) -> u64 {
        self.layer.used_bytes()
    }
}

/// Keys that are reported to a pace together.
const TOLD_AT_ONCE: u64 = 64;

/// The versions of a layer in a range.
struct Versions<'a, L> {
    layer: &'a L,
    pace: &'a Pace,
    values: &'a Values,
    tree: u32,
    /// Keys that were passed and not reported to `pace` yet.
    passed: u64,
    cursor: RadixCursor,
    current: Option<Current<'a>>,
    /// The value of the current version, if it lay in pieces.
    joined: Vec<u8>,
}

struct Current<'a> {
    key: &'a [u8],
    sequence: u64,
    kind: u8,
    /// `None`: it is in `joined`.
    value: Option<&'a [u8]>,
}

impl<L: Layer> Source for Versions<'_, L> {
    fn entry(&self) -> Option<Entry<'_>> {
        let Current { key, sequence, kind, value } = self.current.as_ref()?;
        let value = value.unwrap_or(&self.joined);
        Some(Entry { key, sequence: *sequence, kind: *kind, value })
    }

    fn advance(&mut self) -> Result<()> {
        let layer = self.layer;
        let before = self.current.take().map(|version| version.key);
        let damaged = |error: halite_contract::Error| match error {
            halite_contract::Error::Damaged { what, why } => {
                Error::Damaged { file: POOL.into(), what, why }
            }
            other => Error::Damaged {
                file: POOL.into(),
                what: "a record".into(),
                why: other.to_string(),
            },
        };
        let (zones, address, record) = loop {
            let Some(entry) = self.cursor.next(layer.index(), layer) else { return Ok(()) };
            let address = Address::from_bits(entry);
            let zones = layer.zones_of(address).ok_or_else(|| damaged(lost(address)))?;
            let record = zones.checked(address).map_err(damaged)?;
            if record.kind() == Some(Kind::PutFile) {
                let value = file_of(zones, address, &record).map_err(damaged)?;
                if !self.values.take_up(self.tree, value.number) {
                    continue;
                }
            }
            break (zones, address, record);
        };
        let (kind, value) = match record.kind() {
            Some(Kind::Put) => (PUT, Some(record.value())),
            Some(Kind::PutPieces) => {
                self.joined = join(zones, address, &record).map_err(damaged)?;
                (PUT, None)
            }
            Some(Kind::PutFile) => (PUT_FILE, Some(record.value())),
            Some(Kind::Delete) => (DELETE, Some(&b""[..])),
            _ => return Err(damaged(zones.damaged(address, "it is no version of a key"))),
        };
        if before != Some(record.key()) {
            self.passed += 1;
            if self.passed == TOLD_AT_ONCE {
                self.pace.pass(std::mem::take(&mut self.passed));
            }
        }
        self.current =
            Some(Current { key: record.key(), sequence: record.sequence(), kind, value });
        Ok(())
    }
}
