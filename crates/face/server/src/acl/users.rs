//! All users at one time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::user::User;

/// The user that clients are which have not said otherwise.
pub(crate) const DEFAULT: &[u8] = b"default";

/// The most users.
const USERS_MAX: usize = 65_536;
/// The longest name of a user, in bytes.
const NAME_LEN_MAX: usize = 4 << 10;
/// Bytes that the rules of one user, and those of all users, may take as text.
const USER_LEN_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 64 << 20;

/// All users at one time.
#[derive(Debug, Clone)]
pub(crate) struct Acl {
    /// The number of changes before, counted from 1.
    version: u64,
    users: BTreeMap<Box<[u8]>, Arc<User>>,
    /// The number of the last user that was made.
    last_number: u64,
    /// Bytes of all rules.
    byte_len: usize,
    /// Clients have to authenticate, because the default user is not open.
    asks_for_password: bool,
}

impl Acl {
    /// The default user alone, which may do all, with this password.
    pub(crate) fn new(password: Option<&str>) -> Self {
        let default = User::almighty(DEFAULT, password.map(str::as_bytes));
        let mut acl = Self {
            version: 1,
            users: BTreeMap::new(),
            last_number: 0,
            byte_len: 0,
            asks_for_password: false,
        };
        acl.put(default);
        acl
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether clients have to authenticate.
    #[inline]
    pub(crate) fn asks_for_password(&self) -> bool {
        self.asks_for_password
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// All users by their names, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values()
    }

    fn put(&mut self, mut user: User) {
        if user.number == 0 {
            self.last_number += 1;
            user.number = self.last_number;
        }
        self.byte_len += user.describe().len();
        let name = user.name.clone();
        if let Some(old) = self.users.insert(name, Arc::new(user)) {
            self.byte_len -= old.describe().len();
        }
        self.asks_for_password = self.find(DEFAULT).is_none_or(|user| !user.is_open());
    }

    /// These users with a user that is new or has changed.
    ///
    /// # Errors
    /// They would take too much memory: the text says of what.
    pub(crate) fn with(&self, user: User) -> Result<Self, String> {
        let mut acl = self.clone();
        acl.version += 1;
        acl.add(user)?;
        Ok(acl)
    }

    /// Adds a user, or replaces it.
    ///
    /// # Errors
    /// As those of [`Acl::with`]; the users are not to be used then.
    pub(super) fn add(&mut self, user: User) -> Result<(), String> {
        if user.name.len() > NAME_LEN_MAX {
            return Err(format!("Usernames can't be longer than {NAME_LEN_MAX} bytes"));
        }
        if user.describe().len() > USER_LEN_MAX {
            return Err(format!("The rules of a user can't be longer than {USER_LEN_MAX} bytes"));
        }
        self.put(user);
        if self.users.len() > USERS_MAX || self.byte_len > BYTES_MAX {
            let text = format!("There can't be more than {USERS_MAX} users, of {BYTES_MAX} bytes");
            return Err(text);
        }
        Ok(())
    }

    /// These users without some of them, and how many there were of those.
    pub(crate) fn without<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> (Self, usize) {
        let mut acl = self.clone();
        acl.version += 1;
        let gone: Vec<_> = names.filter_map(|name| acl.users.remove(name)).collect();
        acl.byte_len -= gone.iter().map(|user| user.describe().len()).sum::<usize>();
        (acl, gone.len())
    }

    /// Other users in the place of these. Clients of a user stay, if there is one of the same name.
    pub(crate) fn replaced_by(&self, mut other: Self) -> Self {
        other.last_number = self.last_number;
        for (name, user) in &mut other.users {
            let number = self.find(name).map(|user| user.number);
            Arc::make_mut(user).number = number.unwrap_or_else(|| {
                other.last_number += 1;
                other.last_number
            });
        }
        Self { version: self.version + 1, ..other }
    }

    /// These users with another password of the default user; `None`: it needs none.
    pub(crate) fn with_default_password(&self, password: Option<&str>) -> Self {
        let mut acl = self.clone();
        acl.version += 1;
        if let Some(default) = self.find(DEFAULT) {
            let mut user = (**default).clone();
            user.set_only_password(password.map(str::as_bytes));
            acl.put(user);
        }
        acl
    }
}
