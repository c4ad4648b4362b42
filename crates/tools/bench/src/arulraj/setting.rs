//! What all experiments of a run have in common.

use std::io;
use std::path::Path;
use std::process::Command;

use halite_pmem::Profile;
use halite_table::Kind;
use halite_workload::ycsb003::{Mix, Skew, Workload};

use super::options::{ArulrajOptions, LATENCIES, SKEWS, SKEWS_OF_SOURCE};
use super::stores::Subject;
use crate::{Peers, Result, Run, RunOptions};

/// Makes the process that is killed: the name of the store, its folder, and the transactions.
pub type ChildCommand<'a> = &'a dyn Fn(&str, &Path, u64) -> io::Result<Command>;

/// The options of a run, with its defaults in their places.
pub struct Setting<'a> {
    pub(super) options: ArulrajOptions,
    pub(super) built: &'a dyn Peers,
    pub(super) peers: Vec<String>,
    pub(super) child: ChildCommand<'a>,
    is_quick: bool,
}

impl<'a> Setting<'a> {
    /// With the peers of these names, of those that are built in.
    ///
    /// # Errors
    /// [`crate::Error::Wrong`], [`crate::Error::Unknown`] of an option.
    pub fn new(
        options: ArulrajOptions,
        run: &RunOptions,
        (built, peers): (&'a dyn Peers, Vec<String>),
        child: ChildCommand<'a>,
    ) -> Result<Self> {
        options.check()?;
        Ok(Self { options, built, peers, child, is_quick: run.quick })
    }

    /// A size, by whether the run is quick.
    pub(super) fn sized<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }

    pub(super) fn methods(&self) -> Vec<Kind> {
        let asked = &self.options.methods;
        let chosen = |kind: &&Kind| asked.is_empty() || asked.contains(kind);
        Kind::ALL.iter().filter(chosen).copied().collect()
    }

    /// The methods, and the peers that take part: none where commits become durable in groups, which they do not offer.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let methods = self.methods().into_iter().map(Subject::Method);
        let peers = if self.options.group_ms == 0 { &self.peers[..] } else { &[] };
        methods.chain(peers.iter().cloned().map(Subject::Peer)).collect()
    }

    /// The latencies, with their profiles. A run under a profile of its own has no other.
    pub(super) fn latencies(&self, run: &Run<'_>) -> Vec<(u64, Option<Profile>)> {
        if run.options.profile.is_some() {
            return vec![(0, run.options.profile.clone())];
        }
        let asked = &self.options.latencies;
        let chosen = LATENCIES.into_iter().filter(|(latency, _)| match asked.is_empty() {
            true => *latency == 160,
            false => asked.contains(latency),
        });
        let parsed = |name: &str| name.parse().expect("the profiles of the house parse");
        chosen.map(|(latency, profile)| (latency, profile.map(parsed))).collect()
    }

    pub(super) fn skews(&self) -> impl Iterator<Item = (&'static str, Skew)> + '_ {
        let asked = &self.options.skews;
        let chosen = move |(place, (name, _)): &(usize, (&str, Skew))| match asked.is_empty() {
            true => *place < SKEWS_OF_SOURCE,
            false => asked.iter().any(|asked| asked == name),
        };
        SKEWS.into_iter().enumerate().filter(chosen).map(|(_, skew)| skew)
    }

    pub(super) fn mixes(&self) -> impl Iterator<Item = Mix> + '_ {
        let asked = &self.options.mixes;
        Mix::ALL.into_iter().filter(move |mix| asked.is_empty() || asked.contains(mix))
    }

    /// The table of YCSB, spread over the partitions.
    pub(super) fn workload(&self, run: &Run<'_>) -> Workload {
        Workload {
            tuples: self.options.tuples.unwrap_or(self.sized(200_000, 2_000)),
            homes: self.options.partitions as u32,
            updates_one: self.options.updates_one,
            seed: run.options.seed,
            ..Workload::default()
        }
    }

    /// Transactions of a measurement of YCSB.
    pub(super) fn transactions(&self) -> u64 {
        self.options.transactions.unwrap_or(self.sized(400_000, 2_000))
    }
}
