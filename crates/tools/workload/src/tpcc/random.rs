//! The random values of TPC-C (rev. 5.11, §2.1.6, §4.3.2).

use std::ops::RangeInclusive;

use fastrand::Rng;

/// The syllables of last names (§4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The characters of alphanumeric strings.
const ALPHANUMERIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The word in a tenth of I_DATA and S_DATA.
pub(crate) const ORIGINAL: &str = "ORIGINAL";

/// The constant `A` of NURand for last names, customers and items.
const A_LAST: u64 = 255;
const A_CUSTOMER: u64 = 1023;
const A_ITEM: u64 = 8191;

/// The constants `C` of NURand, chosen once a run (§2.1.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// For C_LAST.
    pub last: u64,
    /// For C_ID.
    pub customer: u64,
    /// For OL_I_ID.
    pub item: u64,
}

impl Constants {
    /// Draws the constants of a load.
    #[must_use]
    pub fn for_load(random: &mut Rng) -> Self {
        Self {
            last: random.u64(..=A_LAST),
            customer: random.u64(..=A_CUSTOMER),
            item: random.u64(..=A_ITEM),
        }
    }

    /// Draws the constants of a run over a database that was loaded with the constant `last_at_load` for C_LAST.
    ///
    /// The constant for C_LAST keeps its distance from the load's ([`is_permitted`]): the names that a run asks for
    /// most are not those of most customers.
    #[must_use]
    pub fn for_run(random: &mut Rng, last_at_load: u64) -> Self {
        let mut constants = Self::for_load(random);
        while !is_permitted(last_at_load, constants.last) {
            constants.last = random.u64(..=A_LAST);
        }
        constants
    }
}

/// Whether a run may use the constant `run` for C_LAST if the load used `load`: they are 65 to 119 apart, but not 96
/// and not 112 (§2.1.6.1).
#[must_use]
pub fn is_permitted(load: u64, run: u64) -> bool {
    let delta = load.abs_diff(run);
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

/// NURand(A, x, y) with the constant `c`: a number in `range`, some much likelier than others.
fn nurand(random: &mut Rng, a: u64, c: u64, range: RangeInclusive<u64>) -> u64 {
    let (x, y) = (*range.start(), *range.end());
    (((random.u64(..=a) | random.u64(x..=y)) + c) % (y - x + 1)) + x
}

/// The number of a last name out of `names` of them.
pub(crate) fn last_name_number(random: &mut Rng, constants: &Constants, names: u32) -> u32 {
    nurand(random, A_LAST, constants.last, 0..=u64::from(names) - 1) as u32
}

/// The number of a customer, from 1.
pub(crate) fn customer(random: &mut Rng, constants: &Constants, customers: u32) -> u32 {
    nurand(random, A_CUSTOMER, constants.customer, 1..=u64::from(customers)) as u32
}

/// The number of an item, from 1.
pub(crate) fn item(random: &mut Rng, constants: &Constants, items: u32) -> u32 {
    nurand(random, A_ITEM, constants.item, 1..=u64::from(items)) as u32
}

/// The last name with a number below 1,000: a syllable for each digit.
///
/// # Panics
/// If the number is greater.
#[must_use]
pub fn last_name(number: u32) -> String {
    assert!(number < 1000, "a last name has three syllables");
    let digits = [number / 100, number / 10 % 10, number % 10];
    digits.iter().map(|digit| SYLLABLES[*digit as usize]).collect()
}

/// An alphanumeric string with a length in `lens` (an *a-string*).
pub(crate) fn a_string(random: &mut Rng, lens: RangeInclusive<usize>) -> String {
    string_of(random, ALPHANUMERIC, lens)
}

/// A string of digits with a length in `lens` (an *n-string*).
pub(crate) fn n_string(random: &mut Rng, lens: RangeInclusive<usize>) -> String {
    string_of(random, b"0123456789", lens)
}

/// Two capital letters.
pub(crate) fn state(random: &mut Rng) -> String {
    string_of(random, &ALPHANUMERIC[..26], 2..=2)
}

/// A ZIP code: four random digits and `11111` (§4.3.2.7).
pub(crate) fn zip(random: &mut Rng) -> String {
    n_string(random, 4..=4) + "11111"
}

/// An a-string of 26 to 50 characters, a tenth of them with [`ORIGINAL`] somewhere in it (§4.3.3.1).
pub(crate) fn data(random: &mut Rng) -> String {
    let mut data = a_string(random, 26..=50);
    if random.u32(..10) == 0 {
        let at = random.usize(..=data.len() - ORIGINAL.len());
        data.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
    }
    data
}

fn string_of(random: &mut Rng, alphabet: &[u8], lens: RangeInclusive<usize>) -> String {
    let len = random.usize(lens);
    (0..len).map(|_| char::from(alphabet[random.usize(..alphabet.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_ranges_and_some_are_likelier() {
        let mut random = Rng::with_seed(1);
        let constants = Constants::for_load(&mut random);
        let mut drawn = vec![0_u32; 3001];
        (0..300_000).for_each(|_| drawn[customer(&mut random, &constants, 3000) as usize] += 1);
        assert_eq!(drawn[0], 0);
        let met = drawn.iter().filter(|count| **count > 0).count();
        assert!(met > 2500, "{met} of 3,000 customers are met");
        drawn.sort_unstable();
        let hot: u32 = drawn[2700..].iter().sum();
        assert!(hot > 60_000, "a tenth of the customers is met by {hot} of 300,000");
        for _ in 0..10_000 {
            assert!((1..=100_000).contains(&item(&mut random, &constants, 100_000)));
            assert!(last_name_number(&mut random, &constants, 1000) < 1000);
            assert!(last_name_number(&mut random, &constants, 30) < 30);
        }
    }

    #[test]
    fn a_run_keeps_its_distance_from_the_load() {
        let mut random = Rng::with_seed(2);
        for load in 0..=255 {
            for _ in 0..40 {
                let run = Constants::for_run(&mut random, load).last;
                let delta = load.abs_diff(run);
                assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
            }
        }
        assert!(!is_permitted(10, 10 + 96) && !is_permitted(120, 8) && is_permitted(0, 65));
        assert!(!is_permitted(0, 64) && !is_permitted(0, 120) && is_permitted(0, 119));
    }

    #[test]
    fn last_names_have_the_syllables_of_their_digits() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn strings_have_their_lengths_and_characters() {
        let mut random = Rng::with_seed(3);
        let mut original = 0;
        for _ in 0..10_000 {
            assert!((8..=16).contains(&a_string(&mut random, 8..=16).len()));
            let zip = zip(&mut random);
            assert!(zip.len() == 9 && zip.ends_with("11111"));
            assert!(n_string(&mut random, 16..=16).bytes().all(|byte| byte.is_ascii_digit()));
            assert!(state(&mut random).bytes().all(|byte| byte.is_ascii_uppercase()));
            let data = data(&mut random);
            assert!((26..=50).contains(&data.len()));
            original += u32::from(data.contains(ORIGINAL));
        }
        assert!((900..1100).contains(&original), "{original} of 10,000 are original");
    }
}
