//! The images that a power cut may leave at one point: all of them if they are few, else a sample.
//!
//! The words of a sector behind the page cache persist each by itself, so that a record of eight words can be left in
//! 256 ways. Where these are too many, those in which the words came in order are numbered, and the others are drawn:
//! one word that differs, a copy of the page that came as far as one word, words that came at random.

use std::collections::{BTreeMap, BTreeSet};

use halite_sim::{Site, Trace};

use crate::Random;
use crate::cells::{Choice, Dirty, Part};

/// The images of a point, by number: the number and the seed of the point reproduce an image.
pub(crate) struct Images<'a> {
    dirty: &'a [Dirty<'a>],
    /// In how many ways each of the things that are no cells may be left, the newest last.
    ways: &'a [usize],
    seed: u64,
    /// How many images are numbered one by one; behind them every number is one drawn at random.
    numbered: u64,
    /// The format whose versions are numbered.
    grain: Grain,
    /// Whether a word may be left without those before it. If not, and versions are words, the numbered images are all
    /// there are.
    has_loose_words: bool,
    /// The dirty lines and sectors by the place in the code that stored to them last, so that the one word of a map is
    /// drawn as often as the thousand lines of a value.
    groups: Vec<Vec<usize>>,
}

/// One image: the version of each dirty line or sector, and which of the possible states of each file and folder.
pub(crate) struct Image {
    pub(crate) choices: Vec<Choice>,
    pub(crate) ways: Vec<usize>,
}

/// The versions of a line or sector that are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// All, if copies go forward.
    All,
    /// Those with the words of a sector in the order in which they were stored.
    Forward,
    /// Those between two stores.
    Stores,
}

/// Images are numbered one by one if there are no more of them.
const NUMBERED_MAX: u64 = 128;

impl<'a> Images<'a> {
    pub(crate) fn new(dirty: &'a [Dirty<'a>], ways: &'a [usize], trace: &Trace, seed: u64) -> Self {
        let product = |grain| {
            let ways = ways.iter().map(|&ways| ways as u64);
            let mut all = ways.chain(dirty.iter().map(|dirty| versions(dirty, grain)));
            all.try_fold(1_u64, |product, versions| {
                product.checked_mul(versions).filter(|&product| product <= NUMBERED_MAX)
            })
        };
        let has_loose_words = dirty.iter().any(|dirty| dirty.by_word);
        let grains = [Grain::All, Grain::Forward, Grain::Stores];
        let numbered = grains.into_iter().find_map(|grain| Some((grain, product(grain)?)));
        let (grain, numbered) = numbered.unwrap_or((Grain::Stores, 0));
        let mut groups: BTreeMap<Site, Vec<usize>> = BTreeMap::new();
        if grain != Grain::All || has_loose_words {
            for (number, dirty) in dirty.iter().enumerate() {
                let last = dirty.parts.last().map(|part| trace.events[part.event as usize].site);
                last.into_iter().for_each(|site| groups.entry(site).or_default().push(number));
            }
        }
        let groups = groups.into_values().collect();
        Self { dirty, ways, seed, numbered, grain, has_loose_words, groups }
    }

    /// The numbers of at most `count_max` images; and whether they are all that the rules allow, if a copy goes
    /// forward.
    pub(crate) fn numbers(&self, count_max: u64) -> (Vec<u64>, bool) {
        let is_all = self.grain == Grain::All;
        if is_all && self.numbered <= count_max {
            return ((0..self.numbered).collect(), true);
        }
        let mut random = Random::of(&[self.seed, count_max]);
        let never_sampled = !self.is_sampled();
        let numbers = (0..count_max).map(|count| match self.numbered {
            // The versions at whole stores are followed by the torn ones.
            numbered if !is_all && numbered <= count_max / 2 => count,
            numbered if numbered > 0 && (never_sampled || count % 2 == 0) => random.below(numbered),
            numbered => numbered + count,
        });
        (numbers.collect(), false)
    }

    /// Whether there are images behind the numbered ones.
    fn is_sampled(&self) -> bool {
        self.grain != Grain::All || self.has_loose_words
    }

    /// Whether there is an image of this number.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.numbered || self.is_sampled()
    }

    pub(crate) fn get(&self, number: u64) -> Image {
        if number < self.numbered { self.nth(number) } else { self.sample(number) }
    }

    /// Counts through the versions of all cells, from all stores down to none.
    fn nth(&self, mut number: u64) -> Image {
        let mut digit = |base: u64| {
            let digit = number % base;
            number /= base;
            base - 1 - digit
        };
        let ways = self.ways.iter().map(|&ways| digit(ways as u64) as usize).collect();
        let choices = self.dirty.iter().map(|dirty| match self.grain {
            Grain::All if dirty.by_word => {
                let apart = words_of(dirty.parts).into_iter().map(|word| {
                    let stores = stores_to(dirty.parts, word);
                    let version = digit(1 + stores.len() as u64) as usize;
                    (word, version.checked_sub(1).map_or(0, |last| stores[last] + 1))
                });
                Choice { apart: apart.collect(), ..Choice::default() }
            }
            Grain::All | Grain::Forward => {
                version(dirty.parts, digit(versions(dirty, Grain::Forward)) as u32)
            }
            Grain::Stores => Choice::whole(digit(versions(dirty, Grain::Stores)) as u32),
        });
        Image { choices: choices.collect(), ways }
    }

    /// Draws an image. Most of them differ from a simple one in a few cells: there the bugs are.
    fn sample(&self, number: u64) -> Image {
        let mut random = Random::of(&[self.seed, number]);
        let all = |dirty: &Dirty<'_>| Choice::whole(dirty.parts.len() as u32);
        let dirty = self.dirty;
        let mut choices: Vec<_> = match random.below(100) {
            0..35 => dirty.iter().map(all).collect(),
            35..65 => vec![Choice::default(); dirty.len()],
            65..85 => {
                // The stores up to some moment.
                let events =
                    dirty.iter().flat_map(|dirty| dirty.parts.iter().map(|part| part.event));
                let events: Vec<_> = events.collect();
                let until = events.get(random.index(events.len().max(1))).copied().unwrap_or(0);
                let before = |parts: &[Part]| parts.partition_point(|part| part.event < until);
                dirty.iter().map(|dirty| Choice::whole(before(dirty.parts) as u32)).collect()
            }
            _ => dirty.iter().map(|dirty| any_version(dirty, &mut random)).collect(),
        };
        if !dirty.is_empty() {
            for _ in 0..=random.below(3) {
                let group = &self.groups[random.index(self.groups.len())];
                let at = group[random.index(group.len())];
                match random.below(4) {
                    0 => choices[at] = Choice::default(),
                    1 => choices[at] = all(&dirty[at]),
                    2 if dirty[at].by_word => {
                        let parts = dirty[at].parts;
                        for _ in 0..=random.below(2) {
                            let word = any_word(parts, &mut random);
                            choices[at].apart.push((word, any_stores(parts, &mut random)));
                        }
                    }
                    _ => choices[at] = any_version(&dirty[at], &mut random),
                }
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

/// How many versions of a line or sector are counted.
fn versions(dirty: &Dirty<'_>, grain: Grain) -> u64 {
    let parts = dirty.parts;
    match grain {
        Grain::All if dirty.by_word => {
            let mut words = words_of(parts).into_iter();
            let all = words.try_fold(1_u64, |product, word| {
                product.checked_mul(1 + stores_to(parts, word).len() as u64)
            });
            all.unwrap_or(u64::MAX)
        }
        Grain::All | Grain::Forward => {
            1 + parts.iter().map(|part| u64::from(part.words())).sum::<u64>()
        }
        Grain::Stores => 1 + parts.len() as u64,
    }
}

/// The addresses, in words, of the words that are stored to.
fn words_of(parts: &[Part]) -> BTreeSet<u64> {
    let words = parts.iter().flat_map(|part| part.at / 8..part.at / 8 + u64::from(part.words()));
    words.collect()
}

/// The numbers of the stores to a word.
fn stores_to(parts: &[Part], word: u64) -> Vec<u32> {
    let stores = (0..).zip(parts).filter(|(_, part)| {
        word.checked_sub(part.at / 8).is_some_and(|number| number < u64::from(part.words()))
    });
    stores.map(|(number, _)| number).collect()
}

/// The version of a cell with this many words.
fn version(parts: &[Part], mut words: u32) -> Choice {
    let mut whole = 0;
    for part in parts {
        if words < part.words() {
            return Choice { whole, torn: (1 << words) - 1, ..Choice::default() };
        }
        words -= part.words();
        whole += 1;
    }
    Choice::whole(whole)
}

/// Draws a version. Of a sector whose words are cells, it has those of one store torn, or each word by itself.
fn any_version(dirty: &Dirty<'_>, random: &mut Random) -> Choice {
    let parts = dirty.parts;
    if dirty.by_word && random.percent(50) {
        let words = words_of(parts).into_iter();
        let apart = match random.percent(50) {
            true => words.map(|word| (word, any_stores(parts, random))).collect(),
            // The words from one on are older than those before it, or newer: how far a copy of the page had come.
            false => {
                let (before, behind) = (any_stores(parts, random), any_stores(parts, random));
                let from = any_word(parts, random);
                words.map(|word| (word, if word < from { before } else { behind })).collect()
            }
        };
        return Choice { apart, ..Choice::default() };
    }
    let whole = random.index(parts.len() + 1) as u32;
    let torn = match parts.get(whole as usize) {
        Some(part) if random.percent(50) => {
            let words = random.next() & (u64::MAX >> (64 - part.words()));
            let upwards = u64::MAX.checked_shr(words.count_zeros()).unwrap_or(0);
            if part.in_order && !dirty.by_word { upwards } else { words }
        }
        _ => 0,
    };
    Choice { whole, torn, ..Choice::default() }
}

/// Draws a word of one of the stores; it is often the first, where headers are.
fn any_word(parts: &[Part], random: &mut Random) -> u64 {
    let part = &parts[random.index(parts.len())];
    match random.percent(30) {
        true => part.at / 8,
        false => part.at / 8 + random.below(part.words().into()),
    }
}

/// Draws how many of the stores a word may have: mostly none or all of them.
fn any_stores(parts: &[Part], random: &mut Random) -> u32 {
    match random.below(3) {
        0 => 0,
        1 => parts.len() as u32,
        _ => random.index(parts.len() + 1) as u32,
    }
}
