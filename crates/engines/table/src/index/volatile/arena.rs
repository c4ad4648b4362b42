//! The memory of nodes that are all as long: chunks of some hundred kilobytes, aligned to cache lines.

use halite_disk::AlignedBuffer;

/// Bytes of a chunk.
const CHUNK: usize = 256 << 10;

/// Nodes of one length, by their numbers.
pub(super) struct Arena {
    chunks: Vec<AlignedBuffer>,
    node_len: usize,
    /// Nodes of a chunk, as a shift.
    shift: u32,
    /// Nodes that were ever allocated.
    len: u32,
    free: Vec<u32>,
}

impl Arena {
    /// An arena for nodes of so many bytes, a power of two.
    pub(super) fn new(node_len: usize) -> Self {
        let shift = (CHUNK / node_len).trailing_zeros();
        Self { chunks: Vec::new(), node_len, shift, len: 0, free: Vec::new() }
    }

    fn place(&self, id: u32) -> (usize, usize) {
        let in_chunk = id & ((1 << self.shift) - 1);
        ((id >> self.shift) as usize, in_chunk as usize * self.node_len)
    }

    #[inline]
    pub(super) fn node(&self, id: u32) -> &[u8] {
        let (chunk, at) = self.place(id);
        &self.chunks[chunk][at..at + self.node_len]
    }

    pub(super) fn node_mut(&mut self, id: u32) -> &mut [u8] {
        let ((chunk, at), len) = (self.place(id), self.node_len);
        &mut self.chunks[chunk][at..at + len]
    }

    pub(super) fn allocate(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            return id;
        }
        let id = self.len;
        self.len = id.checked_add(1).expect("fewer than 2^32 nodes");
        if self.place(id).0 == self.chunks.len() {
            self.chunks.push(AlignedBuffer::zeroed(CHUNK, 64));
        }
        id
    }

    pub(super) fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Nodes that are in use.
    pub(super) fn in_use(&self) -> usize {
        self.len as usize - self.free.len()
    }

    /// Bytes of nodes that are in use.
    pub(super) fn used_bytes(&self) -> usize {
        self.in_use() * self.node_len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK + self.free.capacity() * 4
    }
}
