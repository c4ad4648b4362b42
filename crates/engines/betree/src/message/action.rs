//! Actions of users: what a dataset's own messages mean.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Parsed;

/// The meaning of a dataset's own messages.
///
/// For all messages and values: applying `merge(newer, older)` is applying `older` and then `newer`, and it does not
/// matter which two neighbours of three messages merge first. A build with debug assertions checks the first of these laws
/// for messages that merge, on no value and on a short one.
pub trait MessageAction: Send + Sync {
    /// Changes the value of a key; `None` is no value.
    fn apply(&self, key: &[u8], message: &[u8], value: &mut Option<Vec<u8>>);

    /// The message with the effect of `newer` after `older`.
    fn merge(&self, key: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8>;
}

/// The reason of a message whose action is not registered.
pub(crate) const ACTION_MISSING: &str = "the action of its messages is not registered";

/// The reason of a message whose action panicked, or broke its law, now or before.
pub(crate) const ACTION_FAILED: &str = "the action of its messages has failed";

/// The action of a dataset: it may be missing, and is not called any more once it has failed.
///
/// Nothing that a flush does depends on it: where messages cannot be merged, or applied, they are kept one beside the
/// other, until the action is back.
pub(crate) struct Action {
    pub(crate) name: Arc<str>,
    action: Option<Arc<dyn MessageAction>>,
    has_failed: AtomicBool,
    checks_laws: bool,
}

impl Action {
    pub(crate) fn new(name: Arc<str>, action: Option<Arc<dyn MessageAction>>) -> Self {
        let checks_laws = cfg!(debug_assertions);
        Self { name, action, has_failed: AtomicBool::new(false), checks_laws }
    }

    /// An action whose laws are checked in any build.
    #[cfg(test)]
    pub(crate) fn checked(action: Arc<dyn MessageAction>) -> Self {
        Self { checks_laws: true, ..Self::new("checked".into(), Some(action)) }
    }

    /// The reason why it cannot be called.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        match self.has_failed.load(Ordering::Relaxed) {
            true => Some(ACTION_FAILED),
            false => self.action.is_none().then_some(ACTION_MISSING),
        }
    }

    /// Calls the action. A panic of it is its last.
    fn call<T>(&self, call: impl FnOnce(&dyn MessageAction) -> T) -> Parsed<T> {
        if let Some(defect) = self.defect() {
            return Err(defect);
        }
        let action = self.action.as_deref().ok_or(ACTION_MISSING)?;
        // Changes of a call that fails are dropped with its error.
        catch_unwind(AssertUnwindSafe(|| call(action))).map_err(|_| self.fail())
    }

    fn fail(&self) -> &'static str {
        self.has_failed.store(true, Ordering::Relaxed);
        ACTION_FAILED
    }

    /// Applies a message.
    pub(crate) fn apply(
        &self,
        key: &[u8],
        message: &[u8],
        value: Option<Vec<u8>>,
    ) -> Parsed<Option<Vec<u8>>> {
        self.call(|action| {
            let mut value = value;
            action.apply(key, message, &mut value);
            value
        })
    }

    /// Merges two messages.
    pub(crate) fn merge(&self, key: &[u8], newer: &[u8], older: &[u8]) -> Parsed<Vec<u8>> {
        let merged = self.call(|action| action.merge(key, newer, older))?;
        if self.checks_laws {
            for value in [None, Some(b"value".to_vec())] {
                let both = self.apply(key, newer, self.apply(key, older, value.clone())?)?;
                if self.apply(key, &merged, value)? != both {
                    return Err(self.fail());
                }
            }
        }
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds numbers, and breaks a law, or panics, with some.
    struct Sum;

    impl MessageAction for Sum {
        fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
            let sum =
                value.iter().flatten().chain(message).fold(0_u8, |sum, n| sum.wrapping_add(*n));
            *value = Some(vec![sum]);
        }

        fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
            assert_ne!(newer, [13], "bad luck");
            if newer == [7] { newer.to_vec() } else { [older, newer].concat() }
        }
    }

    #[test]
    fn an_action_that_panics_or_breaks_a_law_is_not_called_again() {
        for bad in [7, 13] {
            let action = Action::checked(Arc::new(Sum));
            assert_eq!(action.merge(b"k", &[1], &[2]), Ok(vec![2, 1]));
            assert_eq!(action.defect(), None);
            assert_eq!(action.merge(b"k", &[bad], &[2]), Err(ACTION_FAILED));
            assert_eq!(action.apply(b"k", &[1], None), Err(ACTION_FAILED));
        }
        let missing = Action::new("missing".into(), None);
        assert_eq!(missing.apply(b"k", &[1], None), Err(ACTION_MISSING));
    }
}
