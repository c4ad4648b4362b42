//! A few sorted changes in memory, as a source.

use std::collections::BTreeMap;

use crate::message::{HeldMessage, Kind, Payload};
use crate::run::{DeletedRanges, Source};
use crate::tree::update::BoxedSource;
use crate::{Error, Result};

/// Changes of keys.
#[derive(Default)]
pub(crate) struct Changes(BTreeMap<Vec<u8>, HeldMessage>);

/// A position in changes.
struct ChangesSource {
    all: Vec<(Vec<u8>, HeldMessage)>,
    at: Option<usize>,
    no_ranges: DeletedRanges,
}

impl Changes {
    /// Adds the change of a key, which replaces an earlier one.
    pub(crate) fn add(&mut self, key: Vec<u8>, kind: Kind, payload: Vec<u8>) {
        self.0.insert(key, HeldMessage { kind, payload: Payload::Owned(payload) });
    }

    /// The changes, for an update.
    pub(crate) fn source(self) -> BoxedSource {
        let all = self.0.into_iter().collect();
        Box::new(ChangesSource { all, at: None, no_ranges: DeletedRanges::default() })
    }
}

impl ChangesSource {
    fn go_to(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.all.len());
        Ok(())
    }

    fn below(&self, key: &[u8]) -> usize {
        self.all.partition_point(|(other, _)| &other[..] < key)
    }
}

impl Source for ChangesSource {
    fn first(&mut self) -> Result<()> {
        self.go_to(Some(0))
    }

    fn last(&mut self) -> Result<()> {
        self.go_to(self.all.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go_to(Some(self.below(key)))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go_to(self.below(key).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.go_to(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.go_to(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn leave(&mut self) {
        self.at = None;
    }

    fn key(&self) -> Option<&[u8]> {
        self.at.map(|at| &self.all[at].0[..])
    }

    fn message(&self) -> HeldMessage {
        self.all[self.at.expect("it is at a message")].1.clone()
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        &self.no_ranges
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Message { why: why.to_owned() }
    }
}
