//! Requests that are wrong, too large, or never end; and many at once.

use crate::common;
use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{Running, request};

on_threads! {
    what_is_no_request_is_named_and_ends_the_connection
    what_came_before_a_broken_request_is_answered
    a_stranger_may_send_small_requests_only
    who_resets_has_its_time_again_and_the_limits_of_a_stranger
    a_connection_that_speaks_http_is_closed_without_a_word
    requests_arrive_in_any_pieces
    a_pipeline_is_answered_in_order
    a_client_that_is_not_evicted_is_not_read_from_and_others_go_on
    clients_that_leave_before_they_have_read_leave_nothing_behind
    large_values_among_small_ones_come_and_go_in_order
    a_client_with_too_many_unread_replies_is_dropped
    a_client_with_too_large_a_request_is_dropped
    a_smaller_limit_of_words_holds_for_requests_and_values
    a_request_that_never_ends_times_out
    a_stranger_must_prove_who_it_is_in_time
    a_client_that_sends_no_more_still_gets_its_replies
    many_clients_are_served_at_a_time
}

fn what_is_no_request_is_named_and_ends_the_connection() {
    let server = Running::start();
    let long = [b'x'; 70_000];
    for (input, expected) in [
        (&b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n"[..], "expected '$', got 'f'"),
        (b"*1\r\n$-10\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*16777217\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"set \"\"\"k\"\"\" v\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
    ] {
        let mut client = server.client();
        // The server may close before it has read all of it.
        let _ = client.socket.get_mut().write_all(input);
        let reply = client.reply();
        assert_eq!(reply, format!("-ERR Protocol error: {expected}"));
        assert_eq!(client.reply(), "closed");
    }
    server.client().check(&[("PING", "+PONG")]);
}

fn what_came_before_a_broken_request_is_answered() {
    let server = Running::start();
    let mut client = server.client();
    client.send(b"SET k 1\r\n*1\r\n$3\r\nfoo\r\n*1\r\nx\r\n");
    assert_eq!(client.reply(), "+OK");
    assert!(client.reply().starts_with("-ERR unknown command 'foo'"));
    assert_eq!(client.reply(), "-ERR Protocol error: expected '$', got 'x'");
    assert_eq!(client.reply(), "closed");
}

fn a_stranger_may_send_small_requests_only() {
    let server = Running::start_with(|config| config.requirepass = Some("sesame".into()));
    for (input, expected) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut client = server.client();
        client.send(input);
        assert_eq!(client.reply(), format!("-ERR Protocol error: {expected}"));
        assert_eq!(client.reply(), "closed");
    }
    let mut client = server.client();
    client.send(b"AUTH sesame\r\n*12\r\n$6\r\nEXISTS\r\n");
    client.send(&b"$1\r\na\r\n".repeat(11));
    assert_eq!((client.reply(), client.reply()), ("+OK".into(), ":0".into()));
}

fn a_connection_that_speaks_http_is_closed_without_a_word() {
    let server = Running::start();
    for input in
        [&b"POST / HTTP/1.1\r\nSET k 1\r\n"[..], b"GET / HTTP/1.1\r\nHost: x\r\nSET k 1\r\n"]
    {
        let mut client = server.client();
        client.send(input);
        assert_eq!(client.reply(), "closed");
    }
    server.client().check(&[("EXISTS k", ":0")]);
}

fn requests_arrive_in_any_pieces() {
    let server = Running::start();
    let mut client = server.client();
    let input =
        [request(&["SET", "k", "a\r\nb"]), b"GET k\r\n".to_vec(), request(&["PING"])].concat();
    for byte in input {
        client.send(&[byte]);
    }
    let replies = [client.reply(), client.reply(), client.reply()];
    assert_eq!(replies, ["+OK", "\"a\\r\\nb\"", "+PONG"]);
}

fn a_pipeline_is_answered_in_order() {
    let server = Running::start();
    let clients: Vec<_> = (0..5)
        .map(|number| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let mut pipeline = Vec::new();
                for index in 0..10_000 {
                    let (key, value) = (format!("k{number}"), index.to_string());
                    pipeline.extend(request(&["SET", &key, &value]));
                    pipeline.extend(request(&["GET", &key]));
                }
                let mut socket = client.socket.get_ref().try_clone().unwrap();
                let sender = std::thread::spawn(move || socket.write_all(&pipeline).unwrap());
                for index in 0..10_000 {
                    assert_eq!(client.reply(), "+OK");
                    assert_eq!(client.reply(), format!("\"{index}\""));
                }
                sender.join().unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

fn a_client_that_is_not_evicted_is_not_read_from_and_others_go_on() {
    const CLIENTS: usize = 16 << 20;
    let server = Running::start_with(|config| config.client_memory_max = Some(CLIENTS));
    let mut client = server.client();
    client.check(&[("CLIENT NO-EVICT ON", "+OK")]);
    let value = vec![b'v'; 1 << 20];
    let reply_len = value.len() + 12;
    // One key; and keys of all partitions, whose replies come from all threads.
    for keys in [1, 7] {
        for number in 0..keys {
            assert_eq!(client.call(&[b"SET", format!("big{number}").as_bytes(), &value]), "+OK");
        }
        // 500 MiB of replies wait, of which the server makes no more than all clients may take, and 1 MiB and
        // one reply for each thread.
        for number in 0..500 {
            client.send(format!("GET big{}\r\n", number % keys).as_bytes());
        }
        let limit = CLIENTS + common::threads() * ((1 << 20) + reply_len);
        let mut other = server.client();
        for number in 0..100 {
            other.check(&[("PING", "+PONG"), (&format!("SET small{number} v"), "+OK")]);
            let list = other.ask("CLIENT LIST ID 1");
            let waiting = list.split_once(" obl=").unwrap().1.split(' ').next().unwrap();
            assert!(waiting.parse::<usize>().unwrap() <= limit, "{list}");
        }
        let mut reply = vec![0; reply_len];
        for _ in 0..500 {
            client.socket.read_exact(&mut reply).unwrap();
            assert!(reply.starts_with(b"$1048576\r\nvvv") && reply.ends_with(b"v\r\n"));
        }
        client.check(&[("PING", "+PONG")]);
    }
}

fn clients_that_leave_before_they_have_read_leave_nothing_behind() {
    let server = Running::start();
    let mut client = server.client();
    let value = vec![b'v'; 100 << 10];
    for number in 0..8 {
        client.call(&[b"SET", format!("big{number}").as_bytes(), &value]);
    }
    for round in 0..20 {
        let mut leaving = server.client();
        for number in 0..400 {
            leaving.send(format!("GET big{}\r\n", number % (1 + round % 8)).as_bytes());
        }
        if round % 2 == 0 {
            assert_eq!(leaving.reply().len(), value.len() + 2);
        }
    }
    common::eventually("the end of the other connections", || {
        client.ask("CLIENT LIST").matches("id=").count() == 1
    });
    for number in 0..8 {
        let key = format!("big{number}");
        assert_eq!(client.call(&["STRLEN", &key]), format!(":{}", value.len()));
        assert_eq!(client.call(&["DEL", &key]), ":1");
    }
}

fn large_values_among_small_ones_come_and_go_in_order() {
    let server = Running::start();
    let mut client = server.client();
    let lens = [0, 1, 1000, 16 << 10, (16 << 10) + 1, 40_000, 300_000, 3, 70_000, 2 << 20];
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for round in 0..60 {
        let len = lens[round * 7 % lens.len()];
        let (key, text) = (format!("key{}", round % 11), vec![b'a' + (round % 26) as u8; len]);
        requests.extend(request(&[b"SET", key.as_bytes(), &text]));
        expected.push(b"+OK\r\n".to_vec());
        requests.extend(request(&[b"GETSET", key.as_bytes(), &text]));
        let bulk = [format!("${len}\r\n").as_bytes(), &text, b"\r\n"].concat();
        expected.push(bulk.clone());
        requests.extend(request(&[b"STRLEN", key.as_bytes()]));
        expected.push(format!(":{len}\r\n").into_bytes());
        requests.extend(request(&[b"GET", key.as_bytes()]));
        expected.push(bulk);
    }
    let mut writer = client.socket.get_ref().try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&requests).unwrap());
    for (index, reply) in expected.iter().enumerate() {
        let mut got = vec![0; reply.len()];
        client.socket.read_exact(&mut got).unwrap();
        assert!(got == *reply, "reply {index}");
    }
    sender.join().unwrap();
}

fn a_client_with_too_many_unread_replies_is_dropped() {
    let server = Running::start_with(|config| config.limits.output.hard = 10 << 20);
    let mut client = server.client();
    let value = vec![b'v'; 1 << 20];
    client.call(&[b"SET", &b"big"[..], &value]);
    let keys = ["big"; 100];
    client.send_words(&[&["MGET"], &keys[..]].concat());
    let mut other = server.client();
    common::eventually("the drop of a client", || !other.ask("CLIENT LIST").contains("id=1 "));
    assert!(other.ask("INFO stats").contains("client_output_buffer_limit_disconnections:1"));
}

fn a_client_with_too_large_a_request_is_dropped() {
    let server = Running::start_with(|config| config.limits.query_buffer_len_max = 1 << 20);
    let mut client = server.client();
    let value = vec![b'v'; 600 << 10];
    // The server closes before it has read all of it.
    let sent =
        client.socket.get_mut().write_all(&request(&[b"MSET", &b"a"[..], &value, b"b", &value]));
    assert!(sent.is_err() || client.reply() == "closed");
    let mut other = server.client();
    assert!(other.ask("INFO stats").contains("client_query_buffer_limit_disconnections:1"));
    other.check(&[("EXISTS a b", ":0")]);
}

fn a_smaller_limit_of_words_holds_for_requests_and_values() {
    let server = Running::start_with(|config| {
        config.limits.bulk_len_max = 1000;
        config.limits.args_max = 4;
        config.limits.inline_len_max = 100;
    });
    let mut client = server.client();
    let half = "v".repeat(600);
    assert_eq!(client.call(&["APPEND", "k", &half]), ":600");
    let refused = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(client.call(&["APPEND", "k", &half]), refused);
    assert_eq!(client.ask("SETRANGE k 999 xx"), refused);
    for (input, expected) in [
        (&b"*5\r\n"[..], "invalid multibulk length"),
        (b"*1\r\n$1001\r\n", "invalid bulk length"),
        (&[b'x'; 101], "too big inline request"),
    ] {
        let mut client = server.client();
        client.send(input);
        assert_eq!(client.reply(), format!("-ERR Protocol error: {expected}"));
    }
}

fn a_request_that_never_ends_times_out() {
    let server = Running::start_with(|config| {
        config.limits.request_timeout = Duration::from_millis(300);
    });
    let (mut slow, mut idle) = (server.client(), server.client());
    idle.check(&[("PING", "+PONG")]);
    slow.send(b"*2\r\n$3\r\nGET\r\n$10\r\nabc");
    assert_eq!(slow.reply(), "closed");
    // Between requests a client may be silent.
    idle.check(&[("PING", "+PONG")]);
}

fn a_stranger_must_prove_who_it_is_in_time() {
    let server = Running::start_with(|config| {
        config.requirepass = Some("sesame".into());
        config.limits.request_timeout = Duration::from_millis(300);
    });
    let (mut stranger, mut friend) = (server.client(), server.client());
    friend.check(&[("AUTH sesame", "+OK")]);
    assert_eq!(stranger.reply(), "closed");
    friend.check(&[("PING", "+PONG")]);
}

fn who_resets_has_its_time_again_and_the_limits_of_a_stranger() {
    let server = Running::start_with(|config| {
        config.requirepass = Some("sesame".into());
        config.limits.request_timeout = Duration::from_secs(4);
    });
    let (mut client, mut other) = (server.client(), server.client());
    client.check(&[("AUTH sesame", "+OK")]);
    other.check(&[("AUTH sesame", "+OK")]);
    let long = "v".repeat(20_000);
    let requests = [request(&["RESET"]), request(&["ECHO", &long])].concat();
    other.check(&[("ECHO", "-ERR wrong number of arguments for 'echo' command")]);
    other.send(&requests);
    assert_eq!(other.reply(), "+RESET");
    let refused = other.reply();
    assert!(refused.starts_with("-ERR Protocol error: unauthenticated bulk"), "{refused}");
    assert_eq!(other.reply(), "closed");
    std::thread::sleep(Duration::from_millis(4100));
    client.check(&[("RESET", "+RESET")]);
    for _ in 0..15 {
        std::thread::sleep(Duration::from_millis(100));
        client.check(&[("PING", "-NOAUTH Authentication required.")]);
    }
    client.check(&[("AUTH sesame", "+OK"), ("PING", "+PONG")]);
}

fn a_client_that_sends_no_more_still_gets_its_replies() {
    let server = Running::start();
    let mut client = server.client();
    client.send(b"SET k 1\r\nGET k\r\n");
    client.socket.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "\"1\"", "closed"]);
}

fn many_clients_are_served_at_a_time() {
    let server = Running::start();
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for round in 0..5 {
        clients.iter_mut().for_each(|client| client.send(b"INCR n\r\n"));
        let sum: i64 =
            clients.iter_mut().map(|client| client.reply()[1..].parse::<i64>().unwrap()).sum();
        let (first, last) = (round * 200 + 1, (round + 1) * 200);
        assert_eq!(sum, (first..=last).sum::<i64>());
    }
}
