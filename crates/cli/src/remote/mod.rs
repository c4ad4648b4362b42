//! A running server in place of a folder, for `--server`.
//!
//! A [`Server`] is a connection to one of a server's databases. [`Client`] sends the requests, [`scan`](Server::scan)
//! is in a file of its own, and [`Copy`] takes all that the server has, as it is at one moment, into a folder for a
//! while, for commands that read all of it.

mod address;
mod client;
mod copy;
mod scan;

use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::Args;
use halite_resp_client::Reply;

use crate::place::{DEFAULT_SPACE, Place};
use crate::{Error, Result};

pub(crate) use address::Address;
pub(crate) use client::Client;
pub(crate) use copy::{Copy, fetch};
pub(crate) use scan::Wanted;

/// The environment variable with the password of a server.
pub(crate) const PASSWORD_VARIABLE: &str = "HALITE_REQUIREPASS";

/// A server, on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// Ask the server at this address, which has the database open; without a PATH. DB is the number of one of its
    /// databases, 0 if it is left out. A unix socket is `unix:FILE[:DB]`
    #[arg(long, value_name = "HOST:PORT[/DB]")]
    server: Option<String>,

    /// Take the server's password from the first line of FILE; else it is that of HALITE_REQUIREPASS
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether a server is asked.
    pub(crate) fn is_given(&self) -> bool {
        self.server.is_some()
    }

    /// Connects to the server, if one is asked, for a command that works in one of its databases.
    pub(crate) fn connect_in(&self, place: &Place) -> Result<Option<Server>> {
        if self.is_given() && place.space != DEFAULT_SPACE {
            let why = "--space: a server has databases; name one as --server HOST:PORT/DB or unix:FILE:DB";
            return Err(Error::Usage(why.into()));
        }
        self.connect()
    }

    /// Connects to the server, if one is asked.
    pub(crate) fn connect(&self) -> Result<Option<Server>> {
        let Some(text) = &self.server else {
            return match self.password_file {
                Some(_) => Err(Error::Usage("--password-file: name the server by --server".into())),
                None => Ok(None),
            };
        };
        let (address, db) = Address::of_database(text)?;
        let password = password(self.password_file.as_deref())?;
        let mut client = Client::connect(&address, password.as_deref())?;
        if let Some(db) = db {
            client.call(&[b"SELECT", db.to_string().as_bytes()])?;
        }
        Ok(Some(Server { client, db: db.unwrap_or(0) }))
    }

    /// Connects to the server, if one is asked, for `command`, which is about all of its databases.
    pub(crate) fn connect_to_all(&self, command: &str) -> Result<Option<Server>> {
        if let Some(text) = &self.server
            && let (_, Some(_)) = Address::of_database(text)?
        {
            let why = format!("--server {text}: {command} is about all databases; name none");
            return Err(Error::Usage(why));
        }
        self.connect()
    }
}

/// A server's password, from a file or the environment, if there is one.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<String>> {
    let Some(file) = file else { return Ok(env::var(PASSWORD_VARIABLE).ok()) };
    let text = fs::read_to_string(file).map_err(|error| Error::io(file.display(), error))?;
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}

/// A database of a running server.
pub(crate) struct Server {
    client: Client,
    db: u32,
}

impl Server {
    /// The server's address.
    pub(crate) fn address(&self) -> &str {
        self.client.address()
    }

    /// The name of the database's key space.
    pub(crate) fn space(&self) -> String {
        format!("db{}", self.db)
    }

    /// The connection.
    pub(crate) fn into_client(self) -> Client {
        self.client
    }

    /// The string at a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.client.call(&[b"GET", key])
    }

    /// Sets a key to a string.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.client.call(&[b"SET", key, value]).map(drop)
    }

    /// Removes keys, and returns how many there were.
    pub(crate) fn delete(&mut self, keys: &[Vec<u8>]) -> Result<u64> {
        let mut words = vec![&b"DEL"[..]];
        words.extend(keys.iter().map(Vec::as_slice));
        match self.client.ask(&words)? {
            Reply::Integer(count) => Ok(count.max(0) as u64),
            _ => Err(self.client.unexpected()),
        }
    }

    /// The sections of INFO with these names, as the server writes them.
    pub(crate) fn info(&mut self, sections: &[&str]) -> Result<String> {
        let mut words = vec![&b"INFO"[..]];
        words.extend(sections.iter().map(|name| name.as_bytes()));
        let text = self.client.call(&words)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The argument that the position of an absent one has: with a server, the positions begin without the folder.
pub(crate) fn need<'a, T>(argument: Option<&'a T>, name: &str) -> Result<&'a T> {
    argument.ok_or_else(|| {
        Error::Usage(format!("{name} is missing; without --server, the first is the folder"))
    })
}
