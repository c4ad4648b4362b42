//! Once writes could not be made durable, none is acknowledged, and reads go on.

use std::sync::Arc;

use crate::common::gated::Gated;
use crate::common::{Client, Running, request, threads};
use halite::EngineError;
use halite_server::Error;

on_threads! {
    ; indexlog:
    a_write_whose_sync_fails_gets_an_error_and_so_do_all_later_ones
    no_request_of_a_pipeline_is_acknowledged_behind_a_sync_that_failed
    a_large_reply_is_withheld_too_and_other_clients_stay
    what_asks_for_a_sync_gets_an_error
    messages_about_writes_that_are_not_durable_do_not_leave
    an_expired_key_that_stays_is_not_announced
}

/// A server over an engine whose syncs can be made to fail, with `key:n` = n for some n.
struct Failing {
    gates: Arc<Gated>,
    server: Running,
}

const KEYS: usize = 20;
const MISCONF: &str =
    "-MISCONF writes cannot be made durable, and are refused until the server is started again: ";

impl Failing {
    fn start() -> Self {
        let (db, gates, folder) = Gated::database(2 * threads(), |_| {});
        (0..2 * threads()).for_each(|partition| gates.open(partition));
        let server = Running::on(db, |config| config.threads = Some(threads())).within(folder);
        let mut client = server.client();
        for number in 0..KEYS {
            client.check(&[(&format!("SET key:{number} {number}"), "+OK")]);
        }
        Self { gates, server }
    }

    /// Ends the server, which tells why it made nothing durable.
    #[track_caller]
    fn end(mut self) {
        let ended = self.server.stop();
        assert!(matches!(&ended, Err(Error::Sync(_))), "{ended:?}");
    }
}

/// Clients of each thread.
fn clients(server: &Running) -> Vec<Client> {
    (0..2 * threads()).map(|_| server.client()).collect()
}

#[track_caller]
fn check_refused(reply: &str) {
    assert!(reply.starts_with(MISCONF), "{reply}");
}

fn a_write_whose_sync_fails_gets_an_error_and_so_do_all_later_ones() {
    for number in 0..KEYS {
        let failing = Failing::start();
        let mut writer = failing.server.client();
        failing.gates.fail_syncs();
        check_refused(&writer.ask(&format!("SET key:{number} changed")));
        for mut client in clients(&failing.server) {
            for other in 0..KEYS {
                check_refused(&client.ask(&format!("SET key:{other} changed")));
                let value = client.ask(&format!("GET key:{other}"));
                let unsynced = other == number && value == "\"changed\"";
                assert!(unsynced || value == format!("\"{other}\""), "{value}");
            }
            check_refused(&client.ask("MSET key:1 x key:2 x key:3 x"));
            check_refused(&client.ask("FLUSHALL"));
            client.check(&[("MULTI", "+OK"), ("GET key:0", "+QUEUED")]);
            check_refused(&client.ask("SET key:0 changed"));
            assert!(client.ask("EXEC").starts_with("-EXECABORT"));
            assert!(client.ask("INFO persistence").contains("aof_last_write_status:err"));
        }
        failing.end();
    }
}

fn no_request_of_a_pipeline_is_acknowledged_behind_a_sync_that_failed() {
    let failing = Failing::start();
    let mut clients = clients(&failing.server);
    failing.gates.fail_syncs();
    for client in &mut clients {
        let pipeline = (0..KEYS).map(|number| request(&["SET", &format!("key:{number}"), "x"]));
        client.send(&pipeline.collect::<Vec<_>>().concat());
    }
    for client in &mut clients {
        for _ in 0..KEYS {
            match &client.reply()[..] {
                "closed" => break,
                refused => check_refused(refused),
            }
        }
    }
    failing.end();
}

fn a_large_reply_is_withheld_too_and_other_clients_stay() {
    let failing = Failing::start();
    let value = "v".repeat(1 << 20);
    let mut clients = clients(&failing.server);
    let mut bystander = failing.server.client();
    for number in 0..KEYS {
        clients[0].check(&[(&format!("SET key:{number} {value}"), "+OK")]);
    }
    failing.gates.fail_syncs();
    for client in &mut clients {
        let pipeline = (0..KEYS).map(|number| {
            let key = format!("key:{number}");
            [request(&["APPEND", &key, "x"]), request(&["GET", &key])].concat()
        });
        client.send(&[pipeline.collect::<Vec<_>>().concat(), request(&["PING", "end"])].concat());
    }
    for client in &mut clients {
        loop {
            match &client.reply()[..] {
                "closed" | "\"end\"" => break,
                value if value.starts_with('"') => {}
                refused => check_refused(refused),
            }
        }
    }
    bystander.check(&[("PING", "+PONG")]);
    for number in 0..KEYS {
        let read = bystander.ask(&format!("STRLEN key:{number}"));
        assert!(read.starts_with(":10485"), "{read}");
    }
    failing.end();
}

fn what_asks_for_a_sync_gets_an_error() {
    for line in ["SAVE", "BGSAVE", "WAITAOF 1 0 0"] {
        let failing = Failing::start();
        failing.gates.fail_syncs();
        for client in &mut clients(&failing.server) {
            check_refused(&client.ask(line));
        }
        failing.end();
    }
}

fn messages_about_writes_that_are_not_durable_do_not_leave() {
    let failing = Failing::start();
    let mut subscribers = clients(&failing.server);
    for client in &mut subscribers {
        assert_eq!(client.ask("PSUBSCRIBE *"), "[\"psubscribe\", \"*\", :1]");
    }
    let mut cache = failing.server.client();
    cache.ask("HELLO 3");
    cache.check(&[("CLIENT TRACKING ON", "+OK"), ("GET key:1", "\"1\"")]);
    let mut writer = failing.server.client();
    writer.check(&[
        ("CONFIG SET notify-keyspace-events KEA", "+OK"),
        ("MULTI", "+OK"),
        ("PUBLISH c lost", "+QUEUED"),
        ("SET key:1 changed", "+QUEUED"),
    ]);
    failing.gates.fail_syncs();
    check_refused(&writer.ask("EXEC"));
    let published = format!(":{}", subscribers.len());
    assert_eq!(failing.server.client().ask("PUBLISH c end"), published);
    for client in &mut subscribers {
        assert_eq!(client.reply(), "[\"pmessage\", \"*\", \"c\", \"end\"]");
    }
    // The change can be read nevertheless.
    assert_eq!(cache.reply(), ">[\"invalidate\", [\"key:1\"]]");
    failing.end();
}

fn an_expired_key_that_stays_is_not_announced() {
    let failing = Failing::start();
    let mut client = failing.server.client();
    client.check(&[
        ("CONFIG SET notify-keyspace-events KEx", "+OK"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
        ("RPUSH gone 1", ":1"),
        ("PEXPIRE gone 1", ":1"),
    ]);
    let mut listener = failing.server.client();
    listener.send_line("PSUBSCRIBE *");
    listener.reply();
    std::thread::sleep(std::time::Duration::from_millis(5));
    failing.gates.refuse_writes(Some(|| EngineError::Full {
        used: 1,
        limit: 1,
        held: 0,
        holder: None,
    }));
    // The command finds nothing, and the removal of the key is not asked for. What it publishes is.
    client.check(&[
        ("LPOP gone", "nil"),
        ("MULTI", "+OK"),
        ("LPOP gone", "+QUEUED"),
        ("PUBLISH between 1", "+QUEUED"),
        ("EXEC", "[nil, :1]"),
    ]);
    let told = listener.reply();
    assert!(told.contains("\"between\""), "{told}");
    failing.gates.refuse_writes(None);
    client.check(&[("LPOP gone", "nil")]);
    for channel in ["__keyspace@0__:gone", "__keyevent@0__:expired"] {
        let told = listener.reply();
        assert!(told.contains(channel), "{told}");
    }
}
