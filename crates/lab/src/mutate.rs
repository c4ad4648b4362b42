//! The mutation score: what the lab notices if one flush, fence or sync is left out.
//!
//! Every place in the code that asks for one is switched off by itself, at run time, and the lab looks
//! until it finds a violation or its time is up. A survivor is either a hole in the histories or a
//! request that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use halite_pmem::{Request, Site};

use crate::explore::{Effort, Explorer, Violation};
use crate::{Random, Rules, Subject, Tally};

/// A request that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Under which rules.
    pub rules: Rules,
    /// Where the code asks.
    pub site: Site,
    /// For what.
    pub request: Request,
}

/// What became of a mutant.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The mutant.
    pub mutant: Mutant,
    /// What showed it, if anything did.
    pub caught: Option<Violation>,
    /// Histories that it took, or in which it survived.
    pub histories: u64,
}

/// The mutants of a subject, and the histories in which each has something to leave out.
pub struct Mutants {
    seeds: BTreeMap<Mutant, Vec<u64>>,
}

impl Mutants {
    /// Finds the mutants under `rules` in the histories of `seeds`, with the effort of a short look.
    pub fn find<S: Subject>(subject: &S, rules: Rules, seeds: impl Iterator<Item = u64>) -> Self {
        let effort = Effort {
            images_max: 2,
            nested_images_max: [2, 2],
            nested_percent: [30, 0],
            ..Effort::default()
        };
        let mut found: BTreeMap<Mutant, Vec<u64>> = BTreeMap::new();
        let mut explorer = Explorer::new(subject, rules, effort);
        for seed in seeds {
            explorer.explore(seed);
            for (site, request) in std::mem::take(&mut explorer.requests) {
                found.entry(Mutant { rules, site, request }).or_default().push(seed);
            }
        }
        Self { seeds: found }
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<Mutant> {
        self.seeds.keys().copied().collect()
    }

    /// Looks for a violation that a mutant causes, in at most so many histories, and until the
    /// effort's deadline.
    pub fn judge<S: Subject>(
        &self,
        subject: &S,
        mutant: Mutant,
        effort: &Effort,
        histories_max: u64,
    ) -> (Verdict, Tally) {
        let is_over = || effort.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let (mut explorer, mut looks) = (Explorer::new(subject, mutant.rules, effort.clone()), 0);
        let quick = Effort { images_max: 12, history_images_max: 300, ..effort.clone() };
        explorer.disregard(Some((mutant.site, mutant.request)));
        let known = self.seeds.get(&mutant).into_iter().flatten().copied();
        let mut random = Random::new(0);
        let seeds = known.chain(std::iter::repeat_with(|| random.next()));
        let mut caught = None;
        // A quick look at every history first: most mutants show everywhere, some only in rare ones.
        for seed in seeds.take(histories_max as usize).take_while(|_| !is_over()) {
            looks += 1;
            explorer.set_effort(if looks % 4 == 0 { effort.clone() } else { quick.clone() });
            caught = explorer.explore(seed);
            if caught.is_some() {
                break;
            }
        }
        let tally = explorer.tally;
        (Verdict { mutant, caught, histories: tally.histories }, tally)
    }
}
