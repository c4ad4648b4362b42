//! The tier behind the cache of blocks in DRAM, as that sees it.

use halite_codec::Plain;

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of the file, or of the device, which no other one has at the same time.
    pub file: u64,
    /// The block's offset in it.
    pub offset: u64,
}

/// An item that was found.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The item.
    pub item: T,
    /// Whether it was found before.
    pub was_read: bool,
}

/// The time at which an item that is to be cached was read: what was forgotten since is not taken.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(pub u64);

/// A tier to which blocks move when DRAM has no more room for them.
///
/// A block that it has was checked when it was read, and is not checked again.
pub trait SecondTier: Send + Sync {
    /// The block at a place.
    fn look_up(&self, place: Place) -> Option<Found<Plain>>;

    /// Whether it takes blocks now. A caller that is about to evict blocks asks before, and offers them with the
    /// ticket.
    fn accepts(&self) -> Option<Ticket>;

    /// Offers a block. The tier does not take it if blocks were forgotten since the ticket, and need not otherwise.
    fn offer(&self, place: Place, block: &Plain, ticket: Ticket);

    /// Forgets the block at a place, which is about to change, and perhaps others. A block that is still offered with an
    /// earlier ticket is not taken.
    fn forget(&self, place: Place);
}
