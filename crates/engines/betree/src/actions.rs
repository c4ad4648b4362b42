//! The actions of an open store: those that its options register, and the datasets whose messages they understand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use crate::Error;
use crate::message::{ACTION_FAILED, ACTION_MISSING, Action, MessageAction};

/// Actions by name, for [`BetreeOptions::actions`](crate::BetreeOptions::actions).
#[derive(Clone, Default)]
pub struct MessageActions(BTreeMap<String, Arc<dyn MessageAction>>);

impl MessageActions {
    /// These, and another one.
    #[must_use]
    pub fn with(mut self, name: &str, action: Arc<dyn MessageAction>) -> Self {
        self.0.insert(name.to_owned(), action);
        self
    }

    /// The action of a name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn MessageAction>> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for MessageActions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// They are equal if the names are, and lead to the same actions.
impl PartialEq for MessageActions {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): ((&String, &Arc<dyn MessageAction>), (&String, _))| {
            a.0 == b.0 && Arc::ptr_eq(a.1, b.1)
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for MessageActions {}

/// The actions of datasets.
#[derive(Default)]
pub(crate) struct Actions {
    registered: MessageActions,
    /// Whether any dataset has one.
    has_any: AtomicBool,
    by_dataset: ArcSwap<BTreeMap<u32, Arc<Action>>>,
}

impl Actions {
    pub(crate) fn new(registered: MessageActions) -> Self {
        Self { registered, ..Self::default() }
    }

    /// The action of a dataset.
    #[inline]
    pub(crate) fn of(&self, dataset: u32) -> Option<Arc<Action>> {
        match self.has_any.load(Ordering::Acquire) {
            false => None,
            true => self.by_dataset.load().get(&dataset).cloned(),
        }
    }

    /// Whether there is an action of a name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.registered.get(name).is_some()
    }

    /// Notes that a dataset has an action. All datasets of one share it, and its failure.
    pub(crate) fn set(&self, dataset: u32, name: &Arc<str>) {
        let found = self.by_dataset.load().values().find(|action| action.name == *name).cloned();
        let action = found
            .unwrap_or_else(|| Arc::new(Action::new(Arc::clone(name), self.registered.get(name))));
        self.by_dataset.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.insert(dataset, Arc::clone(&action));
            all
        });
        self.has_any.store(true, Ordering::Release);
    }

    /// An error that reading or writing a dataset has met: one of its action has a name of its own.
    pub(crate) fn explain(&self, dataset: u32, error: Error) -> Error {
        let why = match &error {
            Error::Message { why } | Error::Damaged { why, .. } => why.as_str(),
            _ => return error,
        };
        let Some(action) = self.of(dataset) else { return error };
        match why {
            ACTION_MISSING | ACTION_FAILED => failure(&action).unwrap_or(error),
            _ => error,
        }
    }
}

/// The error of an action that cannot be called.
pub(crate) fn failure(action: &Action) -> Option<Error> {
    let name = action.name.to_string();
    match action.defect()? {
        ACTION_MISSING => Some(Error::ActionMissing { action: name }),
        _ => Some(Error::ActionFailed { action: name }),
    }
}
