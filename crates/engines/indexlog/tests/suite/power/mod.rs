//! A medium whose power is cut at the worst moment: no store survives that was not fenced.

use halite_pmem::{Domain, Medium};
use halite_sim::{Site, Trace, What};

/// A medium, and its bytes that are certainly durable.
pub(crate) struct Power {
    pub(crate) medium: Medium,
    stored: Vec<u8>,
    durable: Vec<u8>,
    trace: Trace,
    /// The sites whose stores leave the cache at once.
    is_evicted: fn(Site) -> bool,
}

impl Power {
    /// Creates a medium of so many bytes; stores of the sites that `is_evicted` selects are durable at once.
    pub(crate) fn new(len: u64, is_evicted: fn(Site) -> bool) -> Self {
        let medium = Medium::new(Domain::Memory, len).unwrap();
        let zeros = vec![0; medium.capacity() as usize];
        let (stored, durable) = (zeros.clone(), zeros);
        Self { medium, stored, durable, trace: Trace::default(), is_evicted }
    }

    /// Cuts the power, and goes on with the bytes that are left.
    #[allow(dead_code, reason = "not every test cuts twice")]
    pub(crate) fn cut_and_go_on(mut self, is_evicted: fn(Site) -> bool) -> Self {
        let medium = self.cut();
        let Self { durable, .. } = self;
        Self { medium, stored: durable.clone(), durable, trace: Trace::default(), is_evicted }
    }

    /// Applies the events since the last call.
    pub(crate) fn follow(&mut self) {
        self.medium.machine().take_trace(&mut self.trace);
        for event in &self.trace.events {
            match event.what {
                What::Store { at, len, bytes, .. } => {
                    let range = at as usize..(at + u64::from(len)) as usize;
                    self.stored[range.clone()].copy_from_slice(self.trace.stored(bytes, len));
                    if (self.is_evicted)(event.site) {
                        self.durable[range.clone()].copy_from_slice(&self.stored[range]);
                    }
                }
                What::Fence { first, count } => {
                    for &(at, len) in self.trace.fenced(first, count) {
                        // Lines are written back whole.
                        let range =
                            at as usize / 64 * 64..((at + len) as usize).next_multiple_of(64);
                        self.durable[range.clone()].copy_from_slice(&self.stored[range]);
                    }
                }
                _ => {}
            }
        }
    }

    /// The medium as a power cut leaves it now.
    pub(crate) fn cut(&mut self) -> Medium {
        self.follow();
        let left = Medium::new(Domain::Memory, self.medium.capacity()).unwrap();
        left.restore(self.medium.file(), [(0, &self.durable[..])]);
        left
    }
}
