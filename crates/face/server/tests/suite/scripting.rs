//! Scripts and functions: their values, that they are atomic and durable, and that they can be ended.

use halite_resp_client::{Limits, Reply, read_reply};
use halite_server::Config;

use crate::common::{self, Client, Running, eventually};

on_threads! {
    values_are_converted
    errors_tell_their_place
    the_globals_are_protected
    an_error_undoes_a_script
    an_error_keeps_changes_if_that_is_configured
    scripts_are_part_of_transactions
    keys_may_be_undeclared
    a_script_sees_what_it_did
    a_script_that_never_ends_is_killed
    a_killed_script_cannot_go_on
    new_clients_can_kill_a_script
    a_script_is_seen_by_other_threads_at_once
    a_script_may_run_for_so_long
    the_end_of_the_server_ends_a_script
    memory_is_limited
    a_script_stops_the_collector_for_itself_only
    libraries_are_kept
    functions_are_called
    libraries_are_dumped_and_restored
    libraries_that_are_replaced_together_exchange_their_functions
    functions_are_found_in_any_case
    a_pause_of_writes_holds_scripts
    monitors_see_a_script_before_its_commands
    errors_of_scripts_are_counted
}

/// Sends an EVAL with these keys.
fn eval(client: &mut Client, script: &str, keys: &[&str]) -> String {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    client.call(&words)
}

#[track_caller]
fn check(client: &mut Client, cases: &[(&str, &str)]) {
    for (script, expected) in cases {
        assert_eq!(eval(client, script, &["k1", "k2"]), *expected, "{script}");
    }
}

fn values_are_converted() {
    let server = Running::start();
    let mut client = server.client();
    check(
        &mut client,
        &[
            ("return 3.99", ":3"),
            ("return {1, 'a', nil, 2}", "[:1, \"a\"]"),
            ("return {true, false}", "[:1, nil]"),
            ("return {ok = 'fine'}", "+fine"),
            ("return {err = 'My error'}", "-My error"),
            ("return KEYS", "[\"k1\", \"k2\"]"),
            ("return redis.call('SET', KEYS[1], 5)", "+OK"),
            ("return redis.call('INCR', KEYS[1])", ":6"),
            ("return redis.call('GET', KEYS[2]) == false", ":1"),
            ("return {double = 1.5}", "\"1.5\""),
            (
                "return redis.pcall('INCR', 'k1', 'k2').err",
                "\"ERR Wrong number of args calling Redis command from script\"",
            ),
            ("redis.setresp(3) return redis.call('GET', KEYS[2]) == nil", ":1"),
            ("return redis.sha1hex('')", "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\""),
            ("return cjson.encode({1, {a = cjson.null}})", "\"[1,{\\\"a\\\":null}]\""),
            ("return cmsgpack.unpack(cmsgpack.pack({1, 2}))", "[:1, :2]"),
            ("return {struct.unpack('>I2', struct.pack('>I2', 258))}", "[:258, :3]"),
            ("return bit.band(255, 15)", ":15"),
            // Texts end at a zero byte where Redis has them as texts of C.
            ("return {ok = 'a\\0b'}", "+a"),
            ("return redis.error_reply('E a\\0b')", "-E a"),
            ("return {err = '\\r\\nE\\na\\n'}", "-  E a"),
            ("return struct.size('>bhij')", ":7"),
            ("return cmsgpack.unpack('\\207' .. ('\\255'):rep(8))", ":-1"),
            ("return cjson.decode('[7]\\0x')[1]", ":7"),
            ("return cjson.decode('0x1p3') + cjson.decode('[+2]')[1]", ":10"),
            ("redis.setresp('3') redis.set_repl(nil)", "nil"),
        ],
    );
    client.ask("HELLO 3");
    check(
        &mut client,
        &[
            ("return {map = {a = 1}}", "{\"a\": :1}"),
            ("return {set = {a = true}}", "~[\"a\"]"),
            ("return false", "nil"),
        ],
    );
}

fn errors_tell_their_place() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("EVALSHA abc 0", "-NOSCRIPT No matching script. Please use EVAL."),
        ("EVAL x nan", "-ERR value is not an integer or out of range"),
        ("EVAL x 2 a", "-ERR Number of keys can't be greater than number of args"),
        ("EVAL x -1", "-ERR Number of keys can't be negative"),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
    ]);
    for (script, expected) in [
        (
            "return +",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '+'",
        ),
        ("redis.call('NOSUCH')", "-ERR Unknown Redis command called from script script: "),
        ("\nreturn redis.call()", "on @user_script:2."),
        ("redis.call('MULTI')", "-ERR This Redis command is not allowed from script script: "),
        ("error('boo')", "-ERR user_script:1: boo script: "),
        (
            "return foo",
            "user_script:1: Script attempted to access nonexistent global variable 'foo' script: ",
        ),
        (
            "#!lua flags=no-writes\nreturn redis.call('SET', 'a', 1)",
            "-ERR Write commands are not allowed from read-only scripts. script: ",
        ),
        (
            "return string.format('%s %s', 'a')",
            "-ERR user_script:1: bad argument #3 to 'format' (no value) script: ",
        ),
        (
            "local f = string.rep return f({})",
            "bad argument #1 to 'f' (string expected, got table)",
        ),
        ("return ('x'):rep({})", "bad argument #1 to 'rep' (number expected, got table)"),
        ("\x1bLua", "user_script:1: unexpected symbol near 'char(27)'"),
    ] {
        let reply = eval(&mut client, script, &[]);
        assert!(reply.contains(expected), "{script}: {reply}");
    }
    let reply = eval(&mut client, "return select(2, pcall(string.rep, {}))", &[]);
    assert!(reply.contains("bad argument #1 to \\'?\\' (string expected, got table)"), "{reply}");
    // A script is compiled before it is refused for what it does.
    assert!(client.call(&["EVAL_RO", "return +", "0"]).contains("unexpected symbol"));
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(client.call(&["SCRIPT", "LOAD", "return 1"]), format!("\"{digest}\""));
    client.check(&[
        (&format!("EVALSHA {digest} 0"), ":1"),
        (&format!("EVALSHA {} 0", digest.to_uppercase()), ":1"),
        (&format!("SCRIPT EXISTS {digest} abc"), "[:1, :0]"),
        ("SCRIPT FLUSH", "+OK"),
        (&format!("EVALSHA {digest} 0"), "-NOSCRIPT No matching script. Please use EVAL."),
    ]);
}

fn the_globals_are_protected() {
    let server = Running::start();
    let mut client = server.client();
    for script in [
        "a = 1",
        "redis.call = 1",
        "_G.a = 1",
        "rawset(_G, 'a', 1)",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = 1",
        "getmetatable('').__index = 1",
        "string.rep = 1",
        "cjson.encode = 1",
        "setmetatable(redis, nil)",
        "local _, redis = next({redis}) redis.call = 1",
    ] {
        let reply = eval(&mut client, script, &[]);
        assert!(reply.contains("Attempt to modify a readonly table"), "{script}: {reply}");
    }
    for name in ["io", "debug", "require", "dofile", "loadfile", "print", "package"] {
        let reply = eval(&mut client, &format!("return {name}"), &[]);
        assert!(reply.contains("nonexistent global variable"), "{name}: {reply}");
    }
    check(&mut client, &[("return type(os.clock())", "\"number\""), ("return os.execute", "nil")]);
}

fn an_error_undoes_a_script() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET k1 1", "+OK"), ("SET text x", "+OK")]);
    let script = "redis.call('SET', KEYS[1], 2) redis.call('DEL', KEYS[2]) return redis.call('INCR', KEYS[3])";
    let reply = eval(&mut client, script, &["k1", "k2", "text"]);
    assert!(reply.starts_with("-ERR value is not an integer"), "{reply}");
    client.check(&[("GET k1", "\"1\"")]);
    let caught = "redis.call('SET', KEYS[1], 2) return redis.pcall('INCR', KEYS[2])";
    let reply = eval(&mut client, caught, &["k1", "text"]);
    assert_eq!(reply, "-ERR value is not an integer or out of range");
    client.check(&[("GET k1", "\"2\"")]);
}

fn an_error_keeps_changes_if_that_is_configured() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET script-rollback no", "+OK"), ("SET k1 1", "+OK")]);
    let reply = eval(&mut client, "redis.call('SET', KEYS[1], 2) error('boo')", &["k1"]);
    assert!(reply.starts_with("-ERR user_script:1: boo"), "{reply}");
    client.check(&[
        ("GET k1", "\"2\""),
        ("CONFIG GET script-rollback", "[\"script-rollback\", \"no\"]"),
    ]);
    // Keys of other threads do not let it begin anew.
    let script = "redis.call('INCR', KEYS[1]) for n = 1, 20 do redis.call('INCR', 'key' .. n) end";
    assert_eq!(eval(&mut client, script, &["k1"]), "nil");
    client.check(&[("MGET k1 key1 key20", "[\"3\", \"1\", \"1\"]")]);
}

fn scripts_are_part_of_transactions() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.check(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED")]);
    let queued = [
        ("redis.call('INCR', KEYS[1]) return redis.call('GET', KEYS[1])", "a"),
        ("redis.call('SET', KEYS[1], 'gone') redis.call('DEL', 'a') error('boo')", "b"),
        ("return redis.call('INCR', 'undeclared')", "c"),
    ];
    for (script, key) in queued {
        assert_eq!(eval(&mut client, script, &[key]), "+QUEUED");
    }
    assert_eq!(other.ask("GET a"), "nil");
    let reply = client.ask("EXEC");
    assert!(reply.starts_with("[+OK, \"2\", -ERR user_script:1: boo"), "{reply}");
    assert!(reply.ends_with(", :1]"), "{reply}");
    client.check(&[("MGET a b undeclared", "[\"2\", nil, \"1\"]")]);
}

fn keys_may_be_undeclared() {
    let server = Running::start();
    let mut client = server.client();
    let script = "redis.call('INCR', KEYS[1]) for n = 1, 20 do redis.call('INCR', 'key' .. n) end \
        return #redis.call('KEYS', 'key*')";
    for round in 1..4 {
        assert_eq!(eval(&mut client, script, &["first"]), ":20");
        client.check(&[(
            "MGET first key1 key7 key20",
            &format!("[\"{0}\", \"{0}\", \"{0}\", \"{0}\"]", round),
        )]);
    }
    // Scripts of which the server does not know that yet, and that borrow the parts of their keys.
    for number in 0..12 {
        let script =
            format!("redis.call('INCR', KEYS[1]) return redis.call('INCR', 'total') -- {number}");
        let (first, total) = (format!("first{number}"), format!(":{}", number + 1));
        assert_eq!(eval(&mut client, &script, &[&first]), total);
        client.check(&[(&format!("GET {first}"), "\"1\"")]);
    }
    // Requests behind it wait for it, and it for those before it.
    for round in 0..20 {
        client.send_words(&["SET", "ahead", &round.to_string()]);
        client.send_words(&["EVAL", "return redis.call('GET', 'ahead')", "0"]);
        client.send_words(&["GET", "ahead"]);
        let expected = format!("\"{round}\"");
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), expected);
        assert_eq!(client.reply(), expected);
    }
    assert_eq!(eval(&mut client, "return redis.call('SCAN', 0, 'COUNT', 1000)[1]", &[]), "\"0\"");
}

fn a_script_sees_what_it_did() {
    let server = Running::start();
    let mut client = server.client();
    let script = "redis.call('SET', KEYS[1], 'a', 'EX', 100) redis.call('APPEND', KEYS[1], 'b') \
        redis.call('RENAME', KEYS[1], KEYS[2]) \
        return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('TTL', KEYS[2])}";
    assert_eq!(eval(&mut client, script, &["k1", "k2"]), "[nil, \"ab\", :100]");
    client.check(&[("GET k2", "\"ab\""), ("SELECT 1", "+OK")]);
    assert_eq!(
        eval(&mut client, "redis.call('SELECT', 0) return redis.call('GET', KEYS[1])", &["k2"]),
        "\"ab\""
    );
    client.check(&[("GET k2", "nil")]);
}

/// A server whose scripts are busy soon.
fn impatient() -> Running {
    let server = Running::start();
    server.client().check(&[("CONFIG SET busy-reply-threshold 20", "+OK")]);
    server
}

fn await_busy(client: &mut Client) {
    eventually("the server is busy", || {
        client.ask("PING").starts_with("-BUSY Redis is busy running a script.")
    });
}

/// Lets a script run, kills it, and returns its reply.
fn killed(server: &Running, script: &str) -> String {
    let (mut client, mut other) = (server.client(), server.client());
    client.send_words(&["EVAL", script, "1", "k"]);
    await_busy(&mut other);
    other.check(&[
        ("GET k", "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
        ("FUNCTION KILL", "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
        ("SCRIPT KILL", "+OK"),
    ]);
    let reply = client.reply();
    eventually("the server is idle", || other.ask("PING") == "+PONG");
    assert_eq!(client.ask("GET k"), "nil");
    reply
}

fn a_script_that_never_ends_is_killed() {
    let server = impatient();
    let reply = killed(&server, "redis.call('SET', KEYS[1], 1) while true do end");
    assert!(
        reply.starts_with("-ERR Script killed by user with SCRIPT KILL... script: "),
        "{reply}"
    );
}

fn a_killed_script_cannot_go_on() {
    let server = impatient();
    for script in [
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "while true do redis.pcall('GET', KEYS[1]) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
    ] {
        let reply = killed(&server, script);
        assert!(
            reply.starts_with("-ERR Script killed by user with SCRIPT KILL."),
            "{script}: {reply}"
        );
    }
}

fn a_script_is_seen_by_other_threads_at_once() {
    let (server, threads) = (Running::start(), common::threads() as i64);
    if threads == 1 {
        return;
    }
    let mut client = server.client();
    // Its own thread would answer others after an hour.
    client.check(&[("CONFIG SET busy-reply-threshold 3600000", "+OK")]);
    // The number of a client tells its thread.
    let thread = client.integer("CLIENT ID") % threads;
    let mut others = (0..threads).map(|_| server.client());
    let mut other = others
        .find_map(|mut other| (other.integer("CLIENT ID") % threads != thread).then_some(other));
    let other = other.as_mut().expect("a client of another thread");
    client.send_words(&["EVAL", "while true do end", "0"]);
    eventually("the script is seen", || {
        other.ask("FUNCTION STATS").starts_with("[\"running_script\", [\"name\"")
    });
    other.check(&[("PING", "+PONG"), ("SCRIPT KILL", "+OK")]);
    assert!(client.reply().starts_with("-ERR Script killed"));
}

fn new_clients_can_kill_a_script() {
    let server = impatient();
    let mut client = server.client();
    client.send_words(&["EVAL", "while true do end", "0"]);
    for _ in 0..4 {
        await_busy(&mut server.client());
    }
    assert_eq!(server.client().ask("SCRIPT KILL"), "+OK");
    assert!(client.reply().starts_with("-ERR Script killed"));
    eventually("the server is idle", || server.client().ask("PING") == "+PONG");
}

fn a_script_may_run_for_so_long() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET script-time-limit 30", "+OK")]);
    let reply = eval(&mut client, "while true do end", &[]);
    assert!(reply.contains("script-time-limit"), "{reply}");
    assert_eq!(eval(&mut client, "return 1", &[]), ":1");
}

fn the_end_of_the_server_ends_a_script() {
    let mut server = impatient();
    let (mut client, mut other) = (server.client(), server.client());
    client.send_words(&["EVAL", "while true do pcall(function() while true do end end) end", "0"]);
    await_busy(&mut other);
    other.send_words(&["SHUTDOWN", "NOSAVE"]);
    server.wait().unwrap();
}

fn memory_is_limited() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET script-memory-limit 8mb", "+OK")]);
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "return ('x'):rep(100000000)",
        "local s = 'x' while true do s = s .. s end",
    ] {
        let reply = eval(&mut client, script, &[]);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        assert_eq!(eval(&mut client, "return 1", &[]), ":1");
    }
}

fn a_script_stops_the_collector_for_itself_only() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET script-memory-limit 8mb", "+OK")]);
    let garbage = "local s for i = 1, 1000 do s = ('x'):rep(100000) .. i end return #s";
    for change in ["'stop'", "'setpause', 10000", "'setstepmul', 1"] {
        eval(&mut client, &format!("collectgarbage({change})"), &[]);
        assert_eq!(eval(&mut client, garbage, &[]), ":100004", "{change}");
    }
    let reply = eval(&mut client, &format!("collectgarbage('stop') {garbage}"), &[]);
    assert!(reply.contains("not enough memory"), "{reply}");
    assert_eq!(eval(&mut client, garbage, &[]), ":100004");
}

const LIBRARY: &str = "#!lua name=lib\n\
    redis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)\n\
    redis.register_function{function_name = 'get', flags = {'no-writes'}, \
    callback = function(keys) return redis.call('GET', keys[1]) end}";

fn libraries_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut server = Running::on(common::open(&path), |_: &mut Config| {});
    let mut client = server.client();
    assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]), "\"lib\"");
    client.check(&[("FCALL set 1 k v", "+OK")]);
    server.stop().unwrap();
    drop(server);
    let server = Running::on(common::open(&path), |_| {}).within(folder);
    let mut client = server.client();
    client.check(&[
        ("FCALL get 1 k", "\"v\""),
        ("FUNCTION DELETE lib", "+OK"),
        ("FCALL get 1 k", "-ERR Function not found"),
    ]);
}

fn functions_are_called() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]), "\"lib\"");
    assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]), "-ERR Library 'lib' already exists");
    assert_eq!(client.call(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]), "\"lib\"");
    // They are of several threads.
    let mut others: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (number, other) in others.iter_mut().enumerate() {
        let set = format!("FCALL set 1 k{number} {number}");
        other.check(&[
            (&set, "+OK"),
            (&format!("FCALL_RO get 1 k{number}"), &format!("\"{number}\"")),
        ]);
    }
    client.check(&[
        ("FCALL_RO set 1 k v", "-ERR Can not execute a script with write flag using *_ro command."),
        ("FCALL get x", "-ERR Bad number of keys provided"),
        ("FUNCTION STATS", "[\"running_script\", nil, \"engines\", [\"LUA\", [\"libraries_count\", :1, \"functions_count\", :2]]]"),
        ("FUNCTION FLUSH", "+OK"),
        ("FUNCTION LIST", "[]"),
    ]);
}

fn libraries_are_dumped_and_restored() {
    let server = Running::start();
    let mut client = server.client();
    let damaged = client.call(&["FUNCTION", "RESTORE", "damaged bytes"]);
    assert_eq!(damaged, "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]), "\"lib\"");
    client.send_words(&["FUNCTION", "DUMP"]);
    let reply = read_reply(&mut client.socket, &Limits::default()).unwrap();
    let Reply::Bulk(dump) = reply else { panic!("a dump is bytes") };
    let mut restore =
        |policy: &str| client.call(&[b"FUNCTION".as_slice(), b"RESTORE", &dump, policy.as_bytes()]);
    assert_eq!(restore("APPEND"), "-ERR Library lib already exists");
    assert_eq!(restore("REPLACE"), "+OK");
    assert_eq!(restore("FLUSH"), "+OK");
    assert!(restore("OTHER").starts_with("-ERR Wrong restore policy"));
    client.check(&[("FUNCTION FLUSH", "+OK")]);
    assert_eq!(client.call(&[b"FUNCTION".as_slice(), b"RESTORE", &dump]), "+OK");
    client.check(&[("FCALL set 1 k v", "+OK")]);
}

fn functions_are_found_in_any_case() {
    let server = Running::start();
    let mut client = server.client();
    let library = LIBRARY.replace("name=lib", "name=\"lib\"");
    assert_eq!(client.call(&["FUNCTION", "LOAD", &library]), "\"lib\"");
    let other = LIBRARY.replace("name=lib", "name=LIB").replace("'set'", "'SET'");
    assert_eq!(client.call(&["FUNCTION", "LOAD", &other]), "-ERR Function SET already exists");
    client.check(&[
        ("FCALL SET 1 k v", "+OK"),
        ("FCALL_RO Get 1 k", "\"v\""),
        (
            "FUNCTION restore a b c",
            "-ERR unknown subcommand or wrong number of arguments for 'restore'. Try FUNCTION HELP.",
        ),
        (
            "FUNCTION FLUSH SYNC b",
            "-ERR unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.",
        ),
    ]);
    let figure = |client: &mut Client, name: &str| {
        let info = client.ask("INFO memory");
        let (_, rest) = info.split_once(&format!("{name}:")).unwrap();
        rest.split('\\').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(figure(&mut client, "used_memory_vm_functions") > 100);
    assert_eq!(figure(&mut client, "number_of_functions"), 2);
    client.check(&[("FUNCTION FLUSH", "+OK")]);
    assert_eq!(figure(&mut client, "used_memory_vm_functions"), 0);
}

fn a_pause_of_writes_holds_scripts() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call(&["FUNCTION", "LOAD", LIBRARY]), "\"lib\"");
    client.check(&[("CLIENT PAUSE 100000 WRITE", "+OK")]);
    // None of these waits.
    let reads = "#!lua flags=no-writes\nreturn 1";
    assert_eq!(client.call(&["EVAL", reads, "0"]), ":1");
    assert_eq!(client.call(&["EVAL_RO", "return 1", "0"]), ":1");
    client.check(&[
        ("FCALL get 1 k", "nil"),
        ("SET k", "-ERR wrong number of arguments for 'set' command"),
        ("MULTI", "+OK"),
    ]);
    assert_eq!(client.call(&["EVAL", reads, "0"]), "+QUEUED");
    client.check(&[("EXEC", "[:1]")]);
    // All of these do.
    let held: [(&[&str], &str); 5] = [
        (&["EVAL", "return 1", "0"], ":1"),
        (&["EVAL", "#!lua\nreturn 1", "0"], ":1"),
        (&["FCALL", "set", "1", "k", "v"], "+OK"),
        (&["PFCOUNT", "other"], ":0"),
        (&["PUBLISH", "channel", "message"], ":0"),
    ];
    let mut waiting: Vec<_> = held.iter().map(|_| server.client()).collect();
    for ((words, _), waiting) in held.iter().zip(&mut waiting) {
        waiting.send_words(words);
    }
    common::wait_for_blocked(&server, held.len());
    client.check(&[("CLIENT UNPAUSE", "+OK")]);
    for ((_, reply), waiting) in held.iter().zip(&mut waiting) {
        assert_eq!(waiting.reply(), *reply);
    }
    let publishes = "return redis.call('PUBLISH', 'channel', 'message')";
    let reply = client.call(&["EVAL_RO", publishes, "0"]);
    assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts"));
}

fn monitors_see_a_script_before_its_commands() {
    let server = Running::start();
    let (mut client, mut monitor) = (server.client(), server.client());
    monitor.check(&[("MONITOR", "+OK")]);
    // It is undone, and runs again with all keys.
    let script = "redis.call('SET', KEYS[1], 1) redis.call('SET', 'other', 2) \
        return redis.call('SET', 'another', 3)";
    assert_eq!(eval(&mut client, script, &["k1"]), "+OK");
    for part in [
        "] \"EVAL\" ",
        " lua] \"SET\" \"k1\"",
        " lua] \"SET\" \"other\"",
        " lua] \"SET\" \"another\"",
    ] {
        let line = monitor.reply();
        assert!(line.contains(part), "{line}, and not {part}");
    }
}

fn errors_of_scripts_are_counted() {
    let server = Running::start();
    let mut client = server.client();
    let script = "redis.pcall('INCR', 'a', 'b') return redis.error_reply('MINE an error')";
    assert_eq!(eval(&mut client, script, &[]), "-MINE an error");
    assert_eq!(eval(&mut client, "return redis.pcall('INCR', 'a', 'b')", &[]).as_bytes()[0], b'-');
    let stats = client.ask("INFO errorstats");
    assert!(
        stats.contains("errorstat_MINE:count=1") && stats.contains("errorstat_ERR:count=2"),
        "{stats}"
    );
    client.check(&[("RPUSH list 1", ":1")]);
    // As Redis counts them.
    for (script, expected) in [
        ("pcall(redis.call, 'INCR', 'list') return 1", &[("WRONGTYPE", 1)][..]),
        ("redis.pcall('INCR', 'list') return 1", &[("WRONGTYPE", 1)]),
        ("return redis.pcall('INCR', 'list')", &[("WRONGTYPE", 1)]),
        ("return redis.call('INCR', 'list')", &[("WRONGTYPE", 1)]),
        ("return {err = redis.pcall('INCR', 'list').err}", &[("WRONGTYPE", 2)]),
        (
            "local _, e = pcall(redis.call, 'INCR', 'list') error(e)",
            &[("ERR", 1), ("WRONGTYPE", 1)],
        ),
        (
            "pcall(redis.call, 'NOSUCH') redis.pcall('NOSUCH') pcall(redis.call, 'GET')",
            &[("ERR", 3)],
        ),
        ("pcall(error, {err = 'MY error'}) return {err = 'MINE text'}", &[("MINE", 1)]),
        ("redis.call()", &[("ERR", 1)]),
        ("pcall(redis.call)", &[]),
        ("redis.setresp(9)", &[("ERR", 1)]),
    ] {
        client.check(&[("CONFIG RESETSTAT", "+OK")]);
        eval(&mut client, script, &["list"]);
        let stats = client.ask("INFO errorstats");
        let count =
            expected.iter().map(|(code, count)| format!("errorstat_{code}:count={count}\\r\\n"));
        let lines = format!("# Errorstats\\r\\n{}", count.collect::<String>());
        assert!(
            stats.contains(&lines) && stats.matches("errorstat_").count() == expected.len(),
            "{script}: {stats}"
        );
    }
}

fn libraries_that_are_replaced_together_exchange_their_functions() {
    let server = Running::start();
    let mut client = server.client();
    let library = |name: &str, function: &str| {
        format!(
            "#!lua name={name}\nredis.register_function('{function}', function() return '{name}' end)"
        )
    };
    for (name, function) in [("a", "f"), ("b", "g")] {
        let code = library(name, function);
        assert_eq!(client.call(&["FUNCTION", "LOAD", &code]), format!("\"{name}\""));
    }
    client.send_words(&["FUNCTION", "DUMP"]);
    let reply = read_reply(&mut client.socket, &Limits::default()).unwrap();
    let Reply::Bulk(dump) = reply else { panic!("a dump is bytes") };
    for (name, function) in [("a", "x"), ("b", "f"), ("a", "g")] {
        let code = library(name, function);
        let loaded = client.call(&["FUNCTION", "LOAD", "REPLACE", &code]);
        assert_eq!(loaded, format!("\"{name}\""));
    }
    assert_eq!(client.call(&[b"FUNCTION".as_slice(), b"RESTORE", &dump, b"REPLACE"]), "+OK");
    client.check(&[("FCALL f 0", "\"a\""), ("FCALL g 0", "\"b\"")]);
}
