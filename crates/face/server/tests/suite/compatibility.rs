//! Answers that clients and tools know from Redis 7.

use crate::common;
use crate::common::{Client, Running};

on_threads! {
    commands_and_errors_are_counted_by_name
    sections_are_those_that_are_asked_for
    an_encoding_is_that_of_the_command_which_wrote_last
    errors_show_the_bytes_of_the_client
    there_is_no_cluster_no_module_and_no_replica
    commands_of_replication_are_refused_or_have_no_effect
    commands_for_tests_do_no_harm
    settings_that_cannot_change_are_known
    waiting_clients_and_changes_are_counted
    a_request_may_have_more_than_a_million_words
    a_limit_of_memory_holds_once_the_records_are_added_up
    ; indexlog:
    memory_is_bounded_and_deletes_make_room
}

/// The lines of a section of INFO.
fn section(client: &mut Client, name: &str) -> Vec<String> {
    let text = client.ask(&format!("INFO {name}"));
    text.trim_matches('"')
        .split("\\r\\n")
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn value(client: &mut Client, section_name: &str, name: &str) -> String {
    let lines = section(client, section_name);
    let found = lines.iter().find_map(|line| line.strip_prefix(&format!("{name}:")));
    found.unwrap_or_else(|| panic!("no {name} in {lines:?}")).to_owned()
}

fn commands_and_errors_are_counted_by_name() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("MSET a 1 b 2 c 3 d x", "+OK"), ("CONFIG RESETSTAT", "+OK")]);
    // On keys of all threads.
    for key in ["a", "b", "c"] {
        client.ask(&format!("GET {key}"));
    }
    client.ask("GET");
    client.ask("NOSUCH");
    client.ask("INCR d");
    client.ask("OBJECT ENCODING a");
    client.check(&[("MULTI", "+OK"), ("GET a", "+QUEUED"), ("INCR d", "+QUEUED")]);
    client.ask("EXEC");
    client.ask("MULTI");
    client.ask("NOSUCH");
    client.check(&[("EXEC", "-EXECABORT Transaction discarded because of previous errors.")]);
    let stats = section(&mut client, "commandstats");
    let count = |command: &str, field: &str| {
        let prefix = format!("cmdstat_{command}:calls=");
        let line = stats.iter().find(|line| line.starts_with(&prefix));
        let line = line.unwrap_or_else(|| panic!("no {command} in {stats:?}"));
        let fields = line.split_once(':').unwrap().1.split(',');
        let found = fields.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == field);
        found.unwrap().1.parse::<f64>().unwrap()
    };
    assert_eq!(stats[0], "# Commandstats");
    let counts =
        |command| ["calls", "rejected_calls", "failed_calls"].map(|field| count(command, field));
    assert_eq!(counts("get"), [4.0, 1.0, 0.0]);
    assert_eq!(counts("incr"), [2.0, 0.0, 2.0]);
    assert_eq!(counts("object|encoding"), [1.0, 0.0, 0.0]);
    assert_eq!(counts("multi"), [2.0, 0.0, 0.0]);
    assert_eq!(counts("exec"), [2.0, 0.0, 1.0]);
    assert!(count("exec", "usec") >= count("exec", "usec_per_call"));
    let errors = section(&mut client, "errorstats");
    // GET, NOSUCH twice, INCR twice.
    assert_eq!(errors, ["# Errorstats", "errorstat_ERR:count=5", "errorstat_EXECABORT:count=1"]);
    let percentiles = section(&mut client, "latencystats");
    let get =
        percentiles.iter().find_map(|line| line.strip_prefix("latency_percentiles_usec_get:"));
    let get: Vec<_> = get.unwrap().split(',').map(|pair| pair.split_once('=').unwrap()).collect();
    assert_eq!(get.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["p50", "p99", "p99.9"]);
    let times: Vec<f64> = get.iter().map(|(_, time)| time.parse().unwrap()).collect();
    assert!(times[0] >= 1.0 && times.is_sorted(), "{times:?}");
    client.check(&[("CONFIG RESETSTAT", "+OK")]);
    assert_eq!(section(&mut client, "errorstats"), ["# Errorstats"]);
    assert!(!section(&mut client, "commandstats").iter().any(|line| line.contains("_get:")));
}

fn sections_are_those_that_are_asked_for() {
    let server = Running::start();
    let mut client = server.client();
    let names = |client: &mut Client, asked: &str| {
        let lines = section(client, asked).into_iter();
        let names = lines.filter_map(|line| line.strip_prefix("# ").map(str::to_owned));
        names.filter(|name| !["Halite", "Partitions"].contains(&name.as_str())).collect::<Vec<_>>()
    };
    let default = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace";
    let all = default.replace("Errorstats", "Commandstats Errorstats Latencystats");
    for (asked, expected) in
        [("", default), ("default", default), ("all", &all), ("everything", &all), ("nosuch", "")]
    {
        assert_eq!(names(&mut client, asked).join(" "), expected, "INFO {asked}");
    }
    assert_eq!(names(&mut client, "cpu commandstats"), ["CPU", "Commandstats"]);
    assert_eq!(value(&mut client, "cluster", "cluster_enabled"), "0");
    assert_eq!(value(&mut client, "replication", "master_repl_offset"), "0");
}

fn an_encoding_is_that_of_the_command_which_wrote_last() {
    let server = Running::start();
    let mut client = server.client();
    for (key, requests) in [
        (
            "k",
            "SET k 12345|int APPEND k 6|raw SETRANGE k 0 9|raw INCR k|int APPEND k ''|raw SET k 1|int",
        ),
        ("f", "SET f 1.5|embstr INCRBYFLOAT f 1.5|embstr INCR f|int INCRBYFLOAT f 1|embstr"),
        ("n", "APPEND n 5|int APPEND n 6|raw GETSET n 7|int GETEX n|int"),
        ("s", "SETRANGE s 0 5|raw EXPIRE s 1000|raw PERSIST s|raw SET s x|embstr"),
        ("c", "SET c0 1|nil APPEND c0 2|nil COPY c0 c|raw RENAME c c1|nil RENAME c1 c|raw"),
        ("d", "SET d 1|int APPEND d 2|raw DEL d|nil SET d 1|int APPEND d 2|raw FLUSHALL|nil"),
        ("d", "SET d 1|int MULTI|+QUEUED"),
    ] {
        let mut requests = requests.split('|');
        let mut request = requests.next().unwrap().to_owned();
        for rest in requests {
            let (expected, next) = rest.split_once(' ').unwrap_or((rest, ""));
            client.ask(&request);
            let reply = client.ask(&format!("OBJECT ENCODING {key}"));
            assert_eq!(reply.trim_matches('"'), expected, "behind {request}");
            next.clone_into(&mut request);
        }
    }
    client.check(&[("APPEND d 2", "+QUEUED"), ("OBJECT ENCODING d", "+QUEUED")]);
    client.check(&[("EXEC", "[\"int\", :2, \"raw\"]"), ("OBJECT ENCODING d", "\"raw\"")]);
    client.check(&[("MOVE d 1", ":1"), ("SELECT 1", "+OK"), ("OBJECT ENCODING d", "\"raw\"")]);
}

/// The bytes of a reply of one line.
fn line(client: &mut Client) -> Vec<u8> {
    let mut line = Vec::new();
    std::io::BufRead::read_until(&mut client.socket, b'\n', &mut line).unwrap();
    line
}

fn errors_show_the_bytes_of_the_client() {
    let server = Running::start();
    let mut client = server.client();
    for (words, expected) in [
        (
            &[&b"nosuch\xff"[..], b"a\xfe"][..],
            &b"ERR unknown command 'nosuch\xff', with args beginning with: 'a\xfe' "[..],
        ),
        // The name ends at the zero byte, as C prints it.
        (&[b"no\0such", b"a"], b"ERR unknown command 'no', with args beginning with: 'a' "),
        (&[b"CONFIG", b"\xff"], b"ERR unknown subcommand '\xff'. Try CONFIG HELP."),
        (&[b"OBJECT", b"\xfe\r\n"], b"ERR unknown subcommand '\xfe  '. Try OBJECT HELP."),
        (
            &[b"CONFIG", b"SET", b"\xff", b"1"],
            b"ERR Unknown option or number of arguments for CONFIG SET - '\xff'",
        ),
        (&[b"CLIENT", b"KILL", b"TYPE", b"\xff"], b"ERR Unknown client type '\xff'"),
        (&[b"CLIENT", b"KILL", b"USER", b"\xff"], b"ERR No such user '\xff'"),
        (&[b"CLIENT", b"SETINFO", b"\xff", b"1"], b"ERR Unrecognized option '\xff'"),
        (&[b"EXPIRE", b"a", b"1", b"\xff"], b"ERR Unsupported option \xff"),
        (&[b"HELLO", b"3", b"\xff"], b"ERR Syntax error in HELLO option '\xff'"),
        (&[b"LATENCY", b"GRAPH", b"\xff"], b"ERR No samples available for event '\xff'"),
    ] {
        client.send_words(words);
        let reply = line(&mut client);
        assert_eq!(reply, [b"-", expected, b"\r\n"].concat(), "{}", reply.escape_ascii());
    }
    client.send(b"*1\r\n\xff");
    assert_eq!(line(&mut client), b"-ERR Protocol error: expected '$', got '\xff'\r\n");
}

fn there_is_no_cluster_no_module_and_no_replica() {
    let disabled = "-ERR This instance has cluster support disabled";
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("CLUSTER INFO", disabled),
        ("CLUSTER SLOTS", disabled),
        ("CLUSTER HELP", disabled),
        ("READONLY", disabled),
        ("READWRITE", disabled),
        ("ASKING", disabled),
        ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command"),
        ("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP."),
        ("CLUSTER MYID a", "-ERR wrong number of arguments for 'cluster|myid' command"),
        ("MODULE LIST", "[]"),
        ("MODULE", "-ERR wrong number of arguments for 'module' command"),
        ("MODULE NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try MODULE HELP."),
        ("ROLE", "[\"master\", :0, []]"),
        ("WAIT 0 0", ":0"),
        ("WAIT 1 10", ":0"),
        ("WAIT x 0", "-ERR value is not an integer or out of range"),
        ("WAIT 0 -1", "-ERR timeout is negative"),
        ("WAIT 0 9223372036854775807", "-ERR timeout is out of range"),
        ("WAIT 0 x", "-ERR timeout is not an integer or out of range"),
        ("SET k v", "+OK"),
        ("WAITAOF 1 0 0", "[:1, :0]"),
        ("WAITAOF 0 0 0", "[:1, :0]"),
        ("WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF abc 0 0", "-ERR value is not an integer or out of range"),
        ("WAITAOF 0 -1 0", "-ERR value is out of range, must be positive"),
        ("WAITAOF 0 abc 0", "-ERR value is out of range, must be positive"),
        ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", "+OK"),
        ("CLIENT MAINT_NOTIFICATIONS OFF", "+OK"),
        ("LATENCY RESET", ":0"),
        ("LATENCY RESET nosuch", ":0"),
    ]);
    assert!(client.ask("MODULE LOAD x").starts_with("-ERR MODULE command not allowed."));
    client.check(&[("CONFIG SET latency-monitor-threshold 1", "+OK"), ("DEBUG SLEEP 0.02", "+OK")]);
    client.check(&[("CONFIG SET latency-monitor-threshold 0", "+OK")]);
    client
        .check(&[("LATENCY RESET nosuch COMMAND command", ":1"), ("LATENCY RESET Command", ":0")]);
}

fn commands_of_replication_are_refused_or_have_no_effect() {
    let none =
        "-ERR this server has no replication: HALITE.BACKUP copies its data while others write";
    Running::start().client().check(&[
        ("REPLICAOF NO ONE", "+OK"),
        ("SLAVEOF no one", "+OK"),
        ("REPLICAOF localhost x", "-ERR Invalid master port"),
        (
            "REPLICAOF localhost 6379",
            "-ERR this server has no replication, and cannot become a replica",
        ),
        ("FAILOVER", "-ERR FAILOVER requires connected replicas."),
        ("FAILOVER ABORT", "-ERR No failover in progress."),
        ("FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0"),
        ("SYNC", none),
        ("PSYNC ? -1", none),
        ("REPLCONF listening-port 1", none),
        ("CLIENT NO-TOUCH ON", "+OK"),
        ("CLIENT NO-TOUCH x", "-ERR syntax error"),
        ("CLIENT CAPA redirect", "+OK"),
        ("BGREWRITEAOF", "+Background append only file rewriting started"),
        ("COMMAND GETKEYSANDFLAGS SET a 1", "[[\"a\", [+OW, +update]]]"),
        (
            "COMMAND GETKEYSANDFLAGS RENAME a b",
            "[[\"a\", [+RW, +access, +delete]], [\"b\", [+OW, +update]]]",
        ),
        ("COMMAND GETKEYSANDFLAGS PING a", "-ERR The command has no key arguments"),
    ]);
}

fn commands_for_tests_do_no_harm() {
    let server = Running::start();
    let mut client = server.client();
    let empty = format!("+{}", "0".repeat(40));
    client.check(&[
        ("DEBUG DIGEST", &empty),
        ("DEBUG POPULATE 20 p 30", "+OK"),
        ("DBSIZE", ":20"),
        ("STRLEN p:19", ":30"),
        ("DEBUG RELOAD", "+OK"),
        ("DEBUG LOADAOF", "+OK"),
        (
            "DEBUG RELOAD x",
            "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ),
        ("DEBUG STRINGMATCH-LEN 10 a*", ":1"),
        ("DEBUG STRINGMATCH-LEN 10 b*", ":0"),
        ("DEBUG PROTOCOL double", "\"3.141\""),
        ("DEBUG ERROR x", "-x"),
        ("DEBUG OBJECT none", "-ERR no such key"),
        (
            "DEBUG NOSUCH",
            "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.",
        ),
        (
            "DEBUG OBJECT",
            "-ERR unknown subcommand or wrong number of arguments for 'OBJECT'. Try DEBUG HELP.",
        ),
    ]);
    let digest = client.ask("DEBUG DIGEST");
    assert_ne!(digest, empty);
    let values = client.ask("DEBUG DIGEST-VALUE p:1 none");
    assert!(values.ends_with(&format!("{empty}]")), "{values}");
    assert!(client.ask("DEBUG OBJECT p:1").contains(" encoding:embstr "));
    assert!(client.ask("DEBUG SDSLEN p:1").starts_with("+key_sds_len:3, "));
    client.check(&[("EXPIREAT p:1 33177117420", ":1")]);
    assert_ne!(client.ask("DEBUG DIGEST"), digest);
    client.check(&[("PERSIST p:1", ":1")]);
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
    assert!(client.ask("LOLWUT").contains("Redis ver. "));
    let server =
        Running::start_with(|config| config.debug_command = halite_server::DebugCommand::No);
    assert!(server.client().ask("DEBUG OBJECT a").starts_with("-ERR DEBUG command not allowed."));
    assert!(server.client().ask("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
}

fn settings_that_cannot_change_are_known() {
    let immutable = |name: &str| {
        format!(
            "-ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"
        )
    };
    let server = Running::start();
    let mut client = server.client();
    for (request, name) in [
        ("CONFIG SET daemonize yes", "daemonize"),
        ("CONFIG SET databases 3", "databases"),
        ("CONFIG SET Repl-Backlog-Size 1mb", "Repl-Backlog-Size"),
        ("CONFIG SET maxclients 10 Port 1", "port"),
    ] {
        assert_eq!(client.ask(request), immutable(name));
    }
    let failed = "-ERR CONFIG SET failed (possibly related to argument";
    client.check(&[
        // An error in the request is reported by its word, an invalid value by the setting's name.
        (
            "CONFIG SET timeout 1 TimeOut 2",
            &format!("{failed} 'TimeOut') - duplicate parameter"),
        ),
        (
            "CONFIG SET TimeOut x",
            &format!("{failed} 'timeout') - argument couldn't be parsed into an integer"),
        ),
        ("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        ("CONFIG SET maxmemory 100mb", "+OK"),
        ("CONFIG GET maxmemory", "[\"maxmemory\", \"104857600\"]"),
        (
            "CONFIG SET maxmemory 1x",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
        ),
        ("CONFIG GET maxclients", "[\"maxclients\", \"10000\"]"),
    ]);
    assert_eq!(value(&mut client, "memory", "maxmemory"), "104857600");
}

fn memory_is_bounded_and_deletes_make_room() {
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    let server = Running::start();
    let mut client = server.client();
    let large = "v".repeat(100_000);
    for key in ["a", "b", "c"] {
        assert_eq!(client.call(&["SET", key, &large]), "+OK");
    }
    client.check(&[
        ("MULTI", "+OK"),
        ("SET x 1", "+QUEUED"),
        ("CONFIG SET maxmemory 200kb", "+QUEUED"),
    ]);
    client.ask("EXEC");
    client.check(&[
        ("SET d 1", full),
        ("INCR n", full),
        ("MSET d 1 e 2", full),
        ("EXISTS a d x", ":2"),
        ("MULTI", "+OK"),
        ("SET d 1", full),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("DEL a", "+QUEUED"),
        ("EXEC", "[:1]"),
        ("DEL b", ":1"),
        ("SET d 1", "+OK"),
    ]);
    assert_eq!(client.call(&["SET", "a", &large]), "+OK");
    assert_eq!(client.call(&["SET", "b", &large]), "+OK");
    client.check(&[("SET e 1", full), ("CONFIG SET maxmemory 0", "+OK"), ("SET e 1", "+OK")]);
}

fn a_limit_of_memory_holds_once_the_records_are_added_up() {
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    let server = Running::start();
    let mut client = server.client();
    for key in ["a", "b", "c"] {
        assert_eq!(client.call(&["SET", key, &"v".repeat(100_000)]), "+OK");
    }
    client.check(&[("CONFIG SET maxmemory 100kb", "+OK")]);
    common::eventually("the sum", || client.ask("SET d 1") == full);
    client.check(&[("MSET d 1 e 2 f 3", full), ("DEL a b c", ":3"), ("SET d 1", "+OK")]);
}

fn waiting_clients_and_changes_are_counted() {
    let server = Running::start();
    let mut client = server.client();
    let changes = "rdb_changes_since_last_save";
    client.check(&[("SET a 1", "+OK"), ("MSET b 1 c 1", "+OK"), ("DEL a nosuch", ":1")]);
    assert_eq!(value(&mut client, "persistence", changes), "4");
    client.check(&[("SAVE", "+OK")]);
    assert_eq!(value(&mut client, "persistence", changes), "0");
    client.check(&[("SET a 1", "+OK"), ("SET b 1", "+OK"), ("SET c 1", "+OK")]);
    assert_eq!(value(&mut client, "persistence", changes), "3");
    assert_eq!(value(&mut client, "memory", "lazyfreed_objects"), "0");
    client.check(&[("FLUSHALL ASYNC", "+OK")]);
    assert_eq!(value(&mut client, "memory", "lazyfreed_objects"), "3");
    // The elements of a larger collection go behind UNLINK.
    let many: Vec<_> = (0..1000).map(|number| format!("member:{number}")).collect();
    let words = ["SADD", "large"].into_iter().chain(many.iter().map(String::as_str));
    client.call(&words.collect::<Vec<_>>());
    client.ask("XADD stream * f v");
    client.check(&[("SADD small 1", ":1"), ("UNLINK large small stream", ":3")]);
    assert_eq!(value(&mut client, "memory", "lazyfreed_objects"), "4");
    let percentiles = ["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99.99"];
    assert_eq!(client.call(&percentiles), "+OK");
    let told = client.ask("INFO latencystats");
    assert!(told.contains("latency_percentiles_usec_unlink:p50="), "{told}");
    assert!(told.contains(",p99.99="), "{told}");
    client.check(&[("CONFIG SET latency-tracking no", "+OK")]);
    assert!(!client.ask("INFO latencystats").contains("p50"));
    let mut watching = server.client();
    watching.check(&[("WATCH a b", "+OK")]);
    client.check(&[("WATCH a", "+OK")]);
    assert_eq!(value(&mut client, "clients", "watching_clients"), "2");
    assert_eq!(value(&mut client, "clients", "total_watched_keys"), "3");
    client.check(&[("UNWATCH", "+OK")]);
    drop(watching);

    let mut waiting: Vec<_> = (0..5).map(|_| server.client()).collect();
    waiting.iter_mut().for_each(|client| client.check(&[("PING", "+PONG")]));
    client.check(&[("CLIENT PAUSE 1000000 WRITE", "+OK")]);
    for (number, waiting) in waiting.iter_mut().enumerate() {
        waiting.send(format!("SET key:{number} 1\r\n").as_bytes());
    }
    let blocked = |client: &mut Client| value(client, "clients", "blocked_clients");
    common::eventually("the wait of all", || blocked(&mut client) == "5");
    let gone = waiting.pop().expect("there are five");
    let addr = gone.socket.get_ref().local_addr().unwrap();
    client.check(&[(&format!("CLIENT KILL {addr}"), "+OK")]);
    common::eventually("the wait of those that are left", || blocked(&mut client) == "4");
    client.check(&[("CLIENT UNPAUSE", "+OK")]);
    waiting.iter_mut().for_each(|client| assert_eq!(client.reply(), "+OK"));
    assert_eq!(blocked(&mut client), "0");
}

fn a_request_may_have_more_than_a_million_words() {
    const KEYS: usize = 1 << 20;
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("MSET k0 1 k1048575 1 k500 1", "+OK")]);
    let mut request = format!("*{}\r\n$3\r\nDEL\r\n", KEYS + 1).into_bytes();
    for number in 0..KEYS {
        let key = format!("k{number}");
        request.extend(format!("${}\r\n{key}\r\n", key.len()).bytes());
    }
    client.send(&request);
    assert_eq!(client.reply(), ":3");
    client.check(&[("DBSIZE", ":0")]);
}
