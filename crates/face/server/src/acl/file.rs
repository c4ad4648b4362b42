//! The file of users: a line for each, `user <name> <rule> ...`.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::has_spaces;
use super::rules::{apply, join_selectors};
use super::user::User;
use super::users::Acl;
use crate::random::generator;

/// The longest file, in bytes.
const FILE_LEN_MAX: u64 = 64 << 20;
/// Wrong lines that are told together.
const ERRORS_MAX: usize = 16;

/// The users of a file. If it has no default user, that may do all, with the password of `requirepass`.
///
/// # Errors
/// The file cannot be read, or some lines are wrong: the text says which ones, and why.
pub(crate) fn load(
    path: &Path,
    requirepass: Option<&str>,
    has_all_channels: bool,
) -> Result<Acl, String> {
    let shown = path.display();
    let opening = |error: io::Error| format!("Error loading ACLs, opening file '{shown}': {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(opening)?;
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(opening)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(format!(
            "Error loading ACLs, file '{shown}' is longer than {FILE_LEN_MAX} bytes"
        ));
    }
    parse(&bytes, requirepass, has_all_channels).map_err(|errors| {
        let tell = |(line, why): &(usize, String)| format!("{shown}:{line}: {why}. ");
        let told: String = errors.iter().take(ERRORS_MAX).map(tell).collect();
        told + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    })
}

/// Refuses a line that makes no user, as far as that can be known without the settings.
pub(crate) fn check_line(line: &[u8]) -> Result<(), String> {
    parse_user(line, false).map(drop)
}

/// The users of such lines; they come from a config file. Without a default user among them, it may do all, with the
/// password of `requirepass`.
///
/// # Errors
/// A line is wrong, or defines a user for the second time: the text says why.
pub(crate) fn of_lines(
    lines: &[Vec<u8>],
    requirepass: Option<&str>,
    has_all_channels: bool,
) -> Result<Acl, String> {
    let users = parse(&lines.join(&b'\n'), requirepass, has_all_channels);
    users.map_err(|errors| errors.into_iter().map(|(_, why)| why).collect::<Vec<_>>().join(". "))
}

/// The users of a file's bytes, or its wrong lines.
fn parse(
    bytes: &[u8],
    requirepass: Option<&str>,
    has_all_channels: bool,
) -> Result<Acl, Vec<(usize, String)>> {
    let mut acl = Acl::new(requirepass);
    let mut seen = HashSet::new();
    let mut errors = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let added = parse_user(line, has_all_channels).and_then(|user| {
            if !seen.insert(user.name.clone()) {
                let name = String::from_utf8_lossy(&user.name);
                return Err(format!("Duplicate user '{name}' found"));
            }
            acl.add(user)
        });
        if let Err(why) = added {
            errors.push((index + 1, why));
        }
    }
    if errors.is_empty() { Ok(acl) } else { Err(errors) }
}

/// The user of a line.
fn parse_user(line: &[u8], has_all_channels: bool) -> Result<User, String> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"user"), Some(name)) = (words.next(), words.next().filter(|name| !name.is_empty()))
    else {
        return Err("should start with user keyword followed by the username".to_owned());
    };
    if has_spaces(name) {
        let name = String::from_utf8_lossy(name);
        return Err(format!("username '{name}' contains invalid characters"));
    }
    let mut user = User::new(name, has_all_channels);
    let rules = join_selectors(words.map(<[u8]>::trim_ascii))
        .map_err(|_| "Unmatched parenthesis in selector rule".to_owned())?;
    for rule in rules {
        // A password in a file is not repeated where others may read it.
        apply(&mut user, &rule, has_all_channels).map_err(|why| match rule.first() {
            Some(b'>' | b'<' | b'#' | b'!') => why.to_string(),
            _ => format!("'{}': {why}", String::from_utf8_lossy(&rule)),
        })?;
    }
    Ok(user)
}

/// Writes all users to a file, which is the old one or the new one at any time, and durable once this returns.
pub(crate) fn save(path: &Path, acl: &Acl) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}-{:016x}", std::process::id(), generator().u64(..)));
    let temporary = Path::new(&name);
    let written = write(temporary, path, acl).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(temporary);
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes all users to a new file, with the permissions of the old one.
fn write(temporary: &Path, old: &Path, acl: &Acl) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    let mut text = Vec::new();
    for user in acl.iter() {
        text.extend_from_slice(b"user ");
        text.extend_from_slice(&user.describe());
        text.push(b'\n');
    }
    file.write_all(&text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::DEFAULT;

    fn errors(text: &str) -> Vec<(usize, String)> {
        parse(text.as_bytes(), None, false).unwrap_err()
    }

    #[test]
    fn wrong_lines_are_told_with_their_numbers() {
        let found =
            errors("user a on\n\nuser b +nope\nname c\nuser a\nuser d (+get\nuser\nuser e #x");
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8]);
        assert_eq!(found[0].1, "'+nope': Unknown command or category name in ACL");
        assert!(found[5].1.starts_with("The password hash"));
    }

    #[test]
    fn users_are_saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.acl");
        fs::write(&path, "user a on >x ~k* +@read (%W~y +set)\r\n  user b off\n").unwrap();
        let acl = load(&path, Some("secret"), false).unwrap();
        assert!(acl.asks_for_password() && acl.find(DEFAULT).unwrap().takes(b"secret"));
        save(&path, &acl).unwrap();
        let again = load(&path, None, false).unwrap();
        let texts = |acl: &Acl| acl.iter().map(|user| user.describe()).collect::<Vec<_>>();
        assert_eq!(texts(&again), texts(&acl));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
        assert!(
            load(&folder.path().join("none"), None, false).unwrap_err().contains("opening file")
        );
    }
}
