//! How a batch is cut into frames.
//!
//! A segment has room for its end at any time: one line. A batch lies in one frame where it can: in this segment, or
//! behind its end in the next one. A longer batch begins in this segment, unless little is left of it, fills it and
//! those behind it to their last line, and ends in another one; a frame that another one follows is its segment's end,
//! too.

use super::frame::{HEADER, LINE, SALT, footprint};

/// A step of writing a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The end of the segment; the log goes on in the next one.
    End,
    /// A frame with so many bytes of the payload, after which the batch goes on in the next segment.
    Part(usize),
    /// The last frame.
    Last(usize),
}

/// A part of a segment below which a long batch does not begin there.
const LITTLE: usize = 8;

/// The steps of writing a batch of `len` bytes of payload, at an offset of a segment.
pub(super) fn steps(segment: usize, at: usize, len: usize) -> impl Iterator<Item = Step> {
    let (mut at, mut rest, mut is_done) = (at, len, false);
    std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let room = segment - at;
        if footprint(rest) + LINE <= room {
            is_done = true;
            return Some(Step::Last(rest));
        }
        // Only a batch that has not begun yet can end the segment.
        let fits_next = rest == len && LINE + footprint(rest) + LINE <= segment;
        let is_begun = at == LINE;
        if (fits_next || room < segment / LITTLE) && !is_begun {
            at = LINE;
            return Some(Step::End);
        }
        // At least one byte is left for the last frame.
        let part = (room - HEADER - SALT).min(rest - 1);
        (at, rest) = (LINE, rest - part);
        Some(Step::Part(part))
    })
}

/// Segments that are needed behind the current one for these steps.
pub(super) fn segments(steps: impl Iterator<Item = Step>) -> usize {
    steps.filter(|step| !matches!(step, Step::Last(_))).count()
}

/// The payload's bytes of each frame, by the offset of the first one in its segment and the length of all: so they are
/// found without the steps.
pub(super) fn pieces(
    segment: usize,
    at: usize,
    len: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let (mut first, mut rest) = (Some(at), len);
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let frame = first.take().unwrap_or(LINE);
        if footprint(rest) + LINE <= segment - frame {
            return Some((frame + HEADER, std::mem::take(&mut rest)));
        }
        let part = (segment - frame - HEADER - SALT).min(rest - 1);
        rest -= part;
        Some((frame + HEADER + SALT, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_cut_into_frames_that_fit_and_its_pieces_are_found_again() {
        for segment in [512, 1024, 4096] {
            for at in (LINE..segment).step_by(LINE) {
                for len in (0..3 * segment).step_by(7).chain(segment - 200..segment + 200) {
                    let (mut place, mut found, mut number) = (at, Vec::new(), 0);
                    let mut begun = None;
                    for step in steps(segment, at, len) {
                        let (bytes, salt) = match step {
                            Step::End => {
                                assert!(place + LINE <= segment && begun.is_none());
                                (place, number) = (LINE, number + 1);
                                continue;
                            }
                            Step::Part(len) => (len, SALT),
                            Step::Last(len) => (len, 0),
                        };
                        begun.get_or_insert(place);
                        if bytes > 0 {
                            found.push((place + HEADER + salt, bytes));
                        }
                        place += footprint(salt + bytes);
                        assert!(place + if salt == 0 { LINE } else { 0 } <= segment, "{at} {len}");
                        if salt > 0 {
                            (place, number) = (LINE, number + 1);
                        }
                    }
                    assert_eq!(number, segments(steps(segment, at, len)));
                    assert_eq!(found.iter().map(|(_, len)| len).sum::<usize>(), len);
                    let again: Vec<_> = pieces(segment, begun.unwrap(), len).collect();
                    assert_eq!(again, found, "{segment} {at} {len}");
                }
            }
        }
    }

    #[test]
    fn a_batch_that_fits_a_segment_has_one_frame() {
        let all = |at, len| steps(1024, at, len).collect::<Vec<_>>();
        assert_eq!(all(64, 864), [Step::Last(864)]);
        assert_eq!(all(64, 865), [Step::Part(864), Step::Last(1)]);
        assert_eq!(all(128, 864), [Step::End, Step::Last(864)]);
        assert_eq!(all(128, 2000), [Step::Part(856), Step::Part(920), Step::Last(224)]);
        assert_eq!(all(960, 2000), [Step::End, Step::Part(920), Step::Part(920), Step::Last(160)]);
        assert_eq!(all(960, 0), [Step::End, Step::Last(0)]);
    }
}
