//! The lines of a config file, taken over into the configuration of a server.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::lines::{self, Line};
use super::no_effect::{HARMLESS, PROMISES};
use crate::acl;
use crate::commands::config::{Refusal, assign};
use crate::settings::Settings;
use crate::{Config, Error, SyncPolicy};

/// Settings whose values are several words.
const LISTS: &[&str] = &["bind", "client-output-buffer-limit", "save"];

/// Settings that [`Config`] has fields for: options behind the file change these.
const FIELDS: &[&str] = &[
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "maxclients",
    "maxmemory-clients",
    "proto-max-bulk-len",
    "protected-mode",
    "requirepass",
    "tcp-keepalive",
    "timeout",
];

/// The one of these that may be a part of `maxmemory`.
const CLIENT_MEMORY: &str = "maxmemory-clients";

/// How far a line has an effect.
enum Taken {
    Whole,
    /// The setting has no effect here.
    NoEffect,
    /// The operator should know this.
    Noted(&'static str),
}

impl Config {
    /// Takes the settings of a file over that has the syntax of `redis.conf`: what is set afterwards wins. CONFIG REWRITE
    /// writes to this file. Returns what the operator should know: settings of Redis that have no effect here.
    ///
    /// # Errors
    /// [`Error::ConfigFile`] if the file cannot be read, or names a setting that there is not, or one that cannot be
    /// fulfilled.
    pub fn read_file(&mut self, path: &Path) -> Result<Vec<String>, Error> {
        let found = fs::canonicalize(path);
        let path = found.map_err(|error| Error::ConfigFile {
            at: path.display().to_string(),
            why: error.to_string(),
        })?;
        let (mut notes, mut without_effect) = (Vec::new(), BTreeSet::new());
        let mut folder = None;
        for line in lines::read(&path)? {
            if let ("dir", [name]) = (&*line.name, &*line.words) {
                folder = self::path(&String::from_utf8_lossy(name));
            }
            if line.name == "user" && !line.is_of(&path) {
                let why = "users have to be in the file itself, which CONFIG REWRITE writes, and in none that it includes";
                return Err(line.error(format!("user: {why}")));
            }
            match self.take(&line).map_err(|why| line.error(format!("{}: {why}", line.name)))? {
                Taken::Whole => {}
                Taken::NoEffect => {
                    without_effect.insert(line.name);
                }
                Taken::Noted(note) => notes.push(note.to_owned()),
            }
        }
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            self.refer_to(&folder);
        }
        if !without_effect.is_empty() {
            let names: Vec<_> = without_effect.into_iter().collect();
            notes.push(format!("these settings have no effect here: {}", names.join(", ")));
        }
        self.file = Some(path);
        Ok(notes)
    }

    /// Has the names of files that begin with no `/` refer to a folder: those that are set so far.
    fn refer_to(&mut self, folder: &Path) {
        let tls = &mut self.tls;
        let files = [
            &mut self.acl_file,
            &mut self.unix_socket,
            &mut tls.cert_file,
            &mut tls.key_file,
            &mut tls.ca_cert_file,
        ];
        for file in files.into_iter().flatten() {
            // A name from the root stays as it is.
            *file = folder.join(&*file);
        }
    }

    /// Notes that an option has set what the setting of this name says, so that CONFIG REWRITE writes it to the file
    /// that [`Config::read_file`] has read.
    pub fn note_option(&mut self, name: &'static str) {
        self.changed.insert(name);
        self.settings.retain(|(set, _)| set != name || name != CLIENT_MEMORY);
    }

    fn take(&mut self, line: &Line) -> Result<Taken, String> {
        let is_list = LISTS.contains(&&*line.name);
        let promise = PROMISES.iter().find(|promise| promise.name == line.name);
        if let Some(promise) = promise {
            let value = line.words.join(&b' ').to_ascii_lowercase();
            return match promise.harmless.iter().any(|harmless| harmless.as_bytes() == value) {
                true => Ok(Taken::NoEffect),
                false => Err(promise.why.to_owned()),
            };
        }
        if line.name == "user" {
            // Each would become several rules.
            if line
                .words
                .iter()
                .any(|word| word.is_empty() || word.iter().any(u8::is_ascii_whitespace))
            {
                return Err("a word of it is empty, or has a space or a line break".to_owned());
            }
            let user = [&[b"user".to_vec()], &*line.words].concat().join(&b' ');
            acl::file::check_line(&user)?;
            self.users.push(user);
            return Ok(Taken::Whole);
        }
        if HARMLESS.contains(&&*line.name) {
            return Ok(Taken::NoEffect);
        }
        if line.words.is_empty() || line.words.len() > 1 && !is_list {
            let refusal = assign(&mut Settings::new(self, self.port), line.name.as_bytes(), b"");
            return match refusal {
                Err(Refusal::NotHere) => Ok(Taken::NoEffect),
                Err(Refusal::Unknown) => Err(UNKNOWN.to_owned()),
                _ => Err("wrong number of words".to_owned()),
            };
        }
        let value = line.words.join(&b' ');
        match std::str::from_utf8(&value) {
            Ok(text) => self.take_at_start(&line.name, text),
            Err(_) => Err("the value is not UTF-8".to_owned()),
        }
    }

    /// Takes a setting that is read before there is a server, or else one of CONFIG SET.
    fn take_at_start(&mut self, name: &str, value: &str) -> Result<Taken, String> {
        match name {
            "bind" => self.bind = addresses(value)?,
            "port" => self.port = number(value)?,
            "tls-port" => self.tls.port = Some(number(value)?).filter(|&port: &u16| port > 0),
            "tls-cert-file" => self.tls.cert_file = path(value),
            "tls-key-file" => self.tls.key_file = path(value),
            "tls-ca-cert-file" => self.tls.ca_cert_file = path(value),
            "tls-auth-clients" => self.tls.auth_clients = value.parse()?,
            "tls-protocols" => self.tls.protocols = value.parse()?,
            "aclfile" => self.acl_file = path(value),
            "unixsocket" => self.unix_socket = path(value),
            "unixsocketperm" => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|&mode| mode <= 0o777);
                let mode = mode.ok_or("an octal mode such as 700 is needed")?;
                self.unix_socket_mode = Some(mode).filter(|&mode| mode > 0);
            }
            "databases" => match number(value)? {
                0 => return Err("there is at least one database".to_owned()),
                databases => self.databases = databases,
            },
            "enable-debug-command" => {
                let wrong = |_| "argument must be 'yes', 'no' or 'local'".to_owned();
                self.debug_command = value.parse().map_err(wrong)?;
            }
            "appendfsync" => {
                self.sync = match value.to_ascii_lowercase().as_str() {
                    "always" => SyncPolicy::Always,
                    "everysec" => SyncPolicy::Interval(Duration::from_secs(1)),
                    "no" => SyncPolicy::Never,
                    _ => return Err("argument must be 'always', 'everysec' or 'no'".to_owned()),
                }
            }
            "appendonly" => match value.to_ascii_lowercase().as_str() {
                "yes" => {}
                "no" => return Ok(Taken::Noted("appendonly no: every write is kept all the same")),
                _ => return Err("argument must be 'yes' or 'no'".to_owned()),
            },
            _ => return self.take_setting(name, value),
        }
        Ok(Taken::Whole)
    }

    /// Takes a setting that CONFIG SET can change.
    fn take_setting(&mut self, name: &str, value: &str) -> Result<Taken, String> {
        let mut settings = Settings::new(self, self.port);
        match assign(&mut settings, name.as_bytes(), value.as_bytes()) {
            Ok(_) => {}
            Err(Refusal::NotHere) => return Ok(Taken::NoEffect),
            Err(Refusal::Unknown) => return Err(UNKNOWN.to_owned()),
            Err(Refusal::Immutable) => return Err("it has one value only here".to_owned()),
            Err(Refusal::Invalid(_, why)) => return Err(why),
        }
        if name == CLIENT_MEMORY {
            self.settings.retain(|(set, _)| set != name);
        }
        // A part of `maxmemory` is known once that is.
        let is_part = name == CLIENT_MEMORY && value.ends_with('%');
        if FIELDS.contains(&name) && !is_part {
            self.limits = settings.limits;
            self.client_count_max = settings.client_count_max;
            self.client_memory_max = settings.client_memory_max;
            self.protected_mode = settings.protected_mode;
            self.requirepass = settings.requirepass;
            self.tcp_keepalive = settings.tcp_keepalive;
            self.idle_timeout = settings.idle_timeout;
        } else if name == "save" {
            self.add_save_points(value);
        } else {
            self.settings.push((name.to_owned(), value.to_owned()));
        }
        Ok(Taken::Whole)
    }

    /// Adds to the points at which Redis would save; an empty line removes those before it.
    fn add_save_points(&mut self, value: &str) {
        let at = self.settings.iter().position(|(name, _)| name == "save");
        let before = at.map(|at| self.settings.remove(at).1).filter(|_| !value.is_empty());
        let all = before.map_or_else(|| value.to_owned(), |before| format!("{before} {value}"));
        self.settings.push(("save".to_owned(), all.trim().to_owned()));
    }
}

const UNKNOWN: &str = "there is no setting of this name";

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| "the value is not a number, or out of range".to_owned())
}

/// The path of a file; an empty one is none.
fn path(value: &str) -> Option<PathBuf> {
    Some(value).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The addresses of `bind`: `*` stands for all of IPv4, and one behind `-` may be missing on this machine.
fn addresses(value: &str) -> Result<Vec<IpAddr>, String> {
    let mut addresses = Vec::new();
    for word in value.split_ascii_whitespace() {
        let (text, may_miss) = word.strip_prefix('-').map_or((word, false), |text| (text, true));
        let address: IpAddr = match text {
            "*" => Ipv4Addr::UNSPECIFIED.into(),
            "::*" => IpAddr::from([0_u8; 16]),
            text => text.parse().map_err(|_| format!("`{text}` is no IP address"))?,
        };
        if !may_miss || UdpSocket::bind((address, 0)).is_ok() {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Config, Vec<String>), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf");
        fs::write(&path, text).unwrap();
        let mut config = Config::default();
        let notes = config.read_file(&path).map_err(|error| error.to_string())?;
        Ok((config, notes))
    }

    #[test]
    fn settings_have_the_values_of_the_file() {
        let (config, notes) = read(
            "bind 127.0.0.1 -2001:db8::1\nport 7000\nport 7001\ntls-port 0\nunixsocket \"/tmp/a b\"\n\
             unixsocketperm 700\nrequirepass 'Sesame'\nmaxclients 50\nappendfsync everysec\n\
             save 3600 1\nsave 300 100\nnotify-keyspace-events \"\"\nhash-max-listpack-entries 7\n\
             client-output-buffer-limit normal 1mb 0 0\nclient-output-buffer-limit pubsub 2mb 1mb 60\n\
             protected-mode no\nmaxmemory-policy allkeys-lru\n",
        )
        .unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(config.bind, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        assert_eq!((config.port, config.tls.port, config.client_count_max), (7001, None, 50));
        assert_eq!(config.unix_socket.as_deref(), Some(Path::new("/tmp/a b")));
        assert_eq!(config.unix_socket_mode, Some(0o700));
        assert_eq!(config.requirepass.as_deref(), Some("Sesame"));
        assert_eq!(config.sync, SyncPolicy::Interval(Duration::from_secs(1)));
        let limits = &config.limits;
        assert_eq!((limits.output.hard, limits.pubsub_output.hard), (1 << 20, 2 << 20));
        assert!(!config.protected_mode);
        let expected = [
            ("save", "3600 1 300 100"),
            ("notify-keyspace-events", ""),
            ("hash-max-listpack-entries", "7"),
            ("maxmemory-policy", "allkeys-lru"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(config.settings, expected);
    }

    #[test]
    fn relative_names_refer_to_a_folder_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().display();
        let lines = "aclfile users.acl\nunixsocket /run/x\ntls-cert-file a/b\n";
        let (config, _) = read(&format!("{lines}dir {dir}\n")).unwrap();
        assert_eq!(config.acl_file, Some(folder.path().join("users.acl")));
        assert_eq!(config.unix_socket.as_deref(), Some(Path::new("/run/x")));
        assert_eq!(config.tls.cert_file, Some(folder.path().join("a/b")));
        let (config, _) = read(&format!("dir /none/at/all\n{lines}")).unwrap();
        assert_eq!(config.acl_file.as_deref(), Some(Path::new("users.acl")));
    }

    #[test]
    fn users_and_parts_of_maxmemory_are_taken() {
        let (mut config, _) =
            read("maxmemory-clients 5%\nuser a on \"~b\" +get\nuser b (+get ~a)\n").unwrap();
        assert_eq!(config.users, [&b"user a on ~b +get"[..], b"user b (+get ~a)"]);
        let part = ("maxmemory-clients".to_owned(), "5%".to_owned());
        assert_eq!(config.settings, [part]);
        config.note_option("maxmemory-clients");
        assert!(config.settings.is_empty());
    }

    #[test]
    fn settings_without_effect_are_named_once() {
        let (_, notes) =
            read("daemonize no\nrdbcompression yes\ndir ./\nhz 10\nhz 20\nappendonly no\n")
                .unwrap();
        let expected = [
            "appendonly no: every write is kept all the same",
            "these settings have no effect here: daemonize, dir, hz, rdbcompression",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn lines_that_cannot_be_fulfilled_are_named() {
        for (line, why) in [
            ("nonsense 1", "there is no setting of this name"),
            ("daemonize yes", "foreground"),
            ("replicaof 10.0.0.1 6379", "replication"),
            ("rename-command FLUSHALL \"\"", "renamed"),
            ("port 70000", "out of range"),
            ("port", "wrong number of words"),
            ("port 1 2", "wrong number of words"),
            ("bind example", "no IP address"),
            ("unixsocketperm 9", "octal"),
            ("databases 0", "at least one"),
            ("maxclients many", "integer"),
            ("tls-protocols SSLv3", "SSLv3"),
            ("tls-auth-clients maybe", "optional"),
            ("user a +nope", "Unknown command"),
            ("maxmemory-clients 101%", "less or equal to 100"),
        ] {
            let error = read(&format!("# first\n{line}\n")).map(drop).unwrap_err();
            assert!(error.contains("conf:2: ") && error.contains(why), "{line}: {error}");
        }
    }
}
