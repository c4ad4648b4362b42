//! A proof for bugs that are planted to test the crash lab.

use crate::fence::Range;
use crate::{Fenced, Pool};

/// A proof without a flush or a fence behind it.
#[must_use]
pub fn forged(pool: &Pool) -> Fenced {
    Fenced { proves: Range { pool: pool.id(), life: 0, writes: 0, offset: 0, len: 0 } }
}
