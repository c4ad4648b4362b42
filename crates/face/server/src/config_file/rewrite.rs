//! CONFIG REWRITE: the settings as they are now, in the file that the server was started with.
//!
//! Comments and the order of the lines stay. The line of a changed setting gets its value, and changed settings without a
//! line follow at the end. The new file takes the place of the old one at once, when
//! it is durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::lines::{read_all, words};
use crate::random::generator;

/// A setting as it is now.
pub(crate) struct Value {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) change: Change,
}

/// Whether a setting has changed since the start, or by an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    No,
    /// By another name that it has: only a line of this name is changed.
    ByOtherName,
    Yes,
}

/// The comment before settings that had no line.
const SIGNATURE: &[u8] = b"# Added by CONFIG REWRITE";

/// Settings that are no lines of the file: the server has them from elsewhere.
const NOT_WRITTEN: &[&str] = &["appendonly", "dir"];

const OUTPUT_LIMITS: &str = "client-output-buffer-limit";

/// Writes settings to a config file, and users, each as its rules behind its name, if they are not in a file of their
/// own: where they `are_others` than those of a server without lines of users, or the file has such lines.
pub(crate) fn rewrite(
    path: &Path,
    values: &[Value],
    users: Option<(&[Vec<u8>], bool)>,
) -> io::Result<()> {
    let old = read_all(path)?;
    let mut new = rewritten(&old, values);
    if let Some((users, are_others)) = users
        && (are_others || has_users(&new))
    {
        new = with_users(&new, users);
    }
    if new != old {
        replace(path, &new)?;
    }
    Ok(())
}

/// Replaces a file at once by one with these bytes, which are durable.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::NotFound)?.to_owned();
    name.push(format!(".tmp-{}-{:016x}", std::process::id(), generator().u64(..)));
    let temporary = folder.join(name);
    let written = write(&temporary, bytes, path).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Writes a file with the mode of another one: there may be a password in it.
fn write(path: &Path, bytes: &[u8], like: &Path) -> io::Result<()> {
    let permissions = fs::metadata(like)?.permissions();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(permissions)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The text of a config file with the values of settings.
fn rewritten(old: &[u8], values: &[Value]) -> Vec<u8> {
    let mut lines: Vec<Option<Vec<u8>>> =
        old.split(|&byte| byte == b'\n').map(|line| Some(line.to_vec())).collect();
    // The end of the last line is no line.
    if lines.last().is_some_and(|line| line.as_ref().is_some_and(Vec::is_empty)) {
        lines.pop();
    }
    let known: Vec<_> = lines.iter().map(|line| line.as_deref().and_then(entry)).collect();
    let mut added = Vec::new();
    for (key, value, change) in values.iter().flat_map(entries) {
        let of_key = known.iter().enumerate().filter_map(|(at, entry)| {
            entry.as_ref().filter(|entry| entry.0 == key).map(|entry| (at, &*entry.1))
        });
        let of_key: Vec<_> = of_key.collect();
        let Some(&(last, found)) = of_key.last() else {
            if change == Change::Yes {
                added.push(line(&key, &value));
            }
            continue;
        };
        // The points of several lines add up.
        let is_sum = key == "save";
        let found = match is_sum {
            true => of_key.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" "),
            false => found.to_owned(),
        };
        if change == Change::No || is_same(&key, found.trim(), &value) {
            continue;
        }
        if is_sum {
            of_key.iter().for_each(|&(at, _)| lines[at] = None);
        }
        lines[last] = Some(line(&key, &value));
    }
    if !added.is_empty() && !lines.iter().flatten().any(|line| line == SIGNATURE) {
        lines.push(Some(SIGNATURE.to_vec()));
    }
    lines.extend(added.into_iter().map(Some));
    lines.into_iter().flatten().flat_map(|line| [line, b"\n".to_vec()].concat()).collect()
}

/// Whether a config file has lines of users.
fn has_users(text: &[u8]) -> bool {
    let of_user = |line: &[u8]| {
        let words = words(line).and_then(Result::ok).unwrap_or_default();
        words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"user"))
    };
    text.split(|&byte| byte == b'\n').any(of_user)
}

/// The text of a config file with these users. The first line of a user gets its rules; others that define users go.
fn with_users(text: &[u8], users: &[Vec<u8>]) -> Vec<u8> {
    let name = |user: &Vec<u8>| user.split(|&byte| byte == b' ').next().unwrap_or(user).to_vec();
    let mut left: Vec<_> = users.iter().collect();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let words = words(line).and_then(Result::ok).unwrap_or_default();
        let (true, Some(of)) =
            (words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"user")), words.get(1))
        else {
            lines.push(line.to_vec());
            continue;
        };
        if let Some(at) = left.iter().position(|user| name(user) == *of) {
            lines.push(user_line(left.remove(at)));
        }
    }
    // The end of the last line is no line.
    lines.pop_if(|line| line.is_empty());
    if !left.is_empty() && !lines.iter().any(|line| line == SIGNATURE) {
        lines.push(SIGNATURE.to_vec());
    }
    lines.extend(left.into_iter().map(|user| user_line(user)));
    lines.into_iter().flat_map(|line| [line, b"\n".to_vec()].concat()).collect()
}

/// The line of a user.
fn user_line(user: &[u8]) -> Vec<u8> {
    let words = user.split(|&byte| byte == b' ');
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    let word = |word: &[u8]| match word.iter().all(is_plain) {
        true => word.to_vec(),
        false => quoted(word),
    };
    [vec![b"user".to_vec()], words.map(word).collect()].concat().join(&b' ')
}

/// The key and the value of a line that sets something. The limits of each class of clients have a key of their own.
fn entry(line: &[u8]) -> Option<(String, String)> {
    let words = words(line)?.ok()?.into_iter();
    let mut words = words.map(|word| String::from_utf8_lossy(&word).into_owned());
    let name = words.next()?.to_ascii_lowercase();
    let words: Vec<_> = words.collect();
    match &*words {
        [class, limits @ ..] if name == OUTPUT_LIMITS && limits.len() == 3 => {
            Some((format!("{name} {}", class.to_ascii_lowercase()), limits.join(" ")))
        }
        words => Some((name, words.join(" "))),
    }
}

/// The lines of a setting, as keys and values.
fn entries(setting: &Value) -> Vec<(String, String, Change)> {
    if NOT_WRITTEN.contains(&setting.name) {
        return Vec::new();
    }
    if setting.name != OUTPUT_LIMITS {
        return vec![(setting.name.to_owned(), setting.value.clone(), setting.change)];
    }
    let words: Vec<_> = setting.value.split_ascii_whitespace().collect();
    let classes = words.chunks(4).filter(|class| class[0] != "slave");
    let entry = |class: &[&str]| {
        (format!("{OUTPUT_LIMITS} {}", class[0]), class[1..].join(" "), setting.change)
    };
    classes.map(entry).collect()
}

/// A line that sets something.
fn line(key: &str, value: &str) -> Vec<u8> {
    let is_list = key == "bind" || key == "save" || key.starts_with(OUTPUT_LIMITS);
    match is_list && !value.is_empty() {
        true => format!("{key} {value}").into_bytes(),
        false => [key.as_bytes(), b" ", &quoted(value.as_bytes())].concat(),
    }
}

/// A word as it has to be written.
fn quoted(word: &[u8]) -> Vec<u8> {
    let is_plain =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_vec();
    }
    let mut text = vec![b'"'];
    for &byte in word {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', byte]),
            b' '..=b'~' => text.push(byte),
            _ => text.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    text.push(b'"');
    text
}

/// Whether two values are the same, maybe in other units.
fn is_same(key: &str, left: &str, right: &str) -> bool {
    if left == right || key == "requirepass" {
        return left == right;
    }
    let (left, right) = (left.split_ascii_whitespace(), right.split_ascii_whitespace());
    let same = |(left, right): (&str, &str)| {
        left == right
            || number(left).is_some_and(|number_of_left| number(right) == Some(number_of_left))
    };
    left.clone().count() == right.clone().count() && left.zip(right).all(same)
}

/// A number, maybe with a unit of memory.
fn number(text: &str) -> Option<u128> {
    let text = text.to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit: u128 = match &text[digits..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok().map(|number| u128::from(number) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &'static str, value: &str, is_changed: bool) -> Value {
        let change = if is_changed { Change::Yes } else { Change::No };
        Value { name, value: value.to_owned(), change }
    }

    #[test]
    fn lines_stay_unless_their_value_is_another() {
        let old = "# my server\nPORT 7000\n\n  maxmemory 100mb # of it\nmaxclients 5\ntimeout 1\ntimeout 2\n\
                   save 3600 1\nsave 300 100\nclient-output-buffer-limit pubsub 32mb 8mb 60\nhz 10";
        let values = [
            value("port", "7000", true),
            value("maxclients", "6", true),
            value("timeout", "2", false),
            value("save", "3600 1 300 100", false),
            value(OUTPUT_LIMITS, "normal 0 0 0 slave 0 0 0 pubsub 33554432 8388608 60", false),
            value("requirepass", "two words\"\u{7}", true),
            value("databases", "16", false),
        ];
        let new = String::from_utf8(rewritten(old.as_bytes(), &values)).unwrap();
        let expected = old.replace("maxclients 5", "maxclients 6")
            + "\n# Added by CONFIG REWRITE\nrequirepass \"two words\\\"\\x07\"\n";
        assert_eq!(new, expected);
        assert_eq!(rewritten(new.as_bytes(), &values), new.as_bytes(), "it is stable");
    }

    #[test]
    fn the_last_line_of_a_setting_counts() {
        let values = [
            value("timeout", "3", true),
            value("save", "", true),
            value(OUTPUT_LIMITS, "normal 1 0 0 slave 0 0 0 pubsub 2 1 60", true),
        ];
        let old = "timeout 1\ntimeout 2\nsave 3600 1\nsave 300 100\nclient-output-buffer-limit normal 0 0 0\n";
        let new = String::from_utf8(rewritten(old.as_bytes(), &values)).unwrap();
        let expected = "timeout 1\ntimeout 3\nsave \"\"\nclient-output-buffer-limit normal 1 0 0\n\
                        # Added by CONFIG REWRITE\nclient-output-buffer-limit pubsub 2 1 60\n";
        assert_eq!(new, expected);
    }

    #[test]
    fn a_line_of_another_name_follows() {
        let value = |name, change| Value { name, value: "9".to_owned(), change };
        let old = b"hash-max-listpack-entries 7\nhash-max-ziplist-entries 8\n";
        let values = [
            value("hash-max-listpack-entries", Change::Yes),
            value("hash-max-ziplist-entries", Change::ByOtherName),
            value("lua-time-limit", Change::ByOtherName),
        ];
        let expected = "hash-max-listpack-entries 9\nhash-max-ziplist-entries 9\n";
        assert_eq!(String::from_utf8(rewritten(old, &values)).unwrap(), expected);
    }

    #[test]
    fn users_take_the_places_of_their_lines() {
        let old = b"port 1\nuser b off\nUSER a on\nuser a off\ntimeout 1\n";
        let users = [b"a on ~\"x +get".to_vec(), b"default on nopass ~* +@all".to_vec()];
        let new = String::from_utf8(with_users(old, &users)).unwrap();
        let expected = "port 1\nuser a on \"~\\\"x\" +get\ntimeout 1\n# Added by CONFIG REWRITE\n\
                        user default on nopass ~* +@all\n";
        assert_eq!(new, expected);
        assert_eq!(with_users(new.as_bytes(), &users), new.as_bytes());
    }

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf");
        fs::write(&path, "timeout 1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        rewrite(&path, &[value("timeout", "5", true)], None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"timeout 5\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
