//! Sorted sets: members with scores, by scores, ranks and bytes, as in Redis.

use std::io::BufRead;

use crate::common::{Running, words};

on_threads! {
    scores_are_set_under_conditions
    scores_are_read_as_text
    ranks_and_counts_are_those_of_the_order
    ranges_by_rank_score_and_member
    ranges_are_stored_and_removed
    members_with_the_lowest_and_highest_scores_are_taken
    several_sets_are_joined
    random_members_are_of_the_set
    members_are_scanned
    other_types_and_wrong_words_are_refused
    the_settings_say_which_sorted_sets_are_packed
    resp3_has_doubles_and_pairs
    a_large_sorted_set_survives_a_restart
    transactions_change_sorted_sets_together
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "-ERR syntax error";
const NOT_A_FLOAT: &str = "-ERR value is not a valid float";

fn scores_are_set_under_conditions() {
    let nan = "-ERR resulting score is not a number (NaN)";
    let both = "-ERR XX and NX options at the same time are not compatible";
    let gt = "-ERR GT, LT, and/or NX options at the same time are not compatible";
    Running::start().client().check(&[
        ("ZADD z 1 a 2 b", ":2"),
        ("ZADD z 3 a 4 c", ":1"),
        ("ZADD z CH 5 a 6 c 7 d", ":3"),
        ("ZADD z NX 9 a 8 e", ":1"),
        ("ZADD z XX CH 1 a 8 f", ":1"),
        ("ZADD z GT CH 0 a 10 b", ":1"),
        ("ZADD z LT CH 5 a -1 b", ":1"),
        ("ZSCORE z b", "\"-1\""),
        ("ZADD z INCR 1.5 b", "\"0.5\""),
        ("ZADD z NX INCR 1 b", "nil"),
        ("ZADD z XX INCR 1 none", "nil"),
        ("ZADD none XX 1 a", ":0"),
        ("EXISTS none", ":0"),
        ("ZINCRBY z 2 b", "\"2.5\""),
        ("ZINCRBY zero -0 m", "\"-0\""),
        ("ZSCORE zero m", "\"0\""),
        ("CONFIG SET zset-max-listpack-entries 1", "+OK"),
        ("ZADD zero -0 n", ":1"),
        ("ZRANGE zero 0 -1 WITHSCORES", "[\"m\", \"0\", \"n\", \"-0\"]"),
        ("CONFIG SET zset-max-listpack-entries 128", "+OK"),
        ("ZINCRBY z inf b", "\"inf\""),
        ("ZINCRBY z -inf b", nan),
        ("ZADD z NX XX 1 a", both),
        ("ZADD z NX GT 1 a", gt),
        ("ZADD z LT GT 1 a", gt),
        ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
        ("ZADD z 1 a 2", SYNTAX),
        ("ZADD z NX CH 1", SYNTAX),
        ("ZADD z x a", NOT_A_FLOAT),
        ("ZADD z nan a", NOT_A_FLOAT),
        ("ZADD z 1 new x b", NOT_A_FLOAT),
        ("ZSCORE z new", "nil"),
        ("ZREM z a b none", ":2"),
        ("ZREM z c d e", ":3"),
        ("EXISTS z", ":0"),
    ]);
}

fn scores_are_read_as_text() {
    Running::start().client().check(&[
        ("ZADD z 0.1 a 1e20 b 100 c -inf d 1e-7 e 3.0000000000000004 f 0x10 g", ":7"),
        (
            "ZMSCORE z a b c d e f g none",
            "[\"0.1\", \"1e+20\", \"100\", \"-inf\", \"1e-7\", \"3.0000000000000004\", \"16\", nil]",
        ),
        ("ZSCORE none a", "nil"),
        ("ZMSCORE none a b", "[nil, nil]"),
        ("ZCARD z", ":7"),
        ("ZCARD none", ":0"),
    ]);
}

fn ranks_and_counts_are_those_of_the_order() {
    Running::start().client().check(&[
        ("ZADD z 1 a 2 b 2 c 3 d", ":4"),
        ("ZRANK z c", ":2"),
        ("ZREVRANK z a", ":3"),
        ("ZRANK z c WITHSCORE", "[:2, \"2\"]"),
        ("ZRANK z none", "nil"),
        ("ZRANK z none WITHSCORE", "nil"),
        ("ZRANK z c WITHSCORES", SYNTAX),
        ("ZCOUNT z 2 3", ":3"),
        ("ZCOUNT z (2 +inf", ":1"),
        ("ZCOUNT z 3 2", ":0"),
        ("ZCOUNT none 1 2", ":0"),
        ("ZCOUNT z x 2", "-ERR min or max is not a float"),
        ("ZADD lex 0 a 0 b 0 c 0 d", ":4"),
        ("ZLEXCOUNT lex - +", ":4"),
        ("ZLEXCOUNT lex [b (d", ":2"),
        ("ZLEXCOUNT lex b d", "-ERR min or max not valid string range item"),
    ]);
}

fn ranges_by_rank_score_and_member() {
    let limit = "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX";
    let scores = "-ERR syntax error, WITHSCORES not supported in combination with BYLEX";
    Running::start().client().check(&[
        ("ZADD z 1 a 2 b 2.5 c 3 d", ":4"),
        ("ZRANGE z 0 -1", "[\"a\", \"b\", \"c\", \"d\"]"),
        ("ZRANGE z 1 2 WITHSCORES", "[\"b\", \"2\", \"c\", \"2.5\"]"),
        ("ZRANGE z 0 1 REV", "[\"d\", \"c\"]"),
        ("ZREVRANGE z 0 0 WITHSCORES", "[\"d\", \"3\"]"),
        ("ZRANGE z (1 3 BYSCORE", "[\"b\", \"c\", \"d\"]"),
        ("ZRANGE z 3 (1 BYSCORE REV LIMIT 1 1", "[\"c\"]"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT 1 -1", "[\"b\", \"c\", \"d\"]"),
        ("ZRANGEBYSCORE z -inf +inf LIMIT -1 2", "[]"),
        ("ZREVRANGEBYSCORE z 2.5 2 WITHSCORES", "[\"c\", \"2.5\", \"b\", \"2\"]"),
        ("ZADD lex 0 a 0 b 0 c 0 d", ":4"),
        ("ZRANGE lex [b + BYLEX", "[\"b\", \"c\", \"d\"]"),
        ("ZRANGE lex + [b BYLEX REV LIMIT 0 2", "[\"d\", \"c\"]"),
        ("ZRANGEBYLEX lex - (c", "[\"a\", \"b\"]"),
        ("ZREVRANGEBYLEX lex (c -", "[\"b\", \"a\"]"),
        ("ZRANGE none 0 -1", "[]"),
        ("ZRANGE z 0 -1 LIMIT 0 1", limit),
        ("ZRANGE lex - + BYLEX WITHSCORES", scores),
        ("ZRANGE z 0 -1 NONE", SYNTAX),
        ("ZRANGEBYSCORE z 0 1 REV", SYNTAX),
        ("ZRANGE z 0 x", "-ERR value is not an integer or out of range"),
        ("ZRANGE z 0 x BYSCORE", "-ERR min or max is not a float"),
        ("ZRANGE z 0 1 BYLEX", "-ERR min or max not valid string range item"),
    ]);
}

fn ranges_are_stored_and_removed() {
    Running::start().client().check(&[
        ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
        ("ZRANGESTORE t z 1 2", ":2"),
        ("ZRANGE t 0 -1 WITHSCORES", "[\"b\", \"2\", \"c\", \"3\"]"),
        ("ZRANGESTORE t z (1 +inf BYSCORE LIMIT 0 1", ":1"),
        ("ZRANGE t 0 -1", "[\"b\"]"),
        ("ZRANGESTORE t none 0 -1", ":0"),
        ("EXISTS t", ":0"),
        ("ZRANGESTORE z z 1 -1", ":3"),
        ("ZREMRANGEBYRANK z 0 0", ":1"),
        ("ZREMRANGEBYSCORE z (3 4", ":1"),
        ("ZRANGE z 0 -1", "[\"c\"]"),
        ("ZREMRANGEBYLEX z [a [z", ":1"),
        ("EXISTS z", ":0"),
        ("ZREMRANGEBYRANK z 0 -1", ":0"),
    ]);
}

fn members_with_the_lowest_and_highest_scores_are_taken() {
    Running::start().client().check(&[
        ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
        ("ZPOPMIN z", "[\"a\", \"1\"]"),
        ("ZPOPMAX z 2", "[\"e\", \"5\", \"d\", \"4\"]"),
        ("ZPOPMIN z 0", "[]"),
        ("ZPOPMIN none", "[]"),
        ("ZPOPMIN z -1", "-ERR value is out of range, must be positive"),
        ("ZPOPMIN z 1 2", SYNTAX),
        ("ZMPOP 2 none z MIN", "[\"z\", [[\"b\", \"2\"]]]"),
        ("ZMPOP 1 z MAX COUNT 5", "[\"z\", [[\"c\", \"3\"]]]"),
        ("EXISTS z", ":0"),
        ("ZMPOP 1 z MAX", "nil"),
        ("ZMPOP 0 z MAX", "-ERR numkeys should be greater than 0"),
        ("ZMPOP 1 z UP", SYNTAX),
        ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0"),
    ]);
}

fn several_sets_are_joined() {
    Running::start().client().check(&[
        ("ZADD a 1 x 2 y", ":2"),
        ("ZADD b 10 y 20 z", ":2"),
        ("ZUNION 2 a b WITHSCORES", "[\"x\", \"1\", \"y\", \"12\", \"z\", \"20\"]"),
        (
            "ZUNION 2 a b WEIGHTS 2 1 AGGREGATE MIN WITHSCORES",
            "[\"x\", \"2\", \"y\", \"4\", \"z\", \"20\"]",
        ),
        ("ZINTER 2 a b AGGREGATE MAX WITHSCORES", "[\"y\", \"10\"]"),
        ("ZDIFF 2 a b WITHSCORES", "[\"x\", \"1\"]"),
        ("ZINTERCARD 2 a b", ":1"),
        ("ZINTERCARD 2 a a LIMIT 1", ":1"),
        ("ZINTERCARD 2 a none", ":0"),
        ("ZUNIONSTORE t 3 a b none", ":3"),
        ("ZSCORE t y", "\"12\""),
        ("ZINTERSTORE t 2 a b WEIGHTS 1 0.5", ":1"),
        ("ZRANGE t 0 -1 WITHSCORES", "[\"y\", \"7\"]"),
        ("ZDIFFSTORE a 2 a b", ":1"),
        ("ZRANGE a 0 -1", "[\"x\"]"),
        ("ZINTERSTORE t 2 a b", ":0"),
        ("EXISTS t", ":0"),
        ("ZADD i inf m", ":1"),
        ("ZADD j -inf m", ":1"),
        ("ZUNION 2 i j WITHSCORES", "[\"m\", \"0\"]"),
        ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
        ("ZUNIONSTORE t 3 a b", SYNTAX),
        ("ZUNION 1 a WEIGHTS x", "-ERR weight value is not a float"),
        ("ZUNION 1 a AGGREGATE AVG", SYNTAX),
        ("ZDIFF 1 a WEIGHTS 1", SYNTAX),
        ("ZUNIONSTORE t 1 a WITHSCORES", SYNTAX),
        ("ZINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
    ]);
}

fn random_members_are_of_the_set() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("ZRANDMEMBER none", "nil"),
        ("ZRANDMEMBER none 3", "[]"),
        ("ZADD z 1 a", ":1"),
        ("ZRANDMEMBER z", "\"a\""),
        ("ZRANDMEMBER z 3", "[\"a\"]"),
        ("ZRANDMEMBER z -3", "[\"a\", \"a\", \"a\"]"),
        ("ZRANDMEMBER z -2 WITHSCORES", "[\"a\", \"1\", \"a\", \"1\"]"),
        ("ZRANDMEMBER z 0", "[]"),
        ("ZRANDMEMBER z 1 NONE", SYNTAX),
        ("ZRANDMEMBER z -9223372036854775807 WITHSCORES", "-ERR value is out of range"),
        ("ZADD z 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i", ":8"),
    ]);
    for count in [2, 5, 9, 20] {
        let reply = client.ask(&format!("ZRANDMEMBER z {count}"));
        let mut members: Vec<&str> = reply.trim_matches(['[', ']']).split(", ").collect();
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), count.min(9));
    }
}

fn members_are_scanned() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("ZSCAN none 0", "[\"0\", []]"),
        ("ZADD small 0.5 a 2 b", ":2"),
        ("ZSCAN small 0", "[\"0\", [\"a\", \"0.5\", \"b\", \"2\"]]"),
        ("ZSCAN small 0 MATCH b*", "[\"0\", [\"b\", \"2\"]]"),
        ("ZSCAN small x", "-ERR invalid cursor"),
        ("ZSCAN small 0 COUNT 0", SYNTAX),
    ]);
    let members: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let mut request = words("ZADD z");
    members.iter().for_each(|member| request.extend(["0.1", member]));
    assert_eq!(client.call(&request), ":500");
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let (next, page) = crate::common::page(&client.ask(&format!("ZSCAN z {cursor} COUNT 20")));
        assert!(page.len() % 2 == 0);
        for pair in page.chunks(2) {
            // Redis writes the scores of larger sets with all digits here.
            assert_eq!(pair[1], "0.10000000000000001");
            seen.insert(pair[0].clone());
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    assert_eq!(seen, members.into_iter().collect());
}

fn other_types_and_wrong_words_are_refused() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET s v", "+OK"), ("RPUSH l a", ":1")]);
    for request in [
        "ZADD s 1 a",
        "ZINCRBY l 1 a",
        "ZREM s a",
        "ZSCORE l a",
        "ZMSCORE s a",
        "ZCARD l",
        "ZCOUNT s 0 1",
        "ZLEXCOUNT l - +",
        "ZRANK s a",
        "ZRANGE l 0 1",
        "ZRANGESTORE t s 0 1",
        "ZREMRANGEBYRANK s 0 1",
        "ZPOPMIN l",
        "ZMPOP 1 s MIN",
        "ZRANDMEMBER l",
        "ZUNION 1 s",
        "ZINTERSTORE t 1 l",
        "ZSCAN s 0",
        "GEOADD s 1 1 a",
        "GEOPOS l a",
    ] {
        assert_eq!(client.ask(request), WRONG_TYPE, "{request}");
    }
    client.check(&[("GET s", "\"v\""), ("EXISTS t", ":0")]);
}

fn the_settings_say_which_sorted_sets_are_packed() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        (
            "CONFIG GET zset-max-listpack-*",
            "[\"zset-max-listpack-entries\", \"128\", \"zset-max-listpack-value\", \"64\"]",
        ),
        ("ZADD z 1 a 2 b", ":2"),
        ("OBJECT ENCODING z", "\"listpack\""),
        ("CONFIG SET zset-max-ziplist-entries 2 zset-max-ziplist-value 5", "+OK"),
        ("CONFIG GET zset-max-listpack-entries", "[\"zset-max-listpack-entries\", \"2\"]"),
    ]);
    let mut other = server.client();
    other.check(&[
        ("ZADD z 3 c", ":1"),
        ("OBJECT ENCODING z", "\"skiplist\""),
        ("ZREM z b c", ":2"),
        ("OBJECT ENCODING z", "\"skiplist\""),
        ("ZADD y 1 longer", ":1"),
        ("OBJECT ENCODING y", "\"skiplist\""),
    ]);
}

fn resp3_has_doubles_and_pairs() {
    let server = Running::start();
    let mut client = server.client();
    assert!(client.ask("HELLO 3").starts_with('{'));
    client.check(&[("ZADD z 1 a 2.5 b inf c", ":3")]);
    for (request, expected) in [
        ("ZSCORE z b", ",2.5"),
        ("ZSCORE z c", ",inf"),
        ("ZINCRBY z 1 b", ",3.5"),
        ("ZRANGE z 0 0 WITHSCORES", "*1 *2 $1 a ,1"),
        ("ZPOPMIN z", "*2 $1 a ,1"),
        ("ZPOPMIN z 1", "*1 *2 $1 b ,3.5"),
        ("ZMPOP 1 z MIN", "*2 $1 z *1 *2 $1 c ,inf"),
        ("ZMPOP 1 z MIN", "_"),
    ] {
        client.send_words(&words(request));
        let mut lines = Vec::new();
        for _ in expected.split(' ') {
            let mut line = String::new();
            client.socket.read_line(&mut line).unwrap();
            lines.push(line.trim_end().to_owned());
        }
        assert_eq!(lines.join(" "), expected, "{request}");
    }
}

fn a_large_sorted_set_survives_a_restart() {
    let mut server = Running::start();
    let mut client = server.client();
    let members: Vec<(String, String)> =
        (0..3000).map(|number| ((number % 100).to_string(), format!("m{number}"))).collect();
    let mut request = words("ZADD z");
    members.iter().for_each(|(score, member)| request.extend([&score[..], member]));
    assert_eq!(client.call(&request), ":3000");
    client.check(&[
        ("ZADD z 1000 m5", ":0"),
        ("ZREMRANGEBYSCORE z 10 19", ":300"),
        ("ZPOPMIN z", "[\"m0\", \"0\"]"),
    ]);
    server.stop().unwrap();
    let server = Running::on(server.db.clone(), |_| {});
    let long = "m".repeat(3000);
    let mut client = server.client();
    client.check(&[
        ("ZSCORE z m5", "\"1000\""),
        ("ZCARD z", ":2699"),
        ("ZREVRANGE z 0 0", "[\"m5\"]"),
        ("ZCOUNT z 10 20", ":30"),
        ("ZRANK z m100", ":0"),
    ]);
    assert_eq!(client.call(&["ZADD", "z", "-5", &long]), ":1");
    assert_eq!(client.call(&["ZRANK", "z", &long]), ":0");
    client.check(&[("DEL z", ":1"), ("ZADD z 1 a", ":1"), ("ZCARD z", ":1")]);
}

fn transactions_change_sorted_sets_together() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("CONFIG SET zset-max-listpack-entries 1", "+OK"),
        ("ZADD a 1 x 2 y", ":2"),
        ("MULTI", "+OK"),
        ("ZADD a 3 z", "+QUEUED"),
        ("ZRANGESTORE b a 0 -1 REV", "+QUEUED"),
        ("ZPOPMAX a", "+QUEUED"),
        ("ZINCRBY a inf x", "+QUEUED"),
        ("ZINCRBY a -inf x", "+QUEUED"),
        ("DEL b", "+QUEUED"),
        ("ZUNIONSTORE b 1 a", "+QUEUED"),
        (
            "EXEC",
            "[:1, :3, [\"z\", \"3\"], \"inf\", -ERR resulting score is not a number (NaN), :1, :2]",
        ),
        ("ZRANGE a 0 -1", "[\"y\", \"x\"]"),
        ("ZRANGE b 0 -1", "[\"y\", \"x\"]"),
    ]);
}
