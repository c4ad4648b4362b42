//! The machine and the medium of a run, and the row that says how the run was made and how it ended.

use std::path::Path;

use serde_json::json;

use crate::row::{Params, Row};
use crate::{Result, RunOptions, Scratch};

/// Bytes of the pool that finds out whether the folder can be measured in, and its domain.
const PROBE_BYTES: u64 = 1 << 20;

/// How a run is made and where: the `params` of its last row. It makes sure that the run's folder
/// takes a pool.
pub(crate) fn facts(options: &RunOptions) -> Result<Params> {
    let domain = Scratch::new(options, PROBE_BYTES)?.pool().domain();
    let facts = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processor": processor(),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "folder": options.folder.display().to_string(),
        "domain": domain.name(),
        "profile": options.profile.as_ref().map(|profile| profile.name.as_str()),
        "seed": options.seed,
        "quick": options.quick,
        "repeats": options.repeats,
        "command": command(),
    });
    Ok(facts.as_object().cloned().unwrap_or_default())
}

/// The last row of a run: whether it ended before it was complete.
pub(crate) fn row(facts: Params, interrupted: bool) -> Row {
    let value = if interrupted { 1.0 } else { 0.0 };
    Row {
        experiment: "run".to_owned(),
        subject: "halite".to_owned(),
        params: facts,
        metric: "interrupted".to_owned(),
        unit: "bool".to_owned(),
        value,
        min: value,
        max: value,
        limit: None,
        source: None,
    }
}

fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let name = info.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or(std::env::consts::ARCH, |name| name.trim_start_matches([' ', '\t', ':'])).to_owned()
}

/// The command line, with the program's name in place of its path.
fn command() -> String {
    let mut args: Vec<_> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Some(program) = args.first_mut() {
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_default();
    }
    args.join(" ")
}

/// A small file of the kernel's; empty if it cannot be read.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}
