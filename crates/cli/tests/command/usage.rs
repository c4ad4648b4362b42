//! Help, wrong command lines, and exit codes.

use std::process::Stdio;

use crate::run::Home;

#[test]
fn help_documents_the_exit_codes() {
    let help = Home::new().text(&["--help"]);
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "130 "] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "{code}");
    }
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let home = Home::new();
    for args in [
        &["no-such-command"][..],
        &["get", "data"],
        &["scan", "data", "--limit", "many"],
        &["scan", "data", "--count", "--keys-only"],
        &["load", "data"],
        &["load", "data", "x.tsv", "--dir", "."],
        &["load", "data", "x", "--format", "tsv", "--key", "id"],
        &["put", "data", "key", "value", "--file", "x"],
        &["serve", "data", "--max-size", "10 parsecs"],
        &["serve", "data", "--engine", "steam"],
        &["serve", "data", "--sync", "sometimes"],
        &["serve", "data", "--port", "65536"],
        &["serve", "data", "--bind", "localhost!"],
        &["serve", "data", "--databases", "0"],
        &["serve", "data", "--partitions", "0"],
        &["serve", "data", "--partitions", "5000"],
        &["serve", "data", "--threads", "0"],
        &["serve", "data", "--threads", "5000"],
        &["completions", "tcsh"],
        &["tpcc", "load", "data"],
        &["tpcc", "load", "data", "--warehouses", "0"],
        &["tpcc", "load", "data", "--warehouses", "65536"],
        &["tpcc", "load", "data", "--warehouses", "1", "--threads", "0"],
        &["tpcc", "load", "data", "--warehouses", "1", "--threads", "5000"],
        &["tpcc", "load", "data", "--warehouses", "1", "--scale", "vast"],
        &["tpcc", "load", "data", "--warehouses", "1", "--engine", "steam"],
        &["tpcc", "run", "data", "--mix", "45,43,4,4,5"],
        &["tpcc", "run", "data", "--mix", "45,43,4,4"],
        &["tpcc", "run", "data", "--mix", "45,43,4,4,-4"],
        &["tpcc", "run", "data", "--threads", "0"],
        &["tpcc", "run", "data", "--duration", "0s"],
        &["tpcc", "run", "data", "--duration", "0"],
        &["tpcc", "run", "data", "--transactions", "0"],
        &["tpcc", "run", "data", "--transactions", "9", "--duration", "1s"],
        &["tpcc", "check"],
        &["table", "create", "data", "t", "--primary-key", "a"],
        &["table", "create", "data", "t", "--column", "a int8"],
        &["table", "create", "data", "t", "--column", "a int", "--primary-key", "a"],
        &["table", "create", "data", "t", "--column", "a", "--primary-key", "a"],
        &[
            "table",
            "create",
            "data",
            "t",
            "--column",
            "a int8",
            "--primary-key",
            "a",
            "--index",
            "i",
        ],
        &[
            "table",
            "create",
            "data",
            "t",
            "--column",
            "a int8",
            "--primary-key",
            "a",
            "--method",
            "wal",
        ],
        &[
            "table",
            "create",
            "data",
            "t",
            "--column",
            "a int8",
            "--primary-key",
            "a",
            "--partitions",
            "0",
        ],
        &[
            "table",
            "create",
            "data",
            "t",
            "--column",
            "a int8",
            "--primary-key",
            "a",
            "--partitions",
            "1025",
        ],
        &["table", "load", "data", "t", "-", "--batch", "0"],
        &["table", "scan", "data", "t", "--limit", "many"],
    ] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
    }
    assert!(!home.path("data").exists());
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(Home::new().text(&["completions", shell]).contains("halite"), "{shell}");
    }
}

#[test]
fn an_output_that_nobody_reads_ends_the_command_quietly() {
    let home = Home::new();
    let mut child = home
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn an_output_that_is_full_is_an_error() {
    let home = Home::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = home.command(&["completions", "bash"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("halite: standard output: No space left"), "{message}");
}

#[test]
fn reading_never_creates_a_database() {
    let home = Home::new();
    for args in [
        &["get", "data", "key"][..],
        &["del", "data", "key"],
        &["scan", "data"],
        &["dump", "data"],
        &["stat", "data"],
        &["check", "data"],
        &["tpcc", "run", "data"],
        &["tpcc", "check", "data"],
    ] {
        home.run(args).failed(1, "data: there is no database here; create one");
        assert!(!home.path("data").exists(), "{args:?}");
    }
}

#[test]
fn a_file_is_no_database() {
    let home = Home::new();
    home.file("data", "something else");
    for args in [
        &["get", "data", "key"][..],
        &["put", "data", "key", "value"],
        &["load", "data/below", "-"],
        &["stat", "data"],
        &["serve", "data"],
        &["tpcc", "load", "data", "--warehouses", "1"],
        &["tpcc", "run", "data"],
        &["tpcc", "check", "data"],
    ] {
        let folder = if args[0] == "tpcc" { args[2] } else { args[1] };
        home.run(args).failed(1, &format!("{folder}: not a folder"));
    }
    assert_eq!(std::fs::read(home.path("data")).unwrap(), b"something else");
}

#[test]
fn wrong_input_leaves_no_empty_database_behind() {
    let home = Home::new();
    home.run(&["load", "data", "missing.tsv"]).failed(1, "missing.tsv: No such file");
    home.run(&["load", "data", "."]).failed(1, ".: a folder; load the files below it with --dir");
    home.run(&["load", "data", "--dir", "missing"]).failed(1, "missing: No such file");
    home.run(&["put", "data", "key", "--file", "missing"]).failed(1, "missing: No such file");
    home.run(&["put", "data", r"\q", "value", "-e"]).failed(1, r"\\q: `\q` is not an escape");
    home.run(&["serve", "data", "--requirepass", ""]).failed(1, "--requirepass: the password is");
    assert!(!home.path("data").exists());
}
