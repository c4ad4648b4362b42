//! The common setting of the experiments: media, sizes, times, contenders.

use std::path::PathBuf;
use std::time::Duration;

use halite::BetreeOptions;
use serde_json::json;

use super::stores::BetreeStore;
use super::{BetreeBenchOptions, Medium};
use crate::kv::records::{KeyForm, Records};
use crate::kv::{Memory, Store};
use crate::lsm::LsmStore;
use crate::tenant::{Lodging, Tenant, tenants};
use crate::{Params, Peers, Result, Run, RunOptions};

/// The subjects of Halite.
pub(super) const BETREE: &str = "halite-betree";
pub(super) const LSM: &str = "halite-lsm";

/// The data is so many times as large as the cache.
const DATA_PER_CACHE: u64 = 8;

const MIB: u64 = 1 << 20;

/// The contenders of the experiments, and their settings.
pub struct Setting<'a> {
    pub(super) options: BetreeBenchOptions,
    built: &'a dyn Peers,
    peers: Vec<String>,
    pub(super) object_bytes: u64,
    pub(super) time: Duration,
    is_quick: bool,
}

impl<'a> Setting<'a> {
    /// With the peers of these names, of those that are built in.
    ///
    /// # Errors
    /// [`crate::Error::Wrong`] of an option that makes no sense.
    pub fn new(
        options: BetreeBenchOptions,
        run: &RunOptions,
        (built, peers): (&'a dyn Peers, Vec<String>),
    ) -> Result<Self> {
        options.check()?;
        let is_quick = run.quick;
        let object_bytes = options.object_bytes.unwrap_or(if is_quick { 8 } else { 512 } * MIB);
        let time = Duration::from_millis(if is_quick { 200 } else { 10_000 });
        let time = options.seconds.unwrap_or(time);
        Ok(Self { object_bytes, time, is_quick, options, built, peers })
    }

    /// Records of an experiment that has so many by default.
    pub(super) fn records(&self, full: u64, quick: u64) -> u64 {
        self.options.records.unwrap_or(self.sized(full, quick))
    }

    /// A size, by whether the run is quick.
    pub(super) fn sized<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// The media that are measured.
    pub(super) fn media(&self) -> impl Iterator<Item = Medium> + '_ {
        Medium::ALL.into_iter().filter(|medium| self.options.media.contains(medium))
    }

    /// How many media are measured.
    pub(super) fn media_count(&self) -> u64 {
        self.media().count() as u64
    }

    /// The folder of a medium.
    pub(super) fn folder(&self, medium: Medium, run: &RunOptions) -> PathBuf {
        match medium {
            Medium::Pmem => run.folder.clone(),
            Medium::Disk => self.options.disk.clone(),
        }
    }

    /// Where stores on a medium live.
    pub(super) fn lodging(&self, medium: Medium, run: &RunOptions) -> Lodging {
        let folder = self.folder(medium, run);
        Lodging {
            disk: folder.clone(),
            pmem: folder,
            threads: self.options.threads,
            page_cache: self.options.page_cache,
            seed: run.seed,
        }
    }

    /// The stores on a medium that are to have so many bytes of data: the engine, Halite's LSM engine, and the peers
    /// among `peers` that take part.
    pub(super) fn stores(
        &self,
        medium: Medium,
        data: u64,
        peers: &[&str],
        run: &RunOptions,
    ) -> Vec<Box<dyn Store>> {
        let memory = memory(data);
        let mut stores = self.own_stores(medium, data, run);
        for name in peers {
            if let Some(mut store) = self.peer(name) {
                store.set_memory(memory);
                stores.push(store);
            }
        }
        stores
    }

    /// Those of Halite.
    pub(super) fn own_stores(
        &self,
        medium: Medium,
        data: u64,
        run: &RunOptions,
    ) -> Vec<Box<dyn Store>> {
        let memory = memory(data);
        let in_folder = RunOptions { folder: self.folder(medium, run), ..run.clone() };
        let lsm = match medium {
            Medium::Pmem => LsmStore::xp(&in_folder, (data / 4).max(64 * MIB), memory),
            Medium::Disk => LsmStore::xs(&in_folder, memory),
        };
        vec![
            Box::new(BetreeStore::new(BETREE, betree_options(memory), run)),
            Box::new(lsm.named(LSM)),
        ]
    }

    /// A peer that takes part.
    fn peer(&self, name: &str) -> Option<Box<dyn Store>> {
        let takes_part = self.peers.iter().any(|peer| peer == name);
        takes_part.then(|| self.built.store(name)).flatten()
    }

    /// How many stores there are with these peers.
    pub(super) fn stores_of(&self, peers: &[&str]) -> u64 {
        2 + peers.iter().filter(|name| self.peer(name).is_some()).count() as u64
    }

    /// The stores, each in a place of its own, with records that are made so.
    pub(super) fn tenants<'r>(
        &self,
        medium: Medium,
        stores: Vec<Box<dyn Store>>,
        values: &Records,
        run: &Run<'r>,
    ) -> Result<Vec<Tenant<'r>>> {
        tenants(stores, values, &self.lodging(medium, &run.options), run)
    }

    /// The parameters of an experiment's rows on a medium.
    pub(super) fn params<const N: usize>(
        &self,
        medium: Medium,
        more: [(&str, serde_json::Value); N],
    ) -> Params {
        let mut params = Params::new();
        params.insert("medium".to_owned(), json!(medium.name()));
        params.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        params
    }
}

/// The memory of each store that has so many bytes of data.
pub(super) fn memory(data: u64) -> Memory {
    let cache = (data / DATA_PER_CACHE).max(4 * MIB);
    Memory { write_buffer: (cache / 4).clamp(2 * MIB, 32 * MIB), cache }
}

/// The engine's options for so much memory.
pub(super) fn betree_options(memory: Memory) -> BetreeOptions {
    BetreeOptions {
        memtable_bytes: Some(memory.write_buffer),
        cache_bytes: memory.cache,
        ..BetreeOptions::default()
    }
}

/// Records with keys of 16 bytes in no order.
pub(super) fn mixed(value_len: usize, seed: u64) -> Records {
    Records::new(KeyForm::Mixed { len: KEY_LEN }, value_len, seed)
}

/// Bytes of the keys of [`mixed`].
pub(super) const KEY_LEN: usize = 16;
