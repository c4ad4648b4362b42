//! A batch on its way to the memtables: its records, cut into fragments, complete but for sequences and addresses.

use halite_sst::ValueRef;

use crate::fragment::{HEADER, Header, PAYLOAD_MAX, check_of_keys, padded};
use crate::record::{self, HEAD, Kind, Lens, PIECE, Record, Seed};
use crate::refusals::Purpose;

/// A batch, encoded. Its memory is used again ([`Encoded::clear`]).
#[derive(Default)]
pub(crate) struct Encoded {
    /// In the order of trees, and of writing within a tree; beyond `used`, memory.
    fragments: Vec<Fragment>,
    used: usize,
    records: u32,
    key_bytes: u64,
    has_range: bool,
    pub(crate) purpose: Purpose,
}

/// The records of a batch that go to one place of one tree.
#[derive(Default)]
pub(crate) struct Fragment {
    pub(crate) tree: usize,
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    /// Values whose pieces' addresses have to be filled in.
    pieces: Vec<PieceOf>,
}

/// The length of a batch before more is appended.
pub(crate) struct Mark {
    /// Of each fragment its bytes and pieces.
    fragments: Vec<(usize, usize)>,
    records: u32,
    key_bytes: u64,
    purpose: Purpose,
}

/// Where a piece is, and where its address goes.
struct PieceOf {
    /// Where in this fragment the address goes.
    address_at: usize,
    fragment: usize,
    /// Where in that fragment its record begins.
    at: usize,
}

/// Bytes of `PutPieces` before the addresses: the value's length.
pub(crate) const PIECES_HEAD: usize = 8;

impl Encoded {
    /// An empty one that gives room back, or had it before.
    pub(crate) fn removal() -> Self {
        Self { purpose: Purpose::Removal, ..Self::default() }
    }

    /// Empties it. Its purpose stays.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.records = 0;
        self.key_bytes = 0;
        self.has_range = false;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Leaves out records that others before them and behind them are numbered with.
    pub(crate) fn skip(&mut self, records: u32) {
        self.records += records;
    }

    /// Records, pieces included: so many sequences the batch takes.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Whether one of its records removes a range of keys.
    pub(crate) fn has_range(&self) -> bool {
        self.has_range
    }

    /// Bytes of keys and values.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.key_bytes
    }

    /// Whether it has records of several trees.
    pub(crate) fn spans_trees(&self) -> bool {
        self.fragments().windows(2).any(|pair| pair[0].tree != pair[1].tree)
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments[..self.used]
    }

    /// Bytes of zones that the batch takes.
    pub(crate) fn padded(&self) -> u64 {
        self.fragments().iter().map(Fragment::padded).sum()
    }

    /// Adds a record for a tree. `space` is the key space's number, big-endian.
    pub(crate) fn push(
        &mut self,
        tree: usize,
        kind: Kind,
        space: [u8; 4],
        key: &[u8],
        value: &[u8],
    ) {
        self.key_bytes += (key.len() + value.len()) as u64;
        if kind == Kind::Put && value.len() > PIECE {
            self.push_pieces(tree, space, key, value);
        } else {
            self.push_record(tree, kind, [&space, key], [value, &[]]);
        }
    }

    /// Adds a put of a value that is in a file.
    pub(crate) fn push_file(&mut self, tree: usize, space: [u8; 4], key: &[u8], value: &ValueRef) {
        self.key_bytes += key.len() as u64 + value.len;
        self.push_record(tree, Kind::PutFile, [&space, key], [&value.bytes(), &[]]);
    }

    /// Adds a removal of all keys from `start` up to `end`, which have their key spaces before them.
    pub(crate) fn push_range(&mut self, tree: usize, start: [&[u8]; 2], end: [&[u8]; 2]) {
        self.has_range = true;
        self.push_record(tree, Kind::RangeDelete, start, end);
    }

    fn push_pieces(&mut self, tree: usize, space: [u8; 4], key: &[u8], value: &[u8]) {
        let places: Vec<_> = value
            .chunks(PIECE)
            .map(|piece| self.push_record(tree, Kind::Piece, [&[], &[]], [piece, &[]]))
            .collect();
        let len = (value.len() as u64).to_le_bytes();
        let addresses = vec![0; places.len() * 8];
        let (fragment, at) =
            self.push_record(tree, Kind::PutPieces, [&space, key], [&len, &addresses]);
        let first = at + HEAD + space.len() + key.len() + PIECES_HEAD;
        let fill = places.into_iter().enumerate().map(|(number, (fragment, at))| PieceOf {
            address_at: first + number * 8,
            fragment,
            at,
        });
        self.fragments[fragment].pieces.extend(fill);
    }

    /// Adds a record; returns its fragment, and where it begins there.
    fn push_record(
        &mut self,
        tree: usize,
        kind: Kind,
        key: [&[u8]; 2],
        value: [&[u8]; 2],
    ) -> (usize, usize) {
        let len = record::len(key[0].len() + key[1].len(), value[0].len() + value[1].len());
        let number = self.fragment_for(tree, len);
        let fragment = &mut self.fragments[number];
        let at = fragment.bytes.len();
        record::encode(&mut fragment.bytes, self.records, kind, key, value);
        self.records += 1;
        (number, at)
    }

    /// The last fragment of a tree if it has room, else a new one.
    fn fragment_for(&mut self, tree: usize, len: usize) -> usize {
        let has_room = |fragment: &Fragment| fragment.bytes.len() - HEADER + len <= PAYLOAD_MAX;
        let last = (0..self.used).rev().find(|&number| self.fragments[number].tree == tree);
        if let Some(last) = last.filter(|&last| has_room(&self.fragments[last])) {
            return last;
        }
        if self.used == self.fragments.len() {
            self.fragments.push(Fragment::default());
        }
        let fragment = &mut self.fragments[self.used];
        fragment.tree = tree;
        fragment.pieces.clear();
        fragment.bytes.clear();
        fragment.bytes.resize(HEADER, 0);
        self.used += 1;
        self.used - 1
    }

    /// Adds all of another batch behind this one.
    pub(crate) fn append(&mut self, other: &Self) {
        let before = self.records;
        let mut places = Vec::new();
        for fragment in other.fragments() {
            let payload = &fragment.bytes[HEADER..];
            let number = self.fragment_for(fragment.tree, payload.len());
            let mine = &mut self.fragments[number];
            let at = mine.bytes.len();
            places.push((number, at - HEADER));
            mine.bytes.extend_from_slice(payload);
            renumber(&mut mine.bytes[at..], before);
        }
        for (fragment, &(number, moved)) in other.fragments().iter().zip(&places) {
            let moved_pieces = fragment.pieces.iter().map(|piece| PieceOf {
                address_at: piece.address_at + moved,
                fragment: places[piece.fragment].0,
                at: piece.at + places[piece.fragment].1,
            });
            self.fragments[number].pieces.extend(moved_pieces);
        }
        self.records += other.records;
        self.key_bytes += other.key_bytes;
        self.purpose = self.purpose.min(other.purpose);
    }

    /// The length up to now.
    pub(crate) fn mark(&self) -> Mark {
        let fragments = self.fragments().iter();
        Mark {
            fragments: fragments.map(|one| (one.bytes.len(), one.pieces.len())).collect(),
            records: self.records,
            key_bytes: self.key_bytes,
            purpose: self.purpose,
        }
    }

    /// Cuts off the records that were appended since, if it was not completed.
    pub(crate) fn cut(&mut self, mark: &Mark) {
        self.used = mark.fragments.len();
        self.records = mark.records;
        self.key_bytes = mark.key_bytes;
        self.purpose = mark.purpose;
        for (fragment, &(bytes, pieces)) in self.fragments.iter_mut().zip(&mark.fragments) {
            fragment.bytes.truncate(bytes);
            fragment.pieces.truncate(pieces);
        }
    }

    /// Completes all fragments: `base` is the first record's sequence, `places` the address of each fragment's
    /// first byte and the seed of its memtable. Then [`Fragment::bytes`] are what goes there.
    pub(crate) fn complete(&mut self, base: u64, places: &[(u64, Seed)]) {
        let (records, fragments) = (self.records, self.used as u16);
        for number in 0..self.used {
            let fragment = &mut self.fragments[number];
            for piece in &fragment.pieces {
                let address = places[piece.fragment].0 + piece.at as u64;
                let to = &mut fragment.bytes[piece.address_at..][..8];
                to.copy_from_slice(&address.to_le_bytes());
            }
            let seed = places[number].1;
            let mut keys = 0;
            each_record(&mut fragment.bytes[HEADER..], |bytes| {
                record::complete(bytes, base, seed);
                let record = Record::read(bytes).expect("it was encoded here");
                keys = check_of_keys(keys, &record);
            });
            let len = (fragment.bytes.len() - HEADER) as u32;
            let number = number as u16;
            let header = Header { sequence: base, records, len, fragments, number, keys };
            fragment.bytes[..HEADER].copy_from_slice(&header.encode(seed));
            fragment.bytes.resize(padded(len as usize) as usize, 0);
        }
    }
}

impl Fragment {
    /// Bytes of the zone that it takes.
    pub(crate) fn padded(&self) -> u64 {
        padded(self.bytes.len() - HEADER)
    }

    /// The records, before they are complete.
    pub(crate) fn unnumbered(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }

    /// The whole fragment, when it is complete.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records of a complete fragment.
    pub(crate) fn payload(&self) -> &[u8] {
        let len = u32::from_le_bytes(self.bytes[20..24].try_into().expect("4 bytes"));
        &self.bytes[HEADER..][..len as usize]
    }
}

/// Changes the records of a payload that this made, but not their lengths.
fn each_record(mut payload: &mut [u8], mut change: impl FnMut(&mut [u8])) {
    while !payload.is_empty() {
        let len = Lens::of(payload).padded();
        let (record, rest) = payload.split_at_mut(len);
        change(record);
        payload = rest;
    }
}

/// Adds to the numbers of a payload's records.
fn renumber(payload: &mut [u8], by: u32) {
    each_record(payload, |record| {
        let head = record.first_chunk_mut::<8>().expect("a record has a head");
        *head = (u64::from_le_bytes(*head) + (u64::from(by) << 8)).to_le_bytes();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::{is_whole, records};

    fn seed() -> Seed {
        Seed::new(1, 1)
    }

    fn put(encoded: &mut Encoded, tree: usize, key: &[u8], value: &[u8]) {
        encoded.push(tree, Kind::Put, [0, 0, 0, 9], key, value);
    }

    fn check(encoded: &mut Encoded, expected: &[(usize, &[u8])]) {
        let places: Vec<_> =
            (0..encoded.fragments().len() as u64).map(|n| (n << 21, seed())).collect();
        encoded.complete(100, &places);
        let mut found = Vec::new();
        for fragment in encoded.fragments() {
            let header = Header::decode(fragment.bytes(), seed()).unwrap();
            assert!(is_whole(&header, fragment.payload(), seed()));
            assert_eq!(fragment.bytes().len() as u64, header.padded());
            for (_, record) in records(fragment.payload()) {
                found.push((record.sequence(), fragment.tree, record.key()[4..].to_vec()));
            }
        }
        found.sort();
        let expected = expected.iter().enumerate();
        let expected: Vec<_> =
            expected.map(|(n, (tree, key))| (100 + n as u64, *tree, key.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn records_of_several_trees_have_sequences_in_order() {
        let mut encoded = Encoded::default();
        for _ in 0..2 {
            encoded.clear();
            put(&mut encoded, 0, b"a", b"1");
            put(&mut encoded, 1, b"b", b"2");
            put(&mut encoded, 0, b"c", b"3");
            assert_eq!((encoded.fragments().len(), encoded.records()), (2, 3));
            check(&mut encoded, &[(0, b"a"), (1, b"b"), (0, b"c")]);
        }
    }

    #[test]
    fn a_batch_behind_another_goes_on_counting() {
        let (mut first, mut second) = (Encoded::default(), Encoded::default());
        put(&mut first, 0, b"a", b"1");
        put(&mut second, 0, b"b", b"2");
        put(&mut second, 1, b"c", b"3");
        let alone = first.mark();
        first.append(&second);
        assert_eq!(first.records(), 3);
        first.cut(&alone);
        assert_eq!((first.fragments().len(), first.records(), first.user_bytes()), (1, 1, 2));
        first.append(&second);
        check(&mut first, &[(0, b"a"), (0, b"b"), (1, b"c")]);
    }

    #[test]
    fn long_values_are_cut_into_pieces_that_their_record_leads_to() {
        let mut encoded = Encoded::default();
        let value: Vec<u8> = (0..PIECE * 9 + 5).map(|n| (n % 251) as u8).collect();
        encoded.push(0, Kind::Put, [0; 4], b"long", &value);
        let mut all = Encoded::default();
        put(&mut all, 0, b"before", b"");
        all.append(&encoded);
        let places: Vec<_> = (0..all.used as u64).map(|n| ((n + 1) << 21, seed())).collect();
        all.complete(1, &places);
        let at = |address: u64| {
            let fragment = &all.fragments()[(address >> 21) as usize - 1];
            Record::read(&fragment.bytes()[(address & ((1 << 21) - 1)) as usize..]).unwrap()
        };
        let last = all.fragments().iter().flat_map(|fragment| records(fragment.payload())).last();
        let record = last.unwrap().1;
        assert_eq!(record.kind(), Some(Kind::PutPieces));
        let words: Vec<_> =
            record.value().chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words[0], value.len() as u64);
        let joined: Vec<u8> =
            words[1..].iter().flat_map(|&address| at(address).value().to_vec()).collect();
        assert_eq!(joined, value);
        assert!(words[1..].iter().all(|&address| at(address).is_whole(seed())));
    }
}
