//! The images that a power cut may leave at one point: all of them if they are few, else a sample.

use std::collections::BTreeMap;

use halite_sim::{Site, Trace};

use crate::Random;
use crate::cells::{Choice, Part};

/// The images of a point, by number: the number and the seed of the point reproduce an image.
pub(crate) struct Images<'a> {
    dirty: &'a [(u64, &'a [Part])],
    /// The number of ways in which each name and length may be left, the newest last.
    ways: &'a [usize],
    seed: u64,
    /// How many images are numbered one by one; behind them every number is one drawn at random.
    numbered: u64,
    /// Whether versions of cells count words, not stores: then the numbered images are all there are.
    by_word: bool,
    /// The dirty cells by the place in the code that stored to them last, so that the one word of a
    /// map is drawn as often as the thousand lines of a value.
    groups: Vec<Vec<usize>>,
}

/// One image: the version of each dirty cell, and which of the possible states of each file and folder.
pub(crate) struct Image {
    pub(crate) choices: Vec<Choice>,
    pub(crate) ways: Vec<usize>,
}

const NOTHING: Choice = Choice { whole: 0, torn: 0 };

/// Images are numbered one by one if there are no more of them.
const NUMBERED_MAX: u64 = 128;

impl<'a> Images<'a> {
    pub(crate) fn new(
        dirty: &'a [(u64, &'a [Part])],
        ways: &'a [usize],
        trace: &Trace,
        seed: u64,
    ) -> Self {
        let product = |versions: fn(&[Part]) -> u64| {
            let ways = ways.iter().map(|&ways| ways as u64);
            let mut all = ways.chain(dirty.iter().map(|(_, parts)| versions(parts)));
            all.try_fold(1_u64, |product, versions| {
                product.checked_mul(versions).filter(|&product| product <= NUMBERED_MAX)
            })
        };
        let (words, stores) = (product(versions_by_word), product(versions_by_store));
        let mut groups: BTreeMap<Site, Vec<usize>> = BTreeMap::new();
        if words.is_none() {
            for (number, (_, parts)) in dirty.iter().enumerate() {
                let last = parts.last().map(|part| trace.events[part.event as usize].site);
                last.into_iter().for_each(|site| groups.entry(site).or_default().push(number));
            }
        }
        let groups = groups.into_values().collect();
        let numbered = words.or(stores).unwrap_or_default();
        Self { dirty, ways, seed, numbered, by_word: words.is_some(), groups }
    }

    /// The numbers of at most `count_max` images; and whether they are all that the rules allow, if a copy goes
    /// forward.
    pub(crate) fn numbers(&self, count_max: u64) -> (Vec<u64>, bool) {
        if self.by_word && self.numbered <= count_max {
            return ((0..self.numbered).collect(), true);
        }
        let mut random = Random::of(&[self.seed, count_max]);
        let numbers = (0..count_max).map(|count| match self.numbered {
            // The versions at whole stores are followed by the torn ones.
            numbered if !self.by_word && numbered <= count_max / 2 => count,
            numbered if numbered > 0 && (self.by_word || count % 2 == 0) => random.below(numbered),
            numbered => numbered + count,
        });
        (numbers.collect(), false)
    }

    /// Whether there is an image of this number.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.numbered || !self.by_word
    }

    pub(crate) fn get(&self, number: u64) -> Image {
        if number < self.numbered { self.nth(number) } else { self.sample(number) }
    }

    /// Counts through all versions of all cells.
    fn nth(&self, mut number: u64) -> Image {
        let mut digit = |base: u64| {
            let digit = number % base;
            number /= base;
            digit
        };
        let ways = self.ways.iter().map(|&ways| ways - 1 - digit(ways as u64) as usize).collect();
        let choices = self.dirty.iter().map(|(_, parts)| {
            if self.by_word {
                let missing = digit(versions_by_word(parts));
                version(parts, (versions_by_word(parts) - 1 - missing) as u32)
            } else {
                let missing = digit(versions_by_store(parts)) as u32;
                Choice { whole: parts.len() as u32 - missing, torn: 0 }
            }
        });
        Image { choices: choices.collect(), ways }
    }

    /// Draws an image. Most of them differ from a simple one in a few cells: there the bugs are.
    fn sample(&self, number: u64) -> Image {
        let mut random = Random::of(&[self.seed, number]);
        let all = |(_, parts): &(u64, &[Part])| Choice { whole: parts.len() as u32, torn: 0 };
        let dirty = self.dirty;
        let mut choices: Vec<_> = match random.below(100) {
            0..35 => dirty.iter().map(all).collect(),
            35..65 => vec![NOTHING; dirty.len()],
            65..85 => {
                // The stores up to some moment.
                let events =
                    dirty.iter().flat_map(|(_, parts)| parts.iter().map(|part| part.event));
                let events: Vec<_> = events.collect();
                let until = events.get(random.index(events.len().max(1))).copied().unwrap_or(0);
                let before = |parts: &[Part]| parts.partition_point(|part| part.event < until);
                let left = dirty.iter();
                left.map(|(_, parts)| Choice { whole: before(parts) as u32, torn: 0 }).collect()
            }
            _ => dirty.iter().map(|(_, parts)| any_version(parts, &mut random)).collect(),
        };
        if !dirty.is_empty() {
            for _ in 0..=random.below(3) {
                let group = &self.groups[random.index(self.groups.len())];
                let at = group[random.index(group.len())];
                let parts = dirty[at].1;
                choices[at] = match random.below(4) {
                    0 => NOTHING,
                    1 => all(&dirty[at]),
                    _ => any_version(parts, &mut random),
                };
            }
        }
        Image { choices, ways: self.any_ways(&mut random) }
    }

    /// Draws a state of the pool's file uniformly; of the folder and of the other files, mostly the newest or the
    /// oldest.
    fn any_ways(&self, random: &mut Random) -> Vec<usize> {
        let (first, others) = self.ways.split_first().expect("there is a pool's file");
        let mut ways = vec![random.index(*first)];
        if others.is_empty() {
            return ways;
        }
        let (newest_percent, oldest_percent) = match random.below(3) {
            0 => (90, 5),
            1 => (5, 90),
            _ => (40, 20),
        };
        ways.extend(others.iter().map(|&count| match random.below(100) {
            drawn if drawn < newest_percent => count - 1,
            drawn if drawn < newest_percent + oldest_percent => 0,
            _ => random.index(count),
        }));
        ways
    }
}

fn versions_by_word(parts: &[Part]) -> u64 {
    1 + parts.iter().map(|part| u64::from(part.words())).sum::<u64>()
}

fn versions_by_store(parts: &[Part]) -> u64 {
    1 + parts.len() as u64
}

/// The version of a cell with this many words.
fn version(parts: &[Part], mut words: u32) -> Choice {
    let mut whole = 0;
    for part in parts {
        if words < part.words() {
            return Choice { whole, torn: (1 << words) - 1 };
        }
        words -= part.words();
        whole += 1;
    }
    Choice { whole, torn: 0 }
}

fn any_version(parts: &[Part], random: &mut Random) -> Choice {
    let whole = random.index(parts.len() + 1) as u32;
    let torn = match parts.get(whole as usize) {
        Some(part) if random.percent(50) => {
            let words = random.next() & (u64::MAX >> (64 - part.words()));
            let upwards = u64::MAX.checked_shr(words.count_zeros()).unwrap_or(0);
            if part.in_order { upwards } else { words }
        }
        _ => 0,
    };
    Choice { whole, torn }
}
