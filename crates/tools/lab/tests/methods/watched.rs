//! NVM-CoW with snapshots: one is taken now and then, and has to stay as it is across later syncs.

use halite_table::index::Direction;
use halite_table::method::nvm_cow::{NvmCow, Snapshot};
use halite_table::method::{Footprint, Method, Rows, Ticket};
use halite_table::write_set::WriteSet;
use halite_table::{Catalog, Error, KeyRange, Result, Row, Table};

/// A number of syncs, of which the second takes a snapshot, and the last one drops it.
const SYNCS: u64 = 4;

/// The rows that a snapshot had at first.
type Seen = Vec<(Vec<u8>, Row)>;

/// The storage of a partition, and the snapshot of it.
pub(crate) struct Watched {
    method: NvmCow,
    snapshot: Option<(Snapshot, Seen)>,
    syncs: u64,
}

impl Watched {
    pub(crate) fn new(method: NvmCow) -> Self {
        Self { method, snapshot: None, syncs: 0 }
    }

    /// Looks at the snapshot, and takes or drops one.
    fn watch(&mut self) -> Result<()> {
        self.look()?;
        self.syncs += 1;
        match self.syncs % SYNCS {
            2 => {
                let snapshot = self.method.snapshot()?;
                let seen = rows(&snapshot)?;
                self.snapshot = Some((snapshot, seen));
            }
            0 => self.snapshot = None,
            _ => {}
        }
        Ok(())
    }

    fn look(&self) -> Result<()> {
        let Some((snapshot, seen)) = &self.snapshot else { return Ok(()) };
        match rows(snapshot)? == *seen {
            true => Ok(()),
            false => Err(Error::Damaged {
                what: "a snapshot".into(),
                why: "it has other rows than it had".into(),
            }),
        }
    }
}

/// The rows of a snapshot, by each index.
fn rows(snapshot: &Snapshot) -> Result<Seen> {
    let Ok(table) = snapshot.catalog().table("t") else { return Ok(Vec::new()) };
    let mut seen = Vec::new();
    for position in std::iter::once(None).chain((0..table.indexes().len()).map(Some)) {
        let mut rows = snapshot.scan(table, position, &KeyRange::all(), Direction::Forward)?;
        while let Some(row) = rows.next()? {
            seen.push(row);
        }
    }
    Ok(seen)
}

impl Method for Watched {
    fn name(&self) -> &'static str {
        self.method.name()
    }

    fn catalog(&self) -> &Catalog {
        self.method.catalog()
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.method.get(table, key)
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.method.entry(table, position, entry)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.method.scan(table, position, range, direction)
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.method.commit(writes)
    }

    fn sync(&mut self) -> Result<Ticket> {
        let ticket = self.method.sync()?;
        self.watch()?;
        Ok(ticket)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.method.alter(catalog)?;
        self.watch()
    }

    fn reclaim(&mut self) -> Result<bool> {
        let is_all = self.method.reclaim()?;
        self.look()?;
        Ok(is_all)
    }

    fn footprint(&self) -> Result<Footprint> {
        self.method.footprint()
    }

    fn verify(&mut self) -> Result<()> {
        self.method.verify()?;
        self.look()
    }
}
