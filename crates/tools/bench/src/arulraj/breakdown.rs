//! The parts of a transaction's time: storage, recovery, index and the rest ("Execution Time Breakdown").
//!
//! The source sampled the functions that the processor was in. Here the doors between the parts read the clock
//! ([`halite_table::component`]), in a program that has them built in. They take some time themselves, which falls to the
//! parts on both sides: `nothing` is a part that is entered and left once a transaction, with nothing in it, and shows what
//! a door takes. `sum` is the time in all parts by that of the threads, measured apart; it has to be 100 %.
//!
//! As in the source the skew is low and the medium has reads of 320 ns. Rows of methods with files are in memory that is not
//! slowed.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use halite::Durability;
use halite_pmem::probe::nanos;
use halite_table::Kind;
use halite_table::component::{Component, Split, measure};
use halite_workload::ycsb003::{Mix, Skew, Workload};
use serde_json::json;

use super::setting::Setting;
use super::stores::{Opened, Shape, Subject};
use super::ycsb::{Pace, at_each_home, loaded, one_home, shape, transactions};
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.breakdown";

/// The source's medium.
const PROFILE: &str = "nvm-2x";

/// By how much the parts may miss the whole, in percent.
const TOLERANCE: f64 = 1.0;

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    (setting.methods().len() * setting.mixes().count()) as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let profile = run.options.profile.clone().unwrap_or(PROFILE.parse().expect("it is one"));
    let name = profile.name.clone();
    let shape = Shape { profile: Some(profile), ..shape(setting, Durability::Deferred) };
    let workload = Workload { skew: Skew::LOW, ..setting.workload(run) };
    let folder = run.options.folder.clone();
    let mut stores = Vec::new();
    for kind in setting.methods() {
        run.step(&format!("{NAME} load {}", kind.name()))?;
        stores.push((kind, loaded(&Subject::Method(kind), &shape, &workload, &folder)?));
    }
    for mix in setting.mixes() {
        let workload = Workload { mix, ..workload };
        let params = [
            ("profile", json!(name)),
            ("mix", json!(mix.name())),
            ("tuples", json!(workload.tuples)),
            ("transactions", json!(transactions(setting, &workload))),
            ("group-ms", json!(setting.options.group_ms)),
        ];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let interrupted = run.interrupted();
        let contenders = stores.iter().map(|(kind, loaded)| {
            let workload = &workload;
            let measure = move || parts(*kind, &loaded.opened, workload, setting, interrupted);
            let contender = Contender::new(kind.name(), measure);
            source(*kind, mix)
                .into_iter()
                .flatten()
                .fold(contender, |contender, (part, percent)| {
                    contender.with_source(part.name(), Some(percent))
                })
        });
        let mut contenders: Vec<_> = contenders.collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// The shares of the parts in percent.
fn parts(
    kind: Kind,
    opened: &Opened,
    workload: &Workload,
    setting: &Setting<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let pace = Pace::of(setting, workload);
    let of_homes = at_each_home(workload, |home| {
        let began = Instant::now();
        let (updates, split) =
            measure(nanos, || one_home(kind.name(), opened, workload, (home, pace), interrupted));
        let time = began.elapsed();
        updates.map(|_| (split, time))
    })?;
    let (mut split, mut time) = (Split::default(), 0.0);
    for (of_home, its_time) in of_homes {
        split.add(&of_home);
        time += its_time.as_nanos() as f64;
    }
    let sum = split.total() as f64 / time * 100.0;
    if (sum - 100.0).abs() > TOLERANCE {
        let (store, why) =
            (kind.name().to_owned(), format!("its parts take {sum:.1} % of its time"));
        return Err(Error::WrongAnswer { store, why });
    }
    let share = |part: Component| {
        Sample::new(part.name(), "%", split.of(part) as f64 / split.total() as f64 * 100.0)
    };
    let mut samples: Vec<_> = Component::ALL.into_iter().map(share).collect();
    samples.push(Sample::new("sum", "%", sum));
    let each = time / transactions(setting, workload) as f64;
    samples.push(Sample::new("transaction", "ns", each));
    Ok(samples)
}

/// The source's shares in percent.
fn source(kind: Kind, mix: Mix) -> Option<[(Component, f64); 4]> {
    // By mix: storage, recovery and index.
    let of: [[f64; 3]; 4] = match kind.name() {
        "inp" => [[55.9, 0.0, 24.5], [40.0, 9.0, 21.5], [38.4, 18.1, 20.2], [40.0, 25.0, 15.0]],
        "cow" => [[51.0, 0.0, 21.5], [47.0, 24.0, 14.0], [37.0, 27.0, 18.0], [42.0, 33.0, 16.0]],
        "log" => [[63.0, 0.0, 32.2], [49.0, 11.0, 26.1], [41.0, 17.0, 24.9], [41.0, 29.0, 20.6]],
        "nvm-inp" => [[67.0, 0.0, 27.5], [51.0, 4.0, 30.3], [48.0, 11.0, 23.6], [50.0, 13.0, 20.6]],
        "nvm-cow" => [[65.6, 0.0, 23.8], [55.0, 9.0, 26.0], [51.0, 15.0, 23.0], [40.0, 17.0, 23.0]],
        "nvm-log" => [[64.7, 0.0, 31.4], [56.0, 4.0, 31.0], [48.0, 9.0, 37.2], [56.0, 14.0, 27.2]],
        _ => return None,
    };
    let [storage, recovery, index] = of[mix as usize];
    let other = 100.0 - storage - recovery - index;
    Some([
        (Component::Storage, storage),
        (Component::Recovery, recovery),
        (Component::Index, index),
        (Component::Other, other),
    ])
}
