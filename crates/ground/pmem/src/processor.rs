//! The emulation's state of one thread: its cache, its line fills and its write-backs.
//!
//! No method waits or reads a clock: each is given the time and returns until when its operation takes.

use std::ops::Range;

use crate::emulate::Emulation;

/// Line fills that a core has under way at once: the fill buffers of Sapphire Rapids' first-level
/// cache.
const FILLS: usize = 16;

/// Lines whose last write-back is remembered.
const RECENT: usize = 64;

/// One thread's view of the medium.
pub(crate) struct Processor {
    pub(crate) cache: Cache,
    fills: [Timed; FILLS],
    /// The fills that no read has asked for since they began.
    fills_awaited: u32,
    /// The fill that began longest ago.
    oldest_fill: usize,
    /// When all fills have arrived, or 0.
    filled_at: u64,
    /// The block that the medium still has in its buffer.
    block_read: u64,
    /// Lines read from the medium since they were last asked for.
    lines_read: u64,
    /// When the stores past the cache began whose write-back is reported next, or 0.
    streams_since: u64,
    /// When all write-backs are complete, or 0.
    written_at: u64,
    /// The last line of the last write-back.
    line_written: u64,
    /// Until when lines take no other write-back.
    recent: [Timed; RECENT],
}

#[derive(Clone, Copy)]
struct Timed {
    line: u64,
    until: u64,
}

/// No line has this number.
const NO_LINE: u64 = u64::MAX;

impl Processor {
    pub(crate) const fn new() -> Self {
        const NOTHING: Timed = Timed { line: NO_LINE, until: 0 };
        Self {
            cache: Cache { tags: [0; LINES_CACHED] },
            fills: [NOTHING; FILLS],
            fills_awaited: 0,
            oldest_fill: 0,
            filled_at: 0,
            block_read: NO_LINE,
            lines_read: 0,
            streams_since: 0,
            written_at: 0,
            line_written: NO_LINE,
            recent: [NOTHING; RECENT],
        }
    }

    /// Reads `lines`, at least one. Returns until when that takes, if the lines do not all come from the
    /// cache; that time may be past.
    pub(crate) fn read(
        &mut self,
        medium: &Emulation,
        lines: Range<u64>,
        now: impl Fn() -> u64,
    ) -> Option<u64> {
        let missing = self.cache.fill(lines.clone());
        let filled = if self.fills_awaited == 0 { None } else { self.filled(&lines) };
        if missing == 0 {
            return filled;
        }
        let now = now();
        filled.max(Some(self.fetch(medium, lines, missing, now, now)))
    }

    /// Begins to read `lines`, at least one, through one fill buffer: the hardware's prefetcher brings the
    /// lines behind the first. Returns until when the wait for a buffer takes, if all are in use.
    pub(crate) fn fetch_ahead(
        &mut self,
        medium: &Emulation,
        lines: Range<u64>,
        now: impl Fn() -> u64,
    ) -> Option<u64> {
        let missing = self.cache.fill(lines.clone());
        if missing == 0 {
            return None;
        }
        let now = now();
        let free_at = self.fills[self.oldest_fill].until;
        let line = lines.start;
        let until = self.fetch(medium, lines, missing, now, now.max(free_at));
        self.fills_awaited += u32::from(self.fills[self.oldest_fill].line == NO_LINE);
        self.fills[self.oldest_fill] = Timed { line, until };
        self.oldest_fill = (self.oldest_fill + 1) % FILLS;
        self.filled_at = self.filled_at.max(until);
        (free_at > now).then_some(free_at)
    }

    /// Returns until when the fills under way take, if there are any.
    pub(crate) fn all_filled(&mut self) -> Option<u64> {
        let filled_at = std::mem::take(&mut self.filled_at);
        (filled_at > 0).then_some(filled_at)
    }

    /// Returns when those of `lines` arrive, or have arrived, that were prefetched and not read since.
    fn filled(&mut self, lines: &Range<u64>) -> Option<u64> {
        let mut until = None;
        for fill in &mut self.fills {
            if lines.contains(&fill.line) {
                fill.line = NO_LINE;
                self.fills_awaited -= 1;
                until = until.max(Some(fill.until));
            }
        }
        until
    }

    /// When `lines` have arrived, `missing` of which come from the medium. They take their turn at the
    /// channel now, even where they begin later, so that other threads' reads do not wait for their begin.
    fn fetch(
        &mut self,
        medium: &Emulation,
        lines: Range<u64>,
        missing: u64,
        now: u64,
        begin: u64,
    ) -> u64 {
        self.lines_read += missing;
        let first = lines.start >> medium.block_shift;
        let last = (lines.end - 1) >> medium.block_shift;
        let buffered = first == self.block_read;
        self.block_read = last;
        let blocks = (last - first + u64::from(!buffered)).min(missing);
        let latency = if buffered { medium.buffered_read } else { medium.read };
        if blocks == 0 {
            return begin + latency;
        }
        // The latency is that of the first block, with its transfer.
        let transferred = medium.reads.occupy(blocks, now) - medium.reads.block_time as u64;
        transferred.max(begin) + latency
    }

    /// The lines read from the medium since the last call.
    pub(crate) fn take_lines_read(&mut self) -> u64 {
        std::mem::take(&mut self.lines_read)
    }

    /// Begins to store `lines` past the cache.
    pub(crate) fn stream(&mut self, lines: Range<u64>, now: u64) {
        if lines.is_empty() {
            return;
        }
        self.cache.evict(lines);
        self.streams_since = now;
    }

    /// Begins to write back `lines`, or has begun with storing them.
    pub(crate) fn write_back(
        &mut self,
        medium: &Emulation,
        lines: Range<u64>,
        now: impl Fn() -> u64,
    ) {
        let Some(last_line) = lines.end.checked_sub(1).filter(|last| lines.start <= *last) else {
            return;
        };
        let now = match std::mem::take(&mut self.streams_since) {
            0 => now(),
            since => since,
        };
        let mut begin = now;
        // Only the last lines of a longer range are remembered: the first ones are written by the time that
        // the last ones follow.
        for line in lines.start.max(lines.end.saturating_sub(RECENT as u64))..lines.end {
            let recent = &mut self.recent[line as usize % RECENT];
            if recent.line == line {
                begin = begin.max(recent.until);
            }
            *recent = Timed { line, until: begin + medium.same_line };
        }
        let first = lines.start >> medium.block_shift;
        let last = last_line >> medium.block_shift;
        // A write that continues the last written block is combined with it.
        let combined =
            first == self.line_written >> medium.block_shift && lines.start > self.line_written;
        self.line_written = last_line;
        let blocks = last - first + u64::from(!combined);
        let through = if blocks == 0 { 0 } else { medium.writes.occupy(blocks, now) };
        self.written_at = self.written_at.max(through).max(begin + medium.persist);
    }

    /// Returns until when the write-backs take, if there are any.
    pub(crate) fn fence(&mut self) -> Option<u64> {
        let written_at = std::mem::take(&mut self.written_at);
        (written_at > 0).then_some(written_at)
    }
}

/// Lines that the cache holds: 256 KiB of them, so that its tags take 16 KiB of the real one.
pub(crate) const LINES_CACHED: usize = 4096;

/// A direct-mapped cache: a line has one place, which says whether it is there.
pub(crate) struct Cache {
    tags: [u32; LINES_CACHED],
}

impl Cache {
    /// Puts `lines` into the cache, and returns how many were not there.
    #[inline]
    pub(crate) fn fill(&mut self, lines: Range<u64>) -> u64 {
        let places = LINES_CACHED as u64;
        if lines.end - lines.start == 1 {
            let place = &mut self.tags[(lines.start % places) as usize];
            let tag = tag(lines.start / places);
            return u64::from(std::mem::replace(place, tag) != tag);
        }
        let mut missing = 0;
        self.of(lines, |place, tag| {
            missing += u64::from(*place != tag);
            *place = tag;
        });
        missing
    }

    /// Takes `lines` out of the cache.
    pub(crate) fn evict(&mut self, lines: Range<u64>) {
        self.of(lines, |place, tag| {
            if *place == tag {
                *place = 0;
            }
        });
    }

    /// Calls `f` with the place and the tag of each of `lines`.
    #[inline]
    fn of(&mut self, lines: Range<u64>, mut f: impl FnMut(&mut u32, u32)) {
        let places = LINES_CACHED as u64;
        let mut line = lines.start;
        while line < lines.end {
            // Neighbours have neighbouring places and the same tag, up to the last place.
            let row = line / places;
            let end = lines.end.min((row + 1) * places);
            let tag = tag(row);
            let first = (line % places) as usize;
            for place in &mut self.tags[first..first + (end - line) as usize] {
                f(place, tag);
            }
            line = end;
        }
    }
}

/// The tag of a row of lines in its place of the cache; never zero, which marks an empty place.
fn tag(row: u64) -> u32 {
    row as u32 | 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::clock::Clock;
    use crate::emulate::OwnCost;

    const FREE: OwnCost = OwnCost { read: 0, persist: 0 };

    /// A medium whose clock counts in tenths of nanoseconds and costs no time to read.
    fn medium(profile: &str) -> Emulation {
        let clock = Clock { units_per_ns: 10.0 };
        Emulation::with_costs(&profile.parse().unwrap(), 0, clock, FREE)
    }

    fn one(line: u64) -> Range<u64> {
        line..line + 1
    }

    const FIGURES: &str = "read=300,seq-read=150,persist=100,same-line=400,\
                           read-bw=2560MB,write-bw=1280MB,block=256";

    // So, in tenths of nanoseconds:
    const READ: u64 = 3000;
    const BUFFERED: u64 = 1000;
    const PERSIST: u64 = 1000;
    const SAME_LINE: u64 = 4000;
    const BLOCK_READ: u64 = 1000;
    const BLOCK_WRITTEN: u64 = 2000;

    #[test]
    fn a_line_is_waited_for_once() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        assert_eq!(thread.read(&medium, 8..9, || 50), Some(50 + READ));
        assert_eq!(thread.read(&medium, 8..9, || 9000), None, "it is in the cache");
        let same_place = 8 + LINES_CACHED as u64;
        assert_eq!(thread.read(&medium, same_place..same_place + 1, || 9000), Some(9000 + READ));
        assert_eq!(thread.read(&medium, 8..9, || 20_000), Some(20_000 + READ), "it was replaced");
    }

    #[test]
    fn a_block_is_read_as_long_as_the_profile_says_in_the_mean() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        let mut now = 0;
        for line in 400..404 {
            now = thread.read(&medium, line..line + 1, || now).unwrap();
        }
        assert_eq!(now, READ + 3 * BUFFERED);
        assert_eq!(now, 4 * 1500);
    }

    #[test]
    fn lines_behind_the_first_come_at_the_mediums_bandwidth() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        assert_eq!(thread.read(&medium, 0..40, || 0), Some(READ + 9 * BLOCK_READ));
        let mut other = Processor::new();
        let both = 10 * BLOCK_READ + READ;
        assert_eq!(other.read(&medium, 80..84, || 0), Some(both), "the channel is shared");
    }

    #[test]
    fn only_what_misses_is_read_from_the_medium() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        thread.cache.fill(0..38);
        assert_eq!(thread.read(&medium, 0..40, || 0), Some(READ + BLOCK_READ));
    }

    #[test]
    fn prefetches_overlap_and_a_read_waits_for_the_rest() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        assert_eq!(thread.fetch_ahead(&medium, one(0), || 0), None);
        assert_eq!(thread.fetch_ahead(&medium, one(100), || 500), None);
        assert_eq!(thread.fetch_ahead(&medium, one(100), || 600), None, "it is on its way");
        assert_eq!(thread.read(&medium, 0..1, || 2000), Some(READ));
        assert_eq!(thread.read(&medium, 100..101, || READ), Some(1000 + READ));
        assert_eq!(thread.read(&medium, 100..101, || 9000), None, "all have arrived");
    }

    #[test]
    fn no_more_fills_than_buffers_are_under_way() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        for number in 0..FILLS as u64 {
            assert_eq!(thread.fetch_ahead(&medium, one(number * 8), || 0), None);
        }
        assert_eq!(
            thread.fetch_ahead(&medium, one(5000), || 10),
            Some(READ),
            "the first is to arrive"
        );
        assert!(thread.read(&medium, 5000..5001, || READ).unwrap() >= 2 * READ);
    }

    #[test]
    fn who_waits_for_a_buffer_holds_up_nobody_else() {
        let (medium, mut thread) = (medium("read=300,read-bw=640GB"), Processor::new());
        for number in 0..=FILLS as u64 {
            let free_at = thread.fetch_ahead(&medium, one(number * 8), || 0);
            assert_eq!(free_at, (number == FILLS as u64).then_some(READ));
        }
        let blocks_before = FILLS as u64 + 1;
        assert_eq!(Processor::new().read(&medium, one(5000), || 0), Some(blocks_before + READ));
    }

    #[test]
    fn streaming_nothing_leaves_the_next_write_back_its_time() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        thread.stream(60..60, 100);
        thread.write_back(&medium, 60..60, || 100);
        thread.write_back(&medium, 8..9, || 9000);
        assert_eq!(thread.fence(), Some(9000 + BLOCK_WRITTEN));
    }

    #[test]
    fn no_bytes_are_in_no_line() {
        let medium = medium(FIGURES);
        assert!(medium.lines(100, 0).is_empty() && medium.lines(128, 0).is_empty());
        assert_eq!(medium.lines(127, 2).count(), 2);
    }

    #[test]
    fn a_fence_waits_for_this_threads_write_backs() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        assert_eq!(thread.fence(), None);
        thread.write_back(&medium, 0..1, || 0);
        thread.write_back(&medium, 1..4, || 300);
        assert_eq!(Processor::new().fence(), None);
        let through = BLOCK_WRITTEN.max(300 + PERSIST);
        assert_eq!(thread.fence(), Some(through), "lines of a block are combined");
        assert_eq!(thread.fence(), None);
        thread.write_back(&medium, 7..7, || 300);
        assert_eq!(thread.fence(), None, "nothing takes no time");
    }

    #[test]
    fn blocks_leave_through_one_channel() {
        let (medium, mut thread, mut other) = (medium(FIGURES), Processor::new(), Processor::new());
        thread.write_back(&medium, 0..40, || 0);
        other.write_back(&medium, 80..81, || 0);
        assert_eq!(thread.fence(), Some(10 * BLOCK_WRITTEN));
        assert_eq!(other.fence(), Some(11 * BLOCK_WRITTEN));
    }

    #[test]
    fn the_same_line_takes_longer() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        thread.write_back(&medium, 0..1, || 0);
        assert_eq!(thread.fence(), Some(BLOCK_WRITTEN));
        thread.write_back(&medium, 0..1, || BLOCK_WRITTEN);
        assert_eq!(thread.fence(), Some(SAME_LINE + PERSIST));
        thread.write_back(&medium, 8..9, || 90_000);
        assert_eq!(thread.fence(), Some(90_000 + BLOCK_WRITTEN));
    }

    #[test]
    fn what_was_streamed_is_read_from_the_medium() {
        let (medium, mut thread) = (medium(FIGURES), Processor::new());
        thread.cache.fill(10..20);
        thread.stream(10..11, 700);
        thread.write_back(&medium, 10..11, || 900);
        assert_eq!(thread.fence(), Some(700 + BLOCK_WRITTEN), "it began with the stores");
        assert_eq!(thread.read(&medium, 11..20, || 0), None);
        assert_eq!(thread.read(&medium, 10..11, || 0), Some(READ));
    }

    #[test]
    fn pools_share_no_lines() {
        let clock = Clock { units_per_ns: 1.0 };
        let pools = [0, 1].map(|id| Emulation::with_costs(&Profile::dram(), id, clock, FREE));
        pools[0].stored(0, 64);
        let mut thread = Processor::new();
        thread.cache.fill(0..1);
        assert_eq!(thread.cache.fill(1 << 34..(1 << 34) + 1), 1);
    }
}
