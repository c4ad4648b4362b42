//! Errors that only one engine has.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The class of an error, by which a caller that knows nothing else of the error decides how to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// There is no room for a write, and there may be some once keys are deleted, or space is freed on the device.
    NoSpace,
    /// The process or the system has no descriptor, or no memory, for a file at the moment.
    NoDescriptors,
    /// Bytes from outside the store are damaged, or cut off: the store is as it was.
    DamagedInput,
    /// None of these.
    Other,
}

/// An error of one engine's own. Callers above know its message and its class; the engine finds its own type again.
#[derive(Clone)]
pub struct OwnError {
    class: ErrorClass,
    error: Arc<dyn Error + Send + Sync>,
}

impl OwnError {
    /// An error, with what a caller may do about it.
    pub fn new(class: ErrorClass, error: impl Error + Send + Sync + 'static) -> Self {
        Self { class, error: Arc::new(error) }
    }

    /// The class by which a caller decides how to go on.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The error, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Debug for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for OwnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
