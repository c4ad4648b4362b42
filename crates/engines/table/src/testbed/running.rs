//! The transactions that a thread is in, so that one which would wait for itself is refused.

use std::cell::RefCell;

use halite_sim::locks;

use super::Testbed;
use crate::{Error, Result};

thread_local! {
    /// The stores of the thread's transactions, by their places in memory, and the names of these transactions. Bodies of
    /// transactions of different stores may be in each other.
    static RUNNING: RefCell<Vec<(usize, Box<str>)>> = const { RefCell::new(Vec::new()) };
}

/// A transaction that runs on this thread.
pub(super) struct Running {
    is_noted: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_noted {
            RUNNING.with_borrow_mut(|running| running.pop());
        }
    }
}

impl Testbed {
    /// Takes note that this thread runs a transaction, until what it returns is dropped.
    ///
    /// # Errors
    /// [`Error::Recursion`], if it is in one of this store already.
    pub(super) fn enter(&self, name: &str) -> Result<Running> {
        self.check_outside(name)?;
        // Simulated threads share one thread.
        let is_noted = !locks::is_scheduled();
        if is_noted {
            RUNNING.with_borrow_mut(|running| running.push((self.place(), name.into())));
        }
        Ok(Running { is_noted })
    }

    /// Refuses something that waits for transactions, in the body of one.
    pub(super) fn check_outside(&self, inner: &str) -> Result<()> {
        RUNNING.with_borrow(|running| {
            match running.iter().find(|(place, _)| *place == self.place()) {
                Some((_, outer)) => {
                    Err(Error::Recursion { inner: inner.into(), outer: outer.clone() })
                }
                None => Ok(()),
            }
        })
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
