//! Where a leaf ends, and the class that it goes to.
//!
//! A leaf ends when it is long enough, or where the preference of objects changes, unless it is short still: it then goes
//! to the faster of the two classes.

use crate::placement::Placed;
use crate::run::RunWriter;
use crate::tree::Context;

/// The part of a leaf, and the bytes, below which it is short.
const SHORT_PART: u64 = 4;
const SHORT_BYTES: u64 = 256 << 10;

/// The cuts between leaves that are written one behind the other.
pub(super) struct LeafCut<'a> {
    context: &'a Context,
    placed: Placed,
    /// Bytes of a leaf.
    each: u64,
    /// The class of the leaf, and its class if it is small, as far as it has keys.
    class: Option<(u8, u8)>,
}

impl<'a> LeafCut<'a> {
    pub(super) fn new(context: &'a Context, placed: Placed, each: u64) -> Self {
        Self { context, placed, each, class: None }
    }

    /// Whether a leaf of so many bytes ends before a key. The next one begins then.
    pub(super) fn is_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let Some(class) = self.class else { return false };
        let is_short = bytes < (self.each / SHORT_PART).min(SHORT_BYTES);
        let differs = || self.placed.has_objects() && self.placed.leaf(key) != class;
        let is_before = bytes >= self.each || !is_short && differs();
        if is_before {
            self.class = None;
        }
        is_before
    }

    /// Takes note of a key that the leaf gets.
    pub(super) fn add(&mut self, writer: &mut RunWriter<'_>, key: &[u8]) {
        if self.class.is_some() && !self.placed.has_objects() {
            return;
        }
        let (of_key, of_small) = self.placed.leaf(key);
        let before = self.class.unwrap_or((u8::MAX, u8::MAX));
        let class = (before.0.min(of_key), before.1.min(of_small));
        if self.class != Some(class) {
            self.class = Some(class);
            writer.prefer(self.context.spill(class.0), class.1);
        }
    }
}
