//! Clients that send all requests before they read a reply, as many libraries do with a pipeline.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::common::{Client, Running, request};

on_threads! {
    pipelines_of_every_family_are_taken_whole_before_anything_is_read
    many_clients_send_all_before_they_read
}

/// Bytes of requests of a pipeline, and of replies, at least: more than sockets and a credit hold together.
const PIPELINE_LEN: usize = 32 << 20;

/// Bytes of replies that a client reads, twice at most, if nothing leaves its socket for long. A receive buffer of Linux from 6.17
/// on may take so many bytes more than its limit, 32 MiB, and then drops all that arrives, with the acknowledgements
/// in it: neither side sends any more, though the server has read all (`TCPRcvQDrop` of `nstat` counts it). Less than a
/// server has to hold without them.
const READ_EARLY: usize = 8 << 20;
const READS_EARLY_MAX: usize = 2;

/// Adds the requests of a round, of which it gets the number, and their replies.
type Family<'a> = dyn Fn(&mut Pipeline, usize) + 'a;

/// A pipeline of one family of commands, and the expected replies.
#[derive(Default)]
struct Pipeline {
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Pipeline {
    /// Adds a request and its reply.
    fn add(&mut self, words: &[&str], reply: &str) {
        self.requests.extend(request(words));
        self.replies.extend_from_slice(reply.as_bytes());
    }

    /// Repeats a round until the pipeline is long enough.
    fn fill(mut self, add: &Family<'_>) -> Self {
        let mut round = 0;
        while self.requests.len() < PIPELINE_LEN || self.replies.len() < PIPELINE_LEN {
            add(&mut self, round);
            round += 1;
        }
        self
    }

    /// Sends everything, then reads everything.
    #[track_caller]
    fn run(&self, client: &mut Client, family: &str) {
        client.socket.get_ref().set_write_timeout(Some(Duration::from_secs(15))).unwrap();
        let mut replies = vec![0; self.replies.len()];
        let mut unsent = &self.requests[..];
        let mut read_early = 0;
        while !unsent.is_empty() {
            match client.socket.get_mut().write(unsent) {
                Ok(len) => unsent = &unsent[len..],
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && read_early < READS_EARLY_MAX * READ_EARLY =>
                {
                    let read = read_early..read_early + READ_EARLY;
                    client.socket.read_exact(&mut replies[read]).unwrap();
                    read_early += READ_EARLY;
                }
                Err(error) => panic!("{family}: the server takes no more: {error}"),
            }
        }
        client.socket.read_exact(&mut replies[read_early..]).unwrap();
        let wrong =
            replies.iter().zip(&self.replies).position(|(reply, expected)| reply != expected);
        if let Some(at) = wrong {
            let show =
                |bytes: &[u8]| bytes[at..(at + 80).min(bytes.len())].escape_ascii().to_string();
            panic!("{family}, byte {at}: {} for {}", show(&replies), show(&self.replies));
        }
    }
}

fn bulk(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

/// The keys that the families work on; they are in all partitions.
fn key(number: usize) -> String {
    format!("key:{:02}", number % 23)
}

/// A server that takes a pipeline and its replies, however little memory the machine has.
fn start() -> Running {
    Running::start_with(|config| config.client_memory_max = None)
}

fn pipelines_of_every_family_are_taken_whole_before_anything_is_read() {
    let server = start();
    let mut client = server.client();
    let value = "v".repeat(120);
    let pad = "p".repeat(120);
    // Commands that borrow parts of other threads take longer there.
    let long = "l".repeat(4000);
    let families: [(&str, &Family<'_>); 7] = [
        ("strings", &|pipeline, number| {
            pipeline.add(&["GETSET", &key(number), &value], &bulk(&value));
            pipeline.add(&["GET", &key(number)], &bulk(&value));
        }),
        ("several keys", &|pipeline, number| {
            let keys = [0, 1, 2, 3].map(|more| key(number + more));
            let [a, b, c, d] = keys.each_ref().map(String::as_str);
            let values = bulk(&long);
            pipeline.add(&["MGET", a, b, c, d], &format!("*4\r\n{}", values.repeat(4)));
            pipeline.add(&["MSET", a, &long, b, &long, c, &long], "+OK\r\n");
        }),
        ("keys", &|pipeline, number| {
            pipeline.add(&["ECHO", &pad], &bulk(&pad));
            pipeline.add(&["EXISTS", &key(number)], ":1\r\n");
            pipeline.add(&["TYPE", &key(number)], "+string\r\n");
            pipeline.add(&["GET", &key(number)], &bulk(&value));
        }),
        ("scans", &|pipeline, number| {
            // An exact pattern leaves no key to visit.
            pipeline.add(&["GETRANGE", &key(number), "0", "-1"], &bulk(&value));
            if number % 64 == 0 {
                pipeline.add(&["KEYS", "none:*"], "*0\r\n");
            }
            pipeline.add(&["SCAN", "x"], "-ERR invalid cursor\r\n");
            pipeline.add(&["ECHO", &pad], &bulk(&pad));
        }),
        ("expiry", &|pipeline, number| {
            pipeline.add(&["GETEX", &key(number), "EX", "100000"], &bulk(&value));
            pipeline.add(&["PERSIST", &key(number)], ":1\r\n");
            pipeline.add(&["TTL", &key(number)], ":-1\r\n");
            pipeline.add(&["ECHO", &pad], &bulk(&pad));
        }),
        ("transactions", &|pipeline, number| {
            pipeline.add(&["MULTI"], "+OK\r\n");
            pipeline.add(&["SET", &key(number), &long], "+QUEUED\r\n");
            pipeline.add(&["STRLEN", &key(number)], "+QUEUED\r\n");
            pipeline.add(&["GET", &key(number)], "+QUEUED\r\n");
            let value = bulk(&long);
            pipeline.add(&["EXEC"], &format!("*3\r\n+OK\r\n:4000\r\n{value}"));
        }),
        ("administration", &|pipeline, number| {
            pipeline.add(&["PING", &pad], &bulk(&pad));
            pipeline.add(&["CONFIG", "GET", "databases"], "*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n");
            pipeline.add(&["CLIENT", "GETNAME"], "$-1\r\n");
            pipeline
                .add(&["NOSUCH"], "-ERR unknown command 'NOSUCH', with args beginning with: \r\n");
            if number % 512 == 0 {
                pipeline.add(&["DBSIZE"], ":23\r\n");
            }
        }),
    ];
    for (family, add) in families {
        for number in 0..23 {
            let value = if family == "several keys" { &long } else { &value };
            client.check(&[(&format!("SET {} {value}", key(number)), "+OK")]);
        }
        Pipeline::default().fill(add).run(&mut client, family);
    }
    client.check(&[("PING", "+PONG")]);
}

fn many_clients_send_all_before_they_read() {
    let server = start();
    let value = "v".repeat(1000);
    server
        .client()
        .check(&[(&format!("SET key:00 {value}"), "+OK"), (&format!("SET key:01 {value}"), "+OK")]);
    let pipeline = Pipeline::default().fill(&|pipeline, number| {
        pipeline.add(&["GET", &key(number % 2)], &bulk(&value));
        pipeline.add(&["ECHO", &value], &bulk(&value));
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pipeline.run(&mut server.client(), "strings"));
        }
    });
}
