//! The commit of a transaction: as its only partition has it, or decided for several.

use halite_sim::planted;

use super::decision::{Decision, Part};
use super::{AnyPartition, Testbed, Transaction};
use crate::method::Ticket;
use crate::{Error, Result, WriteSet};

/// A partition, and the commit that has to be durable.
pub(super) type Tickets = Vec<(usize, Ticket)>;

fn has_changed(part: &AnyPartition) -> bool {
    part.writes().is_some_and(|writes| !writes.is_empty())
}

impl Testbed {
    /// Commits. All that was changed and read is durable once the tickets are.
    pub(super) fn commit(&self, transaction: &mut Transaction<'_>) -> Result<Tickets> {
        let parts = &mut transaction.parts;
        if parts.iter().filter(|(_, part)| has_changed(part)).count() > 1 {
            self.commit_several(transaction)?;
        } else {
            for (_, part) in parts.iter_mut().filter(|(_, part)| has_changed(part)) {
                part.commit()?;
            }
        }
        Ok(transaction.parts.iter().map(|(number, part)| (*number, part.last())).collect())
    }

    fn commit_several(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        let mut parts: Vec<_> =
            transaction.parts.iter_mut().filter(|(_, part)| has_changed(part)).collect();
        // Recovery commits the decided rows to what is durable.
        for (_, part) in &mut parts {
            part.sync()?;
        }
        let of =
            |writes: Option<&WriteSet>, number| Part::of(number, writes.expect("it has changed"));
        let decided: Vec<_> =
            parts.iter().map(|(number, part)| of(part.writes(), *number)).collect();
        let mut coordinator = self.coordinator.lock();
        if planted!("table.no-decision", false, true) {
            coordinator.decide(&Decision::Rows(decided.clone()))?;
        }
        let mut committed = 0;
        let mut refused = None;
        for (_, part) in &mut parts {
            match part.commit() {
                Ok(_) => committed += 1,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = refused {
            if !error.is_refusal() {
                // The partition may have the changes durably: the next opening carries the decision out in all of them.
                planted!("table.decision-removed-after-failure", coordinator.forget()?);
                coordinator.fail(&error);
                return Err(error);
            }
            let taken_back = (|| {
                let inverse: Vec<_> = decided[..committed].iter().map(Part::inverse).collect();
                coordinator.decide(&Decision::Back(inverse.clone()))?;
                for (part, (_, partition)) in inverse.iter().zip(&mut parts) {
                    part.apply(partition)?;
                }
                coordinator.forget()
            })();
            // Without that, the next opening decides about it: nobody is to be told that it was refused.
            taken_back.inspect_err(|failure| coordinator.fail(failure))?;
            return Err(error);
        }
        for (_, part) in &mut parts {
            if let Err(error) = part.sync() {
                planted!("table.decision-removed-after-failure", coordinator.forget()?);
                coordinator.fail(&error);
                return Err(error);
            }
        }
        coordinator.forget()
    }

    /// Carries out the decision that a crash has left.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(decision) = self.coordinator.get_mut().pending()? else { return Ok(()) };
        match &decision {
            Decision::Rows(parts) => self.finish_rows(parts)?,
            Decision::Back(parts) => parts.iter().try_for_each(|part| self.apply(part))?,
            Decision::Statement(statement) => {
                for shared in &mut self.partitions {
                    statement.settle(shared.partition.get_mut())?;
                }
            }
        }
        self.coordinator.get_mut().forget()
    }

    fn finish_rows(&mut self, parts: &[Part]) -> Result<()> {
        let carried_out = parts.iter().try_for_each(|part| self.apply(part));
        let Err(refused) = carried_out else { return Ok(()) };
        if !refused.is_refusal() {
            return Err(refused);
        }
        // A partition has no room for it: nobody was told that it happened, and so it does not.
        let inverse: Vec<_> = parts.iter().map(Part::inverse).collect();
        self.coordinator.get_mut().decide(&Decision::Back(inverse.clone()))?;
        inverse.iter().try_for_each(|part| self.apply(part))
    }

    fn apply(&mut self, part: &Part) -> Result<()> {
        let damaged =
            || Error::damaged("a decision", format!("there is no partition {}", part.partition));
        let shared = self.partitions.get_mut(part.partition).ok_or_else(damaged)?;
        part.apply(shared.partition.get_mut())
    }
}
