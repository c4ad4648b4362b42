//! Users, and what they may do.

use std::fs;

use halite_server::{Config, Error, Server};

use crate::common::{self, Client, Running};

on_threads! {
    users_are_made_and_removed
    a_user_may_do_what_its_rules_say
    keys_are_read_or_written
    rights_are_checked_when_queued_and_at_exec
    scripts_have_the_rights_of_their_client
    sort_by_patterns_needs_all_keys
    channels_are_allowed_one_by_one
    subscribers_that_lose_a_channel_are_disconnected
    clients_of_a_removed_user_are_disconnected
    a_change_is_seen_on_all_threads
    the_password_is_that_of_the_default_user
    refusals_are_logged
    a_refusal_is_logged_once_while_writes_are_paused
    a_request_without_its_keys_names_none
    users_are_loaded_and_saved
}

const NO_GET: &str = "-NOPERM User u has no permissions to run the 'get' command";
const NO_KEY: &str = "-NOPERM No permissions to access a key";
const NO_CHANNEL: &str = "-NOPERM No permissions to access a channel";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A client that is the user `u`, which an administrator makes by these rules.
fn user(server: &Running, rules: &str) -> (Client, Client) {
    let (mut admin, mut client) = (server.client(), server.client());
    assert_eq!(admin.ask(&format!("ACL SETUSER u on nopass {rules}")), "+OK", "{rules}");
    assert_eq!(client.ask("AUTH u any"), "+OK");
    (admin, client)
}

fn users_are_made_and_removed() {
    let server = Running::start();
    let mut client = server.client();
    let default = "user default on nopass sanitize-payload ~* &* +@all";
    let digest = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";
    client.check(&[
        ("ACL WHOAMI", "\"default\""),
        ("ACL LIST", &format!("[\"{default}\"]")),
        ("ACL SETUSER u", "+OK"),
        ("ACL USERS", "[\"default\", \"u\"]"),
        ("AUTH u x", WRONG),
        ("ACL SETUSER u on >alice ~k* +get (+set %W~w)", "+OK"),
        ("AUTH u x", WRONG),
        ("AUTH nobody x", WRONG),
        (
            "ACL GETUSER u",
            &format!(
                "[\"flags\", [\"on\", \"sanitize-payload\"], \"passwords\", [\"{digest}\"], \"commands\", \
                 \"-@all +get\", \"keys\", \"~k*\", \"channels\", \"\", \"selectors\", [[\"commands\", \"-@all +set\", \
                 \"keys\", \"%W~w\", \"channels\", \"\"]]]"
            ),
        ),
        ("ACL GETUSER nobody", "nil"),
        (
            "ACL LIST",
            &format!(
                "[\"{default}\", \"user u on sanitize-payload #{digest} ~k* resetchannels -@all +get \
                 (%W~w resetchannels -@all +set)\"]"
            ),
        ),
        (
            "ACL SETUSER u +@nope",
            "-ERR Error in ACL SETUSER modifier '+@nope': Unknown command or category name in ACL",
        ),
        (
            "ACL SETUSER u -get nope",
            "-ERR Error in ACL SETUSER modifier 'nope': Syntax error",
        ),
        ("ACL DRYRUN u GET k1", "+OK"),
        ("ACL DRYRUN u GET x", r#""User u has no permissions to access the \'x\' key""#),
        ("ACL DRYRUN u DEL k1", r#""User u has no permissions to run the \'del\' command""#),
        ("ACL DRYRUN nobody GET k1", "-ERR User 'nobody' not found"),
        ("ACL DRYRUN u NOPE", "-ERR Command 'NOPE' not found"),
        ("ACL DRYRUN u GET", "-ERR wrong number of arguments for 'get' command"),
        ("ACL DELUSER default", "-ERR The 'default' user cannot be removed"),
        ("ACL DELUSER u nobody", ":1"),
        ("ACL USERS", "[\"default\"]"),
        ("ACL CAT nope", "-ERR Unknown category 'nope'"),
        ("ACL CAT transaction", "[\"discard\", \"exec\", \"multi\", \"unwatch\", \"watch\"]"),
        ("ACL GENPASS 0", "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"),
    ]);
    let spaced = client.call(&["ACL", "SETUSER", "a b"]);
    assert_eq!(spaced, "-ERR Usernames can't contain spaces or null characters");
    assert_eq!(client.ask("ACL GENPASS").len(), 2 + 64);
    assert_eq!(client.ask("ACL GENPASS 5").len(), 2 + 2);
    assert_ne!(client.ask("ACL GENPASS"), client.ask("ACL GENPASS"));
}

fn a_user_may_do_what_its_rules_say() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+@all -get ~*");
    client.check(&[
        ("ACL WHOAMI", "\"u\""),
        ("SET a 1", "+OK"),
        ("GET a", NO_GET),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
    ]);
    assert_eq!(admin.ask("ACL SETUSER u nocommands +config|get +select|1 +acl|whoami"), "+OK");
    client.check(&[
        ("SET a 1", "-NOPERM User u has no permissions to run the 'set' command"),
        ("CONFIG GET port2", "[]"),
        (
            "CONFIG SET timeout 0",
            "-NOPERM User u has no permissions to run the 'config|set' command",
        ),
        ("SELECT 0", "-NOPERM User u has no permissions to run the 'select' command"),
        ("SELECT 1", "+OK"),
    ]);
    assert!(admin.ask("CLIENT LIST").contains(" user=u "));
    assert_eq!(client.ask("AUTH default x"), "+OK");
    assert_eq!(client.ask("ACL WHOAMI"), "\"default\"");
    assert_eq!(client.ask("AUTH u x"), "+OK");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert_eq!(client.ask("ACL WHOAMI"), "\"default\"");
}

fn keys_are_read_or_written() {
    let server = Running::start();
    let (_admin, mut client) = user(&server, "+@all %R~r* %W~w* ~b*");
    client.check(&[
        ("GET r1", "nil"),
        ("GET w1", NO_KEY),
        ("SET w1 1", "+OK"),
        ("SET r1 1", NO_KEY),
        ("SET w1 1 GET", NO_KEY),
        ("SET b1 1 GET", "nil"),
        ("MGET r1 b1", "[nil, \"1\"]"),
        ("MGET r1 x", NO_KEY),
        ("STRLEN w1", ":1"),
        ("STRLEN x", NO_KEY),
        ("LPUSH w2 a", ":1"),
        ("LPOP w2", NO_KEY),
        ("COPY r1 w3", ":0"),
        ("COPY w1 w3", NO_KEY),
        ("ZUNIONSTORE w4 1 r1", ":0"),
        ("ZUNIONSTORE w4 1 w1", NO_KEY),
        ("ZUNIONSTORE r4 1 r1", NO_KEY),
        ("SORT r1 STORE w5", ":0"),
        ("SORT r1 STORE r5", NO_KEY),
        ("BITFIELD r1 GET u8 0", "[:0]"),
        ("BITFIELD r1 SET u8 0 1", NO_KEY),
    ]);
}

fn rights_are_checked_when_queued_and_at_exec() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+@all -get ~*");
    client.check(&[
        ("MULTI", "+OK"),
        ("GET a", NO_GET),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("STRLEN a", "+QUEUED"),
    ]);
    assert_eq!(admin.ask("ACL SETUSER u -set"), "+OK");
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
        This command is no longer allowed for the following reason: no permission to execute the command or \
        subcommand";
    assert_eq!(client.ask("EXEC"), format!("[{changed}, :0]"));
}

fn scripts_have_the_rights_of_their_client() {
    let server = Running::start();
    let (_admin, mut client) = user(&server, "+@scripting +set +acl|whoami ~a*");
    let denied = client.call(&["EVAL", "return redis.call('get', 'a')", "0"]);
    let expected =
        "-ERR ACL failure in script: User u has no permissions to run the 'get' command script: ";
    assert!(denied.starts_with(expected), "{denied}");
    let denied = client.call(&["EVAL", "return redis.pcall('set', 'b', 1).err", "0"]);
    assert_eq!(denied, "\"ERR ACL failure in script: No permissions to access a key\"");
    assert_eq!(client.call(&["EVAL", "return redis.call('set', 'a', 1)", "0"]), "+OK");
    assert_eq!(client.call(&["EVAL", "return 1", "1", "b"]), NO_KEY);
    for (words, may) in [("'set', 'a1', 1", ":1"), ("'set', 'b', 1", "nil"), ("'get', 'a'", "nil")]
    {
        let script = format!("return redis.acl_check_cmd({words})");
        assert_eq!(client.call(&["EVAL", &script, "0"]), may, "{words}");
    }
    let wrong = client.call(&["EVAL", "return redis.acl_check_cmd('nope')", "0"]);
    assert!(wrong.starts_with("-ERR Invalid command passed to redis.acl_check_cmd()"), "{wrong}");
}

fn sort_by_patterns_needs_all_keys() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+sort ~a*");
    let denied = |option| {
        format!("-ERR {option} option of SORT denied due to insufficient ACL permissions.")
    };
    client.check(&[
        ("SORT a", "[]"),
        ("SORT a BY nosort", "[]"),
        ("SORT a BY w*", &denied("BY")),
        ("SORT a GET #", &denied("GET")),
    ]);
    assert_eq!(admin.ask("ACL SETUSER u %R~*"), "+OK");
    client.check(&[("SORT a BY w* GET #", "[]")]);
}

fn channels_are_allowed_one_by_one() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+@pubsub &a* &b");
    client.check(&[
        ("PUBLISH ab x", ":0"),
        ("PUBLISH c x", NO_CHANNEL),
        ("SPUBLISH c x", NO_CHANNEL),
        ("SUBSCRIBE b c", NO_CHANNEL),
        ("PSUBSCRIBE ab*", NO_CHANNEL),
        ("PSUBSCRIBE a*", "[\"psubscribe\", \"a*\", :1]"),
        ("SUBSCRIBE ab", "[\"subscribe\", \"ab\", :2]"),
        ("UNSUBSCRIBE c", "[\"unsubscribe\", \"c\", :2]"),
    ]);
    assert_eq!(admin.ask("CONFIG SET acl-pubsub-default allchannels"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER v"), "+OK");
    assert!(admin.ask("ACL LIST").contains("user v off sanitize-payload &* -@all"));
}

fn subscribers_that_lose_a_channel_are_disconnected() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+@all ~* &a* &b");
    let mut other = server.client();
    assert_eq!(other.ask("AUTH u x"), "+OK");
    assert_eq!(client.ask("SUBSCRIBE ab"), "[\"subscribe\", \"ab\", :1]");
    assert_eq!(other.ask("SUBSCRIBE b"), "[\"subscribe\", \"b\", :1]");
    assert_eq!(admin.ask("ACL SETUSER u resetchannels &ab"), "+OK");
    assert_eq!(other.reply(), "closed");
    assert_eq!(client.ask("PING"), "[\"pong\", \"\"]");
    assert_eq!(admin.ask("ACL SETUSER u resetchannels"), "+OK");
    assert_eq!(client.reply(), "closed");
}

fn clients_of_a_removed_user_are_disconnected() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+@all ~* &*");
    let mut other = server.client();
    assert_eq!(other.ask("AUTH u x"), "+OK");
    assert_eq!(admin.ask("CLIENT KILL USER nobody"), "-ERR No such user 'nobody'");
    assert_eq!(client.ask("ACL DELUSER u"), ":1");
    assert_eq!(client.reply(), "closed");
    assert_eq!(other.reply(), "closed");
    let (mut admin, mut client) = user(&server, "+@all ~* &*");
    assert_eq!(admin.ask("CLIENT KILL USER u"), ":1");
    assert_eq!(client.reply(), "closed");
}

fn a_change_is_seen_on_all_threads() {
    let server = Running::start();
    let (mut admin, client) = user(&server, "+@all ~*");
    let mut clients = vec![client];
    for _ in 0..8 {
        let mut client = server.client();
        assert_eq!(client.ask("AUTH u x"), "+OK");
        clients.push(client);
    }
    for round in 0..20 {
        let key = format!("k{round}");
        assert_eq!(admin.ask("ACL SETUSER u -get"), "+OK");
        clients.iter_mut().for_each(|client| assert_eq!(client.ask(&format!("GET {key}")), NO_GET));
        assert_eq!(admin.ask("ACL SETUSER u +get"), "+OK");
        clients.iter_mut().for_each(|client| assert_eq!(client.ask(&format!("GET {key}")), "nil"));
    }
}

fn the_password_is_that_of_the_default_user() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.ask("PING"), "+PONG");
    client.check(&[
        ("CONFIG SET requirepass sesame", "+OK"),
        ("GET a", "nil"),
        ("CONFIG GET requirepass", "[\"requirepass\", \"sesame\"]"),
    ]);
    assert_eq!(other.ask("PING"), "+PONG");
    let mut stranger = server.client();
    stranger.check(&[
        ("ACL WHOAMI", "-NOAUTH Authentication required."),
        ("AUTH wrong", WRONG),
        ("AUTH sesame", "+OK"),
        ("ACL WHOAMI", "\"default\""),
        ("ACL SETUSER default >second", "+OK"),
    ]);
    for password in ["sesame", "second"] {
        assert_eq!(server.client().ask(&format!("AUTH default {password}")), "+OK");
    }
    client.check(&[("CONFIG SET requirepass ''", "+OK")]);
    assert_eq!(server.client().ask("GET a"), "nil");
    client.check(&[("ACL SETUSER default off", "+OK"), ("GET a", "nil")]);
    assert_eq!(server.client().ask("GET a"), "-NOAUTH Authentication required.");
}

fn refusals_are_logged() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+get +multi +discard +eval ~a &x");
    client.ask("SET a 1");
    client.ask("GET b");
    client.ask("GET b");
    client.ask("MULTI");
    client.ask("PUBLISH y 1");
    client.ask("DISCARD");
    client.ask("AUTH nobody x");
    let log = admin.ask("ACL LOG");
    let entries: Vec<_> = log.split("\"count\", ").skip(1).collect();
    assert_eq!(entries.len(), 4, "{log}");
    for (entry, expected) in entries.iter().zip([
        ":1, \"reason\", \"auth\", \"context\", \"toplevel\", \"object\", \"AUTH\", \"username\", \"nobody\"",
        ":1, \"reason\", \"command\", \"context\", \"multi\", \"object\", \"publish\", \"username\", \"u\"",
        ":2, \"reason\", \"key\", \"context\", \"toplevel\", \"object\", \"b\", \"username\", \"u\"",
        ":1, \"reason\", \"command\", \"context\", \"toplevel\", \"object\", \"set\", \"username\", \"u\"",
    ]) {
        assert!(entry.starts_with(expected), "{entry}");
    }
    assert!(entries[0].contains("\"client-info\", \"id="), "{log}");
    assert_eq!(admin.ask("ACL LOG 1").matches("\"count\"").count(), 1);
    // The command that was refused is the last one, unless it was one of a script.
    for (entry, command) in entries.iter().zip(["auth", "publish", "get", "set"]) {
        assert!(entry.contains(&format!(" cmd={command} ")), "{entry}");
    }
    admin.check(&[
        ("ACL LOG RESET", "+OK"),
        ("ACL LOG", "[]"),
        ("CONFIG SET acllog-max-len 1", "+OK"),
    ]);
    client.call(&["EVAL", "redis.call('set', 'a', 1)", "0"]);
    let log = admin.ask("ACL LOG");
    assert!(log.contains("\"context\", \"lua\", \"object\", \"set\""), "{log}");
    assert_eq!(log.matches("\"count\"").count(), 1);
}

fn a_refusal_is_logged_once_while_writes_are_paused() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+set ~a");
    admin.check(&[("CLIENT PAUSE 100000000 WRITE", "+OK")]);
    assert_eq!(client.ask("SET b 1"), NO_KEY);
    let log = admin.ask("ACL LOG");
    assert!(log.contains("\"count\", :1, \"reason\", \"key\""), "{log}");
    let stats = admin.ask("INFO stats");
    assert!(stats.contains("acl_access_denied_key:1\\r\\n"), "{stats}");
    admin.check(&[("CLIENT UNPAUSE", "+OK")]);
}

fn a_request_without_its_keys_names_none() {
    let server = Running::start();
    let (mut admin, mut client) = user(&server, "+eval +sintercard ~a");
    admin.check(&[
        ("ACL DRYRUN u EVAL code 2 b", "+OK"),
        ("ACL DRYRUN u SINTERCARD 3 b", "+OK"),
        ("ACL DRYRUN u EVAL code -1 b", "+OK"),
        ("ACL DRYRUN u EVAL code x b", "+OK"),
    ]);
    let refused = admin.ask("ACL DRYRUN u EVAL code 1 b");
    assert!(refused.contains("no permissions to access the"), "{refused}");
    let refused = "-ERR Number of keys can't be greater than number of args";
    assert_eq!(client.ask("EVAL code 2 b"), refused);
}

fn users_are_loaded_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    fs::write(&path, "user u on nopass ~* +@all\nuser default on >sesame ~* &* +@all\n").unwrap();
    let server = Running::start_with(|config| config.acl_file = Some(path.clone()));
    let mut client = server.client();
    assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
    assert_eq!(client.ask("AUTH sesame"), "+OK");
    let shown = path.display().to_string();
    client.check(&[
        ("CONFIG GET aclfile", &format!("[\"aclfile\", \"{shown}\"]")),
        ("ACL SETUSER w on >x %R~r +get", "+OK"),
        ("ACL SAVE", "+OK"),
    ]);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("user w on sanitize-payload #") && !text.contains("sesame"), "{text}");
    let mut other = server.client();
    assert_eq!(other.ask("AUTH u x"), "+OK");
    fs::write(&path, text.replace("+get", "+nope")).unwrap();
    let refused = format!(
        "-ERR {shown}:3: '+nope': Unknown command or category name in ACL. WARNING: ACL errors detected, no change to \
         the previously active ACL rules was performed"
    );
    assert_eq!(client.ask("ACL LOAD"), refused);
    assert_eq!(client.ask("ACL USERS"), "[\"default\", \"u\", \"w\"]");
    let without = text.lines().filter(|line| !line.starts_with("user u"));
    fs::write(&path, without.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(client.ask("ACL LOAD"), "+OK");
    assert_eq!(client.ask("ACL USERS"), "[\"default\", \"w\"]");
    assert_eq!(other.reply(), "closed");
    let none = Running::start();
    assert!(
        none.client().ask("ACL SAVE").starts_with("-ERR This Redis instance is not configured")
    );
}

#[test]
fn a_server_with_a_wrong_file_of_users_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    fs::write(&path, "user u on\nuser v +@nope\n").unwrap();
    let mut config = Config::default();
    (config.port, config.acl_file) = (0, Some(path));
    let db = common::open(folder.path().join("data"));
    match Server::bind(db, config).map(drop) {
        Err(error @ Error::Users { .. }) => {
            assert!(
                error.to_string().contains("users.acl:2: '+@nope': Unknown command"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}
