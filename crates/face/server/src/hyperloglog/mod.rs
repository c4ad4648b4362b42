//! HyperLogLogs in the form in which Redis stores them, as strings: values move between the two servers.
//!
//! ```text
//! bytes 0-3    HYLL
//! byte  4      the encoding of the registers: 0 dense, 1 sparse
//! bytes 5-7    unused
//! bytes 8-15   the number of elements, estimated earlier, in little-endian order; its highest bit says that it is old
//! bytes 16-    the registers
//! ```
//!
//! An element's hash ([`murmur`]) names one of 16384 registers, and a rank: the place of the first bit that is set among
//! the others. A register keeps the highest rank. [`dense`] has six bits for each register, [`sparse`] run lengths, which
//! become dense once they are long or a rank is high. [`estimate`] makes a number of elements of the ranks. Strings come
//! from clients, so a sparse encoding is checked wherever it is read ([`Corrupted`]).

mod dense;
mod estimate;
mod murmur;
mod sparse;

use self::murmur::murmur64a;

/// The number of registers.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of the hash that name the register.
const INDEX_BITS: u32 = 14;
/// The other bits of the hash.
const RANK_BITS: u32 = 64 - INDEX_BITS;
/// The highest rank of a hash: none of these bits is set.
const RANK_MAX: usize = RANK_BITS as usize + 1;

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER_LEN: usize = 16;
const ENCODING: usize = 4;
const CACHED: std::ops::Range<usize> = 8..16;
/// The byte of the cached number whose highest bit says that it is old.
const CACHED_HIGH: usize = 15;
const OLD: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// The registers of a HyperLogLog are not what its encoding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("INVALIDOBJ Corrupted HLL object detected")]
pub(crate) struct Corrupted;

type Result<T> = std::result::Result<T, Corrupted>;

/// The ranks of all registers, one byte each.
pub(crate) type Ranks = [u8; REGISTERS];

/// A HyperLogLog that is read where it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// A string as a HyperLogLog, if its header is one's.
    pub(crate) fn of(string: &'a [u8]) -> Option<Self> {
        let is_whole = match *string.get(ENCODING)? {
            DENSE => string.len() == HEADER_LEN + dense::LEN,
            SPARSE => string.len() >= HEADER_LEN,
            _ => false,
        };
        (is_whole && string.starts_with(MAGIC)).then_some(Self(string))
    }

    pub(crate) fn is_sparse(self) -> bool {
        self.0[ENCODING] == SPARSE
    }

    fn registers(self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }

    /// The number of elements as it was estimated earlier, unless elements were added since.
    pub(crate) fn cached(self) -> Option<u64> {
        let number = u64::from_le_bytes(self.0[CACHED].try_into().ok()?);
        (self.0[CACHED_HIGH] & OLD == 0).then_some(number)
    }

    /// Estimates the number of elements.
    pub(crate) fn count(self) -> Result<u64> {
        let mut ranks = [0; REGISTERS];
        self.merge_into(&mut ranks)?;
        Ok(count(&ranks))
    }

    /// Raises `ranks` to those of this one.
    pub(crate) fn merge_into(self, ranks: &mut Ranks) -> Result<()> {
        if !self.is_sparse() {
            dense::merge_into(self.registers(), ranks);
            return Ok(());
        }
        let mut at = 0;
        for run in sparse::runs(self.registers()) {
            let run = run?;
            let covered = ranks.get_mut(at..at + run.len).ok_or(Corrupted)?;
            covered.iter_mut().for_each(|rank| *rank = (*rank).max(run.rank));
            at += run.len;
        }
        if at == REGISTERS { Ok(()) } else { Err(Corrupted) }
    }

    /// The sparse encoding as text: its runs of zeros (`z`, and `Z` if they take two bytes) and of ranks (`v`).
    pub(crate) fn describe_runs(self) -> Result<String> {
        let mut texts = Vec::new();
        for run in sparse::runs(self.registers()) {
            let sparse::Run { rank, len, size } = run?;
            texts.push(match (rank, size) {
                (0, 1) => format!("z:{len}"),
                (0, _) => format!("Z:{len}"),
                _ => format!("v:{rank},{len}"),
            });
        }
        Ok(texts.join(" "))
    }
}

/// Estimates the number of elements that left these ranks.
pub(crate) fn count(ranks: &Ranks) -> u64 {
    let mut histogram = [0u32; 64];
    ranks.iter().for_each(|rank| histogram[usize::from(rank & 63)] += 1);
    estimate::estimate(&histogram)
}

/// A HyperLogLog that is changed.
#[derive(Debug, Clone)]
pub(crate) struct HyperLogLog {
    bytes: Vec<u8>,
    /// The longest sparse string.
    sparse_len_max: usize,
}

impl HyperLogLog {
    /// An empty one. It stays sparse up to so many bytes.
    pub(crate) fn new(sparse_len_max: usize) -> Self {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        sparse::push_zeros(&mut bytes, REGISTERS);
        Self { bytes, sparse_len_max }
    }

    /// A copy of a stored one.
    pub(crate) fn copied(stored: View<'_>, sparse_len_max: usize) -> Self {
        Self { bytes: stored.0.to_vec(), sparse_len_max }
    }

    /// The string.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn view(&self) -> View<'_> {
        View(&self.bytes)
    }

    /// Adds an element; returns whether a register has changed.
    pub(crate) fn add(&mut self, element: &[u8]) -> Result<bool> {
        let hash = murmur64a(element);
        let index = hash as usize % REGISTERS;
        let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
        self.raise(index, rest.trailing_zeros() as u8 + 1)
    }

    /// Raises a register to a rank; returns whether it was lower.
    fn raise(&mut self, index: usize, rank: u8) -> Result<bool> {
        if self.view().is_sparse() {
            match sparse::raise(&mut self.bytes, index, rank, self.sparse_len_max)? {
                sparse::Raised::Done(changed) => return Ok(changed),
                sparse::Raised::TooLong => self.make_dense()?,
            }
        }
        Ok(dense::raise(&mut self.bytes[HEADER_LEN..], index, rank))
    }

    /// Raises all registers to these ranks.
    pub(crate) fn raise_all(&mut self, ranks: &Ranks) -> Result<()> {
        for (index, &rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            self.raise(index, rank)?;
        }
        Ok(())
    }

    /// Encodes the registers densely.
    pub(crate) fn make_dense(&mut self) -> Result<()> {
        if self.view().is_sparse() {
            let mut ranks = [0; REGISTERS];
            self.view().merge_into(&mut ranks)?;
            self.bytes.truncate(HEADER_LEN);
            self.bytes.resize(HEADER_LEN + dense::LEN, 0);
            self.bytes[ENCODING] = DENSE;
            let registers = &mut self.bytes[HEADER_LEN..];
            for (index, &rank) in ranks.iter().enumerate() {
                dense::raise(registers, index, rank);
            }
        }
        Ok(())
    }

    /// Keeps an estimated number of elements.
    pub(crate) fn cache(&mut self, number: u64) {
        self.bytes[CACHED].copy_from_slice(&number.to_le_bytes());
    }

    /// Notes that the cached number is old.
    pub(crate) fn forget_cached(&mut self) {
        self.bytes[CACHED_HIGH] |= OLD;
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn ranks_of(hyperloglog: &HyperLogLog) -> Ranks {
        let mut ranks = [0; REGISTERS];
        View::of(hyperloglog.bytes()).unwrap().merge_into(&mut ranks).unwrap();
        ranks
    }

    #[test]
    fn an_empty_one_is_the_shortest_string() {
        let empty = HyperLogLog::new(3000);
        assert_eq!(empty.bytes(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        let view = View::of(empty.bytes()).unwrap();
        assert_eq!((view.cached(), view.count()), (Some(0), Ok(0)));
        assert_eq!(view.describe_runs().unwrap(), "Z:16384");
    }

    #[test]
    fn both_encodings_have_the_same_registers() {
        let mut random = Rng::with_seed(5);
        let mut sparse = HyperLogLog::new(usize::MAX);
        let mut dense = HyperLogLog::new(0);
        let mut model = [0u8; REGISTERS];
        for _ in 0..6000 {
            let index = random.usize(..REGISTERS) & random.usize(..REGISTERS);
            let rank = random.u8(1..=20);
            let changed = rank > model[index];
            model[index] = rank.max(model[index]);
            assert_eq!(sparse.raise(index, rank), Ok(changed));
            assert_eq!(dense.raise(index, rank), Ok(changed));
        }
        assert!(sparse.view().is_sparse() && !dense.view().is_sparse());
        assert_eq!(ranks_of(&sparse), model);
        assert_eq!(ranks_of(&dense), model);
        let mut merged = HyperLogLog::new(3000);
        merged.raise_all(&model).unwrap();
        assert_eq!(ranks_of(&merged), model);
        sparse.make_dense().unwrap();
        assert_eq!(sparse.bytes(), dense.bytes());
    }

    #[test]
    fn a_high_rank_is_kept_densely() {
        let mut hyperloglog = HyperLogLog::new(3000);
        assert_eq!(hyperloglog.raise(3, 32), Ok(true));
        assert!(hyperloglog.view().is_sparse());
        assert_eq!(hyperloglog.raise(4, 33), Ok(true));
        assert!(!hyperloglog.view().is_sparse());
        assert_eq!(ranks_of(&hyperloglog)[3..5], [32, 33]);
    }

    #[test]
    fn estimates_are_close() {
        let mut hyperloglog = HyperLogLog::new(3000);
        for count in 1..=100_000u64 {
            hyperloglog.add(count.to_string().as_bytes()).unwrap();
            if [1, 10, 100, 1000, 10_000, 100_000].contains(&count) {
                let estimate = View::of(hyperloglog.bytes()).unwrap().count().unwrap();
                assert!(estimate.abs_diff(count) * 20 <= count, "{estimate} of {count}");
            }
        }
    }

    #[test]
    fn damaged_registers_are_noticed() {
        let whole = HyperLogLog::new(3000);
        for registers in [&b"\x7f"[..], b"\x7f\xfe", b"\x7f\xff\x00", b"", b"\x7f\xff\x7f\xff"] {
            let mut damaged = whole.clone();
            damaged.bytes.truncate(HEADER_LEN);
            damaged.bytes.extend_from_slice(registers);
            assert_eq!(View::of(damaged.bytes()).unwrap().count(), Err(Corrupted));
            assert_eq!(damaged.make_dense(), Err(Corrupted));
        }
        for string in [&b"HYLL"[..], b"HYLL\x01", b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", b""] {
            assert!(View::of(string).is_none());
        }
        let mut short = HyperLogLog::new(0);
        short.make_dense().unwrap();
        short.bytes.pop();
        assert!(View::of(short.bytes()).is_none());
    }
}
