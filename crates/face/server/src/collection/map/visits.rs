//! Visits of a map's fields, one after the other.

use std::ops::ControlFlow;

use super::{Map, Pair, State, pairs};
use crate::collection::{check_ending, damaged, intset};
use crate::failure::Outcome;
use crate::store::{Elements, Order, Store};
use crate::stored::{Type, is_of_order, read_element};

impl Map {
    /// Visits all fields with their values, until `visit` breaks or fails. Those of one record come as in Redis: in the order
    /// in which they came, or, of an intset, by their numbers.
    pub(crate) fn visit(
        &self,
        store: &Store,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        match &self.state {
            State::Packed(packed) => {
                if self.of == Type::Set
                    && let Some(members) = intset::in_order(packed)
                {
                    for member in members {
                        if visit(member, b"")?.is_break() {
                            break;
                        }
                    }
                    return Ok(());
                }
                for (field, value) in pairs(packed) {
                    if visit(field, value)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            State::Elements(elements) => {
                self.visit_from(store, elements, 0, |_, field, value| visit(field, value))
            }
        }
    }

    /// Visits the fields from a hash on.
    pub(super) fn visit_from(
        &self,
        store: &Store,
        elements: &Elements,
        from: u32,
        mut visit: impl FnMut(u32, &[u8], &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        self.visit_elements(store, elements, from, |element, value| {
            let (hash, field, value) = read_element(element, value)
                .ok_or_else(|| damaged(&self.key, "an element has no field"))?;
            visit(hash, field, value)
        })
    }

    /// Visits the elements of fields from a hash on.
    pub(super) fn visit_elements(
        &self,
        store: &Store,
        elements: &Elements,
        from: u32,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        for pair in store.scan(elements, &from.to_be_bytes(), Order::Ascending)? {
            let (element, value) = pair?;
            let is_over = self.has_order && is_of_order(&element);
            if is_over || visit(&element, &value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits at least `count` fields from a cursor on, or all that are left, and returns the cursor from which to go on:
    /// 0 behind the last. A field that is there all the time is visited at least once.
    pub(crate) fn scan(
        &self,
        store: &Store,
        cursor: u64,
        count: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome,
    ) -> Outcome<u64> {
        let State::Elements(elements) = &self.state else {
            let visited = |field: &[u8], value: &[u8]| {
                visit(field, value)?;
                Ok(ControlFlow::Continue(()))
            };
            self.visit(store, visited)?;
            return Ok(0);
        };
        let Ok(from) = u32::try_from(cursor) else { return Ok(0) };
        let (mut seen, mut last, mut next) = (0, None, 0);
        self.visit_from(store, elements, from, |hash, field, value| {
            if seen >= count && last != Some(hash) {
                next = u64::from(hash);
                return Ok(ControlFlow::Break(()));
            }
            visit(field, value)?;
            seen += 1;
            last = Some(hash);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(next)
    }

    /// All fields with their values.
    pub(crate) fn to_vec(&self, store: &Store) -> Outcome<Vec<Pair>> {
        let mut all = Vec::new();
        self.visit(store, |field, value| {
            check_ending(store)?;
            all.push((field.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }
}
