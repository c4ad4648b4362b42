//! The dense encoding: six bits for each register, the lowest bits of the lowest byte first.

use super::{REGISTERS, Ranks};

/// Bits of a register.
const BITS: usize = 6;
/// Bytes of all registers.
pub(super) const LEN: usize = REGISTERS * BITS / 8;
/// Registers that share three bytes.
const GROUP: usize = 4;
const GROUP_LEN: usize = 3;
const MASK: u32 = (1 << BITS) - 1;

/// Raises a register to a rank; returns whether it was lower.
pub(super) fn raise(registers: &mut [u8], index: usize, rank: u8) -> bool {
    let start = index / GROUP * GROUP_LEN;
    let Some([a, b, c]) = registers.get_mut(start..start + GROUP_LEN) else { return false };
    let group = u32::from_le_bytes([*a, *b, *c, 0]);
    let shift = index % GROUP * BITS;
    if u32::from(rank) <= group >> shift & MASK {
        return false;
    }
    let group = group & !(MASK << shift) | (u32::from(rank) & MASK) << shift;
    [*a, *b, *c, _] = group.to_le_bytes();
    true
}

/// Raises `ranks` to those of the registers.
pub(super) fn merge_into(registers: &[u8], ranks: &mut Ranks) {
    let (groups, _) = registers.as_chunks::<GROUP_LEN>();
    for ([a, b, c], ranks) in groups.iter().zip(ranks.as_chunks_mut::<GROUP>().0) {
        let group = u32::from_le_bytes([*a, *b, *c, 0]);
        for (place, rank) in ranks.iter_mut().enumerate() {
            *rank = (*rank).max((group >> (place * BITS) & MASK) as u8);
        }
    }
}
