//! The object stores of an engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use halite_contract::Result;
use halite_sim::locks::Mutex;

use super::keys::NEXT_ID;
use super::limits::STORE_NAME_LEN_MAX;
use super::names::ObjectStore;
use super::reading::read_id;
use super::shared::Shared;
use crate::catalogue::OWN;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::Store;
use crate::{Error, read};

/// The first id.
const FIRST_ID: u64 = 1;

/// The ends of the names of an object store's two datasets.
const CHUNKS: &str = "/chunks";
const METADATA: &str = "/meta";

/// The object stores that are open.
#[derive(Default)]
pub(crate) struct Stores {
    open: Mutex<HashMap<String, Weak<Shared>>>,
    /// Set in a turn, when the engine is closed.
    is_closed: Arc<AtomicBool>,
}

fn check(name: &str) -> Result<()> {
    match (1..=STORE_NAME_LEN_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err(Error::ObjectStoreName { len: name.len() }.into()),
    }
}

fn datasets(name: &str) -> [String; 2] {
    [CHUNKS, METADATA].map(|end| format!("{OWN}{name}{end}"))
}

impl Stores {
    /// Opens an object store, or creates it.
    pub(crate) fn open(&self, store: &Arc<Store>, name: &str) -> Result<ObjectStore> {
        check(name)?;
        let mut open = self.open.lock();
        if let Some(shared) = open.get(name).and_then(Weak::upgrade) {
            return Ok(ObjectStore::new(shared));
        }
        let [chunks, metadata] = numbers(store, name)?;
        let (view, at) = store.latest();
        // Earlier handles of the object store have no commit on the way.
        let next = read::get(&store.trees, &view, at, metadata, &NEXT_ID)?;
        let next = next.map_or(Ok(FIRST_ID), |value| read_id(&value))?;
        let shared = Shared::new(store, &self.is_closed, name, (chunks, metadata), next);
        let shared = Arc::new(shared);
        open.retain(|_, shared| shared.strong_count() > 0);
        open.insert(name.to_owned(), Arc::downgrade(&shared));
        Ok(ObjectStore::new(shared))
    }

    /// Removes an object store, and all that it has, whole or not at all.
    pub(crate) fn remove(&self, store: &Store, name: &str) -> Result<()> {
        check(name)?;
        let mut open = self.open.lock();
        let _changing = store.cataloguing.lock();
        let mut catalogue = store.catalogue.load_full().as_ref().clone();
        let mut batch = Batch::default();
        for dataset in datasets(name) {
            if catalogue.find_own(&dataset).is_none() {
                return Err(Error::NoSuchObjectStore { name: name.to_owned() }.into());
            }
            catalogue = catalogue.without_own(&dataset, &mut batch);
        }
        let shared = open.remove(name).and_then(|shared| shared.upgrade());
        store.recatalogue(&batch, Purpose::Removal, catalogue, &mut || {
            shared.iter().for_each(|shared| shared.note_dropped());
        })
    }

    /// Lets no object be changed any more.
    pub(crate) fn close(&self, store: &Store) {
        store.commits.between_turns(|| self.is_closed.store(true, Ordering::Relaxed));
    }
}

/// The names of all object stores.
pub(crate) fn names(store: &Store) -> Vec<String> {
    let catalogue = store.catalogue.load();
    let name = |own: &str| Some(own.strip_prefix(OWN)?.strip_suffix(METADATA)?.to_owned());
    catalogue.own().filter_map(name).collect()
}

/// The datasets of an object store, which are made if there are none.
fn numbers(store: &Store, name: &str) -> Result<[u32; 2]> {
    let _changing = store.cataloguing.lock();
    let mut catalogue = store.catalogue.load_full().as_ref().clone();
    let mut batch = Batch::default();
    let mut numbers = [0; 2];
    for (number, dataset) in numbers.iter_mut().zip(datasets(name)) {
        *number = match catalogue.find_own(&dataset) {
            Some(found) => found,
            None => {
                let (changed, id) = catalogue.with(&dataset, &mut batch)?;
                catalogue = changed;
                id.0
            }
        };
    }
    if batch.changes() > 0 {
        store.recatalogue(&batch, Purpose::Removal, catalogue, &mut || ())?;
    }
    Ok(numbers)
}
