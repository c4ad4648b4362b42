//! The part of a transaction that a thread is in, so that time, or anything else that grows, can be split among the parts.
//!
//! ```text
//!  measure(meter) ──► other ─┬─► method: storage ─┬─► index ──► copies of nodes: recovery
//!                            │                    ├─► log, checkpoint, directory: recovery
//!                            ◄── door: guard dropped, back to the part before
//! ```
//!
//! The doors between the parts are guards ([`Component::enter`]): a method's calls begin in storage, and indexes, logs,
//! checkpoints and directories have doors of their own. At each door to another part, what the meter has grown by since the
//! last door is added to the part that is left. So the parts add up to the whole, and a door costs one look at the meter.
//!
//! Only the feature `components` builds this in. Without it a guard is nothing, and [`measure`] runs its body alone.

/// A part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// Everything above the method: transactions, constraints, the client.
    Other,
    /// Tuples and runs, and the heap or files that they are in.
    Storage,
    /// Logs, checkpoints and copied directories: only a recovery needs them.
    Recovery,
    /// Lookups in indexes, and their changes.
    Index,
    /// Nothing is in it: the growth that is its own is that of a door.
    Nothing,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Other, Self::Storage, Self::Recovery, Self::Index, Self::Nothing];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Storage => "storage",
            Self::Recovery => "recovery",
            Self::Index => "index",
            Self::Nothing => "nothing",
        }
    }
}

/// How much of a growth is each part's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split([u64; Component::ALL.len()]);

impl Split {
    /// That of a part.
    #[must_use]
    pub fn of(&self, component: Component) -> u64 {
        self.0[component as usize]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

#[cfg(feature = "components")]
mod split {
    use std::cell::{Cell, RefCell};

    use super::{Component, Split};

    /// A measurement under way.
    struct Meter {
        read: Box<dyn Fn() -> u64>,
        last: u64,
        current: Component,
        split: Split,
    }

    thread_local! {
        static IS_MEASURED: Cell<bool> = const { Cell::new(false) };
        static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
    }

    impl Meter {
        /// Goes to another part. Returns the one before.
        fn switch(&mut self, to: Component) -> Component {
            if to != self.current {
                let now = (self.read)();
                self.split.0[self.current as usize] += now - self.last;
                self.last = now;
            }
            std::mem::replace(&mut self.current, to)
        }
    }

    fn switch(to: Component) -> Option<Component> {
        if !IS_MEASURED.get() {
            return None;
        }
        METER.with_borrow_mut(|meter| meter.as_mut().map(|meter| meter.switch(to)))
    }

    /// A part that the thread is in until this is dropped.
    #[must_use]
    pub struct Entered(Option<Component>);

    impl Component {
        /// Enters the part.
        #[inline]
        pub fn enter(self) -> Entered {
            Entered(switch(self))
        }
    }

    impl Drop for Entered {
        #[inline]
        fn drop(&mut self) {
            if let Some(before) = self.0 {
                switch(before);
            }
        }
    }

    /// Runs something, and splits what a meter grows by meanwhile among the parts that this thread is in. There is no
    /// measurement inside another.
    pub fn measure<T>(read: impl Fn() -> u64 + 'static, body: impl FnOnce() -> T) -> (T, Split) {
        let (current, split) = (Component::Other, Split::default());
        let meter = Meter { last: read(), read: Box::new(read), current, split };
        METER.set(Some(meter));
        IS_MEASURED.set(true);
        let result = body();
        IS_MEASURED.set(false);
        let mut meter = METER.take().expect("it was set");
        // The part that it ends in is left.
        let last =
            if meter.current == Component::Nothing { Component::Other } else { Component::Nothing };
        meter.switch(last);
        (result, meter.split)
    }
}

#[cfg(not(feature = "components"))]
mod split {
    use super::{Component, Split};

    /// A part that the thread is in until this is dropped.
    #[must_use]
    pub struct Entered;

    impl Component {
        /// Enters the part.
        #[inline(always)]
        pub fn enter(self) -> Entered {
            Entered
        }
    }

    /// Runs something; nothing is split.
    pub fn measure<T>(_: impl Fn() -> u64 + 'static, body: impl FnOnce() -> T) -> (T, Split) {
        (body(), Split::default())
    }
}

pub use split::{Entered, measure};

/// Whether [`measure`] splits anything: the feature `components` is on.
pub const IS_SPLIT: bool = cfg!(feature = "components");

#[cfg(all(test, feature = "components"))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn parts_get_what_the_meter_grows_by_in_them_and_add_up() {
        let meter = Rc::new(Cell::new(100));
        let grow = |by: u64| meter.set(meter.get() + by);
        let read = Rc::clone(&meter);
        let ((), split) = measure(
            move || read.get(),
            || {
                grow(1);
                {
                    let _in = Component::Storage.enter();
                    grow(2);
                    {
                        let _in = Component::Index.enter();
                        grow(4);
                        let _in = Component::Index.enter();
                        grow(8);
                    }
                    grow(16);
                    drop(Component::Nothing.enter());
                    let _in = Component::Recovery.enter();
                    grow(32);
                }
                grow(64);
            },
        );
        let parts = Component::ALL.map(|component| split.of(component));
        assert_eq!(parts, [65, 18, 32, 12, 0]);
        assert_eq!(split.total(), meter.get() - 100);
    }

    #[test]
    fn nothing_is_split_outside_a_measurement() {
        let _in = Component::Index.enter();
        let ((), split) = measure(|| 7, || ());
        assert_eq!(split, Split::default());
    }
}
