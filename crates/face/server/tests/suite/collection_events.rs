//! Keyspace notifications of the commands on collections: each request, and its events as Redis sends them.

use super::notifications::{check, event, server};
use crate::common::{Client, wait_for_blocked};

on_threads! {
    lists_have_their_events
    hashes_have_their_events
    fields_that_expire_have_their_events
    sets_have_their_events
    sorted_sets_have_their_events
    places_have_their_events
    streams_have_their_events
    bits_and_hyperloglogs_have_their_events
    sorting_has_its_events
    large_collections_have_the_same_events
    a_collection_that_expires_or_moves_has_its_events
    scripts_and_transactions_send_what_their_commands_do
    what_was_waited_for_has_its_events
    nothing_is_sent_for_what_is_refused
}

/// Performs requests on a new server, each of which has these events behind it, and no others.
#[track_caller]
fn check_all(requests: &[(&str, &str)]) {
    let (_server, mut client, mut subscribers) = server("EAnm");
    check(&mut client, &mut subscribers, requests);
}

fn lists_have_their_events() {
    check_all(&[
        ("LPUSH l 1 2 3", "0 new l, 0 lpush l"),
        ("RPUSH l 4", "0 rpush l"),
        ("LPUSHX l 5", "0 lpush l"),
        ("RPUSHX l 6", "0 rpush l"),
        ("LPUSHX none 1", ""),
        ("LINSERT l BEFORE 5 x", "0 linsert l"),
        ("LINSERT l AFTER nothing x", ""),
        ("LINSERT none AFTER 1 x", ""),
        ("LSET l 0 y", "0 lset l"),
        ("LREM l 0 nothing", ""),
        ("LREM l 0 y", "0 lrem l"),
        ("LPOP l", "0 lpop l"),
        ("RPOP l 2", "0 rpop l"),
        ("LPOP l 0", ""),
        ("LPOP none", ""),
        ("RPOP none 2", ""),
        ("LTRIM l 0 -1", "0 ltrim l"),
        ("LTRIM none 0 -1", ""),
        ("LMOVE l l LEFT RIGHT", "0 rpush l, 0 lpop l"),
        ("LMOVE l m RIGHT LEFT", "0 new m, 0 lpush m, 0 rpop l"),
        ("RPOPLPUSH l m", "0 lpush m, 0 rpop l"),
        ("RPOPLPUSH l m", "0 lpush m, 0 rpop l, 0 del l"),
        ("LMOVE l m LEFT LEFT", ""),
        ("BLMOVE m l LEFT LEFT 0", "0 new l, 0 lpush l, 0 lpop m"),
        ("BRPOPLPUSH m m 0", "0 lpush m, 0 rpop m"),
        ("LMPOP 2 none m RIGHT COUNT 9", "0 rpop m, 0 del m"),
        ("LMPOP 1 none LEFT", ""),
        ("RPUSH l a a", "0 rpush l"),
        ("BLPOP none l 0", "0 lpop l"),
        ("BLMPOP 0 2 none l LEFT", "0 lpop l"),
        ("LREM l -1 a", "0 lrem l, 0 del l"),
        ("RPUSH l a a", "0 new l, 0 rpush l"),
        ("LTRIM l 5 9", "0 ltrim l, 0 del l"),
        ("RPUSH l a", "0 new l, 0 rpush l"),
        ("BRPOP l 0", "0 rpop l, 0 del l"),
        ("LLEN none", "0 keymiss none"),
        ("LRANGE none 0 -1", "0 keymiss none"),
        ("LINDEX none 0", "0 keymiss none"),
        ("LPOS none 0", "0 keymiss none"),
    ]);
}

fn hashes_have_their_events() {
    check_all(&[
        ("HSET h a 1 b 2", "0 new h, 0 hset h"),
        ("HSET h a 1", "0 hset h"),
        ("HMSET h c 1", "0 hset h"),
        ("HSETNX h c 1", ""),
        ("HSETNX h d 1", "0 hset h"),
        ("HSETNX i d 1", "0 new i, 0 hset i"),
        ("HINCRBY h a 1", "0 hincrby h"),
        ("HINCRBY j a 1", "0 new j, 0 hincrby j"),
        ("HINCRBYFLOAT h a 0.5", "0 hincrbyfloat h"),
        ("HINCRBYFLOAT k a 0.5", "0 new k, 0 hincrbyfloat k"),
        ("HDEL h a nothing", "0 hdel h"),
        ("HDEL h nothing", ""),
        ("HDEL none a", ""),
        ("HDEL h b c d", "0 hdel h, 0 del h"),
        ("HGET none a", "0 keymiss none"),
        ("HMGET none a b", "0 keymiss none"),
        ("HGETALL none", "0 keymiss none"),
        ("HLEN none", "0 keymiss none"),
        ("HSCAN none 0", "0 keymiss none"),
        ("HRANDFIELD none", "0 keymiss none"),
        ("HGET i nothing", ""),
    ]);
}

fn fields_that_expire_have_their_events() {
    check_all(&[
        ("HSET h a 1 b 2 c 3 d 4", "0 new h, 0 hset h"),
        ("HEXPIRE h 100 FIELDS 2 a b", "0 hexpire h"),
        ("HEXPIRE h 100 NX FIELDS 1 a", ""),
        ("HEXPIRE h 100 FIELDS 1 nothing", ""),
        ("HEXPIREAT h 99999999 FIELDS 1 d", "0 hdel h"),
        ("HPERSIST h FIELDS 2 a nothing", "0 hpersist h"),
        ("HPERSIST h FIELDS 1 a", ""),
        ("HPEXPIREAT h 1 FIELDS 3 a b c", "0 hdel h, 0 del h"),
        ("HSETEX h FIELDS 1 a 1", "0 new h, 0 hset h"),
        ("HSETEX h EX 100 FIELDS 1 b 1", "0 hset h, 0 hexpire h"),
        ("HSETEX h FNX FIELDS 1 a 1", ""),
        ("HSETEX h PXAT 1 FIELDS 1 b 1", "0 hset h, 0 hdel h"),
        ("HSETEX m PXAT 1 FIELDS 1 b 1", "0 new m, 0 hset m, 0 hdel m, 0 del m"),
        ("HGETEX h FIELDS 1 a", ""),
        ("HGETEX h EX 100 FIELDS 1 a", "0 hexpire h"),
        ("HGETEX h PERSIST FIELDS 1 a", "0 hpersist h"),
        ("HGETEX h PERSIST FIELDS 1 a", ""),
        ("HGETEX h PXAT 1 FIELDS 1 a", "0 hdel h, 0 del h"),
        ("HSET h a 1 b 2", "0 new h, 0 hset h"),
        ("HGETDEL h FIELDS 1 nothing", ""),
        ("HGETDEL h FIELDS 1 a", "0 hdel h"),
        ("HGETDEL h FIELDS 1 b", "0 hdel h, 0 del h"),
        ("HTTL none FIELDS 1 a", "0 keymiss none"),
        ("HSET h a 1 b 2", "0 new h, 0 hset h"),
        ("HPEXPIRE h 1 FIELDS 1 a", "0 hexpire h, 0 hexpired h"),
        ("HPEXPIRE h 1 FIELDS 1 b", "0 hexpire h, 0 hexpired h, 0 del h"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", ""),
        ("HSET h a 1 b 2 c 3 d 4 e 5", "0 new h, 0 hset h"),
        ("HPEXPIRE h 1 FIELDS 5 a b c d e", "0 hexpire h"),
        ("DEBUG SLEEP 0.01", ""),
        ("HMGET h a b", "0 hexpired h"),
        ("HSETNX h c 1", "0 hexpired h, 0 hset h"),
        ("HDEL h c", "0 hdel h"),
        ("HINCRBY h d 1", "0 hexpired h, 0 hincrby h"),
        ("HDEL h d", "0 hdel h"),
        ("HGET h e", "0 hexpired h, 0 del h"),
    ]);
}

fn sets_have_their_events() {
    check_all(&[
        ("SADD s a b c", "0 new s, 0 sadd s"),
        ("SADD s a", ""),
        ("SADD s a d", "0 sadd s"),
        ("SREM s nothing", ""),
        ("SREM s d nothing", "0 srem s"),
        ("SREM none a", ""),
        ("SMOVE s t a", "0 srem s, 0 new t, 0 sadd t"),
        ("SMOVE s t nothing", ""),
        ("SMOVE s s b", ""),
        ("SADD t b", "0 sadd t"),
        ("SMOVE s t b", "0 srem s"),
        ("SMOVE s t c", "0 srem s, 0 del s, 0 sadd t"),
        ("SPOP t", "0 spop t"),
        ("SPOP t 0", ""),
        ("SPOP t 1", "0 spop t"),
        ("SPOP t 5", "0 spop t, 0 del t"),
        ("SPOP t", ""),
        ("SADD t b", "0 new t, 0 sadd t"),
        ("SPOP t", "0 spop t, 0 del t"),
        ("SADD s a b", "0 new s, 0 sadd s"),
        ("SADD t b c", "0 new t, 0 sadd t"),
        ("SINTERSTORE to s t", "0 new to, 0 sinterstore to"),
        ("SUNIONSTORE to s t", "0 sunionstore to"),
        ("SDIFFSTORE to s t", "0 sdiffstore to"),
        ("SDIFFSTORE to s s", "0 del to"),
        ("SDIFFSTORE to s s", ""),
        ("SINTERSTORE to s none", "0 keymiss none"),
        ("SUNIONSTORE s none none", "0 keymiss none, 0 keymiss none, 0 del s"),
        ("SINTER none t", "0 keymiss none"),
        ("SCARD none", "0 keymiss none"),
        ("SMEMBERS none", "0 keymiss none"),
        ("SRANDMEMBER none", "0 keymiss none"),
        ("SISMEMBER none a", "0 keymiss none"),
    ]);
}

fn sorted_sets_have_their_events() {
    check_all(&[
        ("ZADD z 1 a 2 b 3 c 4 d", "0 new z, 0 zadd z"),
        ("ZADD z 1 a", ""),
        ("ZADD z NX 5 a", ""),
        ("ZADD z XX 5 nothing", ""),
        ("ZADD none XX 5 a", ""),
        ("ZADD z CH 5 a", "0 zadd z"),
        ("ZADD z LT 9 a", ""),
        ("ZADD z INCR 1 a", "0 zincr z"),
        ("ZADD z INCR 0 a", ""),
        ("ZADD z GT INCR -1 a", ""),
        ("ZINCRBY z 1 a", "0 zincr z"),
        ("ZINCRBY y 1 a", "0 new y, 0 zincr y"),
        ("ZREM z nothing", ""),
        ("ZREM z d nothing", "0 zrem z"),
        ("ZREMRANGEBYRANK z 5 6", ""),
        ("ZREMRANGEBYRANK z 0 0", "0 zremrangebyrank z"),
        ("ZREMRANGEBYSCORE z 3 3", "0 zremrangebyscore z"),
        ("ZREMRANGEBYLEX z - +", "0 zremrangebylex z, 0 del z"),
        ("ZREM y a", "0 zrem y, 0 del y"),
        ("ZADD z 1 a 2 b 3 c 4 d", "0 new z, 0 zadd z"),
        ("ZPOPMIN z", "0 zpopmin z"),
        ("ZPOPMAX z 2", "0 zpopmax z"),
        ("ZPOPMAX z 0", ""),
        ("ZPOPMAX none", ""),
        ("ZPOPMIN z 2", "0 zpopmin z, 0 del z"),
        ("ZADD z 1 a 2 b 3 c 4 d 5 e", "0 new z, 0 zadd z"),
        ("ZMPOP 2 none z MIN", "0 zpopmin z"),
        ("BZPOPMAX none z 0", "0 zpopmax z"),
        ("BZPOPMIN z 0", "0 zpopmin z"),
        ("BZMPOP 0 1 z MAX COUNT 5", "0 zpopmax z, 0 del z"),
        ("ZADD z 1 a 2 b", "0 new z, 0 zadd z"),
        ("ZADD y 2 b 3 c", "0 new y, 0 zadd y"),
        ("ZRANGESTORE to z 0 -1", "0 new to, 0 zrangestore to"),
        ("ZRANGESTORE to z 5 6", "0 del to"),
        ("ZRANGESTORE to z 5 6", ""),
        ("ZUNIONSTORE to 2 z y", "0 new to, 0 zunionstore to"),
        ("ZINTERSTORE to 2 z y", "0 zinterstore to"),
        ("ZDIFFSTORE to 2 z y", "0 zdiffstore to"),
        ("ZINTERSTORE to 2 z none", "0 keymiss none, 0 del to"),
        ("ZRANGE none 0 -1", "0 keymiss none"),
        ("ZSCORE none a", "0 keymiss none"),
        ("ZCARD none", "0 keymiss none"),
        ("ZUNION 1 none", "0 keymiss none"),
    ]);
}

fn places_have_their_events() {
    check_all(&[
        ("GEOADD g 13.36 38.11 a 15.08 37.5 b", "0 new g, 0 zadd g"),
        ("GEOADD g 13.36 38.11 a", ""),
        ("GEOSEARCHSTORE to g FROMMEMBER a BYRADIUS 500 km", "0 new to, 0 geosearchstore to"),
        ("GEOSEARCHSTORE to g FROMLONLAT 0 0 BYRADIUS 1 km", "0 del to"),
        ("GEORADIUS g 15 37 500 km STORE to", "0 new to, 0 georadiusstore to"),
        ("GEORADIUSBYMEMBER g a 500 km STOREDIST to", "0 georadiusstore to"),
        ("GEORADIUS none 15 37 500 km STORE to", "0 keymiss none, 0 del to"),
        ("GEOPOS none a", "0 keymiss none"),
    ]);
}

fn streams_have_their_events() {
    check_all(&[
        ("XADD x NOMKSTREAM 1-1 f v", ""),
        ("XADD x 1-1 f v", "0 new x, 0 xadd x"),
        ("XADD x 2-1 f v", "0 xadd x"),
        ("XADD x MAXLEN 9 3-1 f v", "0 xadd x"),
        ("XADD x MAXLEN 2 4-1 f v", "0 xadd x, 0 xtrim x"),
        ("XTRIM x MAXLEN 5", ""),
        ("XTRIM x MAXLEN 1", "0 xtrim x"),
        ("XTRIM none MAXLEN 1", ""),
        ("XDEL x 9-9", ""),
        ("XDEL x 4-1 9-9", "0 xdel x"),
        ("XSETID x 5-1", "0 xsetid x"),
        ("XGROUP CREATE x g $", "0 xgroup-create x"),
        ("XGROUP CREATE y g $ MKSTREAM", "0 new y, 0 xgroup-create y"),
        ("XGROUP SETID x g 0", "0 xgroup-setid x"),
        ("XGROUP CREATECONSUMER x g c", "0 xgroup-createconsumer x"),
        ("XGROUP CREATECONSUMER x g c", ""),
        ("XGROUP DELCONSUMER x g nobody", ""),
        ("XGROUP DELCONSUMER x g c", "0 xgroup-delconsumer x"),
        ("XREADGROUP GROUP g c STREAMS x >", "0 xgroup-createconsumer x"),
        ("XADD x 6-1 f v", "0 xadd x"),
        (
            "XREADGROUP GROUP g d STREAMS x y > >",
            "0 xgroup-createconsumer x, 0 xgroup-createconsumer y",
        ),
        ("XREADGROUP GROUP g d STREAMS x 0", ""),
        ("XCLAIM x g e 0 6-1", "0 xgroup-createconsumer x"),
        ("XAUTOCLAIM x g f 0 0", "0 xgroup-createconsumer x"),
        ("XACK x g 6-1", ""),
        ("XADD x 7-1 f v", "0 xadd x"),
        ("XDELEX x IDS 2 6-1 9-9", "0 xdel x"),
        ("XDELEX x IDS 1 9-9", ""),
        ("XREADGROUP GROUP g d STREAMS x >", ""),
        ("XACKDEL x g IDS 1 7-1", "0 xdel x"),
        ("XGROUP DESTROY x nothing", ""),
        ("XGROUP DESTROY x g", "0 xgroup-destroy x"),
        ("XLEN none", "0 keymiss none"),
        ("XRANGE none - +", "0 keymiss none"),
        ("XACK none g 1-1", "0 keymiss none"),
        ("XREAD STREAMS none 0", "0 keymiss none, 0 keymiss none"),
        ("XREAD BLOCK 1 STREAMS none 0", "0 keymiss none, 0 keymiss none"),
        ("DEL x", "0 del x"),
    ]);
}

fn bits_and_hyperloglogs_have_their_events() {
    check_all(&[
        ("SETBIT b 3 1", "0 new b, 0 setbit b"),
        ("SETBIT b 3 1", ""),
        ("SETBIT c 3 0", "0 new c, 0 setbit c"),
        ("BITFIELD b SET u8 0 5", "0 setbit b"),
        ("BITFIELD b SET u8 0 5", ""),
        ("BITFIELD b SET u8 0 6 SET u8 0 5", "0 setbit b"),
        ("BITFIELD b OVERFLOW FAIL INCRBY u8 0 255", ""),
        ("BITFIELD b GET u8 0", ""),
        ("BITOP NOT to b", "0 new to, 0 set to"),
        ("BITOP AND to b to", "0 set to"),
        ("BITOP OR to none none", "0 keymiss none, 0 keymiss none, 0 del to"),
        ("BITCOUNT none", "0 keymiss none"),
        ("GETBIT none 1", "0 keymiss none"),
        ("PFADD p a", "0 new p, 0 pfadd p"),
        ("PFADD p a", ""),
        ("PFADD q", "0 new q, 0 pfadd q"),
        ("PFMERGE p q", "0 pfadd p"),
        ("PFMERGE r p", "0 keymiss r, 0 new r, 0 pfadd r"),
        ("PFCOUNT p", ""),
        ("PFCOUNT none", "0 keymiss none"),
        ("INCREX n BYINT 5 EX 100", "0 new n, 0 incrby n, 0 expire n"),
        ("INCREX n BYFLOAT 0.5 PERSIST", "0 incrbyfloat n, 0 persist n"),
        ("MSETEX 2 n 1 o 2 EX 100", "0 set n, 0 expire n, 0 new o, 0 set o, 0 expire o"),
        ("DELEX o", "0 del o"),
    ]);
}

fn sorting_has_its_events() {
    check_all(&[
        ("RPUSH l b a", "0 new l, 0 rpush l"),
        ("SORT l ALPHA", ""),
        ("SORT l ALPHA STORE to", "0 new to, 0 sortstore to"),
        ("SORT l ALPHA LIMIT 0 1 STORE to", "0 sortstore to"),
        ("SORT l ALPHA LIMIT 5 6 STORE to", "0 del to"),
        ("SORT none STORE l", "0 keymiss none, 0 del l"),
        ("RPUSH l 1", "0 new l, 0 rpush l"),
        ("SORT l BY w_* GET v_*", "0 keymiss w_1, 0 keymiss v_1"),
    ]);
}

fn large_collections_have_the_same_events() {
    let names = ["list", "hash", "set", "zset"];
    let types = names.map(|name| (name, if name == "list" { "size" } else { "entries" }));
    let (_server, mut client, mut subscribers) = server("EAnm");
    for (name, what) in types {
        let value = if name == "list" { 1 } else { 0 };
        let line = format!("CONFIG SET {name}-max-listpack-{what} {value}");
        assert_eq!(client.ask(&line), "+OK");
    }
    let requests = [
        ("RPUSH l 1 2 3 4", "0 new l, 0 rpush l"),
        ("LPUSH l 0", "0 lpush l"),
        ("LSET l 1 x", "0 lset l"),
        ("LTRIM l 0 2", "0 ltrim l"),
        ("LREM l 0 x", "0 lrem l"),
        ("RPOP l", "0 rpop l"),
        ("LPOP l", "0 lpop l, 0 del l"),
        ("HSET h a 1 b 2", "0 new h, 0 hset h"),
        ("HSET h a 1", "0 hset h"),
        ("HDEL h a nothing", "0 hdel h"),
        ("HDEL h b", "0 hdel h, 0 del h"),
        ("SADD s a b c d", "0 new s, 0 sadd s"),
        ("SADD s a", ""),
        ("SPOP s 3", "0 spop s"),
        ("SPOP s", "0 spop s, 0 del s"),
        ("ZADD z 1 a 2 b 3 c 4 d", "0 new z, 0 zadd z"),
        ("ZADD z 1 a", ""),
        ("ZREMRANGEBYRANK z 0 2", "0 zremrangebyrank z"),
        ("ZPOPMAX z", "0 zpopmax z, 0 del z"),
    ];
    check(&mut client, &mut subscribers, &requests);
}

fn a_collection_that_expires_or_moves_has_its_events() {
    check_all(&[
        ("SADD s a", "0 new s, 0 sadd s"),
        ("EXPIRE s 100", "0 expire s"),
        ("PERSIST s", "0 persist s"),
        ("RENAME s t", "0 new t, 0 rename_from s, 0 rename_to t"),
        ("COPY t s", "0 new s, 0 copy_to s"),
        ("MOVE s 1", "1 new s, 0 move_from s, 1 move_to s"),
        ("SET t 1", "0 set t"),
        ("DEL t", "0 del t"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", ""),
        ("RPUSH l a", "0 new l, 0 rpush l"),
        ("PEXPIRE l 1", "0 expire l"),
        ("DEBUG SLEEP 0.01", ""),
        ("RPUSH l a", "0 expired l, 0 new l, 0 rpush l"),
        ("PEXPIRE l 1", "0 expire l"),
        ("DEBUG SLEEP 0.01", ""),
        ("LLEN l", "0 expired l, 0 keymiss l"),
        ("SADD s a", "0 new s, 0 sadd s"),
        ("DEBUG SET-ACTIVE-EXPIRE 1", ""),
        ("PEXPIRE s 1", "0 expire s, 0 expired s"),
    ]);
}

fn scripts_and_transactions_send_what_their_commands_do() {
    let (_server, mut client, mut subscribers) = server("EAnm");
    let script = "redis.call('SADD',KEYS[1],'a') redis.call('SMOVE',KEYS[1],KEYS[2],'a')";
    let failing = format!("{script} return redis.error_reply('no')");
    assert_eq!(client.call(&["EVAL", script, "2", "s", "t"]), "nil");
    let mut events = vec!["0 new s", "0 sadd s", "0 srem s", "0 del s", "0 new t", "0 sadd t"];
    client.check(&[
        ("MULTI", "+OK"),
        ("RPUSH l 1", "+QUEUED"),
        ("BLPOP l 0", "+QUEUED"),
        ("BLPOP l 0", "+QUEUED"),
        ("LPUSH t 1", "+QUEUED"),
        ("EXEC", "[:1, [\"l\", \"1\"], nil, -WRONGTYPE Operation against a key holding the wrong kind of value]"),
    ]);
    events.extend(["0 new l", "0 rpush l", "0 lpop l", "0 del l"]);
    for expected in events {
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(event(subscriber), expected));
    }
    // The changes of a script that fails are undone, and nothing is sent.
    let failure = failing.replace("return redis.error_reply('no')", "error('no')");
    assert!(client.call(&["EVAL", &failure, "2", "u", "v"]).starts_with('-'));
    check(&mut client, &mut subscribers, &[("EXISTS u v", "0 keymiss u, 0 keymiss v")]);
}

/// The client is another one, which waits: its command comes first, and has these events behind those of the other.
fn what_was_waited_for_has_its_events() {
    let (server, mut client, mut subscribers) = server("EAnm");
    let mut waiting: Client = server.client();
    for (waits, then, events) in [
        ("BLPOP k 0", "RPUSH k a", "0 new k, 0 rpush k, 0 lpop k, 0 del k"),
        ("BRPOP k 0", "RPUSH k a b", "0 new k, 0 rpush k, 0 rpop k"),
        (
            "BLMOVE m k LEFT RIGHT 0",
            "LPUSH m c",
            "0 new m, 0 lpush m, 0 rpush k, 0 lpop m, 0 del m",
        ),
        ("BLMPOP 0 1 m LEFT COUNT 5", "RPUSH m a b", "0 new m, 0 rpush m, 0 lpop m, 0 del m"),
        ("BZPOPMIN z 0", "ZADD z 1 a 2 b", "0 new z, 0 zadd z, 0 zpopmin z"),
        ("BZMPOP 0 1 y MAX", "ZADD y 1 a", "0 new y, 0 zadd y, 0 zpopmax y, 0 del y"),
        ("XREAD BLOCK 0 STREAMS x $", "XADD x 1-1 f v", "0 new x, 0 xadd x"),
    ] {
        waiting.send_line(waits);
        wait_for_blocked(&server, 1);
        // A read of a stream that is not there has missed it, and that is of no interest here.
        assert_eq!(client.ask("CONFIG SET notify-keyspace-events EAn"), "+OK");
        client.ask(then);
        waiting.reply();
        for expected in events.split(", ") {
            for subscriber in &mut subscribers {
                let mut told = event(subscriber);
                while told.contains("keymiss") {
                    told = event(subscriber);
                }
                assert_eq!(told, expected, "{waits}");
            }
        }
    }
}

fn nothing_is_sent_for_what_is_refused() {
    let (_server, mut client, mut subscribers) = server("EAnm");
    client.ask("CONFIG SET notify-keyspace-events EA");
    client.ask("SET s 1");
    for subscriber in &mut subscribers {
        assert_eq!(event(subscriber), "0 set s");
    }
    for request in [
        "LPUSH s 1",
        "SADD s 1",
        "HSET s a 1",
        "ZADD s 1 a",
        "XADD s * f v",
        "LSET none 0 a",
        "XADD k 0-0 f v",
        "ZADD k x a",
        "HSET k a",
        "SINTERSTORE to s",
        "XGROUP CREATE none g $",
    ] {
        assert!(client.ask(request).starts_with('-'), "{request}");
    }
    client.ask("CONFIG SET notify-keyspace-events EAnm");
    check(&mut client, &mut subscribers, &[]);
}
