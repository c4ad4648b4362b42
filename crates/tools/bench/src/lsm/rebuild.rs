//! Rebuilding a memtable's index by scanning its records (Yan §3.1, asked for in the project): a memtable
//! of 256 MiB that a store is opened with.

use std::time::Instant;

use serde_json::json;

use super::host_memory::touch;
use super::setting::{KEY_LEN, Setting, records, xp};
use super::stores::XP;
use crate::kv::{Memory, Store};
use crate::tenant::{Place, load};
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "lsm.rebuild";

/// Bytes of values: those of the memtable's figure and of recovery's.
const VALUE_LENS: [usize; 2] = [32, 500];

/// Bytes of records with their headers.
const BYTES: u64 = 256 << 20;
const BYTES_QUICK: u64 = 4 << 20;

/// The memtable has room for them, and for the unused ends of its zones.
const MEMTABLE: u64 = 2 * BYTES;

pub(super) fn plan(_: &Setting<'_>, run: &Run<'_>) -> u64 {
    VALUE_LENS.len() as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let bytes = if options.quick { BYTES_QUICK } else { BYTES };
    for value_len in VALUE_LENS {
        // The overhead of a record: 20 bytes, 4 of its key space, and up to 7 of padding.
        let record = (20 + 4 + KEY_LEN + value_len).next_multiple_of(8);
        let count = bytes / record as u64;
        let params = setting.params(
            4 * MEMTABLE,
            [
                ("database", json!(bytes)),
                ("key-len", json!(KEY_LEN)),
                ("value-len", json!(value_len)),
            ],
        );
        let measure = || {
            let place = Place::new(&setting.lodging(&options))?;
            let mut store = xp(setting.pmem, &options);
            store.set_pool(4 * MEMTABLE, Memory { write_buffer: MEMTABLE, cache: 1 << 20 });
            let failed = |action| Error::of_store(XP, action);
            store.open(place.path()).map_err(failed("open"))?;
            let mut values = records(value_len, options.seed);
            load(&store, &mut values, 0, count, interrupted)?;
            store.close().map_err(failed("close"))?;
            touch(&options.folder, 2 * bytes);
            let start = Instant::now();
            store.open(place.path()).map_err(failed("open"))?;
            let opened = start.elapsed();
            let recovery = store.database().map_err(failed("look at"))?.stats().recovery;
            store.close().map_err(failed("close"))?;
            if recovery.records_read < count {
                let why = format!("{} of {count} records after opening", recovery.records_read);
                return Err(Error::WrongAnswer { store: XP.to_owned(), why });
            }
            Ok(vec![
                Sample::new("rebuild", "ns", recovery.duration.as_nanos() as f64),
                Sample::new("open", "ns", opened.as_nanos() as f64),
                Sample::new("rate", "record/s", count as f64 / recovery.duration.as_secs_f64()),
            ])
        };
        run.compare(NAME, &params, &mut [Contender::new(XP, measure)])?;
    }
    Ok(())
}
