//! Users, and what each of them may do.
//!
//! An [`Acl`] has all users at one time, and never changes: a change of users is a new `Acl`, which is published with the
//! settings that all threads share (`shared`). A client has a [`Login`]: its user, and the version of the `Acl` that the
//! user was found in. A user that may do all carries that version as a pass, so for its requests admission compares two
//! numbers and looks no further.
//!
//! ACL SETUSER takes this path: `rules` reads the words, and has each of them change a copy of the [`User`] or one of its
//! `selector`s, which keep commands as a set of their `numbers`, and keys and channels as `patterns`. A request of a user
//! that may not do all takes this one: `permission` asks each selector in turn for the command, the keys and the
//! channels, and a refusal goes to the `log`. `file` reads and writes all users as text.

pub(crate) mod category;
pub(crate) mod file;
pub(crate) mod log;
mod login;
pub(crate) mod numbers;
pub(crate) mod password;
pub(crate) mod patterns;
mod permission;
mod rules;
mod selector;
mod user;
mod users;

pub(crate) use log::{AclLog, Context, Reason};
pub(crate) use login::Login;
pub(crate) use permission::Denied;
pub use rules::listed_rules;
pub(crate) use rules::set_user;
pub(crate) use selector::Selector;
pub(crate) use user::User;
pub(crate) use users::{Acl, DEFAULT};

/// Whether a word has white space or a zero byte, which no name and no pattern may have.
pub(crate) fn has_spaces(word: &[u8]) -> bool {
    word.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
