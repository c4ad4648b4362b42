//! A range of a pool with one owner.

use std::cell::Cell;
use std::ops::Range;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::parcels::Parcels;
use crate::{Fenced, Flushed, LINE, Pool, entry, fence, stream};
use halite_sim::How;
use halite_sim::locks;

/// An owned range. It is given back when this is dropped.
pub(crate) struct Region {
    from: From,
    offset: u64,
    len: u64,
    life: u64,
}

/// Whom the range was taken from, and is given back to.
enum From {
    Claims(Pool),
    Parcels(Arc<Parcels>),
    /// It is kept as a parcel: there is nothing to give back.
    Left(Arc<Parcels>),
}

/// A number that no other life has. Threads take a thousand at a time, so that they do not meet here.
pub(crate) fn new_life() -> u64 {
    const AT_ONCE: u64 = 1 << 10;
    static LIVES: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    NEXT.with(|next| {
        let mut life = next.get();
        if life.is_multiple_of(AT_ONCE) {
            life = LIVES.fetch_add(AT_ONCE, Ordering::Relaxed);
        }
        next.set(life + 1);
        life
    })
}

impl Region {
    /// The caller has taken the range from the pool's claims, inside the pool's bounds.
    pub(crate) fn new(pool: Pool, offset: u64, len: u64) -> Self {
        Self { from: From::Claims(pool), offset, len, life: new_life() }
    }

    /// The caller has taken the range from the parcels.
    pub(crate) fn of_parcels(parcels: Arc<Parcels>, offset: u64, len: u64) -> Self {
        Self { from: From::Parcels(parcels), offset, len, life: new_life() }
    }

    /// Gives the range up without freeing it: the parcels that it was taken from, its offset and its length.
    ///
    /// # Panics
    /// If it was not taken from parcels.
    pub(crate) fn leave(mut self) -> (Arc<Parcels>, u64, u64) {
        let From::Parcels(parcels) = &self.from else { panic!("only a parcel is kept") };
        let parcels = Arc::clone(parcels);
        self.from = From::Left(Arc::clone(&parcels));
        (parcels, self.offset, self.len)
    }

    /// Begins another life: proofs of the last one do not count any more.
    pub(crate) fn renew(&mut self) {
        self.life = new_life();
    }

    /// The range of a proof about a part of the region.
    #[inline]
    pub(crate) fn range(&self, at: u64, len: u64, writes: u64) -> fence::Range {
        let (pool, offset) = (self.pool().id(), self.offset + at);
        fence::Range { pool, life: self.life, writes, offset, len }
    }

    /// Whether a proof is about this life of the region and covers a part of it.
    pub(crate) fn is_proven(&self, proof: &Fenced, at: u64, len: u64) -> bool {
        proof.proves.life == self.life && proof.proves.covers(self.offset + at, len)
    }

    /// Tells a model that bytes are published by a proof.
    #[inline]
    #[track_caller]
    pub(crate) fn note_publication(&self, proof: &Fenced) {
        if let Some(medium) = self.pool().medium() {
            medium.publish(&proof.proves, Location::caller());
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        match &self.from {
            From::Claims(pool) => pool,
            From::Parcels(parcels) | From::Left(parcels) => parcels.pool(),
        }
    }

    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The address of `at`.
    ///
    /// # Panics
    /// If `at..at + len` is not inside the region.
    #[inline]
    pub(crate) fn address(&self, at: u64, len: u64) -> *mut u8 {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len),
            "{at}..+{len} is outside a region of {} bytes",
            self.len
        );
        self.pool().address(self.offset + at)
    }

    /// The address of `at`, for a read of the bytes there.
    ///
    /// # Panics
    /// As [`Region::address`].
    #[inline]
    pub(crate) fn read(&self, at: u64, len: u64) -> *const u8 {
        let address = self.address(at, len);
        self.pool().counters().load();
        self.pool().note_read(self.offset + at, len);
        address
    }

    /// Has the line of the byte at `at` fetched.
    ///
    /// # Panics
    /// If it is not inside the region.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64) {
        self.address(at, 1);
        self.pool().prefetch(self.offset + at);
    }

    /// Has the kernel read a part ([`Pool::read_ahead`]).
    ///
    /// # Panics
    /// If it is not inside the region.
    pub(crate) fn read_ahead(&self, at: u64, len: u64) {
        self.address(at, len);
        self.pool().read_ahead(self.offset + at, len);
    }

    /// Stores bytes through the cache. One store.
    ///
    /// # Safety
    /// The caller owns the range: no other thread reads or writes it meanwhile.
    ///
    /// # Panics
    /// If it is not inside the region.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn store(&self, at: u64, bytes: &[u8]) {
        self.pool().counters().store();
        let address = self.address(at, bytes.len() as u64);
        if let Some(medium) = self.pool().medium() {
            locks::point();
            medium.store(self.offset + at, bytes, How::Copied, Location::caller());
            return;
        }
        // SAFETY: `address` is good for `bytes.len()` bytes; the caller's promise.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
        self.pool().note_stored(self.offset + at, bytes.len() as u64);
    }

    /// Stores words through the cache, each at once, in their order. One store.
    ///
    /// # Safety
    /// As for [`Region::store`].
    ///
    /// # Panics
    /// As for [`Region::store`]; and if `at` in the pool is not a multiple of 8.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn store_words(&self, at: u64, words: &[u64]) {
        self.pool().counters().store();
        let address = self.address(at, size_of_val(words) as u64);
        assert!(address.addr().is_multiple_of(8), "words are aligned to 8 bytes");
        if let Some(medium) = self.pool().medium() {
            locks::point();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            medium.store(self.offset + at, &bytes, How::InOrder, Location::caller());
            return;
        }
        for (number, word) in words.iter().enumerate() {
            // SAFETY: `address` is good for all words, and aligned; the caller's promise.
            unsafe { address.cast::<u64>().add(number).write_volatile(word.to_le()) };
        }
        self.pool().note_stored(self.offset + at, size_of_val(words) as u64);
    }

    /// Stores bytes past the cache and starts their write-back. It counts as nothing.
    ///
    /// # Safety
    /// As for [`Region::store`].
    ///
    /// # Panics
    /// As for [`Region::store`].
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn stream(&self, at: u64, bytes: &[u8]) {
        let address = self.address(at, bytes.len() as u64);
        if let Some(medium) = self.pool().medium() {
            locks::point();
            medium.store(self.offset + at, bytes, How::Streamed, Location::caller());
            return;
        }
        self.pool().note_streamed(self.offset + at, bytes.len() as u64);
        // SAFETY: the range is inside the region; the caller's promise.
        unsafe { stream::copy(self.pool(), address, bytes) };
    }

    /// Stores an entry past the cache and starts its write-back ([`entry::store`]). It counts as
    /// nothing.
    ///
    /// # Safety
    /// As for [`Region::store`].
    ///
    /// # Panics
    /// As for [`Region::store`]; and if `at` in the pool is not a multiple of a line.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn stream_entry<const N: usize>(
        &self,
        at: u64,
        payload: &[u8],
        header: impl FnOnce() -> [u8; N],
    ) {
        let len = entry::len(N, payload);
        let address = self.address(at, len);
        assert!((self.offset + at).is_multiple_of(LINE), "an entry begins with a line");
        if let Some(medium) = self.pool().medium() {
            locks::point();
            let lines = entry::compose(header(), payload);
            medium.store(self.offset + at, &lines, How::Streamed, Location::caller());
            return;
        }
        self.pool().note_streamed(self.offset + at, len);
        // SAFETY: the lines are inside the region; the caller's promise.
        unsafe { entry::store(self.pool(), address, payload, header) };
    }

    /// Starts the write-back of a range.
    ///
    /// # Panics
    /// If it is not inside the region.
    #[inline]
    #[track_caller]
    pub(crate) fn flush(&self, range: Range<u64>, writes: u64) -> Flushed {
        let len = range.end.checked_sub(range.start).expect("a range ends after it starts");
        let address = self.address(range.start, len);
        self.pool().write_back(address, self.range(range.start, len, writes))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.from {
            From::Claims(pool) => pool.give_back(self.offset),
            From::Parcels(parcels) => parcels.free(self.offset, self.len),
            From::Left(_) => {}
        }
    }
}
