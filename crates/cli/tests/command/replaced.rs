//! The files that a server replaces, when it is killed meanwhile: each is an old one or a new one, and whole.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use halite_resp_client::{Client, Reply};
use rustix::process::Signal;

use crate::run::Home;
use crate::served::Served;

/// How often the server is killed.
const KILLS: u64 = 12;

/// The number behind a mark, behind each of some names in a file, which has to be the same.
fn version(path: &Path, names: [&str; 2], mark: char) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let [one, other] = names.map(|name| {
        let behind = text.split_once(name).and_then(|(_, behind)| behind.split_once(mark));
        let behind = behind.unwrap_or_else(|| panic!("no {name} in: {text}")).1;
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or_else(|_| panic!("no number behind {name} in: {text}"))
    });
    assert_eq!(one, other, "{text}");
    one
}

/// Has the server write its files with newer and newer versions, until it is gone. Returns the last one that was
/// acknowledged, or the one before.
fn write_until_the_end(client: &mut Client, mut version: u64) -> u64 {
    loop {
        let next = version + 1;
        let requests = [
            format!("ACL SETUSER a on nopass resetkeys ~{next}"),
            format!("ACL SETUSER b on nopass resetkeys ~{next}"),
            "ACL SAVE".to_owned(),
            format!("CONFIG SET timeout {next} slowlog-max-len {next}"),
            "CONFIG REWRITE".to_owned(),
        ];
        for request in requests {
            let words: Vec<_> = request.split(' ').map(str::as_bytes).collect();
            match client.call(&words) {
                Ok(reply) => assert_eq!(reply, Reply::Status("OK".into()), "{request}"),
                Err(_) => return version,
            }
        }
        version = next;
    }
}

#[test]
fn a_server_that_is_killed_leaves_its_files_whole() {
    let home = Home::in_memory();
    let users = home.file("users.acl", "user a on nopass ~0\nuser b on nopass ~0\n");
    let config = home.file("halite.conf", "# kept\ntimeout 0\nslowlog-max-len 0\n");
    let mut found = [0, 0];
    for kill in 0..KILLS {
        let args = ["--config", "halite.conf", "--aclfile", "users.acl", "--threads", "1"];
        let served = Served::start(&home, &args);
        let mut client = served.client();
        let before = found.into_iter().max().unwrap();
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_the_end(&mut client, before));
            thread::sleep(Duration::from_millis(7 * kill % 40));
            served.end(Signal::KILL);
            writer.join().unwrap()
        });
        let now = [
            version(&users, ["user a ", "user b "], '~'),
            version(&config, ["timeout", "slowlog-max-len"], ' '),
        ];
        for (now, found) in now.iter().zip(found) {
            let least = if written > before { written } else { found };
            assert!((least..=written + 1).contains(now), "{now}, and {written} was acknowledged");
        }
        assert!(fs::read_to_string(&config).unwrap().starts_with("# kept\n"));
        found = now;
    }
    assert!(found[1] > KILLS, "the server was killed before it wrote much: {found:?}");
}
