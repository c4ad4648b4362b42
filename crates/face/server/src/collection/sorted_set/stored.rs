//! The stored order of a larger sorted set: it is changed with the map, and read by scans.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use halite::Bytes;
use halite_sim::planted;

use super::bounds::{Bounds, Member, Scores};
use super::{SortedSet, read_score};
use crate::collection::{check_ending, damaged};
use crate::failure::{Failure, Outcome};
use crate::order_ends::OrderEnds;
use crate::store::{Elements, Order, Resident, Scan, Store};
use crate::stored::order::{self as record, MEMBER_AT};
use crate::stored::{FIELD_IN_KEY_MAX, is_of_order, long_field};

/// The part of the order that a scan reads.
#[derive(Debug, Clone)]
pub(super) struct Stretch<'a> {
    bounds: Bounds<'a>,
    /// No member of the part has a record before this element, which need not be there.
    low: Vec<u8>,
    /// No member of the part has a record behind this element, which need not be there.
    high: Vec<u8>,
}

impl<'a> Stretch<'a> {
    /// All members.
    pub(super) fn whole() -> Self {
        Self::of(Bounds::Scores(Scores::ALL), 0.0)
    }

    /// The members in a range. If it is one of members, all members have this score; ranks are of all members.
    pub(super) fn of(bounds: Bounds<'a>, score: f64) -> Self {
        let bits = record::bits_of(score);
        let (low, high) = match bounds {
            Bounds::Ranks(..) => return Self::whole(),
            Bounds::Scores(scores) => (
                record::start_of(record::bits_of(scores.min) + u64::from(scores.without_min)),
                record::start_of(record::bits_of(scores.max) + u64::from(!scores.without_max)),
            ),
            Bounds::Members(min, max) => {
                let low = match min {
                    Member::Least => record::start_of(bits),
                    Member::Most => record::start_of(bits + 1),
                    Member::Included(min) | Member::Excluded(min) => {
                        record::start_of_member(score, min)
                    }
                };
                let high = match max {
                    Member::Least => record::start_of(bits),
                    Member::Most => record::start_of(bits + 1),
                    Member::Included(max) | Member::Excluded(max) => {
                        record::end_of_member(score, max)
                    }
                };
                (low, high)
            }
        };
        Self { bounds, low, high }
    }
}

impl SortedSet {
    /// The elements, if ranges are read from the stored order: the set has one, and no tree in DRAM.
    pub(super) fn stored_order(&self, store: &mut Store) -> Option<Elements> {
        let elements = self.map.elements().filter(|_| self.map.has_order())?;
        let known = store.known_resident(&elements);
        (!matches!(known, Some(Resident::Scores(_)))).then_some(elements)
    }

    /// Gives the members of a set that has just got elements an order, where that is stored.
    pub(super) fn begin_order(&mut self, store: &mut Store) -> Outcome {
        let Some(elements) = self.map.elements().filter(|_| store.stores_order()) else {
            return Ok(());
        };
        self.map.keep_order();
        let mut members = Vec::new();
        self.map.visit(store, |member, value| {
            members.push((read_score(value).ok_or_else(|| self.no_score())?, member.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        for (score, member) in &members {
            put(store, &elements, *score, member)?;
        }
        store.forget_resident(&elements);
        let ends = OrderEnds::counted(members.len() as u64);
        store.resident(&elements, |_| Ok(Resident::Ends(ends)))?;
        Ok(())
    }

    /// Changes the order with the map, in the store and in DRAM: a member had a score, or has one now.
    pub(super) fn change_order(
        &self,
        store: &mut Store,
        member: &[u8],
        before: Option<f64>,
        after: Option<f64>,
    ) -> Outcome {
        let Some(elements) = self.map.elements() else { return Ok(()) };
        let mut put_record = None;
        if self.map.has_order() {
            if let Some(before) = before {
                planted!(
                    "server.order-record-not-removed",
                    (),
                    store.remove_element(&elements, &record::record_of(before, member))?
                );
            }
            if let Some(after) = after {
                put_record = Some(planted!(
                    "server.order-record-not-written",
                    record::record_of(after, member),
                    put(store, &elements, after, member)?
                ));
            }
        }
        match store.known_resident(&elements) {
            Some(Resident::Scores(scores)) => {
                if let Some(before) = before {
                    scores.remove((before, member));
                }
                if let Some(after) = after {
                    scores.insert((after, member));
                }
            }
            Some(Resident::Ends(ends)) => {
                ends.grow(i64::from(after.is_some()) - i64::from(before.is_some()));
                if let Some(record) = put_record {
                    ends.note_put(&record);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Visits the members of a part of the stored order in a direction, until `visit` breaks or fails.
    pub(super) fn walk(
        &self,
        store: &mut Store,
        of: &Elements,
        stretch: &Stretch<'_>,
        order: Order,
        mut visit: impl FnMut(f64, &Bytes) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        let ends = match store.known_resident(of) {
            Some(Resident::Ends(ends)) => Some(&*ends),
            _ => None,
        };
        let (from, is_at_end) = begin(stretch, order, ends);
        let mut members = Members::new(store, of, &self.key, &from, order)?;
        let Stretch { bounds, .. } = stretch;
        while let Some((score, member)) = members.next()? {
            let (is_before, is_behind) = match order {
                Order::Ascending => {
                    (bounds.is_before(score, &member), bounds.is_behind(score, &member))
                }
                Order::Descending => {
                    (bounds.is_behind(score, &member), bounds.is_before(score, &member))
                }
            };
            if is_behind || !is_before && visit(score, &member)?.is_break() {
                break;
            }
        }
        if !is_at_end {
            return Ok(());
        }
        let Some(outermost) = members.outermost else {
            return Err(damaged(&self.key, "its order has no member"));
        };
        match store.resident(of, |_| Ok(Resident::Ends(OrderEnds::default())))? {
            Resident::Ends(ends) if order == Order::Ascending => ends.note_first(&outermost),
            Resident::Ends(ends) => ends.note_last(&outermost),
            _ => {}
        }
        Ok(())
    }

    /// The score that all members have; `None` if the first and the last differ.
    pub(super) fn one_score(&self, store: &mut Store, of: &Elements) -> Outcome<Option<f64>> {
        let mut ends = [f64::NAN; 2];
        for (end, order) in ends.iter_mut().zip([Order::Ascending, Order::Descending]) {
            self.walk(store, of, &Stretch::whole(), order, |score, _| {
                *end = score;
                Ok(ControlFlow::Break(()))
            })?;
        }
        Ok((ends[0] == ends[1]).then_some(ends[0]))
    }

    /// Counts the members, in the map and in the order, which must have as many.
    pub(super) fn count_both(&self, store: &mut Store, of: &Elements) -> Outcome<u64> {
        let (members, mut ordered) = (self.map.len(store)?, 0);
        let counted = self.walk(store, of, &Stretch::whole(), Order::Ascending, |_, _| {
            ordered += 1;
            Ok(ControlFlow::Continue(()))
        });
        if counted.is_err() || members != ordered {
            // The count of the map does not hold for the set.
            store.forget_resident(of);
        }
        counted?;
        if members == ordered { Ok(members) } else { Err(self.other_order()) }
    }

    /// The failure of a set whose map and whose order do not have the same members.
    pub(super) fn other_order(&self) -> Failure {
        damaged(&self.key, "its order is not that of its members")
    }
}

/// Puts the record of a member; returns it.
fn put(store: &mut Store, of: &Elements, score: f64, member: &[u8]) -> Outcome<Vec<u8>> {
    let record = record::record_of(score, member);
    store.put_element(of, &record, record::value_of(score))?;
    Ok(record)
}

/// The element at which a scan of a part begins, and whether no record of the order is before it.
fn begin(stretch: &Stretch<'_>, order: Order, ends: Option<&OrderEnds>) -> (Vec<u8>, bool) {
    let whole = Stretch::whole();
    match order {
        Order::Ascending => {
            let known = ends.map_or(&b""[..], OrderEnds::first);
            (known.max(&stretch.low).to_vec(), stretch.low[..] <= *known.max(&whole.low))
        }
        Order::Descending => {
            let known = ends.and_then(OrderEnds::last).unwrap_or(&whole.high);
            (known.min(&stretch.high).to_vec(), stretch.high[..] >= *known.min(&whole.high))
        }
    }
}

/// The members of a stored order, from an element on.
struct Members<'a> {
    store: &'a Store,
    of: Elements,
    key: &'a [u8],
    scan: Scan<'a>,
    order: Order,
    /// Long members with one score and one beginning, in order.
    group: VecDeque<(f64, Bytes)>,
    /// The record behind them.
    ahead: Option<(Bytes, Bytes)>,
    /// The first record that was read.
    outermost: Option<Bytes>,
}

impl<'a> Members<'a> {
    fn new(
        store: &'a Store,
        of: &Elements,
        key: &'a [u8],
        from: &[u8],
        order: Order,
    ) -> Outcome<Self> {
        let scan = store.scan(of, from, order)?;
        let (group, ahead, outermost) = (VecDeque::new(), None, None);
        Ok(Self { store, of: *of, key, scan, order, group, ahead, outermost })
    }

    fn next(&mut self) -> Outcome<Option<(f64, Bytes)>> {
        if let Some(member) = self.group.pop_front() {
            return Ok(Some(member));
        }
        let Some((record, value)) = self.record()? else { return Ok(None) };
        if record::long_member(&record).is_some() {
            self.read_group(record, value)?;
            return Ok(self.group.pop_front());
        }
        let (score, len) = (self.score(&record, &value)?, record.len());
        Ok(Some((score, record.slice(MEMBER_AT..len))))
    }

    /// The next record of the order.
    fn record(&mut self) -> Outcome<Option<(Bytes, Bytes)>> {
        check_ending(self.store)?;
        let next = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.scan.next().transpose()?,
        };
        // The map lies before the order.
        let next = next.filter(|(element, _)| is_of_order(element));
        if self.outermost.is_none() {
            self.outermost = next.as_ref().map(|(element, _)| element.clone());
        }
        Ok(next)
    }

    fn score(&self, record: &[u8], value: &[u8]) -> Outcome<f64> {
        let score = record::score_of(record, value);
        score.ok_or_else(|| damaged(self.key, "a record of its order has no score"))
    }

    /// Reads the long members that begin as the one of a record, from that on, and sorts them.
    fn read_group(&mut self, record: Bytes, value: Bytes) -> Outcome {
        let beginning = MEMBER_AT + FIELD_IN_KEY_MAX;
        let first = record[..beginning].to_vec();
        let (mut group, mut next) = (Vec::new(), Some((record, value)));
        while let Some((record, value)) = next.take() {
            let member = match record::long_member(&record) {
                Some((start, element)) if record.starts_with(&first) => {
                    self.long_member(start, element)?
                }
                _ => {
                    self.ahead = Some((record, value));
                    break;
                }
            };
            group.push((self.score(&record, &value)?, member));
            next = self.record()?;
        }
        group.sort_by(|(_, one), (_, other)| one.cmp(other));
        if self.order == Order::Descending {
            group.reverse();
        }
        self.group = group.into();
        Ok(())
    }

    /// The long member that begins so, and is this element of the map.
    fn long_member(&self, start: &[u8], element: &[u8]) -> Outcome<Bytes> {
        let value = self.store.element(&self.of, element)?;
        let member = value.as_deref().and_then(long_field);
        let member = member.filter(|member| member.starts_with(start));
        let member = member.ok_or_else(|| damaged(self.key, "its order has a foreign member"))?;
        Ok(Bytes::from(member))
    }
}
