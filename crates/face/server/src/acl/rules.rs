//! The rules that ACL SETUSER and a file of users consist of.
//!
//! A rule is a word; only a selector, between parentheses, may consist of several. Each rule changes the user as the rules
//! before have left it.

use std::fmt;

use super::category;
use super::has_spaces;
use super::numbers::{named, parts};
use super::password::Digest;
use super::patterns::Access;
use super::selector::Selector;
use super::user::User;
use crate::call::is;
use crate::failure::shown;
use crate::quoted_words::split_words;

/// The longest rule, in bytes.
const RULE_LEN_MAX: usize = 64 << 10;

/// Why a rule is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleError {
    Unknown,
    Syntax,
    KeysBehindAll,
    ChannelsBehindAll,
    NoSuchPassword,
    NoDigest,
    FirstWordOfPart,
    TooLong,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysBehindAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsBehindAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::NoDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstWordOfPart => "Allowing first-arg of a subcommand is not supported",
            Self::TooLong => "The rule is too long",
        })
    }
}

/// The words of which no selector is cut apart any more, or the word with which one begins that does not end.
pub(super) fn join_selectors<'a>(
    words: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for word in words {
        let ends = word.last() == Some(&b')');
        match open.take() {
            Some((first, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if ends {
                    joined.push(selector);
                } else {
                    open = Some((first, selector));
                }
            }
            None if word.first() == Some(&b'(') && !ends => {
                open = Some((word.to_vec(), word.to_vec()));
            }
            None => joined.push(word.to_vec()),
        }
    }
    open.map_or(Ok(joined), |(first, _)| Err(first))
}

/// Changes a user by rules: all of them, or an error and an unfinished user. `has_all_channels`: new selectors have all
/// channels.
///
/// # Errors
/// A rule is wrong: the text says which one, and why.
pub(crate) fn set_user<'a>(
    user: &mut User,
    words: impl Iterator<Item = &'a [u8]>,
    has_all_channels: bool,
) -> Result<(), Vec<u8>> {
    let rules = join_selectors(words).map_err(|first| {
        let before = b"Unmatched parenthesis in acl selector starting at '";
        [before, shown(&first), b"'."].concat()
    })?;
    for rule in rules {
        apply(user, &rule, has_all_channels).map_err(|why| {
            let why = format!("': {why}");
            [b"Error in ACL SETUSER modifier '", shown(&rule), why.as_bytes()].concat()
        })?;
    }
    Ok(())
}

/// The rules of a user, as ACL LIST has them behind its name, that `rules` make of a new one; `None`: some rule is wrong.
#[must_use]
pub fn listed_rules(rules: &[u8]) -> Option<Vec<u8>> {
    let mut user = User::new(b"", false);
    set_user(&mut user, rules.split(|&byte| byte == b' '), false).ok()?;
    // Behind the empty name there is a space.
    Some(user.describe().split_off(1))
}

/// Changes a user by one rule.
pub(super) fn apply(user: &mut User, rule: &[u8], has_all_channels: bool) -> Result<(), RuleError> {
    if rule.len() > RULE_LEN_MAX {
        return Err(RuleError::TooLong);
    }
    match rule {
        [] => {}
        _ if is(rule, "on") => user.is_on = true,
        _ if is(rule, "off") => user.is_on = false,
        _ if is(rule, "nopass") => user.set_only_password(None),
        _ if is(rule, "skip-sanitize-payload") => user.skips_sanitizing = true,
        _ if is(rule, "sanitize-payload") => user.skips_sanitizing = false,
        _ if is(rule, "resetpass") => {
            user.needs_no_password = false;
            user.passwords.clear();
        }
        _ if is(rule, "clearselectors") => user.selectors.truncate(1),
        _ if is(rule, "reset") => {
            let number = user.number;
            *user = User { number, ..User::new(&user.name, has_all_channels) };
        }
        [b'>', password @ ..] => add_password(user, Digest::of(password)),
        [b'#', digest @ ..] => {
            add_password(user, Digest::parse(digest).ok_or(RuleError::NoDigest)?);
        }
        [b'<', password @ ..] => remove_password(user, Digest::of(password))?,
        [b'!', digest @ ..] => {
            remove_password(user, Digest::parse(digest).ok_or(RuleError::NoDigest)?)?;
        }
        [b'(', inner @ .., b')'] => {
            let mut selector = Selector::new(has_all_channels);
            // Words that quotes do not close are none, as in Redis.
            for word in split_words(inner).unwrap_or_default() {
                if !can_be_listed(&word) {
                    return Err(RuleError::Syntax);
                }
                select(&mut selector, &word)?;
            }
            user.selectors.push(selector);
        }
        rule => select(user.root(), rule)?,
    }
    Ok(())
}

/// Whether a rule of a selector, listed between its parentheses, is read as the same word.
fn can_be_listed(word: &[u8]) -> bool {
    !word.iter().any(|byte| matches!(byte, b'"' | b'\'')) && word.last() != Some(&b')')
}

fn add_password(user: &mut User, digest: Digest) {
    if !user.passwords.contains(&digest) {
        user.passwords.push(digest);
    }
    user.needs_no_password = false;
}

fn remove_password(user: &mut User, digest: Digest) -> Result<(), RuleError> {
    let place = user.passwords.iter().position(|known| *known == digest);
    user.passwords.remove(place.ok_or(RuleError::NoSuchPassword)?);
    Ok(())
}

/// Changes a selector by one rule.
fn select(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    match rule {
        _ if is(rule, "allkeys") || rule == b"~*" => selector.set_all_keys(true),
        _ if is(rule, "resetkeys") => selector.set_all_keys(false),
        _ if is(rule, "allchannels") || rule == b"&*" => selector.set_all_channels(true),
        _ if is(rule, "resetchannels") => selector.set_all_channels(false),
        _ if is(rule, "allcommands") || is(rule, "+@all") => selector.set_all_commands(true),
        _ if is(rule, "nocommands") || is(rule, "-@all") => selector.set_all_commands(false),
        [b'~' | b'%', ..] => add_keys(selector, rule)?,
        [b'&', pattern @ ..] => {
            if selector.has_all_channels {
                return Err(RuleError::ChannelsBehindAll);
            }
            if has_spaces(pattern) {
                return Err(RuleError::Syntax);
            }
            selector.add_channels(pattern);
        }
        [sign @ (b'+' | b'-'), b'@', name @ ..] => {
            let category = category::find(name).ok_or(RuleError::Unknown)?;
            selector.set_category(category, *sign == b'+');
        }
        [b'+', name @ ..] => allow(selector, name)?,
        [b'-', name @ ..] => {
            selector.set_command(named(name).ok_or(RuleError::Unknown)?, false);
        }
        _ => return Err(RuleError::Syntax),
    }
    Ok(())
}

fn add_keys(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    if selector.has_all_keys {
        return Err(RuleError::KeysBehindAll);
    }
    // Without a pattern it is the empty one, as in Redis.
    let tilde = rule.iter().position(|&byte| byte == b'~').unwrap_or(rule.len());
    let access = match rule[..tilde].to_ascii_uppercase().as_slice() {
        b"" | b"%RW" | b"%WR" => Access::ALL,
        b"%R" => Access { reads: true, writes: false },
        b"%W" => Access { reads: false, writes: true },
        _ => return Err(RuleError::Syntax),
    };
    let pattern = rule.get(tilde + 1..).unwrap_or_default();
    if has_spaces(pattern) {
        return Err(RuleError::Syntax);
    }
    selector.add_keys(pattern, access);
    Ok(())
}

/// Allows the command that a rule names, one of its parts, or the command with a first word.
fn allow(selector: &mut Selector, name: &[u8]) -> Result<(), RuleError> {
    let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
        selector.set_command(named(name).ok_or(RuleError::Unknown)?, true);
        return Ok(());
    };
    let (whole, word) = (named(&name[..bar]).ok_or(RuleError::Unknown)?, &name[bar + 1..]);
    if whole.full_name.contains('|') {
        return Err(RuleError::FirstWordOfPart);
    }
    if word.is_empty() {
        return Err(RuleError::Syntax);
    }
    if !parts(whole).is_empty() {
        selector.set_command(named(name).ok_or(RuleError::Unknown)?, true);
    } else if has_spaces(word) {
        // Listed, it would be two words.
        return Err(RuleError::Syntax);
    } else {
        selector.allow_first_word(whole, word);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(rules: &str) -> Result<User, String> {
        let mut user = User::new(b"u", false);
        let words = rules.split(' ').map(str::as_bytes);
        set_user(&mut user, words, false).map_err(|why| String::from_utf8(why).unwrap())?;
        Ok(user)
    }

    fn described(user: &User) -> String {
        String::from_utf8(user.describe()).unwrap()
    }

    #[test]
    fn rules_are_listed_as_redis_lists_them() {
        for (rules, expected) in [
            ("", "off sanitize-payload resetchannels -@all"),
            ("on nopass +@all ~* &*", "on nopass sanitize-payload ~* &* +@all"),
            ("ON allkeys allchannels allcommands", "on sanitize-payload ~* &* +@all"),
            ("~a %R~b %w~c %rw~d %R~c", "off sanitize-payload ~a %R~b ~c ~d resetchannels -@all"),
            ("%R~* %W~* ~a", "off sanitize-payload %RW~* ~a resetchannels -@all"),
            ("%R", "off sanitize-payload %R~ resetchannels -@all"),
            ("&a &b &a", "off sanitize-payload resetchannels &a &b -@all"),
            ("+get +set -get", "off sanitize-payload resetchannels -@all +set -get"),
            ("+config|get +config", "off sanitize-payload resetchannels -@all +config"),
            ("+config -config|get", "off sanitize-payload resetchannels -@all +config -config|get"),
            ("+@all -@Write -get", "off sanitize-payload resetchannels +@all -@write -get"),
            ("+select|0 +SELECT|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"),
            (
                "(+get ~a) (%W~b +set)",
                "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) \
                 (%W~b resetchannels -@all +set)",
            ),
            ("(+get) clearselectors", "off sanitize-payload resetchannels -@all"),
            ("on nopass ~* +@all reset", "off sanitize-payload resetchannels -@all"),
            ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        ] {
            assert_eq!(described(&set(rules).unwrap()), format!("u {expected}"), "{rules}");
        }
        let user = set(">alice").unwrap();
        let digest = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";
        assert!(described(&user).contains(&format!(" #{digest} ")));
        assert_eq!(set(&format!("#{digest} >alice <alice")).unwrap(), set("").unwrap());
    }

    #[test]
    fn wrong_rules_are_told_with_the_reason() {
        let unknown = "Unknown command or category name in ACL";
        for (rules, rule, why) in [
            ("+nope", "+nope", unknown),
            ("+@nope", "+@nope", unknown),
            ("-get|x", "-get|x", unknown),
            ("+config|nope", "+config|nope", unknown),
            ("+config|", "+config|", "Syntax error"),
            (
                "+config|get|x",
                "+config|get|x",
                "Allowing first-arg of a subcommand is not supported",
            ),
            ("%~a", "%~a", "Syntax error"),
            ("%RR~a", "%RR~a", "Syntax error"),
            ("%", "%", "Syntax error"),
            ("nope", "nope", "Syntax error"),
            ("(+get nope)", "(+get nope)", "Syntax error"),
            ("<x", "<x", "The password you are trying to remove from the user does not exist"),
        ] {
            let expected = format!("Error in ACL SETUSER modifier '{rule}': {why}");
            assert_eq!(set(rules).unwrap_err(), expected);
        }
        assert!(set("~* ~a").unwrap_err().contains("'allkeys' flag"));
        assert!(set("&* &a").unwrap_err().contains("'allchannels' flag"));
        assert!(set("#12").unwrap_err().ends_with("lowercase hexadecimal characters"));
        let open = "Unmatched parenthesis in acl selector starting at '(+get'.";
        assert_eq!(set("(+get ~a").unwrap_err(), open);
    }

    fn rule() -> impl Strategy<Value = String> {
        let simple = prop::sample::select(vec![
            "on",
            "off",
            "nopass",
            "resetpass",
            "allkeys",
            "resetkeys",
            "allchannels",
            "resetchannels",
            "allcommands",
            "nocommands",
            "reset",
            "clearselectors",
            "sanitize-payload",
            "skip-sanitize-payload",
            "+@all",
            "-@all",
        ]);
        let command = prop::sample::select(vec![
            "get",
            "set",
            "config",
            "config|get",
            "select|0",
            "select|1",
            "@read",
            "@dangerous",
            "client|list",
            "client",
            "debug|object",
            "@slow",
            "acl|whoami",
            "del",
        ]);
        prop_oneof![
            simple.prop_map(str::to_owned),
            ("[+-]", command).prop_map(|(sign, name)| format!("{sign}{name}")),
            "(~|%R~|%W~|%RW~|&)[a-c*?]{0,3}",
            "[><][ab]",
            "[-+~%&()#!<>@|a-e]{0,5}",
        ]
    }

    proptest! {
        #[test]
        fn listed_rules_make_the_same_user(
            rules in prop::collection::vec(rule(), 0..12),
            selectors in prop::collection::vec(prop::collection::vec(rule(), 0..5), 0..3),
        ) {
            let mut user = User::new(b"u", false);
            for rule in &rules {
                let _ = apply(&mut user, rule.as_bytes(), false);
            }
            for selector in selectors {
                let _ = apply(&mut user, format!("({})", selector.join(" ")).as_bytes(), false);
            }
            let listed = user.describe();
            let mut again = User::new(b"u", false);
            let words = listed.split(|&byte| byte == b' ').skip(1);
            prop_assert_eq!(set_user(&mut again, words, false), Ok(()));
            prop_assert_eq!(again.describe(), listed);
            // Rights that a later rule has taken away may differ in no more than how they are kept.
            for (one, other) in user.selectors.iter().zip(&again.selectors) {
                prop_assert_eq!(one.commands, other.commands);
                prop_assert_eq!(&one.keys, &other.keys);
                prop_assert_eq!(&one.channels, &other.channels);
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut user = User::new(b"u", false);
            let _ = set_user(&mut user, bytes.split(|&byte| byte == b' '), false);
            let _ = split_words(&bytes);
        }
    }
}
