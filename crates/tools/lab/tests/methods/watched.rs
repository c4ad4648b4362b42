//! Methods with views: one is taken now and then, and has to stay as it is across later syncs.

use halite_table::catalog::Index;
use halite_table::index::Direction;
use halite_table::method::{Footprint, Method, Rows, Ticket, View};
use halite_table::write_set::WriteSet;
use halite_table::{Catalog, Error, IndexState, KeyRange, Result, Row, Table};

/// A number of syncs, of which the second takes a view, and the last one drops it.
const SYNCS: u64 = 4;

/// The rows that a view had at first.
type Seen = Vec<(Vec<u8>, Row)>;

/// The storage of a partition, and the view of it.
pub(crate) struct Watched<M> {
    method: M,
    view: Option<(Box<dyn View>, Seen)>,
    syncs: u64,
}

impl<M: Method> Watched<M> {
    pub(crate) fn new(method: M) -> Self {
        Self { method, view: None, syncs: 0 }
    }

    /// Looks at the view, and takes or drops one.
    fn watch(&mut self) -> Result<()> {
        self.look()?;
        self.syncs += 1;
        match self.syncs % SYNCS {
            2 => {
                let view = self.method.view()?;
                let seen = rows(&*view)?;
                self.view = Some((view, seen));
            }
            0 => self.view = None,
            _ => {}
        }
        Ok(())
    }

    fn look(&self) -> Result<()> {
        let Some((view, seen)) = &self.view else { return Ok(()) };
        match rows(&**view)? == *seen {
            true => Ok(()),
            false => Err(Error::Damaged {
                what: "a view".into(),
                why: "it has other rows than it had".into(),
            }),
        }
    }
}

/// The rows of a view, by each index.
fn rows(view: &dyn View) -> Result<Seen> {
    let Ok(table) = view.catalog().table("t") else { return Ok(Vec::new()) };
    let mut seen = Vec::new();
    let is_ready = |&(_, index): &(usize, Index<'_>)| index.state == IndexState::Ready;
    let ready = table.indexes().enumerate().filter(is_ready).map(|(position, _)| Some(position));
    for position in std::iter::once(None).chain(ready) {
        let mut rows = view.scan(table, position, &KeyRange::all(), Direction::Forward)?;
        while let Some(row) = rows.next()? {
            seen.push(row);
        }
    }
    Ok(seen)
}

impl<M: Method> Method for Watched<M> {
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
