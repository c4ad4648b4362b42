//! The seeds of the histories that a test explores: fixed ones, and some that are drawn anew each time and printed.
//!
//! `HALITE_LAB_SEED` sets the one that the others are drawn by.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use halite_lab::Random;

/// The number that a variable of the environment has.
pub(crate) fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// So many fixed seeds, and a quarter as many others.
pub(crate) fn seeds(fixed: u64) -> impl Iterator<Item = u64> {
    let fresh = number("HALITE_LAB_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Random::of(&[now.map_or(0, |now| now.as_nanos() as u64)]).next()
    });
    println!("HALITE_LAB_SEED={fresh}");
    let mut fresh = Random::new(fresh);
    (0..fixed).chain((0..fixed.div_ceil(4)).map(move |_| fresh.next()))
}
