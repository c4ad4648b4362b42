//! Turns of stores that begin empty each time.

use crate::kv::Store;
use crate::tenant::{Lodging, NoPageCache, Place};
use crate::{Contender, Error, Result, Sample};

/// Measures a store that was opened in an empty place, and may close it.
pub(super) type Measure<'c> = &'c dyn Fn(&mut dyn Store) -> Result<Vec<Sample>>;

/// Contenders of which each opens its store in a new place at each turn, and removes that again. Their rows have the
/// durability of a commit.
pub(super) fn in_new_places<'c>(
    stores: &'c mut [Box<dyn Store>],
    lodging: &'c Lodging,
    measure: Measure<'c>,
) -> Result<Vec<Contender<'c>>> {
    let mut contenders = Vec::new();
    for store in stores {
        let place = Place::new(lodging)?;
        let name = store.name().to_owned();
        store.open(place.path()).map_err(Error::of_store(&name, "open"))?;
        let durability = store.durability();
        store.close().map_err(Error::of_store(&name, "close"))?;
        let take = move || {
            let place = Place::new(lodging)?;
            let _without = (!lodging.page_cache).then(|| NoPageCache::of(place.path()));
            let name = store.name().to_owned();
            store.open(place.path()).map_err(Error::of_store(&name, "open"))?;
            let outcome = measure(&mut **store);
            let closed = store.close();
            let samples = outcome?;
            closed.map_err(Error::of_store(&name, "close"))?;
            Ok(samples)
        };
        contenders.push(Contender::new(name, take).with_param("durability", durability.into()));
    }
    Ok(contenders)
}
