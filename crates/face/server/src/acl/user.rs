//! A user.

use super::password::Digest;
use super::selector::Selector;

/// A user: how a client becomes one, and what it may do then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: Box<[u8]>,
    /// Tells it from a user that had the same name before and was removed; 0 until it is one of all users.
    pub(super) number: u64,
    pub(super) is_on: bool,
    /// Any password will do.
    pub(super) needs_no_password: bool,
    /// RESTORE may trust its values. It checks them all the same here.
    pub(super) skips_sanitizing: bool,
    pub(super) passwords: Vec<Digest>,
    /// The first one has the rights that are not between parentheses.
    pub(super) selectors: Vec<Selector>,
}

impl User {
    /// A user that may do nothing, and that no client becomes.
    pub(crate) fn new(name: &[u8], has_all_channels: bool) -> Self {
        Self {
            name: name.into(),
            number: 0,
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(has_all_channels)],
        }
    }

    /// A user that may do all, with this password.
    pub(super) fn almighty(name: &[u8], password: Option<&[u8]>) -> Self {
        let mut user = Self::new(name, true);
        user.is_on = true;
        let root = user.root();
        root.set_all_commands(true);
        root.set_all_keys(true);
        root.set_all_channels(true);
        user.set_only_password(password);
        user
    }

    /// Replaces all passwords by this one, or has it need none.
    pub(super) fn set_only_password(&mut self, password: Option<&[u8]>) {
        self.needs_no_password = password.is_none();
        self.passwords = password.map(Digest::of).into_iter().collect();
    }

    pub(super) fn root(&mut self) -> &mut Selector {
        if self.selectors.is_empty() {
            self.selectors.push(Selector::new(false));
        }
        &mut self.selectors[0]
    }

    /// Whether it may do all.
    pub(super) fn has_all(&self) -> bool {
        self.selectors.iter().any(Selector::has_all)
    }

    /// Whether any client may be this user, without a password.
    pub(super) fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether a client may be this user with this password.
    pub(crate) fn takes(&self, password: &[u8]) -> bool {
        if !self.is_on || self.needs_no_password {
            return self.is_on;
        }
        let given = Digest::of(password);
        // All are compared, so that the time does not tell which one fits.
        self.passwords.iter().fold(false, |fits, known| fits | (*known == given))
    }

    /// Whether it was said that it needs no password.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// The flags.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags.push(if self.skips_sanitizing {
            "skip-sanitize-payload"
        } else {
            "sanitize-payload"
        });
        flags
    }

    /// The digests of its passwords.
    pub(crate) fn passwords(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(Digest::hex)
    }

    /// Its selectors; the first one has the rights that are not between parentheses.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The name, and the rules that make this user of a new one.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut out = self.name.to_vec();
        let mut add = |before: &[u8], word: &[u8], behind: &[u8]| {
            out.push(b' ');
            out.extend_from_slice(before);
            out.extend_from_slice(word);
            out.extend_from_slice(behind);
        };
        self.flags().iter().for_each(|flag| add(b"", flag.as_bytes(), b""));
        self.passwords().for_each(|digest| add(b"#", digest.as_bytes(), b""));
        for (number, selector) in self.selectors.iter().enumerate() {
            match number {
                0 => add(b"", &selector.describe(), b""),
                _ => add(b"(", &selector.describe(), b")"),
            }
        }
        out
    }
}
