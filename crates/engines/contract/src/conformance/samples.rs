//! Samples.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::data::key;
use super::{AMPLE, Check, Factory, Store, ensure};
use crate::{Durability, WriteBatch};

/// Samples by uniform random numbers reach most keys, and none far more often than others; an empty key
/// space has no sample.
///
/// # Errors
/// How the samples were spread.
pub fn samples_reach_most_keys_about_equally(factory: &dyn Factory) -> Check {
    const KEYS: u64 = 1_000;
    const SAMPLES: u64 = 20 * KEYS;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("samples")?;
    ensure!(engine.sample(space, 7)?.is_none(), "an empty key space has a sample");
    let mut batch = WriteBatch::new();
    (0..2 * KEYS).for_each(|number| batch.put(space, &key(number), b"1"));
    (0..KEYS).for_each(|number| batch.delete(space, &key(2 * number)));
    engine.write(&batch.ops(), Durability::Immediate)?;

    let mut hits = BTreeMap::<Vec<u8>, u64>::new();
    let mut random = Rng::with_seed(1);
    for _ in 0..SAMPLES {
        let Some(sample) = engine.sample(space, random.u64(..))? else {
            ensure!(false, "a key space of {KEYS} keys has no sample");
            break;
        };
        *hits.entry(sample.to_vec()).or_default() += 1;
    }
    let keys: BTreeSet<_> = (0..KEYS).map(|number| key(2 * number + 1)).collect();
    ensure!(hits.keys().all(|sample| keys.contains(sample)), "a sample is not a key");
    // With 20 samples a key, a uniform sampler misses almost none. A sampler that picks a random path
    // through a tree is less even, which is allowed.
    let most = hits.values().max().copied().unwrap_or_default();
    ensure!(hits.len() as u64 >= KEYS * 3 / 4, "samples reach {} of {KEYS} keys", hits.len());
    ensure!(most <= 20 * 20, "one of {KEYS} keys is {most} of {SAMPLES} samples");
    Ok(())
}
