//! The first line of a script or a library, `#!lua name=... flags=...`, and the flags in it.

use crate::failure::{Failure, Outcome};
use crate::quoted_words::split_words;

/// Properties that a script, or a function of a library, declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScriptFlags(u8);

impl ScriptFlags {
    /// It changes no key.
    pub(crate) const NO_WRITES: Self = Self(1);
    /// It may run when the store is full.
    pub(crate) const ALLOW_OOM: Self = Self(1 << 1);
    /// It may run on stale data, of which there is none.
    const ALLOW_STALE: Self = Self(1 << 2);
    /// It does not run in a cluster.
    const NO_CLUSTER: Self = Self(1 << 3);
    /// Its keys may be of several slots.
    const ALLOW_CROSS_SLOT_KEYS: Self = Self(1 << 4);
    /// It declares nothing: each of its commands is refused or not by itself.
    pub(crate) const UNDECLARED: Self = Self(1 << 5);

    const NAMES: &[(Self, &str)] = &[
        (Self::NO_WRITES, "no-writes"),
        (Self::ALLOW_OOM, "allow-oom"),
        (Self::ALLOW_STALE, "allow-stale"),
        (Self::NO_CLUSTER, "no-cluster"),
        (Self::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
    ];

    /// Whether it has all of some flags.
    pub(crate) fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Adds the flag of this name; false: there is none.
    pub(crate) fn add(&mut self, name: &[u8]) -> bool {
        let known = Self::NAMES.iter().find(|(_, known)| name == known.as_bytes());
        self.0 |= known.map_or(0, |(flag, _)| flag.0);
        known.is_some()
    }

    /// The names of the flags.
    pub(crate) fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect()
    }
}

/// A script's flags, and its code: behind the first line if that declares flags.
pub(crate) fn of_script(body: &[u8]) -> Outcome<(ScriptFlags, &[u8])> {
    if !body.starts_with(b"#!") {
        return Ok((ScriptFlags::UNDECLARED, body));
    }
    let end = body.iter().position(|&byte| byte == b'\n');
    let (line, code) = body.split_at(end.ok_or("ERR Invalid script shebang")?);
    let words = split_words(line).ok_or("ERR Invalid engine in script shebang")?;
    let (engine, words) = words.split_first().ok_or("ERR Invalid engine in script shebang")?;
    if engine != b"#!lua" {
        return Err(Failure::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(Failure::quoting("ERR Unknown lua shebang option: ", word, ""));
        };
        for name in names.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
            if !flags.add(name) {
                let text = "ERR Unexpected flag in script shebang: ";
                return Err(Failure::quoting(text, name, ""));
            }
        }
    }
    Ok((flags, code))
}

/// A library's name, and its code behind the first line.
pub(crate) fn of_library(body: &[u8]) -> Outcome<(String, &[u8])> {
    if !body.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let end = body.iter().position(|&byte| byte == b'\n');
    let (line, code) = body.split_at(end.ok_or("ERR Invalid library metadata")?);
    let words = split_words(line).ok_or("ERR Invalid library metadata")?;
    let (engine, words) = words.split_first().ok_or("ERR Invalid library metadata")?;
    let engine = engine.strip_prefix(b"#!").unwrap_or_default();
    let mut name = None;
    for word in words {
        match word.as_slice() {
            word if word.len() >= 5 && word[..5].eq_ignore_ascii_case(b"name=") => {
                if name.replace(&word[5..]).is_some() {
                    let text = "ERR Invalid metadata value, name argument was given multiple times";
                    return Err(text.into());
                }
            }
            word => return Err(Failure::quoting("ERR Invalid metadata value given: ", word, "")),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    let name = valid_name(name).ok_or(
        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
    )?;
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Failure::quoting("ERR Engine '", engine, "' not found"));
    }
    Ok((name.to_owned(), code))
}

/// A name of a library, or of a function, if it can be one.
pub(crate) fn valid_name(name: &[u8]) -> Option<&str> {
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let text = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && name.iter().all(is_valid)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_declares_flags() {
        let (flags, code) = of_script(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert_eq!(flags.names(), ["no-writes", "allow-oom"]);
        assert_eq!(code, b"\nreturn 1");
        assert_eq!(of_script(b"return 1").unwrap().0, ScriptFlags::UNDECLARED);
        for (body, why) in [
            (&b"#!lua"[..], "ERR Invalid script shebang"),
            (b"#!php\n", "ERR Unexpected engine in script shebang: #!php"),
            (b"#!lua bad=1\n", "ERR Unknown lua shebang option: bad=1"),
            (b"#!lua flags=bad\n", "ERR Unexpected flag in script shebang: bad"),
        ] {
            assert_eq!(of_script(body).unwrap_err().text().as_ref(), why.as_bytes());
        }
    }

    #[test]
    fn the_first_line_names_a_library() {
        assert_eq!(of_library(b"#!LUA name=a_1\ncode").unwrap().0, "a_1");
        assert_eq!(
            of_library(b"#!lua name=\"a_1\"\ncode").unwrap(),
            ("a_1".to_owned(), &b"\ncode"[..])
        );
        assert_eq!(of_library(b"#!lua 'name=a_1' \ncode").unwrap().0, "a_1");
        for (body, why) in [
            (&b"code"[..], "ERR Missing library metadata"),
            (b"#!lua name=a", "ERR Invalid library metadata"),
            (b"#!lua\n", "ERR Library name was not given"),
            (
                b"#!lua name=a name=b\n",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
            (b"#!lua x=a\n", "ERR Invalid metadata value given: x=a"),
            (b"#!js name=a\n", "ERR Engine 'js' not found"),
            (b"#! name=a\n", "ERR Engine '' not found"),
            (b"#!lua name=\"a\n", "ERR Invalid library metadata"),
            (b"#!lua name=\"a\"b\n", "ERR Invalid library metadata"),
        ] {
            assert_eq!(of_library(body).unwrap_err().text().as_ref(), why.as_bytes());
        }
    }
}
