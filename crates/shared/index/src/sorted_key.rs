//! Keys that a tree is built from.

/// A key among others in ascending order. A tree is built from the starts of keys, as far as these
/// suffice: the rest may be a cache miss away.
pub trait SortedKey {
    /// The first bytes of the key: enough to tell it from the keys before and behind it.
    fn start(&self) -> &[u8];

    /// All of the key.
    fn whole(&self) -> &[u8];
}

impl<K: AsRef<[u8]>> SortedKey for K {
    fn start(&self) -> &[u8] {
        self.as_ref()
    }

    fn whole(&self) -> &[u8] {
        self.as_ref()
    }
}
