//! Sets of ranges of places.

/// Ranges, sorted, with gaps between them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The ranges of some starts and ends.
    pub(super) fn of(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        Self(ranges)
    }

    /// Whether one of `len` bytes from `place` on is in a range.
    pub(super) fn touch(&self, place: u64, len: u64) -> bool {
        let first = self.0.partition_point(|&(_, end)| end <= place);
        self.0.get(first).is_some_and(|&(start, _)| start < place + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_touch_what_shares_a_byte_with_them() {
        let ranges = Ranges::of(vec![(40, 48), (8, 16), (12, 20), (48, 50)]);
        assert_eq!(ranges.0, [(8, 20), (40, 50)]);
        for (place, len, touches) in [
            (0, 8, false),
            (0, 9, true),
            (19, 1, true),
            (20, 20, false),
            (20, 21, true),
            (50, 8, false),
        ] {
            assert_eq!(ranges.touch(place, len), touches, "{place} {len}");
        }
        assert!(!Ranges::default().touch(0, u64::MAX));
    }
}
