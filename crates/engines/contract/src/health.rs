//! Whether a store takes writes, and why it does not any more.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;

use crate::{Error, Result, panic_message};

/// A failure after which no write is allowed, shared by the parts of a store.
#[derive(Debug, Default)]
pub struct Health {
    failure: OnceLock<String>,
    /// The place that is to panic.
    #[cfg(feature = "conformance")]
    planted: OnceLock<&'static str>,
}

impl Health {
    /// Refuses all writes from now on. The first reason counts.
    pub fn poison(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Why writes are refused, if they are.
    #[inline]
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns an error if writes are refused.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned { why: why.to_owned() }),
        }
    }

    /// Runs work that other threads wait for: after a panic in it, all writes are refused, and `None` is
    /// returned. The caller then wakes the waiting threads.
    pub fn guard<T>(&self, what: &str, run: impl FnOnce() -> T) -> Option<T> {
        // The state that a panic leaves half changed is never written to again.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| self.note_panic(what, &*panic)).ok()
    }

    /// Runs a change of the store on its caller's thread: after a panic in it, which goes on to the caller,
    /// all writes are refused.
    pub fn watch<T>(&self, what: &str, run: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            self.note_panic(what, &*panic);
            resume_unwind(panic)
        })
    }

    #[cold]
    fn note_panic(&self, what: &str, panic: &(dyn Any + Send)) {
        self.poison(format!("{what} panicked: {}", panic_message(panic)));
    }

    /// A place at which a test makes a thread panic. Without the feature `conformance`, it has no effect.
    ///
    /// # Panics
    /// If a test planted that.
    #[inline(always)]
    pub fn place(&self, _name: &'static str) {
        #[cfg(feature = "conformance")]
        if self.planted.get() == Some(&_name) {
            panic!("planted in {_name}");
        }
    }

    /// Makes every thread panic that reaches a place.
    #[cfg(feature = "conformance")]
    pub fn plant(&self, name: &'static str) {
        let _ = self.planted.set(name);
    }
}
