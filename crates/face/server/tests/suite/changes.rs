//! HALITE.CHANGES: the change log, for those who have the right.

use halite::{Database, Partitioning};

use crate::common::{Running, threads};

on_threads! {
    ; indexlog:
    changes_are_read_behind_positions
    the_change_log_is_for_administrators
    clients_without_the_password_read_no_changes
    changes_come_in_replies_that_the_limits_of_clients_allow
}

/// A server with a change log.
fn server() -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let builder = Database::builder().engine("indexlog").change_log(16 << 20);
    let builder = builder.partitioning(Partitioning::Hash(threads()));
    let db = builder.open(folder.path().join("data")).unwrap();
    (Running::on(db, |_| {}), folder)
}

fn changes_are_read_behind_positions() {
    let (server, _folder) = server();
    let mut client = server.client();
    client.check(&[("SET a 1", "+OK")]);
    let all = client.ask("HALITE.CHANGES POSITIONS");
    let all = all.trim_matches(['[', ']']);
    assert_eq!(all.matches(':').count(), 2 * threads(), "{all}");
    assert!(client.ask("HALITE.CHANGES SPACES").contains("db0"));
    let mut told = String::new();
    for partition in 0..threads() {
        told += &client.ask(&format!("HALITE.CHANGES READ {partition} 0"));
    }
    assert!(told.contains("create") && told.contains("put"), "{told}");
    let beyond = threads();
    let text =
        format!("-ERR there is no partition {beyond}: this database has {beyond}, numbered from 0");
    assert_eq!(client.ask(&format!("HALITE.CHANGES READ {beyond} 0")), text);
    client.check(&[
        ("HALITE.CHANGES READ -1 0", &text.replace(&format!("partition {beyond}"), "partition -1")),
        ("HALITE.CHANGES READ x 0", "-ERR value is not an integer or out of range"),
        ("HALITE.CHANGES READ 0 -1", "-ERR value is not an integer or out of range"),
        (
            "HALITE.CHANGES READ 0",
            "-ERR wrong number of arguments for 'halite.changes|read' command",
        ),
        ("HALITE.CHANGES NONE", "-ERR unknown subcommand 'NONE'. Try HALITE.CHANGES HELP."),
        ("MULTI", "+OK"),
        ("HALITE.CHANGES READ 0 0", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
    let script =
        client.call(&["EVAL", "return redis.call('HALITE.CHANGES', 'READ', '0', '0')", "0"]);
    assert!(script.starts_with("-ERR This Redis command is not allowed from script"), "{script}");
}

fn the_change_log_is_for_administrators() {
    let (server, _folder) = server();
    let mut client = server.client();
    client.check(&[
        ("ACL SETUSER some on nopass ~* +@all -@admin", "+OK"),
        ("ACL SETUSER other on nopass ~* +@all -@dangerous", "+OK"),
        ("ACL SETUSER reader on nopass -@all +halite.changes", "+OK"),
    ]);
    for user in ["some", "other"] {
        client.check(&[(&format!("AUTH {user} x"), "+OK")]);
        for part in ["positions", "spaces", "read 0 0"] {
            let name = part.split(' ').next().unwrap();
            let refused = client.ask(&format!("HALITE.CHANGES {part}"));
            let why = format!(
                "-NOPERM User {user} has no permissions to run the 'halite.changes|{name}' command"
            );
            assert_eq!(refused, why);
        }
    }
    client.check(&[("AUTH reader x", "+OK")]);
    assert!(client.ask("HALITE.CHANGES READ 0 0").starts_with('['));
}

fn clients_without_the_password_read_no_changes() {
    let (server, _folder) = server();
    server.client().check(&[("CONFIG SET requirepass secret", "+OK")]);
    let mut stranger = server.client();
    for part in ["POSITIONS", "SPACES", "READ 0 0"] {
        let refused = stranger.ask(&format!("HALITE.CHANGES {part}"));
        assert_eq!(refused, "-NOAUTH Authentication required.");
    }
}

fn changes_come_in_replies_that_the_limits_of_clients_allow() {
    let (server, _folder) = server();
    let mut client = server.client();
    let value = "v".repeat(4000);
    for n in 0..100 {
        client.check(&[(&format!("SET {{a}}{n} {value}"), "+OK")]);
    }
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 20000 0 0"];
    assert_eq!(client.call(&limit), "+OK");
    let mut read = 0;
    for partition in 0..threads() {
        let mut position = "0".to_owned();
        loop {
            let some = client.ask(&format!("HALITE.CHANGES READ {partition} {position}"));
            assert!(some.len() < 20_000 && some.starts_with('['), "{some}");
            let Some((_, last)) = some.rsplit_once("[:") else { break };
            position = last.chars().take_while(char::is_ascii_digit).collect();
            read += some.matches(&value).count();
        }
    }
    assert_eq!(read, 100);
}
