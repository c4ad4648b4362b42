//! MONITOR: the commands of all clients, whichever threads execute them.

use crate::common::{Client, Running, eventually, wait_for_blocked};

on_threads! {
    monitors_get_the_commands_of_all_threads
    passwords_and_commands_of_administrators_are_not_shown
    a_transaction_is_shown_when_it_is_executed
    a_script_is_shown_before_its_commands
    a_command_that_waits_is_shown_once
    a_monitor_reads_no_keys_and_can_become_a_client_again
    a_monitor_that_does_not_read_is_disconnected
}

/// The next command, without its time and the port of its client: `[0 127.0.0.1] "PING"`.
fn command(monitor: &mut Client) -> String {
    let line = monitor.reply();
    let (time, command) = line.strip_prefix('+').expect(&line).split_once(' ').unwrap();
    assert!(time.split_once('.').is_some_and(|(_, micros)| micros.len() == 6), "{line}");
    let (client, words) = command.split_once(']').unwrap();
    format!("{}]{words}", client.rsplit_once(':').unwrap().0)
}

fn monitors(server: &Running) -> Vec<Client> {
    let monitors = (0..3).map(|_| {
        let mut monitor = server.client();
        assert_eq!(monitor.ask("MONITOR"), "+OK");
        monitor
    });
    monitors.collect()
}

#[track_caller]
fn check(monitors: &mut [Client], expected: &[&str]) {
    for monitor in monitors {
        expected.iter().for_each(|expected| assert_eq!(command(monitor), *expected));
    }
}

fn monitors_get_the_commands_of_all_threads() {
    let server = Running::start();
    let mut client = server.client();
    let mut monitors = monitors(&server);
    for number in 0..20 {
        // They are executed by all threads.
        client.ask(&format!("SET key:{number} v"));
        check(&mut monitors, &[&format!("[0 127.0.0.1] \"SET\" \"key:{number}\" \"v\"")]);
    }
    client.ask("MGET key:1 key:2 key:3");
    client.ask("SELECT 3");
    client.call(&["ECHO", "a\"\n\0"]);
    client.ask("NOSUCH");
    client.ask("GET");
    client.ask("GET k");
    let expected = [
        "[0 127.0.0.1] \"MGET\" \"key:1\" \"key:2\" \"key:3\"",
        "[3 127.0.0.1] \"SELECT\" \"3\"",
        "[3 127.0.0.1] \"ECHO\" \"a\\\"\\n\\x00\"",
        "[3 127.0.0.1] \"GET\" \"k\"",
    ];
    check(&mut monitors, &expected);
}

fn passwords_and_commands_of_administrators_are_not_shown() {
    let server = Running::start();
    let mut client = server.client();
    let mut monitors = monitors(&server);
    for line in [
        "AUTH secret",
        "AUTH default secret",
        "HELLO 2 AUTH default secret SETNAME me",
        "CONFIG SET maxclients 100",
        "CLIENT LIST",
        "CLIENT ID",
    ] {
        client.ask(line);
    }
    let expected = [
        "[0 127.0.0.1] \"AUTH\" \"(redacted)\"",
        "[0 127.0.0.1] \"AUTH\" \"(redacted)\" \"(redacted)\"",
        "[0 127.0.0.1] \"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"me\"",
        "[0 127.0.0.1] \"CLIENT\" \"ID\"",
    ];
    check(&mut monitors, &expected);
}

fn a_transaction_is_shown_when_it_is_executed() {
    let server = Running::start();
    let mut client = server.client();
    let mut monitors = monitors(&server);
    client.check(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("GET b", "+QUEUED"),
        ("EXEC", "[+OK, nil]"),
    ]);
    let words = ["\"MULTI\"", "\"SET\" \"a\" \"1\"", "\"GET\" \"b\"", "\"EXEC\""];
    let expected = words.map(|words| format!("[0 127.0.0.1] {words}"));
    check(&mut monitors, &expected.each_ref().map(String::as_str));
}

fn a_script_is_shown_before_its_commands() {
    let server = Running::start();
    let (mut client, mut monitor) = (server.client(), server.client());
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    client.call(&["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "k"]);
    assert!(command(&mut monitor).contains("\"EVAL\" "));
    let of_script = monitor.reply();
    assert!(of_script.ends_with(" [0 lua] \"set\" \"k\" \"v\""), "{of_script}");
    // One that has to begin anew with more keys is shown as if it had begun once.
    client.call(&["EVAL", "for n = 1, 9 do redis.call('set', 'k' .. n, 'v') end", "0"]);
    assert!(command(&mut monitor).contains("\"EVAL\" "));
    for number in 1..=9 {
        let line = monitor.reply();
        assert!(line.ends_with(&format!("\"set\" \"k{number}\" \"v\"")), "{line}");
    }
}

fn a_command_that_waits_is_shown_once() {
    let server = Running::start();
    let (mut client, mut waiting) = (server.client(), server.client());
    let mut monitor = server.client();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    waiting.send_line("BLPOP list 0");
    let mut next = || loop {
        let line = command(&mut monitor);
        if !line.contains("\"INFO\"") {
            break line;
        }
    };
    assert_eq!(next(), "[0 127.0.0.1] \"BLPOP\" \"list\" \"0\"");
    wait_for_blocked(&server, 1);
    client.ask("RPUSH list a");
    assert_eq!(next(), "[0 127.0.0.1] \"RPUSH\" \"list\" \"a\"");
    assert_eq!(waiting.reply(), "[\"list\", \"a\"]");
    client.ask("RPUSH list b");
    assert_eq!(next(), "[0 127.0.0.1] \"RPUSH\" \"list\" \"b\"");
}

fn a_monitor_reads_no_keys_and_can_become_a_client_again() {
    let server = Running::start();
    let (mut monitor, mut client) = (server.client(), server.client());
    let refused = "-ERR Replica can't interact with the keyspace";
    monitor.check(&[("MONITOR", "+OK"), ("GET a", refused), ("SET a 1", refused)]);
    let list = client.ask("CLIENT LIST");
    assert_eq!(list.matches(" flags=O ").count(), 1, "{list}");
    // A second request is not answered.
    monitor.send_words(&["MONITOR"]);
    assert_eq!(monitor.ask("RESET"), "+RESET");
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(monitor.ask("GET a"), "nil");
}

fn a_monitor_that_does_not_read_is_disconnected() {
    let server = Running::start();
    let mut client = server.client();
    client.call(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"]);
    let monitors = monitors(&server);
    let text = "t".repeat(64 << 10);
    eventually("the end of the monitors", || {
        client.call(&["ECHO", &text]);
        client.ask("INFO clients").contains("connected_clients:1\\r")
    });
    drop(monitors);
}
