//! Transactions that append to lists and read them, as the isolation checker wants them.

use halite::{
    Bytes, Database, Durability, Error, KeySpace, Result, Transaction, TransactionOptions,
};
use halite_lab::Random;
use halite_lab::isolation::{Element, ListKey, Op, Outcome, Recorder, Running};

/// A step of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Reads a list.
    Read(ListKey),
    /// Reads a list to write it, and appends to it.
    Append(ListKey),
    /// Reads a list as one that is only read, and appends to it.
    ReadAndAppend(ListKey),
    /// Reads so many lists in the order of their keys, or in the reverse.
    Scan(usize, bool),
    /// Puts a key and deletes a range to which others write, and rolls both back.
    Savepoint,
}

/// The lists of a database.
#[derive(Clone)]
pub(crate) struct Lists {
    pub(crate) db: Database,
    pub(crate) space: KeySpace,
    /// How many there are.
    pub(crate) keys: u64,
}

fn name(key: ListKey) -> String {
    format!("list {key:03}")
}

fn decode(value: Option<&[u8]>) -> Vec<Element> {
    let (numbers, rest) = value.unwrap_or_default().as_chunks();
    assert!(rest.is_empty(), "a list has whole elements");
    numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

fn encode(list: &[Element]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

impl Lists {
    pub(crate) fn new(db: Database, keys: u64) -> Self {
        let space = db.key_space("lists").expect("a key space");
        Self { db, space, keys }
    }

    /// Steps of one transaction.
    pub(crate) fn draw(&self, random: &mut Random) -> Vec<Step> {
        let steps = 1 + random.below(4);
        let draw = |_| {
            let key = random.below(self.keys);
            match random.below(100) {
                0..35 => Step::Read(key),
                35..65 => Step::Append(key),
                65..85 => Step::ReadAndAppend(key),
                85..95 => Step::Scan(1 + random.below(self.keys) as usize, random.percent(50)),
                _ => Step::Savepoint,
            }
        };
        (0..steps).map(draw).collect()
    }

    /// Takes one step of a transaction and notes its effect and the lists that it read. `element` is new.
    pub(crate) fn step(
        &self,
        tx: &mut Transaction,
        step: Step,
        element: Element,
        running: &mut Running,
    ) -> Result<()> {
        match step {
            Step::Read(key) => {
                let found = tx.get(&self.space, name(key))?;
                running.ops.push(Op::Read(key, decode(found.as_deref())));
            }
            Step::Append(key) => {
                let found = tx.get_for_update(&self.space, name(key))?;
                self.append(tx, key, found, element, running)?;
            }
            Step::ReadAndAppend(key) => {
                let found = tx.get(&self.space, name(key))?;
                self.append(tx, key, found, element, running)?;
            }
            Step::Scan(count, reverse) => self.scan(tx, count, reverse, running)?,
            Step::Savepoint => {
                let savepoint = tx.savepoint();
                tx.put(&self.space, name(element % self.keys), encode(&[element]))?;
                tx.delete_prefix(&self.space, "list")?;
                tx.rollback_to(savepoint)?;
            }
        }
        Ok(())
    }

    fn append(
        &self,
        tx: &mut Transaction,
        key: ListKey,
        found: Option<Bytes>,
        element: Element,
        running: &mut Running,
    ) -> Result<()> {
        let mut list = decode(found.as_deref());
        running.ops.push(Op::Read(key, list.clone()));
        list.push(element);
        tx.put(&self.space, name(key), encode(&list))?;
        running.ops.push(Op::Append(key, element));
        Ok(())
    }

    /// Scans lists; the keys that a scan has passed and did not return are absent.
    fn scan(
        &self,
        tx: &Transaction,
        count: usize,
        reverse: bool,
        running: &mut Running,
    ) -> Result<()> {
        let scan = if reverse { tx.iter_rev(&self.space)? } else { tx.iter(&self.space)? };
        let mut pairs = Vec::new();
        for pair in scan.take(count) {
            let (key, value) = pair?;
            pairs.push((key.to_vec(), decode(Some(&value))));
        }
        let reached = pairs.last().filter(|_| pairs.len() == count).map(|(key, _)| key.clone());
        for key in 0..self.keys {
            let name = name(key).into_bytes();
            let is_past = reached.as_ref().is_none_or(|reached| match reverse {
                true => name >= *reached,
                false => name <= *reached,
            });
            if is_past {
                let found = pairs.iter().find(|(found, _)| *found == name);
                let list = found.map(|(_, list)| list.clone()).unwrap_or_default();
                running.ops.push(Op::Read(key, list));
            }
        }
        Ok(())
    }

    /// Runs a transaction from beginning to end; `between` is called between its steps, and `before_commit` with the
    /// transaction before its commit.
    pub(crate) fn run(
        &self,
        options: &TransactionOptions,
        durability: Durability,
        steps: &[Step],
        elements: impl Iterator<Item = Element>,
        recorder: &Recorder,
        (between, before_commit): (impl Fn(), impl FnOnce(&Running)),
    ) -> Outcome {
        let mut running = recorder.begin();
        let mut tx = self.db.begin(options.clone()).expect("a transaction");
        let done = steps.iter().zip(elements).try_for_each(|(step, element)| {
            between();
            self.step(&mut tx, *step, element, &mut running)
        });
        let done = done.and_then(|()| {
            between();
            before_commit(&running);
            tx.commit(durability)
        });
        let outcome = outcome(done);
        recorder.end(running, outcome);
        outcome
    }

    /// Reads all lists, so that the order of everything in them is known.
    pub(crate) fn read_all(&self, recorder: &Recorder) {
        let everything = Step::Scan(usize::MAX, false);
        let options = TransactionOptions::default();
        let nothing = (|| (), |_: &Running| ());
        self.run(
            &options,
            Durability::Immediate,
            &[everything],
            [0].into_iter(),
            recorder,
            nothing,
        );
    }
}

/// How a transaction ended. Only another one may have kept it from being committed.
pub(crate) fn outcome(done: Result<()>) -> Outcome {
    match done {
        Ok(()) => Outcome::Committed,
        Err(error) => {
            assert!(error.is_retryable(), "{error}");
            assert!(!matches!(error, Error::LockTimeout { .. }), "no circle is waited in: {error}");
            Outcome::Aborted
        }
    }
}
