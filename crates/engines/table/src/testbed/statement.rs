//! Statements that change the catalogs of all partitions, each as a whole.

use super::decision::{Decision, Statement};
use super::{AnyPartition, Testbed};
use crate::{Catalog, Result, TableSchema};

impl Testbed {
    /// Creates a table.
    ///
    /// # Errors
    /// Those of [`Partition::create_table`](crate::Partition::create_table).
    pub fn create_table(&self, schema: &TableSchema) -> Result<()> {
        let statement = Statement::CreateTable { name: schema.name().to_owned() };
        let possible = |catalog: &Catalog| catalog.create_table(schema.clone()).map(drop);
        self.change_catalogs(statement, possible, |part| {
            part.create_table(schema.clone()).map(drop)
        })
    }

    /// Drops a table. [`Testbed::reclaim`] gives its space back.
    ///
    /// # Errors
    /// Those of [`Partition::drop_table`](crate::Partition::drop_table).
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let statement = Statement::DropTable { name: name.to_owned() };
        let possible = |catalog: &Catalog| catalog.drop_table(name).map(drop);
        self.change_catalogs(statement, possible, |part| part.drop_table(name))
    }

    /// Removes all rows of a table. [`Testbed::reclaim`] gives their space back.
    ///
    /// # Errors
    /// Those of [`Partition::truncate_table`](crate::Partition::truncate_table).
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        let statement = Statement::TruncateTable { name: name.to_owned() };
        let possible = |catalog: &Catalog| catalog.truncate_table(name).map(drop);
        self.change_catalogs(statement, possible, |part| part.truncate_table(name).map(drop))
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// Those of [`Partition::rename_table`](crate::Partition::rename_table).
    pub fn rename_table(&self, name: &str, to: &str) -> Result<()> {
        let statement = Statement::RenameTable { name: name.to_owned(), to: to.to_owned() };
        let possible = |catalog: &Catalog| catalog.rename_table(name, to).map(drop);
        self.change_catalogs(statement, possible, |part| part.rename_table(name, to))
    }

    /// Creates a secondary index. If it is to be unique, it is so within each partition.
    ///
    /// # Errors
    /// Those of [`Partition::create_index`](crate::Partition::create_index).
    pub fn create_index(
        &self,
        table: &str,
        name: &str,
        columns: &[&str],
        is_unique: bool,
    ) -> Result<()> {
        let statement = Statement::CreateIndex { table: table.to_owned(), name: name.to_owned() };
        let possible =
            |catalog: &Catalog| catalog.create_index(table, name, columns, is_unique).map(drop);
        self.change_catalogs(statement, possible, |part| {
            part.create_index(table, name, columns, is_unique).map(drop)
        })
    }

    /// Drops a secondary index. [`Testbed::reclaim`] gives its space back.
    ///
    /// # Errors
    /// Those of [`Partition::drop_index`](crate::Partition::drop_index).
    pub fn drop_index(&self, table: &str, name: &str) -> Result<()> {
        let statement = Statement::DropIndex { table: table.to_owned(), name: name.to_owned() };
        let possible = |catalog: &Catalog| catalog.drop_index(table, name).map(drop);
        self.change_catalogs(statement, possible, |part| part.drop_index(table, name))
    }

    /// Changes the catalogs of all partitions while no transaction runs. The names are the same in all, so that the first
    /// catalog tells whether the statement is possible. If a partition refuses it all the same, as it has no room, or rows
    /// that are not unique, it is taken back or carried out in all of them, as [`Statement::settle`] says. If the first one has no
    /// room for that either, nothing has happened but an index that is not built, which the next opening drops.
    fn change_catalogs(
        &self,
        statement: Statement,
        possible: impl Fn(&Catalog) -> Result<()>,
        change: impl Fn(&mut AnyPartition) -> Result<()>,
    ) -> Result<()> {
        self.check_outside("a statement on tables")?;
        self.check()?;
        let mut parts: Vec<_> =
            (0..self.partitions.len()).map(|number| self.lock(number)).collect();
        if let [only] = &mut parts[..] {
            return change(only);
        }
        possible(parts[0].catalog())?;
        // A partition that failed before refuses here, when nothing is decided.
        parts.iter_mut().try_for_each(|part| part.sync().map(drop))?;
        let mut coordinator = self.coordinator.lock();
        coordinator.decide(&Decision::Statement(statement.clone()))?;
        let mut happened = 0;
        let changed = parts.iter_mut().try_for_each(|part| change(part).map(|()| happened += 1));
        if changed.is_err() {
            // A partition that failed in the midst may have the change durably. Its sync fails, too, and the next opening
            // settles the statement in all of them.
            let settled = parts.iter_mut().try_for_each(|part| {
                statement.settle(part).map(|()| happened += 1)?;
                part.sync().map(drop)
            });
            if let Err(error) = settled
                && (happened > 0 || !error.is_refusal())
            {
                coordinator.fail(&error);
                return Err(error);
            }
        }
        coordinator.forget()?;
        changed
    }
}
