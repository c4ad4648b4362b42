//! The user of a client.

use std::sync::{Arc, LazyLock};

use super::user::User;
use super::users::{Acl, DEFAULT};

/// The user of a client.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    user: Arc<User>,
    /// The version of the users that it was found in.
    version: u64,
    /// The same version, if it may do all; 0 if it may not.
    pass: u64,
}

/// The user of a login that has not been looked up yet.
static UNKNOWN: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::new(DEFAULT, false)));

impl Default for Login {
    /// The default user, to be looked up.
    fn default() -> Self {
        Self { user: Arc::clone(&UNKNOWN), version: 0, pass: 0 }
    }
}

impl Login {
    pub(crate) fn new(acl: &Acl, user: &Arc<User>) -> Self {
        let pass = if user.has_all() { acl.version() } else { 0 };
        Self { user: Arc::clone(user), version: acl.version(), pass }
    }

    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Whether the user may do all, and no user has changed since that was found out.
    #[inline]
    pub(crate) fn has_pass(&self, acl: &Acl) -> bool {
        self.pass == acl.version()
    }

    /// Whether it was never looked up.
    pub(crate) fn is_unknown(&self) -> bool {
        self.version == 0
    }

    /// Whether some user may have changed since the login was looked up.
    #[inline]
    pub(crate) fn is_old(&self, acl: &Acl) -> bool {
        self.version != acl.version()
    }

    /// The user as it is now; `None`: it is gone, though another one may have its name.
    pub(crate) fn current<'a>(&'a self, acl: &'a Acl) -> Option<&'a Arc<User>> {
        if !self.is_old(acl) {
            return Some(&self.user);
        }
        let is_it = |user: &&Arc<User>| self.is_unknown() || user.number == self.user.number;
        acl.find(&self.user.name).filter(is_it)
    }

    /// The login as of now; `None`: the user is gone.
    pub(crate) fn renewed(&self, acl: &Acl) -> Option<Self> {
        self.current(acl).map(|user| Self::new(acl, user))
    }
}
