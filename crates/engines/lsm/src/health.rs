//! Whether a store takes writes, and why it does not any more.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use halite_contract::panic_message;

/// What a store and its levels know of a failure behind which nothing may be written.
#[derive(Default)]
pub(crate) struct Health {
    failure: OnceLock<String>,
    /// The place that is to panic.
    #[cfg(test)]
    planted: parking_lot::Mutex<Option<&'static str>>,
}

impl Health {
    /// Lets nothing be written from now on. The first reason counts.
    pub(crate) fn poison(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Why nothing is written any more.
    #[inline]
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Runs what must not leave others waiting: after a panic in it, nothing is written any more, and `None` is returned.
    /// Those who wait for it are to be woken by the caller.
    pub(crate) fn guard<T>(&self, what: &str, run: impl FnOnce() -> T) -> Option<T> {
        // What it leaves half done is never written to again, and reads do not rely on it.
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| self.note_panic(what, &*panic)).ok()
    }

    fn note_panic(&self, what: &str, panic: &(dyn Any + Send)) {
        self.poison(format!("{what} panicked: {}", panic_message(panic)));
    }

    /// A place at which a test has a thread panic. Outside of tests, nothing.
    #[inline(always)]
    pub(crate) fn place(&self, _name: &'static str) {
        #[cfg(test)]
        if *self.planted.lock() == Some(_name) {
            panic!("planted in {_name}");
        }
    }

    /// Has the next thread panic that comes to a place.
    #[cfg(test)]
    pub(crate) fn plant(&self, name: &'static str) {
        *self.planted.lock() = Some(name);
    }
}
