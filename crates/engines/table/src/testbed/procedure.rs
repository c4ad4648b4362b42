//! Stored procedures: transactions that clients call by a name, with arguments of declared types.
//!
//! ```text
//!  name, arguments ─► find ─► conform to the parameters ─► partitions ─► transaction { run } ─► sync ─► records
//! ```
//!
//! A parameter is a [`Column`]: a name, a type, and whether it may be NULL. The body gets arguments in the one form that
//! such a column has them in, and its error or panic undoes the transaction. Procedures are registered by the program
//! each time it opens a store; nothing of them is stored.
//!
//! A call costs what its transaction does, and copies of its arguments.

use std::sync::Arc;

use halite_contract::Durability;

use super::commit::Tickets;
use super::{Testbed, Transaction, caught};
use crate::schema::check_name;
use crate::{Column, Error, Result, Value, ValueRef};

/// The rows that a procedure returns.
pub type Records = Vec<Vec<Value>>;

/// A stored procedure.
pub trait Procedure: Send + Sync {
    /// Its name, and the name, type and nullability of each parameter. They are asked for when it is registered.
    fn signature(&self) -> (&str, Vec<Column>);

    /// The partitions that a call with these arguments uses, of so many of the store.
    fn partitions(&self, arguments: &[Value], count: usize) -> Vec<usize>;

    /// Runs in a transaction over these partitions.
    ///
    /// # Errors
    /// Any undoes the transaction: those of its statements, and [`Error::GivenUp`] for a reason of its own.
    fn run(&self, transaction: &mut Transaction<'_>, arguments: &[Value]) -> Result<Records>;
}

/// A procedure with its signature.
pub(super) struct Registered {
    name: Box<str>,
    parameters: Vec<Column>,
    procedure: Box<dyn Procedure>,
}

/// A call that can run.
pub(super) struct Call {
    registered: Arc<Registered>,
    arguments: Vec<Value>,
    pub(super) partitions: Vec<usize>,
}

impl Registered {
    fn conform(&self, arguments: &[ValueRef<'_>]) -> Result<Vec<Value>> {
        let (procedure, expected) = (self.name.clone(), self.parameters.len());
        if arguments.len() != expected {
            return Err(Error::ArgumentCount { procedure, expected, found: arguments.len() });
        }
        let conformed = self.parameters.iter().zip(arguments);
        let conformed = conformed.map(|(column, value)| column.conform(*value).map(Value::from));
        let refused = |why: Error| Error::Argument { procedure, why: why.into() };
        conformed.collect::<Result<_>>().map_err(refused)
    }
}

impl Testbed {
    /// Registers a procedure, for calls from now on.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Name`], also for a parameter.
    pub fn register(&self, procedure: impl Procedure + 'static) -> Result<()> {
        let (name, parameters) = procedure.signature();
        let name: Box<str> = name.into();
        check_name("procedure", &name)?;
        parameters.iter().try_for_each(|parameter| check_name("parameter", parameter.name()))?;
        let mut procedures = self.procedures.write();
        if procedures.contains_key(&name) {
            return Err(Error::Exists { what: "procedure", name });
        }
        let registered =
            Registered { name: name.clone(), parameters, procedure: Box::new(procedure) };
        procedures.insert(name, Arc::new(registered));
        Ok(())
    }

    /// Calls a procedure. All that it changed and read is durable on return.
    ///
    /// # Errors
    /// [`Error::UnknownProcedure`], [`Error::ArgumentCount`], [`Error::Argument`]; those of [`Testbed::transact`], with
    /// [`Error::Recursion`] if a procedure calls one from its body.
    pub fn call(&self, name: &str, arguments: &[ValueRef<'_>]) -> Result<Records> {
        self.call_with(name, arguments, Durability::Immediate)
    }

    /// Calls a procedure. With [`Durability::Deferred`], its changes are durable after the next [`Testbed::sync`].
    ///
    /// # Errors
    /// As [`Testbed::call`].
    pub fn call_with(
        &self,
        name: &str,
        arguments: &[ValueRef<'_>],
        durability: Durability,
    ) -> Result<Records> {
        let (records, tickets) = self.run_call(&self.prepare(name, arguments)?)?;
        if durability == Durability::Immediate {
            self.wait_for(&tickets)?;
        }
        Ok(records)
    }

    /// A call, checked.
    pub(super) fn prepare(&self, name: &str, arguments: &[ValueRef<'_>]) -> Result<Call> {
        self.check_outside(&in_words(name))?;
        let found = self.procedures.read().get(name).cloned();
        let registered = found.ok_or_else(|| Error::UnknownProcedure { procedure: name.into() })?;
        let arguments = registered.conform(arguments)?;
        let count = self.partitions();
        let mut partitions = caught(|| registered.procedure.partitions(&arguments, count))?;
        partitions.sort_unstable();
        partitions.dedup();
        Ok(Call { registered, arguments, partitions })
    }

    /// Runs a call, and returns what has to be durable before anybody is told that it was.
    pub(super) fn run_call(&self, call: &Call) -> Result<(Records, Tickets)> {
        let Call { registered, arguments, partitions } = call;
        let body = |tx: &mut Transaction<'_>| registered.procedure.run(tx, arguments);
        self.run(&in_words(&registered.name), partitions, body, |_| ())
    }
}

fn in_words(name: &str) -> String {
    format!("procedure {name:?}")
}
