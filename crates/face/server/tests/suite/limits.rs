//! All that requests can let grow is limited, and a client that exceeds a limit does not harm others.
//!
//! The list is in docs/RUNTIME.md, "Limits of memory"; the limits here are smaller.

use std::io::Write;
use std::time::Duration;

use crate::common::{Client, Running, eventually, request};

on_threads! {
    each_attack_is_refused_and_changes_nothing
    what_clients_send_is_bounded_together
    a_paused_client_is_not_read_from
    the_slowlog_is_bounded_in_number_and_in_size
}

const BULK_MAX: usize = 1 << 20;
const TRANSACTION_MAX: usize = 2 << 20;
const OUTPUT_MAX: usize = 4 << 20;

/// Requests of one client; the reply to the last begins with this text.
struct Attack {
    name: &'static str,
    requests: Vec<Vec<u8>>,
    reply: String,
}

impl Attack {
    fn new(name: &'static str, requests: &[Vec<u8>], reply: &str) -> Self {
        Self { name, requests: requests.to_vec(), reply: reply.to_owned() }
    }

    /// Commands between MULTI and EXEC.
    fn transaction(name: &'static str, commands: &[Vec<u8>], reply: &str) -> Self {
        let requests = [&[request(&["MULTI"])], commands, &[request(&["EXEC"])]].concat();
        Self::new(name, &requests, reply)
    }
}

/// The key of a value that an attack would create; they are in all partitions.
fn victim(number: usize) -> String {
    format!("victim:{number}")
}

fn attacks() -> Vec<Attack> {
    let oom =
        format!("-OOM what the commands change together takes more than {TRANSACTION_MAX} bytes");
    let aborted = format!("-EXECABORT Transaction discarded because of: {}", &oom[1..]);
    let at_end = (BULK_MAX - 100).to_string();
    let half = "h".repeat(TRANSACTION_MAX / 2);
    let words = |words: &[&str]| request(words);
    let many = |count, make: &dyn Fn(usize) -> Vec<u8>| (0..count).map(make).collect::<Vec<_>>();
    let mset: Vec<String> = (0..3).flat_map(|number| [victim(number), half.clone()]).collect();
    let mset = |name: &str| [vec![name.to_owned()], mset.clone()].concat();
    vec![
        Attack::transaction(
            "growth of many keys in EXEC by SETRANGE",
            &many(12, &|number| words(&["SETRANGE", &victim(number), &at_end, "x"])),
            &aborted,
        ),
        Attack::transaction(
            "growth in EXEC by COPY",
            &many(12, &|number| words(&["COPY", "large", &victim(number)])),
            &aborted,
        ),
        Attack::transaction(
            "growth in EXEC, and then a FLUSHALL",
            &[
                many(12, &|number| words(&["SETRANGE", &victim(number), &at_end, "x"])),
                vec![words(&["FLUSHALL"])],
            ]
            .concat(),
            &aborted,
        ),
        Attack::transaction(
            "the queue of MULTI",
            &many(3, &|number| words(&["SET", &victim(number), &half])),
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        Attack::transaction("replies of EXEC", &many(8, &|_| words(&["GET", "large"])), "closed"),
        Attack::transaction(
            "replies of EXEC, of parts of values",
            &many(8, &|_| words(&["GETRANGE", "large", "0", &i64::MAX.to_string()])),
            "closed",
        ),
        Attack::new("several keys together, MSET", &[request(&mset("MSET"))], &oom),
        Attack::new("several keys together, MSETNX", &[request(&mset("MSETNX"))], &oom),
        Attack::new(
            "a value, SETRANGE",
            &[words(&["SETRANGE", &victim(0), &BULK_MAX.to_string(), "x"])],
            "-ERR string exceeds maximum allowed size",
        ),
        Attack::new(
            "a value, APPEND",
            &[words(&["APPEND", "large", &half])],
            "-ERR string exceeds maximum allowed size",
        ),
        Attack::new(
            "the table of LCS",
            &[words(&["LCS", "large", "large"])],
            "-ERR Insufficient memory",
        ),
        Attack::new(
            "watched keys",
            &many(3, &|number| {
                let keys: Vec<_> = (0..8000).map(|key| format!("watched:{number}:{key}")).collect();
                request(&[vec!["WATCH".to_owned()], keys].concat())
            }),
            "-ERR the watched keys take more than",
        ),
        Attack::new(
            "a name",
            &[words(&["CLIENT", "SETNAME", &"n".repeat(5000)])],
            "-ERR Client names cannot be longer than 4096 bytes",
        ),
        Attack::new(
            "the name of a library",
            &[words(&["CLIENT", "SETINFO", "LIB-NAME", &"n".repeat(5000)])],
            "-ERR Client names cannot be longer than 4096 bytes",
        ),
        Attack::new(
            "a name in HELLO",
            &[words(&["HELLO", "3", "SETNAME", &"n".repeat(5000)])],
            "-ERR Client names cannot be longer than 4096 bytes",
        ),
        Attack::new(
            "a setting that is kept, a password",
            &[words(&["CONFIG", "SET", "requirepass", &"p".repeat(4097)])],
            "-ERR CONFIG SET failed (possibly related to argument 'requirepass') - argument must not be longer than 4096 bytes",
        ),
        Attack::new(
            "a setting that is kept, save points",
            &[words(&["CONFIG", "SET", "save", &"1 1 ".repeat(1025)])],
            "-ERR CONFIG SET failed (possibly related to argument 'save') - argument must not be longer than 4096 bytes",
        ),
        Attack::new(
            "a line",
            &["x".repeat(2000).into_bytes()],
            "-ERR Protocol error: too big inline request",
        ),
        Attack::new(
            "words",
            &[b"*10001\r\n".to_vec()],
            "-ERR Protocol error: invalid multibulk length",
        ),
        Attack::new(
            "a word",
            &[format!("*1\r\n${}\r\n", BULK_MAX + 1).into_bytes()],
            "-ERR Protocol error: invalid bulk length",
        ),
        Attack::new("one reply", &[request(&[&["MGET"], &["large"; 8][..]].concat())], "closed"),
        Attack::new(
            "one reply, which describes commands",
            &[request(&[&["COMMAND", "INFO"], &["cluster"; 9000][..]].concat())],
            "closed",
        ),
        Attack::new(
            "one reply, which documents commands",
            &[request(&[&["COMMAND", "DOCS"], &["cluster"; 9000][..]].concat())],
            "closed",
        ),
        Attack::new(
            "one reply, of settings that are named again and again",
            &[request(&[&["CONFIG", "GET"], &["port"; 9000][..]].concat())],
            "[\"port\", ",
        ),
        Attack::new("all keys", &[words(&["KEYS", "*"])], "-ERR the keys take more than"),
        Attack::new("a page of all keys", &[words(&["SCAN", "0", "COUNT", "1000000"])], "[\""),
        Attack::new(
            "a request of many words",
            &[request(&[vec!["DEL".to_owned()], vec![half.clone(); 8]].concat())],
            "closed",
        ),
    ]
}

fn each_attack_is_refused_and_changes_nothing() {
    let server = Running::start_with(|config| {
        config.limits.bulk_len_max = BULK_MAX;
        config.limits.args_max = 10_000;
        config.limits.inline_len_max = 1024;
        config.limits.transaction_len_max = TRANSACTION_MAX;
        config.limits.query_buffer_len_max = 6 << 20;
        config.limits.output.hard = OUTPUT_MAX;
    });
    let mut other = server.client();
    let large = "l".repeat(BULK_MAX - 1000);
    assert_eq!(other.call(&["SET", "large", &large]), "+OK");
    // Their names alone are more than one reply may have.
    for number in 0..80 {
        assert_eq!(other.call(&["SET", &format!("{number}:{}", "n".repeat(60_000)), ""]), "+OK");
    }
    let victims: Vec<_> = (0..12).map(victim).collect();
    let exist = [vec!["EXISTS".to_owned()], victims].concat();
    for Attack { name, requests, reply } in attacks() {
        let mut client = server.client();
        let mut last = String::new();
        for request in &requests {
            // The server may close before it has read all.
            let sent = client.socket.get_mut().write_all(request);
            last = if sent.is_ok() { client.reply() } else { "closed".to_owned() };
        }
        assert!(last.starts_with(&reply), "{name}: {:.200}", last);
        assert_eq!(other.call(&exist), ":0", "{name}");
        assert_eq!(other.ask("STRLEN large"), format!(":{}", large.len()), "{name}");
    }
    // Requests within the limits are executed: one key may grow again and again.
    let at_end = (BULK_MAX - 100).to_string();
    other.check(&[("MULTI", "+OK")]);
    for _ in 0..12 {
        assert_eq!(other.ask(&format!("SETRANGE victim:0 {at_end} x")), "+QUEUED");
    }
    assert!(other.ask("EXEC").starts_with("[:"));
}

/// A client that sends the beginning of a request.
fn begin(server: &Running, bytes: &[u8]) -> Client {
    let mut client = server.client();
    // It may be evicted meanwhile.
    let _ = client.socket.get_mut().write_all(bytes);
    client
}

fn evicted(client: &mut Client) -> u64 {
    let info = client.ask("INFO stats");
    let (_, rest) = info.split_once("evicted_clients:").unwrap();
    rest.split('\\').next().unwrap().parse().unwrap()
}

fn what_clients_send_is_bounded_together() {
    let words = |count: usize, word: &str| {
        let head = format!("*{}\r\n", count + 1).into_bytes();
        [head, format!("${}\r\n{word}\r\n", word.len()).into_bytes().repeat(count)].concat()
    };
    let long = "w".repeat(16_000);
    for (password, count, request) in [
        // Clients that have not authenticated, as well.
        (Some("sesame"), 60, words(9, &long)),
        (None, 60, words(9, &long)),
        // The places of words take more than the words.
        (None, 1, words(900_000, "")),
    ] {
        let server = Running::start_with(|config| {
            config.client_memory_max = Some(6 << 20);
            config.requirepass = password.map(str::to_owned);
        });
        let mut other = server.client();
        if password.is_some() {
            other.check(&[("AUTH sesame", "+OK")]);
        }
        let _clients: Vec<_> = (0..count).map(|_| begin(&server, &request)).collect();
        eventually("an eviction", || evicted(&mut other) > 0);
        other.check(&[("SET k 1", "+OK"), ("GET k", "\"1\"")]);
    }
}

fn a_paused_client_is_not_read_from() {
    let server = Running::start();
    let mut admin = server.client();
    admin.check(&[("CLIENT PAUSE 100000000 WRITE", "+OK")]);
    let mut client = server.client();
    client.socket.get_ref().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let requests = request(&["SET", "k", &"v".repeat(1000)]).repeat(64 << 10);
    let sent = client.socket.get_mut().write_all(&requests);
    assert!(sent.is_err(), "64 MiB are more than sockets hold");
    let line = admin.ask("CLIENT LIST ID 2");
    let (_, rest) = line.split_once(" tot-mem=").unwrap();
    let bytes: usize = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(bytes < 1 << 20, "{line}");
    drop(client);
    admin.check(&[("CLIENT UNPAUSE", "+OK"), ("PING", "+PONG")]);
}

fn the_slowlog_is_bounded_in_number_and_in_size() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET slowlog-max-len 5 slowlog-log-slower-than 0", "+OK")]);
    let long = "w".repeat(100_000);
    for number in 0..20 {
        let key = format!("key:{number}");
        client.call(&["MSET", &key, &long, "a", &long, "b", &long]);
    }
    client.check(&[("CONFIG SET slowlog-log-slower-than -1", "+OK"), ("SLOWLOG LEN", ":5")]);
    assert!(client.ask("SLOWLOG GET 100").len() < 10_000);
}
