//! The traffic of the medium for each transaction of YCSB, behind the load ("Reads and Writes").
//!
//! The source counted the misses of the processor's last cache. Here the pool's emulation counts the lines that its own cache
//! of 256 KiB a thread does not have, and the pool the lines that are written back. Of the methods with files, the bytes that
//! the kernel is asked for count, and the lines that these would be; their rows in memory that does not persist do not
//! count, where the source's emulator counted all. So `loads` and `stores` are those of what persists, in lines of 64 bytes.

use std::sync::atomic::AtomicBool;

use halite::Durability;
use halite_pmem::{LINE, MEDIA_BLOCK, Profile};
use halite_table::{Kind, Testbed};
use halite_workload::ycsb003::{Mix, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Opened, Shape, Subject};
use super::ycsb::{Pace, at_each_home, loaded, one_home, shape, transactions};
use crate::{Contender, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.loads-stores";

/// Bytes that a file system reads and writes at once.
const FILE_BLOCK: u64 = 4096;

/// The medium: counted, and as fast as it can be.
const COUNTED: &str = "read=1,persist=1";

pub(super) fn plan(setting: &Setting<'_>, _: &Run<'_>) -> u64 {
    (setting.skews().count() * setting.mixes().count() * setting.methods().len()) as u64
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let repeats = run.options.repeats;
    // Traffic does not vary as time does.
    run.options.repeats = 1;
    let outcome = once(setting, run);
    run.options.repeats = repeats;
    outcome
}

fn once(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let counted: Profile = COUNTED.parse().expect("it is one");
    let profile = Some(run.options.profile.clone().unwrap_or(counted));
    let shape = Shape { profile, ..shape(setting, Durability::Deferred) };
    let workload = setting.workload(run);
    let folder = run.options.folder.clone();
    let mut stores = Vec::new();
    for kind in setting.methods() {
        run.step(&format!("{NAME} load {}", kind.name()))?;
        stores.push((kind, loaded(&Subject::Method(kind), &shape, &workload, &folder)?));
    }
    for (skew_name, skew) in setting.skews() {
        for mix in setting.mixes() {
            let workload = Workload { mix, skew, ..workload };
            let params = [
                ("skew", json!(skew_name)),
                ("mix", json!(mix.name())),
                ("tuples", json!(workload.tuples)),
                ("transactions", json!(transactions(setting, &workload))),
                ("group-ms", json!(setting.options.group_ms)),
                ("update", json!(if workload.updates_one { "one column" } else { "all columns" })),
            ];
            let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let interrupted = run.interrupted();
            let contenders = stores.iter().map(|(kind, loaded)| {
                let workload = &workload;
                let measure =
                    move || traffic(*kind, &loaded.opened, workload, setting, interrupted);
                let source = source(*kind, skew_name, mix);
                let (loads, stores) = source.map(|[loads, stores]| (loads, stores)).unzip();
                Contender::new(kind.name(), measure)
                    .with_source("loads", loads)
                    .with_source("stores", stores)
            });
            let mut contenders: Vec<_> = contenders.collect();
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// What was read and written so far.
struct Counted {
    lines_read: u64,
    pool: halite_pmem::Traffic,
    files: [u64; 4],
}

impl Counted {
    fn of(testbed: &Testbed) -> Self {
        let (pool, files) = (testbed.pool(), testbed.file_traffic());
        Self {
            lines_read: pool.medium_traffic().unwrap_or_default().lines_read,
            pool: pool.traffic(),
            files: [files.bytes_read, files.bytes_written, files.reads, files.writes],
        }
    }
}

fn traffic(
    kind: Kind,
    opened: &Opened,
    workload: &Workload,
    setting: &Setting<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let testbed = opened.testbed.as_ref().expect("a method is a testbed");
    let (before, pace) = (Counted::of(testbed), Pace::of(setting, workload));
    let updates = at_each_home(workload, |home| {
        one_home(kind.name(), opened, workload, (home, pace), interrupted)
    })?;
    let after = Counted::of(testbed);
    let pool = after.pool - before.pool;
    let [bytes_read, bytes_written, reads, writes] =
        std::array::from_fn(|at| after.files[at] - before.files[at]);
    let lines_read = after.lines_read - before.lines_read;
    let media = pool.media_blocks * MEDIA_BLOCK;
    let all = transactions(setting, workload) as f64;
    let each = |name: &str, unit: &str, count: u64| Sample::new(name, unit, count as f64 / all);
    let mut samples = vec![
        each("loads", "lines/txn", lines_read + bytes_read.div_ceil(LINE)),
        each("stores", "lines/txn", pool.lines + bytes_written.div_ceil(LINE)),
        each("lines-read", "1/txn", lines_read),
        each("lines-written", "1/txn", pool.lines),
        each("media-bytes", "B/txn", media),
        each("file-bytes-read", "B/txn", bytes_read),
        each("file-bytes-written", "B/txn", bytes_written),
        each("file-blocks-read", "1/txn", bytes_read.div_ceil(FILE_BLOCK)),
        each("file-blocks-written", "1/txn", bytes_written.div_ceil(FILE_BLOCK)),
        each("file-reads", "1/txn", reads),
        each("file-writes", "1/txn", writes),
    ];
    let updated = updates.iter().sum::<u64>() * if workload.updates_one { 100 } else { 1000 };
    if updated > 0 {
        let amplification = (media + bytes_written) as f64 / updated as f64;
        samples.push(Sample::new("written-per-user-byte", "B/B", amplification));
    }
    Ok(samples)
}

/// The source's loads and stores of a transaction: its figures are of millions of lines in eight million transactions.
fn source(kind: Kind, skew: &str, mix: Mix) -> Option<[f64; 2]> {
    // By mix: loads with the low and the high skew, and stores.
    let of: [[f64; 4]; 4] = match kind.name() {
        "inp" => [
            [162.0, 98.0, 4.7, 1.8],
            [236.0, 135.0, 23.9, 15.3],
            [538.0, 348.0, 54.5, 46.8],
            [756.0, 502.0, 85.0, 77.7],
        ],
        "nvm-inp" => [
            [166.0, 99.0, 3.9, 1.9],
            [207.0, 123.0, 17.6, 10.1],
            [257.0, 176.0, 33.1, 28.0],
            [270.0, 189.0, 48.9, 46.1],
        ],
        "cow" => [
            [285.0, 163.0, 10.5, 3.1],
            [572.0, 369.0, 105.5, 74.2],
            [1138.0, 738.0, 332.6, 196.9],
            [1650.0, 1028.0, 511.7, 303.6],
        ],
        "nvm-cow" => [
            [201.0, 116.0, 8.6, 1.7],
            [283.0, 175.0, 57.7, 43.4],
            [492.0, 337.0, 224.4, 157.5],
            [567.0, 428.0, 268.1, 229.3],
        ],
        "log" => [
            [432.0, 349.0, 57.4, 34.8],
            [794.0, 515.0, 123.4, 87.7],
            [884.0, 544.0, 173.6, 153.8],
            [928.0, 570.0, 221.8, 165.3],
        ],
        "nvm-log" => [
            [253.0, 166.0, 26.5, 15.7],
            [390.0, 238.0, 61.4, 46.2],
            [404.0, 292.0, 119.6, 96.7],
            [345.0, 290.0, 185.3, 146.9],
        ],
        _ => return None,
    };
    let (of, skew) = (of[mix as usize], ["low", "high"].iter().position(|name| *name == skew)?);
    Some([of[skew] / 8.0, of[2 + skew] / 8.0])
}
