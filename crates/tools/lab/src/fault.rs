//! Faults of a medium: it returns other bytes than were stored.

use halite_alloc::{SUPERBLOCK_COPIES, SUPERBLOCK_LEN};
use halite_pmem::{LINE, UNIT};

use crate::Random;
use crate::disk::{Disk, LINE_LEN, Line};
use crate::past::Past;
use crate::story::place;

/// Lines of a block of 256 bytes, in which persistent memory writes and fails.
const BLOCK_LINES: u64 = 4;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// One bit is another.
    FlippedBit,
    /// A line of 64 bytes is zero.
    ZeroedLine,
    /// A block of 256 bytes is zero.
    ZeroedBlock,
    /// A line has its content from before a store to it: that store was lost.
    StaleLine,
    /// A block of 256 bytes has its content from an earlier moment.
    StaleBlock,
    /// The file is shorter; the bytes behind its new end are lost.
    Truncated,
    /// A copy of the superblock has its content from an earlier moment.
    StaleCopy,
    /// The copies of the superblock, of which one is stale, have changed places.
    SwappedCopies,
    /// A line has the bytes that were stored to another one.
    Misdirected,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::FlippedBit,
        Self::ZeroedLine,
        Self::ZeroedBlock,
        Self::StaleLine,
        Self::StaleBlock,
        Self::Truncated,
        Self::StaleCopy,
        Self::SwappedCopies,
        Self::Misdirected,
    ];

    /// Returns the fault's name in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FlippedBit => "flipped bit",
            Self::ZeroedLine => "zeroed line",
            Self::ZeroedBlock => "zeroed 256-byte block",
            Self::StaleLine => "stale line",
            Self::StaleBlock => "stale 256-byte block",
            Self::Truncated => "truncated tail",
            Self::StaleCopy => "stale superblock copy",
            Self::SwappedCopies => "swapped superblock copies",
            Self::Misdirected => "misdirected line",
        }
    }

    /// Whether the struck bytes were right at an earlier moment.
    pub(crate) fn is_stale(self) -> bool {
        matches!(self, Self::StaleLine | Self::StaleBlock | Self::StaleCopy | Self::SwappedCopies)
    }

    /// Whether the struck bytes look as if they had never been stored.
    pub(crate) fn erases(self) -> bool {
        self.is_stale() || matches!(self, Self::ZeroedLine | Self::ZeroedBlock)
    }

    fn any(random: &mut Random) -> Self {
        match random.below(100) {
            0..30 => Self::FlippedBit,
            30..42 => Self::ZeroedLine,
            42..50 => Self::ZeroedBlock,
            50..65 => Self::StaleLine,
            65..73 => Self::StaleBlock,
            73..78 => Self::Truncated,
            78..82 => Self::StaleCopy,
            82..86 => Self::SwappedCopies,
            _ => Self::Misdirected,
        }
    }
}

/// One fault.
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The content of the struck lines from then on.
    pub(crate) lines: Vec<(u64, Line)>,
    /// The file's length from then on, if it changes.
    len: Option<u64>,
}

impl Fault {
    /// Draws a fault of the bytes that are on the disk.
    pub(crate) fn any(past: &Past<'_>, disk: &Disk, random: &mut Random) -> Self {
        let kind = FaultKind::any(random);
        let near = any_line(past, disk, random);
        let block = near / BLOCK_LINES * BLOCK_LINES;
        let mut len = None;
        let zeroed = |line| (line, [0; LINE_LEN]);
        let lines = match kind {
            FaultKind::FlippedBit => {
                let (mut line, bit) = (*disk.line(near), random.index(LINE_LEN * 8));
                line[bit / 8] ^= 1 << (bit % 8);
                vec![(near, line)]
            }
            FaultKind::ZeroedLine => vec![zeroed(near)],
            FaultKind::ZeroedBlock => (block..block + BLOCK_LINES).map(zeroed).collect(),
            FaultKind::StaleLine => stale(past, near, near + 1, random),
            FaultKind::StaleBlock => stale(past, block, block + BLOCK_LINES, random),
            FaultKind::Truncated => {
                let mut shorter = random.below(disk.file.len);
                if random.percent(30) {
                    shorter = shorter / UNIT * UNIT;
                }
                len = Some(shorter);
                let gone = past.lines_behind(shorter).into_iter().map(|line| {
                    let (mut left, kept) = (*disk.line(line), shorter.saturating_sub(line * LINE));
                    left[kept.min(LINE) as usize..].fill(0);
                    (line, left)
                });
                gone.collect()
            }
            FaultKind::StaleCopy => stale_copy(past, random).1,
            FaultKind::SwappedCopies => {
                let (copy, stale) = stale_copy(past, random);
                let distance = (SUPERBLOCK_COPIES[1] - SUPERBLOCK_COPIES[0]) / LINE;
                let swapped = stale.into_iter().flat_map(|(line, bytes)| {
                    let other = if copy == 0 { line + distance } else { line - distance };
                    [(other, bytes), (line, *disk.line(other))]
                });
                swapped.collect()
            }
            FaultKind::Misdirected => {
                let line = *disk.line(past.any_line(random));
                // A line that is zero, or a content that the line once had, would be another kind of fault.
                let is_other = line == [0; LINE_LEN] || past.once_held(near, &line);
                if is_other { Vec::new() } else { vec![(near, line)] }
            }
        };
        Self { kind, lines, len }
    }

    /// Whether it changes any byte.
    pub(crate) fn changes(&self, disk: &Disk) -> bool {
        self.len.is_some() || self.lines.iter().any(|(line, bytes)| disk.line(*line) != bytes)
    }

    pub(crate) fn strike(&self, disk: &mut Disk) {
        for (line, bytes) in &self.lines {
            disk.change_line(*line, bytes);
        }
        if let Some(len) = self.len {
            disk.file.len = len;
        }
    }

    /// Which copies of the superblock it strikes.
    pub(crate) fn copies(&self) -> [bool; 2] {
        SUPERBLOCK_COPIES.map(|at| {
            let copy = at / LINE..(at + SUPERBLOCK_LEN) / LINE;
            self.lines.iter().any(|(line, _)| copy.contains(line))
        })
    }

    /// Describes its effect on the disk, for people.
    pub(crate) fn story(&self, past: &Past<'_>, disk: &Disk) -> Vec<String> {
        const TOLD_MAX: usize = 8;
        let mut story = vec![format!("A fault strikes: {}", self.kind.name())];
        if let Some(len) = self.len {
            story.push(format!("  the file has {len} bytes, not {} any more", disk.file.len));
        }
        let changed: Vec<_> =
            self.lines.iter().filter(|(line, new)| disk.line(*line) != new).collect();
        for (line, new) in changed.iter().take(TOLD_MAX) {
            let old = disk.line(*line);
            let differ = |at: &usize| old[*at] != new[*at];
            let (first, last) = ((0..LINE_LEN).find(differ), (0..LINE_LEN).rfind(differ));
            let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
            let site = past.site(*line).map_or("never stored to".to_owned(), |site| {
                format!("last stored to at {}", place(site))
            });
            story.push(format!(
                "  line {:#x} ({site}), bytes {first}..={last}: {} becomes {}",
                line * LINE,
                hex(&old[first..=last]),
                hex(&new[first..=last])
            ));
        }
        if changed.len() > TOLD_MAX {
            story.push(format!("  and {} more lines", changed.len() - TOLD_MAX));
        }
        story
    }
}

/// A line that was stored to, or, now and then, another one.
fn any_line(past: &Past<'_>, disk: &Disk, random: &mut Random) -> u64 {
    let lines = disk.file.len / LINE;
    match random.below(100) {
        0..93 => past.any_line(random),
        93..97 => (past.any_line(random) + random.below(8)).min(lines - 1),
        _ => random.below(lines),
    }
}

/// Lines as they were at an earlier moment.
fn stale(past: &Past<'_>, from: u64, to: u64, random: &mut Random) -> Vec<(u64, Line)> {
    let moment = past.any_moment(from, to, random);
    let version = |moment| (from..to).map(move |line| (line, past.version(line, moment)));
    moment.map(version).into_iter().flatten().collect()
}

fn stale_copy(past: &Past<'_>, random: &mut Random) -> (usize, Vec<(u64, Line)>) {
    let copy = random.index(SUPERBLOCK_COPIES.len());
    let from = SUPERBLOCK_COPIES[copy] / LINE;
    (copy, stale(past, from, from + SUPERBLOCK_LEN / LINE, random))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
