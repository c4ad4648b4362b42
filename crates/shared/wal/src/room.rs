//! The room that the log has, and the next step to get the room that a batch needs.

use crate::batch::HEADER;
use crate::segment::PAGE;

/// Bytes that the first file has at first; it grows to as many again each time, up to the length of the others.
const GROWTH_MIN: u64 = 256 << 10;

/// The space of the file that is appended to, and of those that the log goes on in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of each file, unless a batch is longer.
    pub(crate) file_bytes: u64,
    /// Bytes of batches in the file.
    pub(crate) len: u64,
    /// Bytes of the file.
    pub(crate) capacity: u64,
    /// Bytes of the files that the log goes on in.
    pub(crate) ready: u64,
    /// Bytes of the first of these, if there is one: none, if a crash took its length.
    pub(crate) front: Option<u64>,
}

/// A need for a batch, and for more behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Bytes of the batch; 0: there is none.
    pub(crate) batch: u64,
    /// Bytes that the files that the log goes on in are to have when the batch is placed.
    pub(crate) left: u64,
}

/// Space to set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The file grows to so many bytes, or at least to `least`.
    Grow { to: u64, least: u64 },
    /// The first of the files that the log goes on in gets so many bytes.
    Lengthen(u64),
    /// A file is made behind all others, of `len` bytes, or at least of `least`.
    Make { len: u64, least: u64 },
}

impl Room {
    /// Whether a batch goes to the file: it, and the end of the file, have room there.
    pub(crate) fn fits(&self, batch: u64) -> bool {
        batch == 0 || self.len + batch + HEADER as u64 <= self.capacity
    }

    /// The next step until there is room; none, if there is. With `grows`, the file may grow before it is full.
    pub(crate) fn step(&self, need: Need, grows: bool) -> Option<Step> {
        let Need { batch, left } = need;
        let needed = batch + HEADER as u64;
        let more = Step::Make { len: self.file_bytes, least: PAGE };
        if self.fits(batch) {
            return (self.ready < left).then_some(more);
        }
        let end = self.len + needed;
        if grows && (self.len == 0 || self.capacity < self.file_bytes && end <= self.file_bytes) {
            let wanted = (2 * self.capacity).max(GROWTH_MIN).min(self.file_bytes);
            let least = end.next_multiple_of(PAGE);
            return Some(Step::Grow { to: wanted.max(least), least });
        }
        let end = self.len + HEADER as u64;
        if end > self.capacity {
            // There is not even room for the end of the file.
            let to = end.next_multiple_of(PAGE);
            return Some(Step::Grow { to, least: to });
        }
        let Some(front) = self.front else {
            return Some(Step::Make { len: self.file_bytes.max(needed), least: needed });
        };
        if front < needed {
            return Some(Step::Lengthen(needed));
        }
        (self.ready - front < left).then_some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes steps as they are told, each with the least that it asks for, and returns how many there were.
    fn take_steps(room: &mut Room, need: Need) -> u32 {
        for number in 0..1000 {
            let Some(step) = room.step(need, true) else { return number };
            match step {
                Step::Grow { to, least } => {
                    assert!(to >= least && least > room.capacity, "{room:?} {need:?}");
                    room.capacity = least;
                }
                Step::Lengthen(len) => {
                    let front = room.front.expect("there is one");
                    assert!(len > front);
                    room.ready += len - front;
                    room.front = Some(len);
                }
                Step::Make { len, least } => {
                    assert!(len >= least && least > 0);
                    room.ready += least;
                    room.front.get_or_insert(least);
                }
            }
        }
        panic!("the steps do not end: {room:?} {need:?}")
    }

    #[test]
    fn the_steps_end_with_room_for_the_batch_and_for_what_is_to_be_left() {
        let lens = [0, 1, 100, PAGE - 1, PAGE, 60_000, 1 << 16, 1 << 20];
        for file_bytes in [PAGE, 1 << 16, 4 << 20] {
            for capacity in [0, PAGE, 1 << 16, 4 << 20] {
                for len in lens.into_iter().filter(|len| *len <= capacity) {
                    for (ready, front) in [
                        (0, None),
                        (0, Some(0)),
                        (PAGE, Some(0)),
                        (5 * PAGE, Some(PAGE)),
                        (4 << 20, Some(4 << 20)),
                    ] {
                        for (batch, left) in lens.into_iter().flat_map(|b| lens.map(|l| (b, l))) {
                            let mut room = Room { file_bytes, len, capacity, ready, front };
                            let need = Need { batch, left };
                            take_steps(&mut room, need);
                            let is_placed = room.fits(batch) && room.ready >= left;
                            let is_next = room.len + HEADER as u64 <= room.capacity
                                && room.front.is_some_and(|front| {
                                    front >= batch + HEADER as u64 && room.ready - front >= left
                                });
                            assert!(is_placed || is_next, "{room:?} {need:?}");
                        }
                    }
                }
            }
        }
    }
}
