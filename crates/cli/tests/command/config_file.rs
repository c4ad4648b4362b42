//! Settings from a file, and the sockets that they name.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::run::Home;
use crate::served::Served;

/// The reply to a request typed on a line, of as many bytes as are expected.
fn expect(served: &Served, request: &str, reply: &str) {
    served.expect(&mut served.connect(), &format!("{request}\r\n"), reply);
}

fn setting(name: &str, value: &str) -> String {
    format!("*2\r\n${}\r\n{name}\r\n${}\r\n{value}\r\n", name.len(), value.len())
}

#[test]
fn a_file_has_the_settings_and_options_win() {
    let home = Home::new();
    let text = "# mine\nmaxclients 50\ntimeout 7\nhash-max-listpack-entries 9\nsave 3600 1\n\
                include other.conf\nrdbcompression yes\n";
    home.file("halite.conf", text);
    home.file("other.conf", "databases 3\nslowlog-max-len 5\n");
    let args = ["--config", "halite.conf", "--timeout", "8", "--maxmemory-clients", "1GiB"];
    let served = Served::start(&home, &args);
    let said = "config file: these settings have no effect here: rdbcompression";
    assert!(served.banner.contains(said), "{}", served.banner);
    for (name, value) in [
        ("maxclients", "50"),
        ("timeout", "8"),
        ("hash-max-listpack-entries", "9"),
        ("databases", "3"),
        ("slowlog-max-len", "5"),
        ("save", "3600 1"),
    ] {
        expect(&served, &format!("CONFIG GET {name}"), &setting(name, value));
    }
    expect(&served, "CONFIG SET hash-max-listpack-entries 10", "+OK\r\n");
    expect(&served, "CONFIG SET slowlog-max-len 6", "+OK\r\n");
    expect(&served, "CONFIG REWRITE", "+OK\r\n");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    let rewritten = fs::read_to_string(home.path("halite.conf")).unwrap();
    let port = rewritten.lines().find(|line| line.starts_with("port ")).unwrap();
    let expected = text.replace("timeout 7", "timeout 8").replace("entries 9", "entries 10")
        + &format!(
            "# Added by CONFIG REWRITE\nmaxmemory-clients 1073741824\n{port}\nslowlog-max-len 6\n"
        );
    assert_eq!(rewritten, expected);
    // It can be started with.
    let served = Served::start(&home, &["--config", "halite.conf"]);
    expect(&served, "CONFIG GET timeout", &setting("timeout", "8"));
    expect(&served, "CONFIG GET slowlog-max-len", &setting("slowlog-max-len", "6"));
    assert_eq!(served.end(Signal::TERM).0, Some(0));
}

#[test]
fn users_are_lines_of_the_file_or_of_their_own() {
    let home = Home::new();
    home.file("halite.conf", "user app on nopass ~app:* +@read\nuser gone on nopass\n");
    let served = Served::start(&home, &["--config", "halite.conf"]);
    let users = "*3\r\n$3\r\napp\r\n$7\r\ndefault\r\n$4\r\ngone\r\n";
    expect(&served, "ACL USERS", users);
    expect(&served, "ACL DELUSER gone", ":1\r\n");
    expect(&served, "ACL SETUSER new on +get", "+OK\r\n");
    expect(&served, "CONFIG REWRITE", "+OK\r\n");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    let rewritten = fs::read_to_string(home.path("halite.conf")).unwrap();
    let lines: Vec<_> = rewritten.lines().filter(|line| line.starts_with("user ")).collect();
    assert!(lines[0].starts_with("user app on nopass ") && lines[0].ends_with(" -@all +@read"));
    assert!(
        lines[1].starts_with("user default on nopass ") && lines[2].starts_with("user new on ")
    );
    assert_eq!(lines.len(), 3, "{rewritten}");
    let served = Served::start(&home, &["--config", "halite.conf"]);
    expect(&served, "ACL USERS", &users.replace("$4\r\ngone", "$3\r\nnew"));
    assert_eq!(served.end(Signal::TERM).0, Some(0));

    // A user that is gone is gone from the file, also when all others are as without one.
    home.file("halite.conf", "timeout 0\n");
    let served = Served::start(&home, &["--config", "halite.conf"]);
    expect(&served, "ACL SETUSER bob on nopass +@all", "+OK\r\n");
    expect(&served, "CONFIG REWRITE", "+OK\r\n");
    assert!(fs::read_to_string(home.path("halite.conf")).unwrap().contains("user bob"));
    expect(&served, "ACL DELUSER bob", ":1\r\n");
    expect(&served, "CONFIG REWRITE", "+OK\r\n");
    assert!(!fs::read_to_string(home.path("halite.conf")).unwrap().contains("user bob"));
    assert_eq!(served.end(Signal::TERM).0, Some(0));

    // The file of users lies in the folder that `dir` names.
    fs::create_dir(home.path("etc")).unwrap();
    home.file("etc/users.acl", "user other on nopass +get\n");
    home.file("halite.conf", "aclfile users.acl\ndir etc\n");
    let served = Served::start(&home, &["--config", "halite.conf"]);
    expect(&served, "ACL USERS", "*2\r\n$7\r\ndefault\r\n$5\r\nother\r\n");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    home.file("halite.conf", "aclfile users.acl\ndir etc\nuser app on\n");
    let failed = home.run(&["serve", "data", "--config", "halite.conf", "--port", "0"]);
    assert!(failed.err.contains("define all of them in one of both"), "{}", failed.err);
    home.file("more.conf", "user app on\n");
    home.file("halite.conf", "include more.conf\n");
    let failed = home.run(&["serve", "data", "--config", "halite.conf", "--port", "0"]);
    assert!(failed.err.contains("users have to be in the file itself"), "{}", failed.err);
    home.file("halite.conf", "user app on \">my horse\"\n");
    let failed = home.run(&["serve", "data", "--config", "halite.conf", "--port", "0"]);
    assert!(failed.err.contains("has a space") && !failed.err.contains("horse"), "{}", failed.err);
    home.file("halite.conf", "user app +nope\n");
    let failed = home.run(&["serve", "data", "--config", "halite.conf", "--port", "0"]);
    assert!(failed.err.contains("halite.conf:1: user: "), "{}", failed.err);
}

#[test]
fn without_a_file_there_is_nothing_to_rewrite() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let refused = "-ERR The server is running without a config file\r\n";
    expect(&served, "CONFIG REWRITE", refused);
    assert_eq!(served.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_wrong_file_is_named_and_leaves_no_database_behind() {
    let home = Home::new();
    home.file("wrong.conf", "port 0\nmaxclient 5\n");
    home.file("misled.conf", "daemonize yes\n");
    let serve = |file: &str| home.run(&["serve", "data", "--config", file]);
    let failed = serve("wrong.conf");
    assert_eq!(failed.code, Some(1));
    let why = "wrong.conf:2: maxclient: there is no setting of this name";
    assert!(failed.err.contains(why), "{}", failed.err);
    let failed = serve("misled.conf");
    assert!(failed.err.contains("misled.conf:1: daemonize: "), "{}", failed.err);
    serve("none.conf").failed(1, "none.conf: No such file");
    let args = ["serve", "data", "--port", "0", "--tls-port", "7000"];
    home.run(&args).failed(1, "cannot set up TLS: tls-cert-file is not set");
    assert!(!home.path("data").exists());
}

#[test]
fn a_unix_socket_goes_with_its_server() {
    let home = Home::new();
    let socket = home.path("socket");
    home.file("taken", "text");
    home.run(&["serve", "data", "--unix-socket", "taken"])
        .failed(1, "cannot listen on the unix socket taken: ");
    let args = ["--unix-socket", "socket", "--unix-socket-perm", "700"];
    // The port of a test's server is beside the socket.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut command = home.command(&[&["serve", "data"], &args[..], &["--port", &port]].concat());
    let served = Served::spawn(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    assert!(!socket.exists());
}
