//! The switch of the bugs that are planted to test the crash lab: in the code that ships, one expression each, compiled
//! in under `--cfg halite_planted` only, and chosen at run time by their ids. The lab has the catalogue of them.

#[cfg(halite_planted)]
use std::cell::Cell;

/// Of two expressions the wrong one if the bug of an id, `crate.what-is-wrong`, is active. Without
/// `--cfg halite_planted` it is the right one, and the other is not compiled. Of one expression, the bug is that it is
/// evaluated.
#[cfg(halite_planted)]
#[macro_export]
macro_rules! planted {
    ($id:literal, $wrong:expr) => {
        if const { $crate::planted::Bug::of($id) }.is_there() {
            $wrong
        }
    };
    ($id:literal, $wrong:expr, $right:expr) => {
        if const { $crate::planted::Bug::of($id) }.is_there() { $wrong } else { $right }
    };
}

/// A place for a bug that the lab's tests plant: the right one of two expressions.
#[cfg(not(halite_planted))]
#[macro_export]
macro_rules! planted {
    ($id:literal, $wrong:expr) => {};
    ($id:literal, $wrong:expr, $right:expr) => {
        $right
    };
}

/// A planted bug, by a hash of its id.
#[cfg(halite_planted)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bug(u64);

#[cfg(halite_planted)]
thread_local! {
    static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
}

#[cfg(halite_planted)]
impl Bug {
    /// The bug of an id, by its FNV-1a hash.
    #[must_use]
    pub const fn of(id: &str) -> Self {
        let (bytes, mut at, mut hash) = (id.as_bytes(), 0, 0xcbf2_9ce4_8422_2325_u64);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        Self(hash)
    }

    /// Runs `f` with this bug, on this thread.
    pub fn during<T>(self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Bug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.set(self.0);
            }
        }
        let _restore = Restore(CHOSEN.replace(Some(self)));
        f()
    }

    /// Whether it is active, on this thread.
    #[must_use]
    pub fn is_there(self) -> bool {
        CHOSEN.get() == Some(self)
    }

    /// Whether any is active, on this thread.
    #[must_use]
    pub fn is_any_there() -> bool {
        CHOSEN.get().is_some()
    }
}
