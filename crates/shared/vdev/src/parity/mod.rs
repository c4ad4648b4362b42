//! A vdev with parity 1, 2 or 3: any so many leaves may be lost.
//!
//! A write computes the parity columns of the extent (`code`, over the `field`) and writes each column to its leaf
//! (`geometry`). A read asks the leaves of the data that it wants. Only if one fails, or the check does not pass, it
//! loads the columns around (`loaded`) and looks for the lost ones (`search`).

mod code;
mod field;
mod geometry;
mod loaded;
mod search;

use geometry::Columns;
pub(crate) use geometry::Geometry;
use loaded::Loaded;

use crate::member::Standing;
use crate::members::Members;
use crate::scrub::Findings;
use crate::{Extent, Result, ScrubResult};

pub(crate) fn write(
    members: &Members,
    geometry: Geometry,
    extent: Extent,
    bytes: &[u8],
) -> Result<()> {
    let columns = geometry.columns(extent);
    let data: Vec<&[u8]> = columns.data.iter().map(|column| &bytes[column.bytes()]).collect();
    let parity: Vec<Vec<u8>> = (0..columns.parity.len())
        .map(|number| code::encode(&data, number, columns.height()))
        .collect();
    let data = columns.data.iter().zip(data);
    let parity = columns.parity.iter().zip(parity.iter().map(|parity| &parity[..]));
    members.write(data.chain(parity).map(|(column, bytes)| (column.leaf, column.run, bytes)))
}

pub(crate) fn read(
    members: &Members,
    geometry: Geometry,
    extent: Extent,
    at: usize,
    to: &mut [u8],
    check: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    let columns = geometry.columns(extent);
    if read_data(members, &columns, at, to) && check(to) {
        vouch(members, &columns);
        return Ok(());
    }
    let range = at..at + to.len();
    let mut findings = Findings::new();
    let loaded = Loaded::read(members, &columns, &range, &mut findings);
    let found = search::search(&loaded, |data| {
        loaded.gather(data, &range, to);
        check(to)
    });
    let Some(lost) = found else {
        findings.note(format!(
            "with {} parity columns no choice of wrong leaves gives bytes that have their checksum",
            loaded.parity.iter().flatten().count()
        ));
        return Err(findings.damaged(extent));
    };
    vouch(members, &columns);
    // The range alone was checked, and in it every column is known now.
    for (number, column) in columns.data.iter().enumerate() {
        let (part, member) = (column.part(&range), members.get(column.leaf));
        if part.is_empty() {
            continue;
        }
        let right = &to[column.at + part.start - at..][..part.len()];
        if loaded.has(number, &part, right) {
            continue;
        }
        if lost.contains(&number) && loaded.data[number].is_some() {
            member.count_checksum_error();
        }
        member.repair(column.run, part.start, right);
    }
    Ok(())
}

/// Reads data from the leaves that have it. Returns whether all of them have every write, and gave theirs.
fn read_data(members: &Members, columns: &Columns, at: usize, to: &mut [u8]) -> bool {
    let range = at..at + to.len();
    let mut rest = to;
    for column in &columns.data {
        let part = column.part(&range);
        if part.is_empty() {
            continue;
        }
        let (now, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = behind;
        let member = members.get(column.leaf);
        if member.standing() != Standing::Current
            || member.read(column.run, part.start, now).is_err()
        {
            return false;
        }
    }
    true
}

/// The extent was found to be one: its columns belong to it on every leaf.
fn vouch(members: &Members, columns: &Columns) {
    for column in columns.parity.iter().chain(&columns.data) {
        members.get(column.leaf).vouch(column.run);
    }
}

/// Reads and checks the whole extent with its parity, and replaces the columns that are wrong on leaves that are
/// `wanted`; if `rewrites`, also those that are right: a read does not tell whether they are durable.
pub(crate) fn heal(
    members: &Members,
    geometry: Geometry,
    extent: Extent,
    verify: &dyn Fn(&[u8]) -> bool,
    wanted: impl Fn(Standing) -> bool,
    rewrites: bool,
) -> Result<ScrubResult> {
    let columns = geometry.columns(extent);
    let is_wanted = |leaf: usize| wanted(members.get(leaf).standing());
    if !columns.parity.iter().chain(&columns.data).any(|column| is_wanted(column.leaf)) {
        return Ok(ScrubResult::default());
    }
    let (range, mut bytes) = (0..extent.byte_len(), vec![0; extent.byte_len()]);
    let mut findings = Findings::new();
    let loaded = Loaded::read(members, &columns, &range, &mut findings);
    let found = search::search(&loaded, |data| {
        loaded.gather(data, &range, &mut bytes);
        verify(&bytes)
    });
    if found.is_none() {
        findings.note("no choice of wrong leaves gives bytes that have their checksum".into());
        return Err(findings.damaged(extent));
    }
    vouch(members, &columns);
    let data: Vec<&[u8]> = columns.data.iter().map(|column| &bytes[column.bytes()]).collect();
    let parity: Vec<Vec<u8>> = (0..columns.parity.len())
        .map(|number| code::encode(&data, number, columns.height()))
        .collect();
    let right = data.iter().copied().chain(parity.iter().map(|parity| &parity[..]));
    let on_leaves = loaded.data.iter().chain(&loaded.parity);
    let mut result = ScrubResult::default();
    for ((column, right), found) in
        columns.data.iter().chain(&columns.parity).zip(right).zip(on_leaves)
    {
        let member = members.get(column.leaf);
        let is_right = found.as_ref().is_some_and(|found| found.bytes == right);
        if !is_wanted(column.leaf) || is_right && !rewrites {
            continue;
        }
        if found.is_some() && !is_right {
            member.count_checksum_error();
        }
        result.damaged.push(column.leaf);
        if member.repair(column.run, 0, right) {
            result.repaired.push(column.leaf);
        }
    }
    Ok(result)
}

/// The columns as they are on the leaves, in the order of the leaves; nothing of those without one.
pub(crate) fn read_raw(
    members: &Members,
    geometry: Geometry,
    extent: Extent,
) -> Vec<Option<Result<Vec<u8>>>> {
    let columns = geometry.columns(extent);
    let mut raw: Vec<_> = (0..members.len()).map(|_| None).collect();
    for column in columns.parity.iter().chain(&columns.data) {
        let mut bytes = vec![0; column.run.byte_len()];
        let read = members.get(column.leaf).read(column.run, 0, &mut bytes);
        raw[column.leaf] = Some(read.map(|()| bytes));
    }
    raw
}

/// Frees the columns on their leaves. Returns whether all are free.
pub(crate) fn free(members: &Members, geometry: Geometry, extent: Extent) -> bool {
    let columns = geometry.columns(extent);
    // Each is asked, also after one that is pinned.
    let is_pinned = |column: &&geometry::Column| {
        members.get(column.leaf).device().is_some_and(|leaf| !leaf.free(column.run))
    };
    columns.parity.iter().chain(&columns.data).filter(is_pinned).count() == 0
}
