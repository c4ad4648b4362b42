//! Authentication, the limit of clients, and the commands about connections.

use crate::common;
use crate::common::{Running, eventually};

on_threads! {
    nothing_is_done_for_a_stranger
    the_password_can_change
    hello_chooses_the_protocol
    clients_have_names_and_numbers
    clients_see_each_other
    clients_can_be_disconnected
    a_client_chooses_which_replies_it_gets
    paused_clients_wait
    who_breaks_off_while_it_is_paused_is_disconnected
    the_number_of_clients_is_bounded
    silent_clients_are_disconnected_only_if_so_configured
    commands_describe_themselves
    settings_are_read_and_changed_together
    info_tells_what_is
    debug_is_refused_unless_it_is_allowed
    the_rest_of_the_administration_answers
}

const NOAUTH: &str = "-NOAUTH Authentication required.";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn with_password() -> Running {
    Running::start_with(|config| config.requirepass = Some("sesame".to_owned()))
}

fn nothing_is_done_for_a_stranger() {
    let server = with_password();
    let mut client = server.client();
    client.check(&[
        ("PING", NOAUTH),
        ("SET k 1", NOAUTH),
        ("COMMAND", NOAUTH),
        ("INFO", NOAUTH),
        ("MULTI", NOAUTH),
        ("AUTH wrong", WRONGPASS),
        ("AUTH default wrong", WRONGPASS),
        ("AUTH other sesame", WRONGPASS),
        ("AUTH a b c", "-ERR syntax error"),
        ("HELLO 3 AUTH default wrong", WRONGPASS),
        ("GET k", NOAUTH),
        ("AUTH sesame", "+OK"),
        ("GET k", "nil"),
        ("RESET", "+RESET"),
        ("GET k", NOAUTH),
        ("AUTH default sesame", "+OK"),
        ("PING", "+PONG"),
        ("CONFIG GET requirepass", "[\"requirepass\", \"sesame\"]"),
    ]);
    assert!(server.client().ask("HELLO 3").starts_with("-NOAUTH HELLO must be called with"));
    let hello = server.client().ask("HELLO 3 AUTH default sesame SETNAME me");
    assert!(hello.starts_with("{\"server\": \"redis\", "), "{hello}");
    assert_eq!(server.client().ask("QUIT"), "+OK");
}

fn the_password_can_change() {
    let server = Running::start();
    let (mut first, mut second) = (server.client(), server.client());
    second.check(&[("PING", "+PONG")]);
    first.check(&[
        ("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
        ("AUTH default x", "+OK"),
        ("CONFIG SET requirepass sesame", "+OK"),
        ("PING", "+PONG"),
    ]);
    // A client that was authenticated stays so.
    assert_eq!(second.ask("PING"), "+PONG");
    server.client().check(&[
        ("PING", NOAUTH),
        ("AUTH sesame", "+OK"),
        ("CONFIG SET requirepass ''", "+OK"),
    ]);
    server.client().check(&[("PING", "+PONG")]);
}

fn hello_chooses_the_protocol() {
    let server = Running::start();
    let mut client = server.client();
    let hello = client.ask("HELLO 3");
    assert!(hello.starts_with("{\"server\": \"redis\", \"version\": \"7."), "{hello}");
    assert!(
        hello.contains("\"proto\": :3, \"id\": :1, \"mode\": \"standalone\", \"role\": \"master\"")
    );
    client.check(&[
        ("CONFIG GET timeout", "{\"timeout\": \"0\"}"),
        ("LCS a b IDX", "{\"matches\": [], \"len\": :0}"),
        ("MGET a", "[nil]"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 X", "-ERR Syntax error in HELLO option 'X'"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
    ]);
    assert!(client.ask("INFO server").starts_with("=txt:# Server\\r\\n"));
    assert!(client.ask("CLIENT LIST").starts_with("=txt:id=1 "));
    client.send(b"GET none\r\n");
    let mut null = [0; 3];
    std::io::Read::read_exact(&mut client.socket, &mut null).unwrap();
    assert_eq!(&null, b"_\r\n");
    client.check(&[("RESET", "+RESET"), ("CONFIG GET timeout", "[\"timeout\", \"0\"]")]);
    assert!(client.ask("HELLO").contains("\"proto\", :2"));
}

fn clients_have_names_and_numbers() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("CLIENT ID", ":1"),
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "\"me\""),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO lib-ver 5.0", "+OK"),
        ("CLIENT SETINFO x 5.0", "-ERR Unrecognized option 'x'"),
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT NO-EVICT x", "-ERR syntax error"),
        ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
    ]);
    let refused = "-ERR Client names cannot contain spaces, newlines or special characters.";
    assert_eq!(client.call(&["CLIENT", "SETNAME", "a b"]), refused);
    let info = client.ask("CLIENT INFO");
    for part in [
        "id=1 addr=127.0.0.1:",
        " name=me ",
        " db=0 ",
        " multi=-1 watch=0 ",
        " cmd=client|info ",
        " resp=2 ",
        " lib-name=redis-py lib-ver=5.0",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    client.check(&[("CLIENT SETNAME ''", "+OK"), ("CLIENT GETNAME", "nil"), ("WATCH a b", "+OK")]);
    assert!(client.ask("CLIENT INFO").contains(" watch=2 "));
    // The library stays the same behind RESET, and a command is the last one also if it is refused.
    client
        .check(&[("RESET", "+RESET"), ("GET", "-ERR wrong number of arguments for 'get' command")]);
    let info = server.client().ask("CLIENT LIST");
    assert!(info.contains(" watch=0 ") && info.contains(" cmd=get "), "{info}");
    assert!(info.contains(" lib-name=redis-py lib-ver=5.0"), "{info}");
}

fn clients_see_each_other() {
    let server = Running::start();
    let (mut first, mut second) = (server.client(), server.client());
    second.check(&[
        ("SELECT 3", "+OK"),
        ("CLIENT SETNAME second", "+OK"),
        ("MULTI", "+OK"),
        ("GET k", "+QUEUED"),
    ]);
    let list = first.ask("CLIENT LIST");
    let lines: Vec<_> =
        list.trim_matches('"').split("\\n").filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(lines[0].starts_with("id=1 ") && lines[0].contains(" qbuf=26 "), "{list}");
    for part in ["id=2 ", " name=second ", " db=3 ", " multi=1 ", " flags=x ", " cmd=get "] {
        assert!(lines[1].contains(part), "{part} in {list}");
    }
    assert!(!first.ask("CLIENT LIST ID 2 7").contains("id=1 "));
    first.check(&[
        ("CLIENT LIST TYPE pubsub", "\"\""),
        ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
        ("CLIENT LIST ID x", "-ERR Invalid client ID"),
        ("CLIENT LIST x", "-ERR syntax error"),
    ]);
}

fn clients_can_be_disconnected() {
    let server = Running::start();
    let (mut first, mut second, mut third) = (server.client(), server.client(), server.client());
    let addr = third.socket.get_ref().local_addr().unwrap();
    assert_eq!((second.ask("PING"), third.ask("PING")), ("+PONG".to_owned(), "+PONG".to_owned()));
    first.check(&[
        ("CLIENT KILL ID 2", ":1"),
        ("CLIENT KILL ID 2", ":0"),
        ("CLIENT KILL 1.2.3.4:5", "-ERR No such client"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE x", "-ERR Unknown client type 'x'"),
        ("CLIENT KILL USER x", "-ERR No such user 'x'"),
        ("CLIENT KILL SKIPME x", "-ERR syntax error"),
        ("CLIENT KILL TYPE pubsub", ":0"),
        (&format!("CLIENT KILL {addr}"), "+OK"),
        ("CLIENT KILL SKIPME no", ":1"),
    ]);
    assert_eq!(
        (first.reply(), second.reply(), third.reply()),
        ("closed".into(), "closed".into(), "closed".into())
    );
    assert!(server.client().ask("CLIENT LIST").contains("id=4 "));
}

fn a_client_chooses_which_replies_it_gets() {
    let server = Running::start();
    let mut client = server.client();
    client.send(b"CLIENT REPLY OFF\r\nSET k 1\r\nNOSUCH\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.reply(), "+OK");
    client.send(b"CLIENT REPLY SKIP\r\nINCR k\r\nGET k\r\n");
    assert_eq!(client.reply(), "\"2\"");
    client.check(&[("CLIENT REPLY x", "-ERR syntax error")]);
}

fn paused_clients_wait() {
    let server = Running::start();
    let (mut admin, mut client) = (server.client(), server.client());
    admin.check(&[("CLIENT PAUSE 100000 WRITE", "+OK")]);
    client.check(&[("GET k", "nil")]);
    client.send(b"SET k 1\r\nGET k\r\n");
    admin.check(&[("PING", "+PONG"), ("GET k", "nil"), ("CLIENT UNPAUSE", "+OK")]);
    assert_eq!((client.reply(), client.reply()), ("+OK".into(), "\"1\"".into()));
    // A pause of everything ends by itself.
    admin.check(&[("CLIENT PAUSE 50", "+OK")]);
    client.check(&[("GET k", "\"1\"")]);
    admin.check(&[
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative"),
        ("CLIENT PAUSE 1 x", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
    ]);
}

fn who_breaks_off_while_it_is_paused_is_disconnected() {
    let server = Running::start();
    let mut admin = server.client();
    admin.check(&[("CLIENT PAUSE 100000000 WRITE", "+OK")]);
    for _ in 0..6 {
        let client = server.client();
        let mut socket = client.socket.into_inner();
        std::io::Write::write_all(&mut socket, b"PING\r\nSET k gone\r\n").unwrap();
        // Dropping a socket with an unread reply resets the connection at once.
        assert_eq!(socket.peek(&mut [0]).unwrap(), 1);
    }
    common::eventually("the end of the others", || {
        admin.ask("INFO clients").contains("connected_clients:1\\r")
    });
    admin.check(&[("CLIENT UNPAUSE", "+OK"), ("GET k", "nil")]);
}

fn the_number_of_clients_is_bounded() {
    let server = Running::start_with(|config| config.client_count_max = 2);
    let (mut first, second) = (server.client(), server.client());
    first.check(&[("PING", "+PONG")]);
    eventually("the second client", || first.ask("CLIENT LIST").contains("id=2 "));
    let mut third = server.client();
    assert_eq!(third.reply(), "-ERR max number of clients reached");
    assert_eq!(third.reply(), "closed");
    drop(second);
    eventually("room for a client", || server.client().ask("PING") == "+PONG");
}

fn silent_clients_are_disconnected_only_if_so_configured() {
    let server = Running::start();
    let (mut silent, mut client) = (server.client(), server.client());
    silent.check(&[("PING", "+PONG")]);
    client
        .check(&[("CONFIG SET timeout 1", "+OK"), ("CONFIG GET timeout", "[\"timeout\", \"1\"]")]);
    assert_eq!(silent.reply(), "closed");
}

fn commands_describe_themselves() {
    let server = Running::start();
    let mut client = server.client();
    let count = client.integer("COMMAND COUNT");
    assert!(count > 60, "{count}");
    assert!(client.ask("COMMAND").matches("[+write").count() > 20);
    client.check(&[
        ("COMMAND GETKEYS MSET a 1 b 2", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS EVAL x 2 a b c", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS EVAL x 0 c", "[]"),
        ("COMMAND GETKEYS EVAL x 2 c", "-ERR Invalid arguments specified for command"),
        ("COMMAND GETKEYS SORT a STORE b BY store GET store STORE c", "[\"a\", \"c\"]"),
        ("COMMAND GETKEYS GEORADIUS a 0 0 1 km STORE b STOREDIST c", "[\"a\", \"c\"]"),
        ("COMMAND GETKEYS SORT a STORE x STORE y STORE b", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS SORT a BY store GET get STORE b", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS GEORADIUS a 1 1 1 m STORE x STOREDIST b", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS PING x", "-ERR The command has no key arguments"),
        ("COMMAND GETKEYS NOSUCH x", "-ERR Invalid command specified"),
        ("COMMAND GETKEYS GET a b", "-ERR Invalid number of arguments specified for command"),
        ("COMMAND INFO nosuch", "[nil]"),
        ("COMMAND DOCS nosuch", "[]"),
        ("COMMAND LIST FILTERBY PATTERN getr*", "[\"getrange\"]"),
        ("COMMAND LIST FILTERBY MODULE x", "[]"),
        ("COMMAND LIST FILTERBY x y", "-ERR syntax error"),
        ("COMMAND X", "-ERR unknown subcommand 'X'. Try COMMAND HELP."),
    ]);
    let info = client.ask("COMMAND INFO get client|list");
    assert!(info.starts_with("[[\"get\", :2, [+readonly, +fast], :1, :1, :1, ["), "{info}");
    assert!(client.ask("COMMAND INFO sort_ro").contains("+movablekeys"));
    assert!(info.contains("[\"client|list\", :-2, [+admin, +noscript], :0, :0, :0, ["), "{info}");
    assert!(client.ask("COMMAND DOCS get").contains("\"group\", \"string\""));
    assert!(client.ask("COMMAND LIST").contains("\"client|list\""));
}

fn settings_are_read_and_changed_together() {
    let failed = "-ERR CONFIG SET failed (possibly related to argument";
    Running::start().client().check(&[
        ("CONFIG GET save", "[\"save\", \"\"]"),
        ("CONFIG GET appendonly", "[\"appendonly\", \"yes\"]"),
        ("CONFIG GET TimeOut", "[\"TimeOut\", \"0\"]"),
        ("CONFIG GET time* timeout databases", "[\"databases\", \"16\", \"timeout\", \"0\"]"),
        ("CONFIG GET nosuch", "[]"),
        ("CONFIG GET *of", "[\"replicaof\", \"\", \"slaveof\", \"\"]"),
        ("CONFIG SET appendfsync always bind 127.0.0.1", "+OK"),
        (
            "CONFIG SET appendfsync no",
            &format!("{failed} 'appendfsync') - can't set immutable config"),
        ),
        ("CONFIG SET latency-tracking-info-percentiles 99.990", "+OK"),
        (
            "CONFIG GET latency-tracking-info-percentiles",
            "[\"latency-tracking-info-percentiles\", \"99.99\"]",
        ),
        (
            "CONFIG SET timeout 5 maxclients x",
            &format!("{failed} 'maxclients') - argument couldn't be parsed into an integer"),
        ),
        ("CONFIG GET timeout", "[\"timeout\", \"0\"]"),
        ("CONFIG SET timeout 5 maxclients 100", "+OK"),
        ("CONFIG GET timeout maxclients", "[\"maxclients\", \"100\", \"timeout\", \"5\"]"),
        ("CONFIG SET timeout 1 timeout 2", &format!("{failed} 'timeout') - duplicate parameter")),
        ("CONFIG SET databases 2", &format!("{failed} 'databases') - can't set immutable config")),
        (
            "CONFIG SET nosuch 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        ),
        ("CONFIG SET timeout 1 x", "-ERR syntax error"),
        ("CONFIG RESETSTAT", "+OK"),
        ("CONFIG REWRITE", "-ERR The server is running without a config file"),
        ("CONFIG SET proto-max-bulk-len 2mb", "+OK"),
        ("CONFIG GET proto-max-bulk-len", "[\"proto-max-bulk-len\", \"2097152\"]"),
    ]);
}

fn info_tells_what_is() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SET a 1 EX 100", "+OK"),
        ("SET b 1", "+OK"),
        ("GET a", "\"1\""),
        ("GET none", "nil"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
    ]);
    let info = client.ask("INFO");
    for line in [
        "redis_version:7.4.2",
        "halite_version:0.1.0",
        "connected_clients:1",
        "keyspace_hits:1",
        "keyspace_misses:1",
        "total_error_replies:1",
        "role:master",
        "db0:keys=2,expires=1,avg_ttl=",
        "sync_policy:always",
        &format!("tcp_port:{}", server.addr.port()),
        &format!("domain:{}", server.db.domain()),
    ] {
        assert!(info.contains(&format!("\\r\\n{line}")), "{line} in {info}");
    }
    let halite = client.ask("INFO halite");
    for (line, is_told) in [
        // A deadline is one, too.
        ("records:4", !common::is_lsm()),
        ("versions_in_memory:", common::is_lsm()),
        ("level_bytes:0", common::is_lsm()),
        ("level_zero_runs:0", common::is_lsm()),
        ("log_bytes:", common::has_log()),
    ] {
        assert!(halite.contains(&format!("\\r\\n{line}")) == is_told, "{line} in {halite}");
    }
    let keyspace = client.ask("INFO keyspace");
    assert!(keyspace.starts_with("\"# Keyspace\\r\\ndb0:"), "{keyspace}");
    assert!(client.ask("INFO clients memory").contains("# Memory"));
    assert_eq!(client.ask("INFO nosuch"), "\"\"");
    client.ask("CONFIG RESETSTAT");
    assert!(client.ask("INFO stats").contains("keyspace_hits:0"));
}

fn debug_is_refused_unless_it_is_allowed() {
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run \
        it from a local connection, otherwise you need to set this option in the configuration file, and then restart \
        the server.";
    let server = Running::start_with(|config| {
        config.debug_command = halite_server::Config::default().debug_command;
        config.requirepass = Some("secret".to_owned());
    });
    server.client().check(&[
        ("DEBUG", "-ERR wrong number of arguments for 'debug' command"),
        // As with Redis, before the password is asked for.
        ("DEBUG SLEEP 0", refused),
        ("AUTH secret", "+OK"),
        ("DEBUG SLEEP 0", refused),
        ("CONFIG GET enable-debug-command", "[\"enable-debug-command\", \"no\"]"),
        (
            "CONFIG SET enable-debug-command yes",
            "-ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config",
        ),
        ("MULTI", "+OK"),
        ("DEBUG SLEEP 0", refused),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
    ]);
}

fn the_rest_of_the_administration_answers() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("PING", "+PONG"),
        ("PING hi", "\"hi\""),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO hi", "\"hi\""),
        ("SAVE", "+OK"),
        ("BGSAVE", "+Background saving started"),
        ("BGSAVE SCHEDULE", "+Background saving started"),
        ("BGSAVE x", "-ERR syntax error"),
        ("DEBUG SLEEP 0", "+OK"),
        (
            "DEBUG NOSUCH k",
            "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.",
        ),
        ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
    ]);
    assert!(client.integer("LASTSAVE") > 1_600_000_000);
    let time = client.ask("TIME");
    assert!(time.starts_with("[\"") && time.matches('"').count() == 4, "{time}");
    for help in ["CLIENT HELP", "COMMAND HELP", "CONFIG HELP", "OBJECT HELP"] {
        assert!(client.ask(help).contains("<subcommand>"), "{help}");
    }
    client.check(&[("QUIT", "+OK")]);
    assert_eq!(client.reply(), "closed");
}
