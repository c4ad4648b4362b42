//! Messages from clients to clients, whichever threads they are on.

use std::thread;

use crate::common;
use crate::common::{Client, Running, eventually, request};

on_threads! {
    subscriptions_begin_and_end_as_told
    a_subscriber_of_resp2_may_do_little_else
    a_subscriber_of_resp3_may_do_everything
    a_publisher_is_told_how_many_get_its_message
    channels_of_shards_are_apart
    messages_of_a_transaction_leave_with_it
    a_client_gets_its_own_messages_behind_the_reply
    a_message_that_was_sent_before_a_subscription_ends_arrives
    subscriptions_end_with_their_client
    confirmations_are_heard_without_replies
    subscribers_are_told_of
    messages_of_each_publisher_arrive_in_order
    a_subscriber_that_does_not_read_is_disconnected
    a_message_that_is_too_long_for_a_subscriber_disconnects_it
}

/// Subscribers, which are on all threads, each of which has sent this request.
fn subscribers(server: &Running, count: usize, line: &str) -> Vec<Client> {
    let subscribe = |_| {
        let mut client = server.client();
        assert!(client.ask(line).contains("subscribe"), "{line}");
        client
    };
    (0..count).map(subscribe).collect()
}

fn subscriptions_begin_and_end_as_told() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("UNSUBSCRIBE", "[\"unsubscribe\", nil, :0]"),
        ("PUNSUBSCRIBE", "[\"punsubscribe\", nil, :0]"),
        ("SUNSUBSCRIBE", "[\"sunsubscribe\", nil, :0]"),
        ("UNSUBSCRIBE x", "[\"unsubscribe\", \"x\", :0]"),
        ("SUBSCRIBE a b", "[\"subscribe\", \"a\", :1]"),
    ]);
    assert_eq!(client.reply(), "[\"subscribe\", \"b\", :2]");
    client.check(&[
        ("SUBSCRIBE a", "[\"subscribe\", \"a\", :2]"),
        ("PSUBSCRIBE p*", "[\"psubscribe\", \"p*\", :3]"),
        ("SSUBSCRIBE s", "[\"ssubscribe\", \"s\", :1]"),
        ("UNSUBSCRIBE x", "[\"unsubscribe\", \"x\", :3]"),
        ("UNSUBSCRIBE", "[\"unsubscribe\", \"a\", :2]"),
    ]);
    assert_eq!(client.reply(), "[\"unsubscribe\", \"b\", :1]");
    client.check(&[
        ("PUNSUBSCRIBE", "[\"punsubscribe\", \"p*\", :0]"),
        ("PING", "[\"pong\", \"\"]"),
        ("SUNSUBSCRIBE", "[\"sunsubscribe\", \"s\", :0]"),
        ("PING", "+PONG"),
        ("SUBSCRIBE", "-ERR wrong number of arguments for 'subscribe' command"),
        ("PUBLISH a", "-ERR wrong number of arguments for 'publish' command"),
        ("PUBLISH a b", ":0"),
        ("GET a", "nil"),
    ]);
}

fn a_subscriber_of_resp2_may_do_little_else() {
    let server = Running::start();
    let mut client = server.client();
    let refused = |name| {
        format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )
    };
    client.check(&[
        ("SSUBSCRIBE s", "[\"ssubscribe\", \"s\", :1]"),
        ("GET a", &refused("get")),
        ("CLIENT LIST", &refused("client|list")),
        ("HELLO 3", &refused("hello")),
        ("MULTI", &refused("multi")),
        ("PUBLISH a b", &refused("publish")),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("PING hi", "[\"pong\", \"hi\"]"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("RESET", "+RESET"),
        ("PUBSUB SHARDCHANNELS", "[]"),
        ("SUBSCRIBE a", "[\"subscribe\", \"a\", :1]"),
        ("QUIT", "+OK"),
    ]);
    assert_eq!(client.reply(), "closed");
}

fn a_subscriber_of_resp3_may_do_everything() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.ask("HELLO 3");
    client.check(&[
        ("UNSUBSCRIBE", ">[\"unsubscribe\", nil, :0]"),
        ("SUBSCRIBE a", ">[\"subscribe\", \"a\", :1]"),
        ("PSUBSCRIBE ?", ">[\"psubscribe\", \"?\", :2]"),
        ("PING", "+PONG"),
        ("SET k 1", "+OK"),
    ]);
    assert_eq!(other.ask("PUBLISH a x"), ":2");
    assert_eq!(client.reply(), ">[\"message\", \"a\", \"x\"]");
    assert_eq!(client.reply(), ">[\"pmessage\", \"?\", \"a\", \"x\"]");
    client.check(&[("GET k", "\"1\""), ("PUNSUBSCRIBE", ">[\"punsubscribe\", \"?\", :1]")]);
}

fn a_publisher_is_told_how_many_get_its_message() {
    let server = Running::start();
    let mut publisher = server.client();
    let mut to_channel = subscribers(&server, 5, "SUBSCRIBE news");
    let mut to_pattern = subscribers(&server, 5, "PSUBSCRIBE n[ae]ws");
    let mut to_other = subscribers(&server, 2, "SUBSCRIBE other");
    publisher.check(&[
        ("PUBLISH news hello", ":10"),
        ("PUBLISH naws hello", ":5"),
        ("PUBLISH other ''", ":2"),
        ("PUBLISH nothing hello", ":0"),
        ("PUBSUB NUMSUB news other nothing", "[\"news\", :5, \"other\", :2, \"nothing\", :0]"),
        ("PUBSUB NUMSUB", "[]"),
        ("PUBSUB NUMPAT", ":1"),
        ("PUBSUB CHANNELS o*", "[\"other\"]"),
        (
            "PUBSUB CHANNELS a b",
            "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
        ),
        ("PUBSUB NO", "-ERR unknown subcommand 'NO'. Try PUBSUB HELP."),
    ]);
    assert!(publisher.ask("PUBSUB HELP").contains("NUMPAT"));
    for client in &mut to_channel {
        assert_eq!(client.reply(), "[\"message\", \"news\", \"hello\"]");
        assert_eq!(client.ask("PING"), "[\"pong\", \"\"]");
    }
    for client in &mut to_pattern {
        assert_eq!(client.reply(), "[\"pmessage\", \"n[ae]ws\", \"news\", \"hello\"]");
        assert_eq!(client.reply(), "[\"pmessage\", \"n[ae]ws\", \"naws\", \"hello\"]");
        assert_eq!(client.ask("PING"), "[\"pong\", \"\"]");
    }
    for client in &mut to_other {
        assert_eq!(client.reply(), "[\"message\", \"other\", \"\"]");
        assert_eq!(client.ask("UNSUBSCRIBE"), "[\"unsubscribe\", \"other\", :0]");
    }
    assert_eq!(publisher.ask("PUBLISH other x"), ":0");
}

fn channels_of_shards_are_apart() {
    let server = Running::start();
    let mut publisher = server.client();
    let mut shard = subscribers(&server, 3, "SSUBSCRIBE c");
    let mut channel = subscribers(&server, 2, "SUBSCRIBE c");
    let mut pattern = subscribers(&server, 2, "PSUBSCRIBE *");
    publisher.check(&[
        ("SPUBLISH c 1", ":3"),
        ("PUBLISH c 2", ":4"),
        ("PUBSUB SHARDCHANNELS", "[\"c\"]"),
        ("PUBSUB SHARDNUMSUB c d", "[\"c\", :3, \"d\", :0]"),
        ("PUBSUB NUMSUB c", "[\"c\", :2]"),
    ]);
    shard.iter_mut().for_each(|client| assert_eq!(client.reply(), "[\"smessage\", \"c\", \"1\"]"));
    channel.iter_mut().for_each(|client| assert_eq!(client.reply(), "[\"message\", \"c\", \"2\"]"));
    for client in &mut pattern {
        assert_eq!(client.reply(), "[\"pmessage\", \"*\", \"c\", \"2\"]");
    }
}

fn messages_of_a_transaction_leave_with_it() {
    let server = Running::start();
    let mut publisher = server.client();
    let mut all = subscribers(&server, 4, "SUBSCRIBE c");
    publisher.check(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("PUBLISH c 1", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("PUBLISH c 2", "+QUEUED"),
        ("SET b 1", "+QUEUED"),
        ("EXEC", "[+OK, :4, +OK]"),
        // Subscribing is part of a transaction too, and what follows in it is not refused.
        ("MULTI", "+OK"),
        ("SUBSCRIBE c", "+QUEUED"),
        ("PUBLISH c 3", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("PING", "+QUEUED"),
        ("EXEC", "[[\"subscribe\", \"c\", :1], :5, \"1\", [\"pong\", \"\"]]"),
    ]);
    assert_eq!(publisher.reply(), "[\"message\", \"c\", \"3\"]");
    for client in &mut all {
        assert_eq!(client.reply(), "[\"message\", \"c\", \"2\"]");
        assert_eq!(client.reply(), "[\"message\", \"c\", \"3\"]");
    }
}

fn a_client_gets_its_own_messages_behind_the_reply() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE c");
    let requests =
        ["SET a 1", "PUBLISH c 1", "GET a", "PUBLISH c 2", "UNSUBSCRIBE c", "PUBLISH c 3"];
    requests.iter().for_each(|line| client.send_words(&common::words(line)));
    let (mut replies, mut pushes) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let reply = client.reply();
        if reply.starts_with('>') { pushes.push(reply) } else { replies.push(reply) }
    }
    assert_eq!(replies, ["+OK", ":1", "\"1\"", ":1", ":0"]);
    let expected = [
        ">[\"message\", \"c\", \"1\"]",
        ">[\"message\", \"c\", \"2\"]",
        ">[\"unsubscribe\", \"c\", :0]",
    ];
    assert_eq!(pushes, expected);
    client.ask("SUBSCRIBE c");
    client.send(&[request(&["PUBLISH", "c", "4"]), request(&["PING"])].concat());
    let replies: Vec<_> = (0..3).map(|_| client.reply()).collect();
    assert_eq!(replies, [":1", ">[\"message\", \"c\", \"4\"]", "+PONG"]);
}

fn a_message_that_was_sent_before_a_subscription_ends_arrives() {
    let server = Running::start();
    let mut publisher = server.client();
    let mut client = server.client();
    for number in 0..200 {
        assert_eq!(client.ask("SUBSCRIBE c"), "[\"subscribe\", \"c\", :1]");
        assert_eq!(publisher.ask(&format!("PUBLISH c {number}")), ":1");
        client.send_words(&["UNSUBSCRIBE"]);
        assert_eq!(client.reply(), format!("[\"message\", \"c\", \"{number}\"]"));
        assert_eq!(client.reply(), "[\"unsubscribe\", \"c\", :0]");
        assert_eq!(publisher.ask("PUBLISH c late"), ":0");
    }
}

fn subscriptions_end_with_their_client() {
    let server = Running::start();
    let mut publisher = server.client();
    let mut all = subscribers(&server, 6, "SUBSCRIBE c");
    all.iter_mut().for_each(|client| drop(client.ask("PSUBSCRIBE *")));
    assert_eq!(publisher.ask("PUBLISH c 1"), ":12");
    all[0].send_words(&["RESET"]);
    all.truncate(1);
    eventually("the end of all subscriptions", || publisher.ask("PUBSUB NUMSUB c").contains(":0"));
    publisher.check(&[("PUBLISH c 2", ":0"), ("PUBSUB CHANNELS", "[]"), ("PUBSUB NUMPAT", ":0")]);
    let client = &mut all[0];
    assert_eq!(client.reply(), "[\"message\", \"c\", \"1\"]");
    assert_eq!(client.reply(), "[\"pmessage\", \"*\", \"c\", \"1\"]");
    assert_eq!(client.reply(), "+RESET");
    assert_eq!(client.ask("GET a"), "nil");
}

fn confirmations_are_heard_without_replies() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("HELLO 3");
    client.send_words(&["CLIENT", "REPLY", "OFF"]);
    assert_eq!(client.ask("SUBSCRIBE c"), ">[\"subscribe\", \"c\", :1]");
    client.send_words(&["PUBLISH", "c", "1"]);
    client.send_words(&["PING"]);
    assert_eq!(client.reply(), ">[\"message\", \"c\", \"1\"]");
    assert_eq!(client.ask("CLIENT REPLY ON"), "+OK");
}

fn subscribers_are_told_of() {
    let server = Running::start();
    let mut client = server.client();
    let all = subscribers(&server, 3, "SUBSCRIBE a b");
    let mut shard = server.client();
    shard.ask("SSUBSCRIBE s");
    let info = client.ask("INFO stats");
    for line in ["pubsub_channels:2\\r", "pubsub_patterns:0\\r", "pubsubshard_channels:1\\r"] {
        assert!(info.contains(line), "{line} {info}");
    }
    assert!(client.ask("INFO clients").contains("pubsub_clients:4\\r"));
    let list = client.ask("CLIENT LIST TYPE pubsub");
    assert_eq!(list.matches(" flags=P ").count(), 4, "{list}");
    assert_eq!(list.matches(" sub=2 psub=0 ssub=0 ").count(), 3, "{list}");
    assert_eq!(list.matches(" sub=0 psub=0 ssub=1 ").count(), 1, "{list}");
    assert_eq!(client.ask("CLIENT LIST TYPE normal").matches(" sub=0 psub=0 ssub=0 ").count(), 1);
    assert_eq!(client.ask("CLIENT KILL TYPE pubsub"), ":4");
    drop(all);
    eventually("the end of all subscribers", || client.ask("PUBSUB CHANNELS") == "[]");
}

fn messages_of_each_publisher_arrive_in_order() {
    const PUBLISHERS: usize = 4;
    const MESSAGES: usize = 500;
    let server = Running::start();
    let readers: Vec<_> = subscribers(&server, 6, "SUBSCRIBE c")
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || {
                let mut next = [0; PUBLISHERS];
                for _ in 0..PUBLISHERS * MESSAGES {
                    let reply = client.reply();
                    let text = reply.strip_prefix("[\"message\", \"c\", \"").expect(&reply);
                    let (from, number) = text.strip_suffix("\"]").unwrap().split_once(':').unwrap();
                    let from: usize = from.parse().unwrap();
                    assert_eq!(number.parse::<usize>().unwrap(), next[from]);
                    next[from] += 1;
                }
            })
        })
        .collect();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|from| {
            let mut client = server.client();
            thread::spawn(move || {
                for numbers in (0..MESSAGES).collect::<Vec<_>>().chunks(10) {
                    let send = |number| request(&["PUBLISH", "c", &format!("{from}:{number}")]);
                    client.send(&numbers.iter().flat_map(send).collect::<Vec<_>>());
                    numbers.iter().for_each(|_| assert_eq!(client.reply(), ":6"));
                }
            })
        })
        .collect();
    publishers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
}

fn a_subscriber_that_does_not_read_is_disconnected() {
    let server = Running::start();
    let mut publisher = server.client();
    let name = "client-output-buffer-limit";
    assert_eq!(publisher.call(&["CONFIG", "SET", name, "pubsub 1mb 0 0"]), "+OK");
    let slow = subscribers(&server, 3, "SUBSCRIBE c");
    let mut other = subscribers(&server, 1, "PSUBSCRIBE d*").remove(0);
    let message = "m".repeat(64 << 10);
    eventually("the end of the subscribers that do not read", || {
        publisher.call(&["PUBLISH", "c", &message]) == ":0"
    });
    let info = publisher.ask("INFO stats");
    assert!(info.contains("client_output_buffer_limit_disconnections:3\\r"), "{info}");
    drop(slow);
    assert_eq!(publisher.ask("PUBLISH d x"), ":1");
    assert_eq!(other.reply(), "[\"pmessage\", \"d*\", \"d\", \"x\"]");
}

fn a_message_that_is_too_long_for_a_subscriber_disconnects_it() {
    let server = Running::start();
    let mut publisher = server.client();
    let name = "client-output-buffer-limit";
    assert_eq!(publisher.call(&["CONFIG", "SET", name, "pubsub 1mb 0 0"]), "+OK");
    let mut all = subscribers(&server, 3, "SUBSCRIBE c");
    let message = "m".repeat(1 << 20);
    assert_eq!(publisher.call(&["PUBLISH", "c", &message]), ":3");
    all.iter_mut().for_each(|client| assert_eq!(client.reply(), "closed"));
    // A single message may be longer than all that wait for a thread.
    assert_eq!(publisher.call(&["CONFIG", "SET", name, "pubsub 0 0 0"]), "+OK");
    let mut all = subscribers(&server, 2, "SUBSCRIBE c");
    let message = "m".repeat(65 << 20);
    assert_eq!(publisher.call(&["PUBLISH", "c", &message]), ":2");
    for client in &mut all {
        assert_eq!(client.reply().len(), message.len() + "[\"message\", \"c\", \"\"]".len());
    }
}
