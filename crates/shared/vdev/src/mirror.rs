//! Whole copies of every extent: a mirror, and a leaf alone, which is a mirror of one.
//!
//! A read asks one leaf. Only where that fails, or its bytes do not pass their check, others are asked, and the ones
//! that were wrong get the bytes that passed: these alone, as the rest of the extent was not checked.

use halite_pmem::Pinned;
use halite_sim::planted;

use crate::member::Standing;
use crate::members::Members;
use crate::scrub::Findings;
use crate::{Extent, Result, ScrubMemory, ScrubResult};

pub(crate) fn write(members: &Members, extent: Extent, bytes: &[u8]) -> Result<()> {
    members.write((0..members.len()).map(|member| (member, extent, bytes)))
}

/// The leaves in the order in which a reader asks them.
fn order(members: &Members) -> Vec<usize> {
    let mut order: Vec<_> = (0..members.len()).collect();
    if order.len() > 1 {
        order.sort_by_cached_key(|&member| members.get(member).preference());
    }
    order
}

pub(crate) fn read(
    members: &Members,
    extent: Extent,
    at: usize,
    to: &mut [u8],
    check: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    let (mut bad, mut findings) = (Vec::new(), Findings::new());
    for number in order(members) {
        let member = members.get(number);
        match member.read(extent, at, to) {
            Err(error) => findings.unread(&error),
            Ok(())
                if planted!(
                    "vdev.other-copy-unchecked",
                    check(to) || !bad.is_empty(),
                    check(to)
                ) =>
            {
                member.vouch(extent);
                for bad in bad {
                    members.get(bad).repair(extent, at, to);
                }
                return Ok(());
            }
            Ok(()) => {
                member.count_checksum_error();
                findings.wrong(&member.name());
            }
        }
        bad.push(number);
    }
    Err(findings.damaged(extent))
}

pub(crate) fn pin(
    members: &Members,
    extent: Extent,
    at: usize,
    len: usize,
) -> Result<Option<Pinned>> {
    for member in members.iter().filter(|member| member.standing() == Standing::Current) {
        if let Some(pinned) = member.pin(extent, at, len)? {
            return Ok(Some(pinned));
        }
    }
    Ok(None)
}

/// Frees all copies. Returns whether all are free.
pub(crate) fn free(members: &Members, extent: Extent) -> bool {
    // Each is asked, also after one that is pinned.
    let pinned =
        members.iter().filter_map(|member| member.device()).filter(|leaf| !leaf.free(extent));
    pinned.count() == 0
}

/// Reads the copy of a leaf. Returns whether it is right.
fn read_copy(
    members: &Members,
    number: usize,
    extent: Extent,
    verify: &dyn Fn(&[u8]) -> bool,
    memory: &mut ScrubMemory,
    findings: &mut Findings,
) -> bool {
    let (member, len) = (members.get(number), extent.byte_len());
    memory.reserve(len);
    match member.read(extent, 0, &mut memory.read[..len]) {
        Ok(()) if verify(&memory.read[..len]) => {
            member.vouch(extent);
            return true;
        }
        Ok(()) => {
            member.count_checksum_error();
            findings.wrong(&member.name());
        }
        Err(error) => findings.unread(&error),
    }
    false
}

/// Reads and checks the copies of all leaves that take writes, and replaces those that are wrong.
pub(crate) fn scrub(
    members: &Members,
    extent: Extent,
    verify: &dyn Fn(&[u8]) -> bool,
    memory: &mut ScrubMemory,
) -> Result<ScrubResult> {
    let (mut findings, len) = (Findings::new(), extent.byte_len());
    let mut read = |number: usize, memory: &mut ScrubMemory| {
        read_copy(members, number, extent, verify, memory, &mut findings)
    };
    let takes_writes = |&number: &usize| members.get(number).standing() <= Standing::Stale;
    let (asked, others): (Vec<_>, Vec<_>) = order(members).into_iter().partition(takes_writes);
    let (mut has_right, mut damaged) = (false, Vec::new());
    for number in asked {
        if !read(number, memory) {
            damaged.push(number);
        } else if !has_right {
            has_right = true;
            std::mem::swap(&mut memory.read, &mut memory.right);
        }
    }
    if damaged.is_empty() {
        return Ok(ScrubResult::default());
    }
    let right = match has_right {
        true => &memory.right[..len],
        false if others.into_iter().any(|number| read(number, memory)) => &memory.read[..len],
        false => return Err(findings.damaged(extent)),
    };
    let repair = |&number: &usize| members.get(number).repair(extent, 0, right);
    let repaired = damaged.iter().copied().filter(repair).collect();
    Ok(ScrubResult { damaged, repaired })
}

/// Writes the copies of the leaves that missed writes, as the first leaf has the extent whose copy is right. A copy that
/// they have already is written as well: the sync that made them stale may have failed with it, and a read does not
/// tell whether it is durable.
pub(crate) fn resilver(
    members: &Members,
    extent: Extent,
    verify: &dyn Fn(&[u8]) -> bool,
    memory: &mut ScrubMemory,
) -> Result<ScrubResult> {
    let is_stale = |&number: &usize| members.get(number).standing() == Standing::Stale;
    let damaged: Vec<_> = (0..members.len()).filter(is_stale).collect();
    if damaged.is_empty() {
        return Ok(ScrubResult::default());
    }
    let mut findings = Findings::new();
    let mut read =
        |number: usize| read_copy(members, number, extent, verify, memory, &mut findings);
    if !order(members).into_iter().any(&mut read) {
        return Err(findings.damaged(extent));
    }
    let right = &memory.read[..extent.byte_len()];
    let repair = |&number: &usize| members.get(number).repair(extent, 0, right);
    let repaired = damaged.iter().copied().filter(repair).collect();
    Ok(ScrubResult { damaged, repaired })
}
