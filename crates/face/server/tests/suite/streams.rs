//! Streams: entries, ranges, groups of consumers.

use crate::common;
use crate::common::{Client, Running};

on_threads! {
    entries_are_added_and_read
    ids_are_what_the_client_says
    ranges_have_bounds
    streams_are_trimmed
    entries_are_removed
    streams_are_read_on
    groups_are_made_and_removed
    groups_deliver_each_entry_once
    pending_entries_are_told
    entries_are_claimed
    old_entries_are_claimed_by_themselves
    entries_go_with_their_references
    streams_are_described
    counters_of_groups_see_over_what_they_can
    ids_are_set
    streams_are_keys_like_others
    copies_have_the_times_of_consumers
    a_stream_is_there_after_a_restart
    transactions_have_streams
    the_newer_protocol_has_maps
}

const INVALID: &str = "-ERR Invalid stream ID specified as stream command argument";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn server() -> (Running, Client) {
    let server = Running::start();
    let client = server.client();
    (server, client)
}

/// Adds the entries `1-0` and so on, each with a field `f` and its number.
fn fill(client: &mut Client, key: &str, count: u64) {
    for number in 1..=count {
        let id = format!("\"{number}-0\"");
        assert_eq!(client.ask(&format!("XADD {key} {number}-0 f {number}")), id);
    }
}

fn entries_are_added_and_read() {
    let (_server, mut client) = server();
    client.check(&[
        ("XADD s 1-1 a 1 b 2", "\"1-1\""),
        ("XADD s 1-2 c 3", "\"1-2\""),
        ("XLEN s", ":2"),
        ("XLEN none", ":0"),
        ("XRANGE s - +", "[[\"1-1\", [\"a\", \"1\", \"b\", \"2\"]], [\"1-2\", [\"c\", \"3\"]]]"),
        ("XREVRANGE s + - COUNT 1", "[[\"1-2\", [\"c\", \"3\"]]]"),
        ("XADD none NOMKSTREAM 1-1 a 1", "nil"),
        ("EXISTS none", ":0"),
        ("XADD s 1-3 a", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s 1-3 a 1 b", "-ERR wrong number of arguments for 'xadd' command"),
        ("SET str 1", "+OK"),
        ("XADD str 1-1 a 1", WRONG_TYPE),
        ("XLEN str", WRONG_TYPE),
        ("XRANGE str - +", WRONG_TYPE),
        ("XADD s 2-1 '' ''", "\"2-1\""),
        ("XRANGE s 2 2", "[[\"2-1\", [\"\", \"\"]]]"),
    ]);
    let long = "x".repeat(100_000);
    assert_eq!(client.call(&["XADD", "s", "3-1", "long", &long]), "\"3-1\"");
    assert_eq!(client.ask("XRANGE s 3 3"), format!("[[\"3-1\", [\"long\", \"{long}\"]]]"));
}

fn ids_are_what_the_client_says() {
    const SMALL: &str =
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let (_server, mut client) = server();
    client.check(&[
        ("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("EXISTS s", ":0"),
        ("XADD s 0-* a 1", "\"0-1\""),
        ("XADD s 5 a 1", "\"5-0\""),
        ("XADD s 5-* a 1", "\"5-1\""),
        ("XADD s 5-1 a 1", SMALL),
        ("XADD s 4-* a 1", SMALL),
        ("XADD s 7-* a 1", "\"7-0\""),
        ("XADD s x a 1", INVALID),
        ("XADD s - a 1", INVALID),
        ("XADD s 1-x a 1", INVALID),
        ("XADD s 8-18446744073709551615 a 1", "\"8-18446744073709551615\""),
        ("XADD s 8-* a 1", SMALL),
        (
            "XADD e 18446744073709551615-18446744073709551615 a 1",
            "\"18446744073709551615-18446744073709551615\"",
        ),
        (
            "XADD e * a 1",
            "-ERR The stream has exhausted the last possible ID, unable to add more items",
        ),
    ]);
    let mut last = String::new();
    for _ in 0..50 {
        let id = client.ask("XADD t * a 1");
        let id = id.trim_matches('"').to_owned();
        let number = |id: &str| {
            let (ms, seq) = id.split_once('-').unwrap_or(("0", "0"));
            (ms.parse::<u64>().unwrap(), seq.parse::<u64>().unwrap())
        };
        assert!(number(&id) > number(&last), "{last} {id}");
        last = id;
    }
}

fn ranges_have_bounds() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 5);
    let ids = |reply: &str| {
        let parts = reply.split("[[\"").flat_map(|part| part.split(", [\""));
        parts
            .filter_map(|part| part.split_once("-0\""))
            .map(|(id, _)| id.to_owned())
            .collect::<String>()
    };
    for (request, expected) in [
        ("XRANGE s - +", "12345"),
        ("XRANGE s 2 4", "234"),
        ("XRANGE s (2 (4", "34"),
        ("XRANGE s (2 (4-0", "3"),
        ("XRANGE s (2 (4-1", "34"),
        ("XRANGE s - + COUNT 2", "12"),
        ("XRANGE s 4 2", ""),
        ("XREVRANGE s + -", "54321"),
        ("XREVRANGE s (4-0 (1", "32"),
        ("XREVRANGE s + - COUNT 3", "543"),
        ("XRANGE s - + COUNT -5", ""),
    ] {
        assert_eq!(ids(&client.ask(request)), expected, "{request}");
    }
    client.check(&[
        ("XRANGE none - +", "[]"),
        ("XRANGE s - + COUNT 0", "nil"),
        ("XRANGE s - + COUNT", "-ERR syntax error"),
        ("XRANGE s - + COUNT x", "-ERR value is not an integer or out of range"),
        ("XRANGE s - + NO 1", "-ERR syntax error"),
        ("XRANGE s (- +", INVALID),
        ("XRANGE s ( +", INVALID),
        ("XRANGE s - (0-0", "-ERR invalid end ID for the interval"),
        (
            "XRANGE s (18446744073709551615-18446744073709551615 +",
            "-ERR invalid start ID for the interval",
        ),
    ]);
}

fn streams_are_trimmed() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 10);
    client.check(&[
        ("XTRIM s MAXLEN 8", ":2"),
        ("XTRIM s MAXLEN = 8", ":0"),
        ("XTRIM s MINID 5", ":2"),
        ("XRANGE s - + COUNT 1", "[[\"5-0\", [\"f\", \"5\"]]]"),
        ("XADD s MAXLEN 3 11-0 f 11", "\"11-0\""),
        ("XLEN s", ":3"),
        ("XADD s MINID 11 NOMKSTREAM 12-0 f 12", "\"12-0\""),
        ("XLEN s", ":2"),
        ("XTRIM s MAXLEN 0", ":2"),
        ("XLEN s", ":0"),
        ("EXISTS s", ":1"),
        (
            "XADD s 12-0 f 1",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ),
        ("XTRIM none MAXLEN 0", ":0"),
        ("XTRIM s MAXLEN -1", "-ERR The MAXLEN argument must be >= 0."),
        ("XTRIM s MAXLEN x", "-ERR value is not an integer or out of range"),
        ("XTRIM s MINID x", INVALID),
        (
            "XTRIM s MAXLEN 1 MINID 1",
            "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
        ),
        (
            "XTRIM s LIMIT 1 MAXLEN 1",
            "-ERR syntax error, LIMIT cannot be used without the special ~ option",
        ),
        (
            "XTRIM s LIMIT 1",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        ),
        (
            "XTRIM s LIMIT 0 LIMIT 0",
            "-ERR syntax error, XTRIM must be called with a trimming strategy",
        ),
        ("XTRIM s MAXLEN ~ 1 LIMIT -1", "-ERR The LIMIT argument must be >= 0."),
        (
            "XADD s LIMIT 1 * a 1",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        ),
        ("XTRIM s NO 1", "-ERR syntax error"),
    ]);
    // About: in blocks of so many entries as the setting says.
    client.check(&[("CONFIG SET stream-node-max-entries 100", "+OK")]);
    for number in 0..1000 {
        client.send_words(&["XADD", "about", "MAXLEN", "~", "555", "*", "n", &number.to_string()]);
    }
    (0..1000).for_each(|_| assert!(client.reply().starts_with('"')));
    client.check(&[("XLEN about", ":600"), ("CONFIG SET stream-node-max-entries 1", "+OK")]);
    (0..102).for_each(|_| drop(client.ask("XADD ones * a b")));
    client.check(&[
        ("XTRIM ones MAXLEN ~ 1 LIMIT 30", ":30"),
        ("XLEN ones", ":72"),
        ("XTRIM ones MAXLEN ~ 1", ":71"),
        (
            "CONFIG GET stream-node-max-*",
            "[\"stream-node-max-bytes\", \"4096\", \"stream-node-max-entries\", \"1\"]",
        ),
        ("CONFIG SET stream-node-max-bytes 1kb", "+OK"),
    ]);
}

fn entries_are_removed() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 5);
    client.check(&[
        ("XDEL s 1 3-0 3-1 9", ":2"),
        ("XLEN s", ":3"),
        ("XRANGE s - + COUNT 1", "[[\"2-0\", [\"f\", \"2\"]]]"),
        ("XDEL none 1", ":0"),
        ("XDEL s 2 x", INVALID),
        ("XDEL s -", INVALID),
        ("XLEN s", ":3"),
        ("XDEL s 2 4 5", ":3"),
        ("XLEN s", ":0"),
        ("TYPE s", "+stream"),
        (
            "XADD s 5-0 a 1",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ),
    ]);
}

fn streams_are_read_on() {
    let (_server, mut client) = server();
    fill(&mut client, "a", 3);
    fill(&mut client, "b", 1);
    client.check(&[
        ("XREAD STREAMS a b 2 0", "[[\"a\", [[\"3-0\", [\"f\", \"3\"]]]], [\"b\", [[\"1-0\", [\"f\", \"1\"]]]]]"),
        ("XREAD COUNT 1 STREAMS a b 0 1", "[[\"a\", [[\"1-0\", [\"f\", \"1\"]]]]]"),
        ("XREAD STREAMS a $", "nil"),
        ("XREAD STREAMS a none 3 0", "nil"),
        ("XREAD STREAMS a +", "[[\"a\", [[\"3-0\", [\"f\", \"3\"]]]]]"),
        ("XREAD STREAMS none +", "nil"),
        ("XREAD BLOCK x STREAMS a 0", "-ERR timeout is not an integer or out of range"),
        ("XREAD BLOCK -1 STREAMS a 0", "-ERR timeout is negative"),
        ("XREAD COUNT x STREAMS a 0", "-ERR value is not an integer or out of range"),
        ("XREAD STREAMS a b 0", "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."),
        ("XREAD COUNT 1 STREAMS", "-ERR syntax error"),
        ("XREAD COUNT 1 COUNT 2", "-ERR syntax error"),
        ("XREAD STREAMS a >", "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."),
        ("XREAD GROUP g c STREAMS a 0", "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."),
        ("XREAD NOACK STREAMS a 0", "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."),
        ("XREADGROUP COUNT 1 NOACK STREAMS a 0", "-ERR Missing GROUP option for XREADGROUP"),
        ("XREAD STREAMS a x", INVALID),
        ("SET str 1", "+OK"),
        ("XREAD STREAMS a str 0 0", WRONG_TYPE),
        ("COMMAND GETKEYS XREAD COUNT 2 STREAMS a b 0 0", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS XREADGROUP GROUP streams c STREAMS a >", "[\"a\"]"),
    ]);
}

fn groups_are_made_and_removed() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 2);
    let no_key = "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.";
    client.check(&[
        ("XGROUP CREATE s g 0", "+OK"),
        ("XGROUP CREATE s g 0", "-BUSYGROUP Consumer Group name already exists"),
        ("XGROUP CREATE none g $", no_key),
        ("XGROUP DESTROY none g", no_key),
        ("XGROUP CREATE none g x MKSTREAM", INVALID),
        ("EXISTS none", ":0"),
        ("XGROUP CREATE none g $ MKSTREAM", "+OK"),
        ("XLEN none", ":0"),
        ("TYPE none", "+stream"),
        ("XGROUP CREATE s h 0 ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1"),
        (
            "XGROUP CREATE s h 0 NO",
            "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
        ),
        ("XGROUP NO s h", "-ERR unknown subcommand 'NO'. Try XGROUP HELP."),
        ("XGROUP SETID s none 0", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XGROUP SETID s g 1 ENTRIESREAD 1", "+OK"),
        ("XGROUP CREATECONSUMER s g c", ":1"),
        ("XGROUP CREATECONSUMER s g c", ":0"),
        (
            "XGROUP CREATECONSUMER s none c",
            "-NOGROUP No such consumer group 'none' for key name 's'",
        ),
        ("XREADGROUP GROUP g c STREAMS s >", "[[\"s\", [[\"2-0\", [\"f\", \"2\"]]]]]"),
        ("XGROUP DELCONSUMER s g c", ":1"),
        ("XGROUP DELCONSUMER s g c", ":0"),
        ("XPENDING s g", "[:0, nil, nil, nil]"),
        ("XGROUP DESTROY s g", ":1"),
        ("XGROUP DESTROY s g", ":0"),
        (
            "XREADGROUP GROUP g c STREAMS s >",
            "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option",
        ),
        (
            "XREADGROUP GROUP g c STREAMS nokey >",
            "-NOGROUP No such key 'nokey' or consumer group 'g' in XREADGROUP with GROUP option",
        ),
    ]);
    assert!(client.ask("XGROUP HELP").contains("CREATECONSUMER"));
    assert!(client.ask("XINFO HELP").contains("STREAM"));
}

fn groups_deliver_each_entry_once() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 3);
    client.check(&[
        ("XGROUP CREATE s g 0", "+OK"),
        (
            "XREADGROUP GROUP g a COUNT 2 STREAMS s >",
            "[[\"s\", [[\"1-0\", [\"f\", \"1\"]], [\"2-0\", [\"f\", \"2\"]]]]]",
        ),
        ("XREADGROUP GROUP g b STREAMS s >", "[[\"s\", [[\"3-0\", [\"f\", \"3\"]]]]]"),
        ("XREADGROUP GROUP g b STREAMS s >", "nil"),
        ("XDEL s 1", ":1"),
        (
            "XREADGROUP GROUP g a STREAMS s 0",
            "[[\"s\", [[\"1-0\", nil], [\"2-0\", [\"f\", \"2\"]]]]]",
        ),
        ("XREADGROUP GROUP g a COUNT 1 STREAMS s 1", "[[\"s\", [[\"2-0\", [\"f\", \"2\"]]]]]"),
        ("XREADGROUP GROUP g new STREAMS s 0", "[[\"s\", []]]"),
        ("XACK s g 1 2 2 9", ":2"),
        ("XACK s none 1", ":0"),
        ("XACK none g 1", ":0"),
        ("XACK s g x", INVALID),
        ("XREADGROUP GROUP g a STREAMS s 0", "[[\"s\", []]]"),
        ("XADD s 4-0 f 4", "\"4-0\""),
        ("XREADGROUP GROUP g a NOACK STREAMS s >", "[[\"s\", [[\"4-0\", [\"f\", \"4\"]]]]]"),
        ("XPENDING s g", "[:1, \"3-0\", \"3-0\", [[\"b\", \"1\"]]]"),
        ("XGROUP SETID s g 2", "+OK"),
        ("XREADGROUP GROUP g a COUNT 1 STREAMS s >", "[[\"s\", [[\"3-0\", [\"f\", \"3\"]]]]]"),
        ("XPENDING s g", "[:1, \"3-0\", \"3-0\", [[\"a\", \"1\"]]]"),
    ]);
    let meaningless = "-ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.";
    assert_eq!(client.ask("XREADGROUP GROUP g a STREAMS s $"), meaningless);
}

/// A reply with the numbers of milliseconds in the lists of pending entries left out.
fn without_times(reply: &str) -> String {
    let words: Vec<_> = reply.split(", ").collect();
    let kept = words.iter().enumerate().filter(|(at, word)| {
        let behind_name = *at > 0 && words[at - 1].starts_with('"') && !words[at - 1].contains('-');
        !(behind_name
            && word.starts_with(':')
            && words.get(at + 1).is_some_and(|next| next.starts_with(':')))
    });
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

fn pending_entries_are_told() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 4);
    client.check(&[
        ("XGROUP CREATE s g 0", "+OK"),
        ("XPENDING s g", "[:0, nil, nil, nil]"),
        ("XPENDING s none", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("XPENDING none g", "-NOGROUP No such key 'none' or consumer group 'g'"),
    ]);
    client.ask("XREADGROUP GROUP g b COUNT 3 STREAMS s >");
    client.ask("XREADGROUP GROUP g a STREAMS s >");
    client.check(&[
        ("XPENDING s g", "[:4, \"1-0\", \"4-0\", [[\"a\", \"1\"], [\"b\", \"3\"]]]"),
        ("XPENDING s g - + 0", "[]"),
        ("XPENDING s g - + 10 none", "[]"),
        ("XPENDING s g IDLE 100000000 - + 10", "[]"),
        ("XPENDING s g - +", "-ERR syntax error"),
        ("XPENDING s g IDLE 1 - +", "-ERR syntax error"),
        ("XPENDING s g x + 1", INVALID),
        (
            "XPENDING s g (18446744073709551615-18446744073709551615 + 1",
            "-ERR invalid start ID for the interval",
        ),
    ]);
    for (request, expected) in [
        ("XPENDING s g (1 3 10", "[[\"2-0\", \"b\", :1], [\"3-0\", \"b\", :1]]"),
        ("XPENDING s g - + 1", "[[\"1-0\", \"b\", :1]]"),
        ("XPENDING s g - + 10 a", "[[\"4-0\", \"a\", :1]]"),
        ("XPENDING s g IDLE 0 - + 1 b", "[[\"1-0\", \"b\", :1]]"),
    ] {
        assert_eq!(without_times(&client.ask(request)), expected, "{request}");
    }
}

fn entries_are_claimed() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 4);
    client.check(&[("XGROUP CREATE s g 0", "+OK")]);
    client.ask("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
    client.check(&[
        ("XCLAIM s g b 0 1", "[[\"1-0\", [\"f\", \"1\"]]]"),
        ("XCLAIM s g b 0 2 JUSTID", "[\"2-0\"]"),
        ("XCLAIM s g a 100000000 1 2", "[]"),
        ("XCLAIM s g a 0 3", "[]"),
        ("XCLAIM s g a 0 3 FORCE RETRYCOUNT 7 IDLE 5 JUSTID", "[\"3-0\"]"),
        ("XCLAIM s g a 0 99 FORCE", "[]"),
        ("XDEL s 1", ":1"),
        ("XCLAIM s g a 0 1 2", "[[\"2-0\", [\"f\", \"2\"]]]"),
        ("XPENDING s g", "[:2, \"2-0\", \"3-0\", [[\"a\", \"2\"]]]"),
        ("XCLAIM s g a 0 2 LASTID 4", "[[\"2-0\", [\"f\", \"2\"]]]"),
        ("XREADGROUP GROUP g a STREAMS s >", "nil"),
        ("XCLAIM s g a x 1", "-ERR Invalid min-idle-time argument for XCLAIM"),
        ("XCLAIM s g a 0 1 IDLE x", "-ERR Invalid IDLE option argument for XCLAIM"),
        ("XCLAIM s g a 0 1 TIME x", "-ERR Invalid TIME option argument for XCLAIM"),
        ("XCLAIM s g a 0 1 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT option argument for XCLAIM"),
        ("XCLAIM s g a 0 1 NO", "-ERR Unrecognized XCLAIM option 'NO'"),
        ("XCLAIM s none a 0 1", "-NOGROUP No such key 's' or consumer group 'none'"),
    ]);
    let pending = without_times(&client.ask("XPENDING s g - + 10"));
    assert_eq!(pending, "[[\"2-0\", \"a\", :3], [\"3-0\", \"a\", :7]]");
}

fn old_entries_are_claimed_by_themselves() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 5);
    client.check(&[("XGROUP CREATE s g 0", "+OK")]);
    client.ask("XREADGROUP GROUP g a STREAMS s >");
    client.check(&[
        ("XDEL s 2", ":1"),
        ("XAUTOCLAIM s g b 0 - COUNT 2", "[\"3-0\", [[\"1-0\", [\"f\", \"1\"]]], [\"2-0\"]]"),
        ("XAUTOCLAIM s g b 0 3 COUNT 2 JUSTID", "[\"5-0\", [\"3-0\", \"4-0\"], []]"),
        ("XAUTOCLAIM s g b 0 (4", "[\"0-0\", [[\"5-0\", [\"f\", \"5\"]]], []]"),
        ("XAUTOCLAIM s g b 100000000 -", "[\"0-0\", [], []]"),
        ("XPENDING s g", "[:4, \"1-0\", \"5-0\", [[\"b\", \"4\"]]]"),
        ("XAUTOCLAIM s g b 0 - COUNT 0", "-ERR COUNT must be > 0"),
        ("XAUTOCLAIM s g b 0 - NO", "-ERR syntax error"),
        ("XAUTOCLAIM s g b x -", "-ERR Invalid min-idle-time argument for XAUTOCLAIM"),
        ("XAUTOCLAIM s none b 0 -", "-NOGROUP No such key 's' or consumer group 'none'"),
    ]);
    // Many, of which each call looks at ten times as many as it may claim.
    fill(&mut client, "many", 600);
    client.check(&[("XGROUP CREATE many g 0", "+OK")]);
    client.ask("XREADGROUP GROUP g a STREAMS many >");
    client.check(&[
        ("XCLAIM many g a 0 55 IDLE 1000000 JUSTID", "[\"55-0\"]"),
        ("XAUTOCLAIM many g b 500000 - COUNT 5 JUSTID", "[\"51-0\", [], []]"),
        ("XAUTOCLAIM many g b 500000 51 COUNT 5 JUSTID", "[\"101-0\", [\"55-0\"], []]"),
        ("XAUTOCLAIM many g b 500000 51 COUNT 100 JUSTID", "[\"0-0\", [], []]"),
    ]);
}

fn entries_go_with_their_references() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 6);
    client.check(&[("XGROUP CREATE s g 0", "+OK"), ("XGROUP CREATE s h 0", "+OK")]);
    client.ask("XREADGROUP GROUP g a COUNT 5 STREAMS s >");
    client.ask("XREADGROUP GROUP h a COUNT 5 STREAMS s >");
    client.check(&[
        ("XDELEX none IDS 2 1 2", "[:-1, :-1]"),
        ("XDELEX s IDS 2 1 99", "[:1, :-1]"),
        ("XDELEX s ACKED IDS 2 2 6", "[:2, :2]"),
        ("XACK s g 2", ":1"),
        ("XACKDEL s h ACKED IDS 2 2 99", "[:1, :-1]"),
        ("XACKDEL s g ACKED IDS 1 3", "[:2]"),
        ("XDELEX s IDS 1 3 DELREF", "[:1]"),
        ("XACKDEL s h IDS 2 3 4", "[:-1, :1]"),
        ("XACKDEL s none IDS 1 5", "[:-1]"),
        ("XPENDING s g", "[:3, \"1-0\", \"5-0\", [[\"a\", \"3\"]]]"),
        ("XPENDING s h", "[:2, \"1-0\", \"5-0\", [[\"a\", \"2\"]]]"),
        ("XLEN s", ":2"),
        ("XDELEX s IDS 0 1", "-ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS 2 1", "-ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s IDS 1 1 2", "-ERR syntax error"),
        ("XDELEX s KEEPREF DELREF IDS 1 1", "-ERR syntax error"),
        ("XDELEX s IDS 1 x", INVALID),
    ]);
}

fn streams_are_described() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 3);
    client.check(&[
        ("XINFO STREAM s", "[\"length\", :3, \"radix-tree-keys\", :1, \"radix-tree-nodes\", :2, \"last-generated-id\", \"3-0\", \"max-deleted-entry-id\", \"0-0\", \"entries-added\", :3, \"recorded-first-entry-id\", \"1-0\", \"groups\", :0, \"first-entry\", [\"1-0\", [\"f\", \"1\"]], \"last-entry\", [\"3-0\", [\"f\", \"3\"]]]"),
        ("XINFO STREAM none", "-ERR no such key"),
        ("XINFO STREAM s NO", "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."),
        ("XINFO GROUPS s", "[]"),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XINFO CONSUMERS s g", "[]"),
        ("XINFO CONSUMERS s none", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XREADGROUP GROUP g a COUNT 1 STREAMS s >", "[[\"s\", [[\"1-0\", [\"f\", \"1\"]]]]]"),
        ("XINFO GROUPS s", "[[\"name\", \"g\", \"consumers\", :1, \"pending\", :1, \"last-delivered-id\", \"1-0\", \"entries-read\", :1, \"lag\", :2]]"),
        ("XGROUP CREATECONSUMER s g b", ":1"),
    ]);
    let consumers = client.ask("XINFO CONSUMERS s g");
    assert!(consumers.contains("\"name\", \"a\", \"pending\", :1, \"idle\", :"), "{consumers}");
    assert!(consumers.ends_with("\"inactive\", :-1]]"), "{consumers}");
    let full = client.ask("XINFO STREAM s FULL COUNT 1");
    assert!(full.contains("\"entries\", [[\"1-0\", [\"f\", \"1\"]]], \"groups\", [[\"name\", \"g\", \"last-delivered-id\", \"1-0\", \"entries-read\", :1, \"lag\", :2, \"pel-count\", :1, \"pending\", [[\"1-0\", \"a\", :"), "{full}");
    assert!(full.contains("\"active-time\", :-1, \"pel-count\", :0, \"pending\", []]"), "{full}");
    client.check(&[
        ("XTRIM s MAXLEN 0", ":3"),
        ("XINFO STREAM s", "[\"length\", :0, \"radix-tree-keys\", :0, \"radix-tree-nodes\", :1, \"last-generated-id\", \"3-0\", \"max-deleted-entry-id\", \"0-0\", \"entries-added\", :3, \"recorded-first-entry-id\", \"0-0\", \"groups\", :1, \"first-entry\", nil, \"last-entry\", nil]"),
    ]);
}

fn counters_of_groups_see_over_what_they_can() {
    let (_server, mut client) = server();
    let counters = |client: &mut Client| {
        let reply = client.ask("XINFO GROUPS s");
        let (_, behind) = reply.split_once("\"entries-read\", ").unwrap();
        behind.trim_end_matches(']').replace("\"lag\", ", "")
    };
    client.check(&[("XGROUP CREATE s g $ MKSTREAM", "+OK")]);
    assert_eq!(counters(&mut client), "nil, :0");
    fill(&mut client, "s", 5);
    client.ask("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    assert_eq!(counters(&mut client), ":1, :4");
    client.ask("XDEL s 3");
    assert_eq!(counters(&mut client), ":1, nil");
    client.ask("XREADGROUP GROUP g a COUNT 3 STREAMS s >");
    assert_eq!(counters(&mut client), ":5, :0");
    client.check(&[("DEL s", ":1"), ("XGROUP CREATE s g 0 MKSTREAM", "+OK")]);
    fill(&mut client, "s", 5);
    client.ask("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    client.ask("XTRIM s MAXLEN 1");
    assert_eq!(counters(&mut client), ":1, :1");
    // A gap that lies before the first entry is none.
    client.check(&[("DEL s", ":1"), ("XGROUP CREATE s g 0 MKSTREAM", "+OK")]);
    fill(&mut client, "s", 3);
    client.ask("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    client.check(&[("XDEL s 2", ":1"), ("XDEL s 1", ":1")]);
    assert_eq!(counters(&mut client), ":1, :1");
    client.ask("XREADGROUP GROUP g a STREAMS s >");
    assert_eq!(counters(&mut client), ":3, :0");
}

fn ids_are_set() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 3);
    client.check(&[
        ("XSETID s 5-5", "+OK"),
        (
            "XADD s 5-5 a 1",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ),
        (
            "XSETID s 2",
            "-ERR The ID specified in XSETID is smaller than the target stream top item",
        ),
        ("XSETID none 1", "-ERR no such key"),
        (
            "XSETID s 6 ENTRIESADDED 2",
            "-ERR The entries_added specified in XSETID is smaller than the target stream length",
        ),
        ("XSETID s 6 ENTRIESADDED -1", "-ERR entries_added must be positive"),
        (
            "XSETID s 6 MAXDELETEDID 7",
            "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        ),
        ("XSETID s 6 NO", "-ERR syntax error"),
        ("XSETID s 6 ENTRIESADDED 9 MAXDELETEDID 4-1", "+OK"),
        (
            "XSETID s 4",
            "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ),
    ]);
    let info = client.ask("XINFO STREAM s");
    assert!(info.contains("\"last-generated-id\", \"6-0\", \"max-deleted-entry-id\", \"4-1\", \"entries-added\", :9"), "{info}");
}

fn streams_are_keys_like_others() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 3);
    client.check(&[
        ("XGROUP CREATE s g 1", "+OK"),
        ("XREADGROUP GROUP g a COUNT 1 STREAMS s >", "[[\"s\", [[\"2-0\", [\"f\", \"2\"]]]]]"),
        ("TYPE s", "+stream"),
        ("OBJECT ENCODING s", "\"stream\""),
        ("GET s", WRONG_TYPE),
        ("LPUSH s a", WRONG_TYPE),
        ("COPY s t", ":1"),
        ("XADD s 9-9 a 1", "\"9-9\""),
        ("XLEN t", ":3"),
        ("XREADGROUP GROUP g a STREAMS t >", "[[\"t\", [[\"3-0\", [\"f\", \"3\"]]]]]"),
        ("XPENDING t g", "[:2, \"2-0\", \"3-0\", [[\"a\", \"2\"]]]"),
        ("XPENDING s g", "[:1, \"2-0\", \"2-0\", [[\"a\", \"1\"]]]"),
        ("RENAME t u", "+OK"),
        ("XACK u g 2", ":1"),
        ("EXISTS t", ":0"),
        ("XADD u 4-0 a 1", "\"4-0\""),
        ("MOVE u 1", ":1"),
        ("SELECT 1", "+OK"),
        ("XLEN u", ":4"),
        ("SELECT 0", "+OK"),
        ("EXPIRE s 100", ":1"),
        ("XADD s 10-0 a 1", "\"10-0\""),
        ("TTL s", ":100"),
        ("XTRIM s MAXLEN 0", ":5"),
        ("TTL s", ":100"),
        ("PEXPIREAT s 1", ":1"),
        ("EXISTS s", ":0"),
        ("XADD s 1-0 a 1", "\"1-0\""),
        ("XINFO GROUPS s", "[]"),
        ("SET s x", "+OK"),
        ("XLEN s", WRONG_TYPE),
        ("DEL s", ":1"),
        ("XLEN s", ":0"),
    ]);
    fill(&mut client, "m", 50);
    let of_some = client.integer("MEMORY USAGE m");
    let of_all = client.integer("MEMORY USAGE m SAMPLES 0");
    assert!(of_some > 50 * 20 && of_all > 50 * 20, "{of_some} {of_all}");
    assert!((of_some - of_all).abs() < of_all / 2, "{of_some} {of_all}");
}

fn copies_have_the_times_of_consumers() {
    let (_server, mut client) = server();
    fill(&mut client, "s", 3);
    client.check(&[("XGROUP CREATE s g 0", "+OK")]);
    client.ask("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    // The next read changes no record of the consumer.
    std::thread::sleep(std::time::Duration::from_millis(5));
    client.ask("XREADGROUP GROUP g a NOACK COUNT 1 STREAMS s >");
    let told = client.ask("XINFO STREAM s FULL");
    client.check(&[("COPY s t", ":1"), ("XINFO STREAM t FULL", &told)]);
    client.check(&[("RENAME t u", "+OK"), ("XINFO STREAM u FULL", &told)]);
    client.check(&[("MOVE u 1", ":1"), ("SELECT 1", "+OK"), ("XINFO STREAM u FULL", &told)]);
    client.check(&[
        ("MULTI", "+OK"),
        ("COPY u s DB 0", "+QUEUED"),
        ("COPY u s DB 0 REPLACE", "+QUEUED"),
    ]);
    client.check(&[("EXEC", "[:0, :1]"), ("DEL u", ":1"), ("SELECT 0", "+OK")]);
    client.check(&[("XINFO STREAM s FULL", &told)]);
}

fn a_stream_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut expected = String::new();
    for round in 0..4_u64 {
        let server = Running::on(common::open(&path), |_| {});
        let mut client = server.client();
        if round > 0 {
            assert_eq!(client.ask("XINFO STREAM s FULL COUNT 0"), expected);
        } else {
            client.check(&[("XGROUP CREATE s g 0 MKSTREAM", "+OK")]);
        }
        for number in 1..=20 {
            client.ask(&format!("XADD s {}-{number} f v{number}", round + 1));
        }
        let id = round + 1;
        client.ask("XREADGROUP GROUP g a COUNT 7 STREAMS s >");
        client.ask(&format!("XACK s g {id}-1 {id}-2"));
        client.ask(&format!("XDEL s {id}-20 {id}-3"));
        client.ask("XTRIM s MAXLEN 30");
        client.ask(&format!("XADD s {id}-30 last 1"));
        if round == 2 {
            client.ask(&format!("XDEL s {id}-30"));
        }
        expected = client.ask("XINFO STREAM s FULL COUNT 0");
    }
}

fn transactions_have_streams() {
    let (_server, mut client) = server();
    client.check(&[
        ("MULTI", "+OK"),
        ("XADD s 1-0 a 1", "+QUEUED"),
        ("XGROUP CREATE s g 0", "+QUEUED"),
        ("XREADGROUP GROUP g a STREAMS s >", "+QUEUED"),
        ("XACK s g 1", "+QUEUED"),
        ("XADD s 1-0 a 1", "+QUEUED"),
        ("XREAD BLOCK 0 STREAMS s $", "+QUEUED"),
        ("XADD s 2-0 a 1", "+QUEUED"),
        ("EXEC", "[\"1-0\", +OK, [[\"s\", [[\"1-0\", [\"a\", \"1\"]]]]], :1, -ERR The ID specified in XADD is equal or smaller than the target stream top item, nil, \"2-0\"]"),
        ("XLEN s", ":2"),
        ("MULTI", "+OK"),
        ("DEL s", "+QUEUED"),
        ("XADD s 1-5 a 1", "+QUEUED"),
        ("XINFO GROUPS s", "+QUEUED"),
        ("XLEN s", "+QUEUED"),
        ("EXEC", "[:1, \"1-5\", [], :1]"),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g a STREAMS s >", "[[\"s\", [[\"1-5\", [\"a\", \"1\"]]]]]"),
        ("WATCH s", "+OK"),
        ("XREADGROUP GROUP g a STREAMS s 0", "[[\"s\", [[\"1-5\", [\"a\", \"1\"]]]]]"),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("EXEC", "[+PONG]"),
        ("WATCH s", "+OK"),
        ("XADD s 3-0 a 1", "\"3-0\""),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("EXEC", "nil"),
    ]);
}

fn the_newer_protocol_has_maps() {
    let (_server, mut client) = server();
    client.ask("HELLO 3");
    fill(&mut client, "s", 1);
    client.check(&[
        ("XREAD STREAMS s 0", "{\"s\": [[\"1-0\", [\"f\", \"1\"]]]}"),
        ("XREAD STREAMS s $", "nil"),
        ("XRANGE s - + COUNT 0", "nil"),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g a STREAMS s s > 0", "{\"s\": [[\"1-0\", [\"f\", \"1\"]]], \"s\": [[\"1-0\", [\"f\", \"1\"]]]}"),
        ("XINFO GROUPS s", "[{\"name\": \"g\", \"consumers\": :1, \"pending\": :1, \"last-delivered-id\": \"1-0\", \"entries-read\": :1, \"lag\": :0}]"),
        ("XPENDING s g", "[:1, \"1-0\", \"1-0\", [[\"a\", \"1\"]]]"),
    ]);
    assert!(client.ask("XINFO STREAM s FULL").starts_with("{\"length\": :1, "));
    assert!(client.ask("XINFO CONSUMERS s g").starts_with("[{\"name\": \"a\", "));
}
