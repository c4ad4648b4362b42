//! Clients that wait for keys.

use std::io::Read;

use crate::common::{Running, wait_for_blocked};

on_threads! {
    a_client_waits_for_an_element
    who_waits_longest_is_served_first
    a_push_is_followed_by_those_who_wait_before_the_next_command
    a_client_waits_for_several_keys
    who_is_served_may_let_another_be_served
    an_element_moves_on_to_the_next_list
    a_wait_ends_with_its_time
    a_wait_is_ended_by_another_client
    a_transaction_does_not_wait
    what_waits_is_left_alone_by_values_of_other_types
    only_a_group_is_told_that_a_stream_is_gone
    a_client_that_goes_waits_no_more
    a_client_that_is_killed_leaves_the_element_to_the_next
    wrong_words_are_refused
}

fn a_client_waits_for_an_element() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.check(&[
        ("RPUSH a 1 2", ":2"),
        ("BLPOP a 0", "[\"a\", \"1\"]"),
        ("BRPOP x a 0", "[\"a\", \"2\"]"),
    ]);
    for (word, end) in [("BLPOP a 0", "[\"a\", \"x\"]"), ("BRPOP a 0", "[\"a\", \"y\"]")] {
        client.send_line(word);
        wait_for_blocked(&server, 1);
        other.check(&[("RPUSH a x y", ":2")]);
        assert_eq!(client.reply(), end);
        other.check(&[("DEL a", ":1")]);
    }
    client.send_line("BZPOPMIN z 0");
    wait_for_blocked(&server, 1);
    client.send_line("PING");
    other.check(&[("LPUSH z 1", ":1"), ("DEL z", ":1")]);
    wait_for_blocked(&server, 1);
    // The request behind waits, too.
    other.check(&[("PING", "+PONG")]);
}

fn who_waits_longest_is_served_first() {
    let server = Running::start();
    let mut other = server.client();
    let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
    for (count, client) in clients.iter_mut().enumerate() {
        client.send_line("BLPOP queue 0");
        wait_for_blocked(&server, count + 1);
    }
    other.check(&[("RPUSH queue 0 1 2", ":3")]);
    for (number, client) in clients.iter_mut().take(3).enumerate() {
        assert_eq!(client.reply(), format!("[\"queue\", \"{number}\"]"));
    }
    wait_for_blocked(&server, 2);
    other.check(&[("EXISTS queue", ":0"), ("RPUSH queue 3 4", ":2")]);
    for (number, client) in clients.iter_mut().enumerate().skip(3) {
        assert_eq!(client.reply(), format!("[\"queue\", \"{number}\"]"));
    }
    other.check(&[("EXISTS queue", ":0")]);
}

fn a_push_is_followed_by_those_who_wait_before_the_next_command() {
    // With several threads, a pipeline may go on before another thread's client has got its element.
    if crate::common::threads() > 1 {
        return;
    }
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.send_line("BLPOP a 0");
    wait_for_blocked(&server, 1);
    other.send(b"LPUSH a 1\r\nLPUSH a 2\r\nPING\r\n");
    assert_eq!(client.reply(), "[\"a\", \"1\"]");
    assert_eq!(other.reply(), ":1");
    assert_eq!(other.reply(), ":1");
    other.reply();
    client.send_line("BLPOP a 0");
    assert_eq!(client.reply(), "[\"a\", \"2\"]");
    client.send_line("BLPOP a 0");
    wait_for_blocked(&server, 1);
    other.check(&[
        ("MULTI", "+OK"),
        ("LPUSH a 1", "+QUEUED"),
        ("DEL a", "+QUEUED"),
        ("EXEC", "[:1, :1]"),
    ]);
    wait_for_blocked(&server, 1);
}

fn a_client_waits_for_several_keys() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    for key in ["a", "b", "c", "d", "e", "f"] {
        client.send_line("BLPOP a b c d e f 0");
        wait_for_blocked(&server, 1);
        other.check(&[(&format!("RPUSH {key} 1"), ":1")]);
        assert_eq!(client.reply(), format!("[\"{key}\", \"1\"]"));
        // The waits for the other keys have ended.
        other.check(&[("RPUSH a 1", ":1"), ("RPUSH f 1", ":1"), ("DEL a f", ":2")]);
        client.check(&[("PING", "+PONG")]);
    }
    client.send_line("BLMPOP 0 3 a b c LEFT COUNT 2");
    wait_for_blocked(&server, 1);
    other.check(&[("RPUSH c 1 2 3", ":3")]);
    assert_eq!(client.reply(), "[\"c\", [\"1\", \"2\"]]");
}

fn who_is_served_may_let_another_be_served() {
    let server = Running::start();
    let mut other = server.client();
    let (mut mover, mut popper, mut chooser) = (server.client(), server.client(), server.client());
    for pushed in [["LPUSH {t}1 1", "LPUSH {t}2 2"], ["LPUSH {t}3 1", "LPUSH {t}2 2"]] {
        let moves = pushed[0].ends_with("1 1");
        if moves {
            mover.send_line("BRPOPLPUSH {t}1 {t}3 0");
            wait_for_blocked(&server, 1);
        }
        popper.send_line("BLPOP {t}2 0");
        wait_for_blocked(&server, 1 + usize::from(moves));
        chooser.send_line("BLMPOP 0 2 {t}2 {t}3 LEFT");
        wait_for_blocked(&server, 2 + usize::from(moves));
        other.check(&[
            ("MULTI", "+OK"),
            (pushed[0], "+QUEUED"),
            (pushed[1], "+QUEUED"),
            ("EXEC", "[:1, :1]"),
        ]);
        // The one waits longer for the second list, so the other has to take what the third one gets.
        assert_eq!(popper.reply(), "[\"{t}2\", \"2\"]");
        assert_eq!(chooser.reply(), "[\"{t}3\", [\"1\"]]");
        if moves {
            assert_eq!(mover.reply(), "\"1\"");
        }
        wait_for_blocked(&server, 0);
    }
    // A transaction does not wait, and takes what it has pushed itself.
    popper.send_line("BLPOP {t}2 0");
    wait_for_blocked(&server, 1);
    other.check(&[
        ("MULTI", "+OK"),
        ("LPUSH {t}2 1", "+QUEUED"),
        ("BLPOP {t}2 0", "+QUEUED"),
        ("EXEC", "[:1, [\"{t}2\", \"1\"]]"),
        ("LPUSH {t}2 2", ":1"),
    ]);
    assert_eq!(popper.reply(), "[\"{t}2\", \"2\"]");
}

fn an_element_moves_on_to_the_next_list() {
    let server = Running::start();
    let (mut client, mut third, mut other) = (server.client(), server.client(), server.client());
    client.send_line("BLMOVE a b LEFT RIGHT 0");
    wait_for_blocked(&server, 1);
    third.send_line("BRPOPLPUSH b c 0");
    wait_for_blocked(&server, 2);
    other.check(&[("RPUSH a 1", ":1")]);
    assert_eq!(client.reply(), "\"1\"");
    assert_eq!(third.reply(), "\"1\"");
    other.check(&[("LLEN c", ":1"), ("EXISTS a b", ":0"), ("SET b x", "+OK"), ("RPUSH a 2", ":1")]);
    client.send_line("BLMOVE a b LEFT LEFT 0");
    assert!(client.reply().starts_with("-WRONGTYPE"));
    other.check(&[("LLEN a", ":1")]);
}

fn a_wait_ends_with_its_time() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("BLPOP a b 0.01", "nil"),
        ("BLMOVE a b LEFT RIGHT 0.01", "nil"),
        ("BZPOPMAX a 0.02", "nil"),
        ("BLMPOP 0.01 1 a LEFT", "nil"),
        ("RPUSH a 1", ":1"),
        ("BLPOP a 0.01", "[\"a\", \"1\"]"),
    ]);
    wait_for_blocked(&server, 0);
    // Redis has the null of an array for a move that has waited, and that of a string for one that may not.
    for (request, reply) in [
        ("BLMOVE a b LEFT RIGHT 0.01\r\n", "*-1\r\n"),
        ("BRPOPLPUSH a b 0.01\r\n", "*-1\r\n"),
        ("MULTI\r\nBRPOPLPUSH a b 0\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n"),
    ] {
        client.send(request.as_bytes());
        let mut bytes = vec![0; reply.len()];
        client.socket.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes.escape_ascii().to_string(), reply.escape_default().to_string());
    }
}

fn a_wait_is_ended_by_another_client() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let id = client.ask("CLIENT ID");
    let id = id.trim_start_matches(':');
    other.check(&[(&format!("CLIENT UNBLOCK {id}"), ":0")]);
    client.send_line("BLPOP a 0");
    wait_for_blocked(&server, 1);
    assert!(other.ask("CLIENT LIST").contains("flags=b"));
    other.check(&[(&format!("CLIENT UNBLOCK {id}"), ":1")]);
    assert_eq!(client.reply(), "nil");
    client.send_line("BLPOP a 0");
    wait_for_blocked(&server, 1);
    other.check(&[(&format!("CLIENT UNBLOCK {id} ERROR"), ":1")]);
    assert_eq!(client.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    client.check(&[("PING", "+PONG")]);
    other.check(&[(
        &format!("CLIENT UNBLOCK {id} NOW"),
        "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
    )]);
}

fn a_transaction_does_not_wait() {
    Running::start().client().check(&[
        ("MULTI", "+OK"),
        ("BLPOP a 0", "+QUEUED"),
        ("RPUSH a 1", "+QUEUED"),
        ("BLPOP a 0", "+QUEUED"),
        ("EXEC", "[nil, :1, [\"a\", \"1\"]]"),
    ]);
}

fn what_waits_is_left_alone_by_values_of_other_types() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.send_line("BLPOP a 0");
    wait_for_blocked(&server, 1);
    other.check(&[("SET a 1", "+OK"), ("DEL a", ":1"), ("RPUSH b 1", ":1"), ("RENAME b a", "+OK")]);
    assert_eq!(client.reply(), "[\"a\", \"1\"]");
}

fn only_a_group_is_told_that_a_stream_is_gone() {
    let server = Running::start();
    let (mut client, mut member, mut other) = (server.client(), server.client(), server.client());
    for (request, end) in [
        ("SET s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("DEL s", "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"),
    ] {
        other.ask("DEL s");
        other.check(&[("XGROUP CREATE s g $ MKSTREAM", "+OK")]);
        client.send_line("XREAD BLOCK 0 STREAMS s $");
        wait_for_blocked(&server, 1);
        member.send_line("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        wait_for_blocked(&server, 2);
        let info = other.ask("INFO clients");
        assert!(info.contains("total_blocking_keys:1"), "{info}");
        assert!(info.contains("total_blocking_keys_on_nokey:1"), "{info}");
        other.ask(request);
        assert_eq!(member.reply(), end);
        wait_for_blocked(&server, 1);
        let info = other.ask("INFO clients");
        assert!(info.contains("total_blocking_keys:1"), "{info}");
        assert!(info.contains("total_blocking_keys_on_nokey:0"), "{info}");
        other.ask("DEL s");
        other.check(&[("XADD s 7-1 f v", "\"7-1\"")]);
        assert_eq!(client.reply(), "[[\"s\", [[\"7-1\", [\"f\", \"v\"]]]]]");
    }
}

fn a_client_that_goes_waits_no_more() {
    let server = Running::start();
    let mut other = server.client();
    {
        let mut client = server.client();
        client.send_line("BLPOP a 0");
        wait_for_blocked(&server, 1);
    }
    wait_for_blocked(&server, 0);
    other.check(&[("RPUSH a 1", ":1"), ("LLEN a", ":1")]);
}

fn a_client_that_is_killed_leaves_the_element_to_the_next() {
    let server = Running::start();
    let (mut first, mut second, mut other) = (server.client(), server.client(), server.client());
    let id = first.ask("CLIENT ID");
    let id = id.trim_start_matches(':');
    first.send_line("BLPOP k 0");
    wait_for_blocked(&server, 1);
    second.send_line("BLPOP k 0");
    wait_for_blocked(&server, 2);
    other.send(format!("CLIENT KILL ID {id}\r\nRPUSH k v\r\n").as_bytes());
    assert_eq!(second.reply(), "[\"k\", \"v\"]");
}

fn wrong_words_are_refused() {
    Running::start().client().check(&[
        ("BLPOP a", "-ERR wrong number of arguments for 'blpop' command"),
        ("BLPOP a -1", "-ERR timeout is negative"),
        ("BLPOP a x", "-ERR timeout is not a float or out of range"),
        ("BLPOP a 1e400", "-ERR timeout is out of range"),
        ("BLPOP a 0x7FFFFFFFFFFFFF", "-ERR timeout is out of range"),
        ("BLMPOP 0 0 a LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP 0 2 a LEFT", "-ERR syntax error"),
        ("BLMPOP 0 1 a UP", "-ERR syntax error"),
        ("BLMPOP 0 1 a LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("BLMOVE a b UP LEFT 0", "-ERR syntax error"),
        ("SET a 1", "+OK"),
        ("BLPOP a 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}
