//! Whether a store takes writes, and why it does not any more.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;

use crate::{Error, Result, panic_message};

/// What the parts of a store know of a failure behind which nothing may be written.
#[derive(Debug, Default)]
pub struct Health {
    failure: OnceLock<String>,
    /// The place that is to panic.
    #[cfg(feature = "conformance")]
    planted: OnceLock<&'static str>,
}

impl Health {
    /// Lets nothing be written from now on. The first reason counts.
    pub fn poison(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Why nothing is written any more.
    #[inline]
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Refuses if nothing is written any more.
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

    /// Runs what must not leave others waiting: after a panic in it, nothing is written any more, and `None` is returned.
    /// Those who wait for it are to be woken by the caller.
    pub fn guard<T>(&self, what: &str, run: impl FnOnce() -> T) -> Option<T> {
        // What it leaves half done is never written to again.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| self.note_panic(what, &*panic)).ok()
    }

    /// Runs what changes the store on its caller's thread: after a panic in it, which goes on to the caller, nothing is
    /// written any more.
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

    /// A place at which a test has a thread panic. Without the feature `conformance`, nothing.
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

    /// Has every thread panic that comes to a place.
    #[cfg(feature = "conformance")]
    pub fn plant(&self, name: &'static str) {
        let _ = self.planted.set(name);
    }
}
