//! The index+log engine comes back from every power cut that the lab looks at.

use std::sync::Arc;
use std::time::Instant;

use halite_indexlog::IndexLog;
use halite_lab::{Effort, Explorer, Kind, Rules, Space, Store, Subject};

fn explore<S: Subject>(subject: &S, rules: Rules, seeds: std::ops::Range<u64>) {
    let mut explorer = Explorer::new(subject, rules, Effort::default());
    let start = Instant::now();
    for seed in seeds {
        if let Some(violation) = explorer.explore(seed) {
            println!("{}: {}", violation.case, violation.what);
            let (story, what) = explorer.replay(&violation.case);
            for line in story {
                println!("{line}");
            }
            println!("{what:?}");
            panic!();
        }
    }
    let tally = &explorer.tally;
    println!(
        "{} {}: {} histories {} points ({} complete), {} images, {} distinct, {} recoveries, {} nested, {} detected; {:.0}/s",
        subject.name(),
        rules.name(),
        tally.histories,
        tally.crash_points,
        tally.complete_points,
        tally.images,
        tally.distinct.len(),
        tally.recoveries,
        tally.nested,
        tally.detected,
        tally.recoveries as f64 / start.elapsed().as_secs_f64()
    );
    for (lint, site, count, chances) in explorer.lints.met() {
        println!("   {} {}:{} {count} of {chances}", lint.name(), site.file(), site.line());
    }
}

#[test]
fn rate() {
    let n: u64 = std::env::var("N").map_or(20, |n| n.parse().unwrap());
    for rules in Rules::ALL {
        explore(&Space, rules, 0..n);
        let subject = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)))
            .with_kinds(&[Kind::Few, Kind::Mixed]);
        explore(&subject, rules, 0..n);
    }
    for kind in
        [&[Kind::Few][..], &[Kind::Mixed], &[Kind::Blocks], &[Kind::Large], &[Kind::Collecting]]
    {
        println!("{kind:?}");
        let kinds: &'static [Kind] = Box::leak(kind.to_vec().into_boxed_slice());
        let subject = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)))
            .with_kinds(kinds);
        explore(
            &subject,
            Rules::Memory,
            0..(if kind[0] == Kind::Few || kind[0] == Kind::Mixed { n } else { n / 10 }),
        );
    }
}

fn judge<S: Subject>(
    subject: &S,
    rules: Rules,
    n: u64,
    judged: &mut std::collections::BTreeMap<halite_lab::Mutant, halite_lab::Verdict>,
    all: bool,
) {
    let secs: u64 = std::env::var("SECS").map_or(10, |n| n.parse().unwrap());
    let mutants = halite_lab::Mutants::find(subject, rules, 0..n);
    for mutant in mutants.all() {
        if judged.get(&mutant).is_some_and(|v| v.caught.is_some()) {
            continue;
        }
        if !all && !judged.contains_key(&mutant) {
            continue;
        }
        let (verdict, _) = mutants.judge(
            subject,
            mutant,
            &Effort::default(),
            std::time::Duration::from_secs(secs),
        );
        judged.insert(mutant, verdict);
    }
}

#[test]
fn mutants() {
    let kinds: &[&'static [Kind]] =
        &[&[Kind::Few], &[Kind::Mixed], &[Kind::Blocks], &[Kind::Large], &[Kind::Collecting]];
    for rules in [Rules::Memory, Rules::PageCache, Rules::FailedPlatform, Rules::Platform] {
        let mut judged = std::collections::BTreeMap::new();
        judge(&Space, rules, 60, &mut judged, true);
        for kind in kinds {
            let subject = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)))
                .with_kinds(kind);
            judge(&subject, rules, 30, &mut judged, true);
        }
        let caught = judged.values().filter(|v| v.caught.is_some()).count();
        println!("{} {caught} of {}", rules.name(), judged.len());
        for (m, v) in judged {
            println!(
                "{} {} {}:{} {} {}",
                rules.name(),
                m.request.name(),
                m.site.file(),
                m.site.line(),
                v.histories,
                v.caught.map_or("SURVIVES".into(), |c| format!("{}: {}", c.case, c.what))
            );
        }
    }
}

#[test]
fn schedules() {
    let n: u64 = std::env::var("N").map_or(20, |n| n.parse().unwrap());
    let subject = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)));
    let effort = Effort { images_max: 24, history_images_max: 400, ..Effort::default() };
    let mut explorer = Explorer::new(&subject, Rules::Memory, effort);
    let start = Instant::now();
    for seed in 0..n {
        if let Some(violation) = explorer.explore_schedules(seed, 8) {
            println!("{}: {}", violation.case, violation.what);
            panic!();
        }
    }
    println!(
        "{} schedules, {} recoveries in {:?}",
        explorer.tally.schedules,
        explorer.tally.recoveries,
        start.elapsed()
    );
}
