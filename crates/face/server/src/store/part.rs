//! The DRAM state of one partition's keys.

use fastrand::Rng;

use super::Result;
use super::by_collection::ByCollection;
use super::clocks::Clocks;
use super::database::Database;
use super::deadline_records::Records;
use super::deadlines::Deadlines;
use super::elements::{self, Elements};
use super::encodings::Encodings;
use super::field_deadlines::FieldTimes;
use super::readers::Readers;
use super::resident::Resident;
use super::waiters::Waiters;
use super::watches::Watches;
use crate::cursors::Cursors;
use crate::ending::Ending;

/// The server's DRAM state of a partition. The thread that holds it may read and change the partition's keys, and no
/// other thread may. It travels between threads as a whole.
pub(crate) struct Part {
    pub(super) number: usize,
    /// For each number that clients select, the index of its key spaces. All parts have the same order: it changes only
    /// on a thread that holds all of them.
    pub(super) order: Vec<usize>,
    /// By index of the key spaces.
    pub(super) deadlines: Vec<Deadlines>,
    /// By index of the key spaces: when the first field of each hash expires.
    pub(super) field_deadlines: Vec<Deadlines>,
    /// By index of the key spaces.
    pub(super) encodings: Vec<Encodings>,
    /// The use of keys.
    pub(super) clocks: Clocks,
    /// By index of the key spaces: whether there may be elements of collections.
    pub(super) has_elements: Vec<bool>,
    /// Collections whose elements are still to be removed.
    pub(super) dropped: Vec<Elements>,
    pub(super) residents: ByCollection<Resident>,
    /// Of larger hashes that have fields with deadlines, as far as these were used.
    pub(super) field_times: ByCollection<FieldTimes>,
    /// By number of the database.
    pub(super) watches: Watches,
    /// Clients that wait for keys.
    pub(super) waiters: Waiters,
    /// The clients to tell when a key changes.
    pub(super) readers: Readers,
    /// The scans that stand in this partition.
    pub(crate) cursors: Cursors,
    /// The reason for refusing the partition's requests: it could not be recovered, or read.
    broken: Option<Box<str>>,
    /// There are changes since the last sync.
    pub(super) unsynced: bool,
}

/// Bytes that the deadline of a field takes beside its name, about: an entry of a tree's node, and an allocation.
const FIELD_TIME: usize = 56;

impl Part {
    /// The part of one of so many partitions, without the deadlines of its keys.
    pub(super) fn new(
        number: usize,
        order: &[usize],
        databases: usize,
        partitions: usize,
        random: &mut Rng,
    ) -> Self {
        Self {
            number,
            order: order.to_vec(),
            deadlines: (0..databases).map(|_| Deadlines::default()).collect(),
            field_deadlines: (0..databases).map(|_| Deadlines::default()).collect(),
            encodings: (0..databases).map(|_| Encodings::default()).collect(),
            clocks: Clocks::default(),
            has_elements: vec![false; databases],
            dropped: Vec::new(),
            residents: ByCollection::default(),
            field_times: ByCollection::default(),
            watches: Watches::new(order.len()),
            waiters: Waiters::default(),
            readers: Readers::new(),
            cursors: Cursors::new(random, partitions),
            broken: None,
            unsynced: false,
        }
    }

    /// Reads the deadlines of its keys, once, and which collections were dropped. Waits until the partition is recovered.
    /// Returns false if the server ends.
    pub(super) fn read(&mut self, databases: &[Database], ending: &Ending) -> Result<bool> {
        for (place, database) in databases.iter().enumerate() {
            self.has_elements[place] =
                elements::read_dropped(database, place, self.number, &mut self.dropped)?;
            let of_keys = Records::of_keys(database, self.number);
            let of_fields = Records::of_fields(database, place, self.number);
            let indexes = [
                (of_keys, &mut self.deadlines[place]),
                (of_fields, &mut self.field_deadlines[place]),
            ];
            for (records, deadlines) in indexes {
                if !records.have_order()? {
                    *deadlines = Deadlines::without_order();
                }
                records.range(b"", None, |entry| {
                    deadlines.change(entry.at, None, Some(entry.deadline));
                    !ending.has_begun()
                })?;
                if ending.has_begun() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// All keys of a database are gone.
    pub(super) fn clear(&mut self, place: usize) {
        self.deadlines[place].clear();
        self.has_elements[place] = false;
        self.dropped.retain(|of| of.place != place);
        self.residents.retain(|of, _| of.place != place);
        self.field_deadlines[place].clear();
        self.field_times.retain(|of, _| of.place != place);
    }

    /// Bytes of memory that is known of the keys, about.
    pub(super) fn bytes(&self) -> usize {
        let deadlines = self.deadlines.iter().chain(&self.field_deadlines).map(Deadlines::bytes);
        let encodings = self.encodings.iter().map(Encodings::bytes);
        let residents = self.residents.values().map(Resident::bytes);
        let of_fields = |times: &FieldTimes| {
            times.iter().map(|(_, field)| FIELD_TIME + field.len()).sum::<usize>()
        };
        let times = self.field_times.values().map(of_fields);
        self.clocks.bytes()
            + deadlines.chain(encodings).chain(residents).chain(times).sum::<usize>()
    }

    /// Forgets what is known in DRAM of a collection.
    pub(super) fn forget(&mut self, of: &Elements) {
        self.residents.remove(of);
        self.field_times.remove(of);
    }

    /// Lets the partition's requests be refused.
    pub(crate) fn break_down(&mut self, error: &halite::Error) {
        self.broken = Some(error.to_string().into());
    }

    /// The reason for refusing the partition's requests.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// The number of the partition.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}
