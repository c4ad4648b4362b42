//! A short run with kills, if `redis-server` is installed and the program `halite` has been built beside `redis-diff`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn a_killed_server_goes_on_like_redis() {
    let redis_diff = env!("CARGO_BIN_EXE_redis-diff");
    let halite = Path::new(redis_diff).with_file_name("halite");
    if !halite.is_file() || !is_there("redis-server") {
        eprintln!("skipped: no redis-server, or no `halite` beside {redis_diff}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The Redis that is there may be 7.0, whose scripts print numbers otherwise: they are left out.
    let families =
        ["bitmaps", "fields", "hashes", "hyperloglogs", "keys", "lists", "places", "server"]
            .into_iter()
            .chain(["sets", "sorted-sets", "streams", "strings"]);
    for engine in ["indexlog", "lsm"] {
        let mut command = Command::new(redis_diff);
        command.args(families.clone().flat_map(|family| ["--family", family]));
        command.args(["--engine", engine, "--folder"]).arg(folder.path());
        command.args(["--requests", "10000", "--kill-every", "500", "--seed", "7"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(" kills, "), "{said}");
    }
}
