//! Random histories.

use std::sync::Arc;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner, contextualize_config};

use super::step::{History, Step, steps};
use super::{AMPLE, Check, Factory, Failure, Store, compare, ensure, ensure_err};
use crate::{
    Direction, Durability, Engine, Error, KeyRange, KeySpaceId, Model, Op, Snapshot, WriteBatch,
};

/// After any sequence of writes, scans, drops and creations, the engine equals the model.
///
/// # Errors
/// The shortest history found that fails, and why.
pub fn random_histories_agree_with_the_model(factory: &dyn Factory) -> Check {
    run(factory, false)
}

/// The same with the store closed and opened, or crashed and opened, at random moments: closing loses no
/// write, and a crash loses only writes that the store was not asked to make durable, latest first.
///
/// # Errors
/// The shortest history found that fails, and why.
pub fn random_histories_survive_reopening(factory: &dyn Factory) -> Check {
    run(factory, true)
}

fn run(factory: &dyn Factory, reopening: bool) -> Check {
    let config = Config {
        cases: if super::is_deep() { 48 } else { 24 },
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(contextualize_config(config))
        .run(&steps(reopening).prop_map(History), |history| {
            follow(factory, &history.0).map_err(|why| TestCaseError::fail(why.to_string()))
        })
        .map_err(|failure| Failure(failure.to_string()))
}

fn follow(factory: &dyn Factory, history: &[Step]) -> Check {
    let mut pair = Pair::new(factory)?;
    for (nth, step) in history.iter().enumerate() {
        pair = pair.step(step).map_err(|why| why.inside(format!("at step {nth}")))?;
    }
    for (snapshot, model) in &pair.snapshots {
        compare::snapshot(&**snapshot, model).map_err(|why| why.inside("at the end"))?;
    }
    compare::engines(pair.store.engine(), &pair.model).map_err(|why| why.inside("at the end"))
}

/// A store and the model, with the same history.
struct Pair<'a> {
    store: Store<'a>,
    model: Model,
    /// The states that a crash may leave: the one after the latest durable write, and those after each
    /// later write. The last one is the present.
    crash_states: Vec<Model>,
    /// Ids of key spaces dropped since the store was opened.
    dropped: Vec<KeySpaceId>,
    /// Each with the model at its time.
    snapshots: Vec<(Arc<dyn Snapshot>, Model)>,
}

impl<'a> Pair<'a> {
    fn new(factory: &'a dyn Factory) -> Check<Self> {
        let model = Model::new();
        Ok(Self {
            store: Store::new(factory, AMPLE)?,
            crash_states: vec![model.clone()],
            model,
            dropped: Vec::new(),
            snapshots: Vec::new(),
        })
    }

    fn step(mut self, step: &Step) -> Check<Self> {
        let engine = self.store.engine();
        match step {
            Step::Write(edits, durability) => {
                let (mut ops, mut model_ops) = (WriteBatch::new(), WriteBatch::new());
                for edit in edits {
                    let (space, model_space) = self.space(edit.space())?;
                    edit.add_to(&mut ops, space);
                    edit.add_to(&mut model_ops, model_space);
                }
                self.store.engine().write(&ops.ops(), *durability)?;
                self.model.write(&model_ops.ops(), *durability)?;
                self.wrote(*durability);
            }
            Step::DropSpace(number) => {
                let (space, model_space) = self.space(*number)?;
                self.store.engine().drop_key_space(space)?;
                self.model.drop_key_space(model_space)?;
                self.dropped.push(space);
                self.wrote(Durability::Immediate);
            }
            Step::Sync => {
                engine.sync()?;
                self.wrote(Durability::Immediate);
            }
            Step::Look(number, span) => {
                let (space, model_space) = self.space(*number)?;
                let engine = self.store.engine();
                compare::ranges(engine, space, &self.model, model_space, &span.range())?;
            }
            Step::LookAtAll => {
                compare::engines(engine, &self.model)?;
                self.dropped.iter().try_for_each(|&space| is_gone(engine, space))?;
            }
            Step::TakeSnapshot => {
                let snapshot = (self.store.engine().snapshot()?, self.model.clone());
                self.snapshots.push(snapshot);
            }
            Step::LookAtSnapshot(nth) => {
                if let Some(nth) = nth.checked_rem(self.snapshots.len()) {
                    let (snapshot, model) = &self.snapshots[nth];
                    compare::snapshot(&**snapshot, model)?;
                }
            }
            Step::DropSnapshot(nth) => {
                if let Some(nth) = nth.checked_rem(self.snapshots.len()) {
                    drop(self.snapshots.swap_remove(nth));
                }
            }
            Step::Reopen => {
                self.snapshots.clear();
                self.store = self.store.reopen()?;
                self.dropped.clear();
                compare::engines(self.store.engine(), &self.model)?;
                self.wrote(Durability::Immediate);
            }
            Step::Crash => {
                self.snapshots.clear();
                self.store = self.store.crash()?;
                self.dropped.clear();
                self.find_crash_state()?;
            }
        }
        Ok(self)
    }

    /// The ids of a key space in both, which create it if need be.
    fn space(&mut self, number: usize) -> Check<(KeySpaceId, KeySpaceId)> {
        let name = format!("space-{number}");
        let is_new = self.model.key_spaces()?.iter().all(|(known, _)| *known != name);
        let ids = (self.store.engine().key_space(&name)?, self.model.key_space(&name)?);
        ensure!(!self.dropped.contains(&ids.0), "{name} has the id of a dropped key space");
        if is_new {
            self.wrote(Durability::Immediate);
        }
        Ok(ids)
    }

    /// Notes the present as a state that a crash may leave; a durable one is the earliest such.
    fn wrote(&mut self, durability: Durability) {
        if durability == Durability::Immediate {
            self.crash_states.clear();
        }
        self.crash_states.push(self.model.clone());
    }

    /// After a crash, the present is one of the states that it may leave.
    fn find_crash_state(&mut self) -> Check {
        let mut differences = Vec::new();
        for state in std::mem::take(&mut self.crash_states).into_iter().rev() {
            match compare::engines(self.store.engine(), &state) {
                Ok(()) => {
                    self.model = state;
                    self.crash_states = vec![self.model.clone()];
                    return Ok(());
                }
                Err(why) => differences.push(why.to_string()),
            }
        }
        Err(Failure(format!(
            "what the crash left is no state since the latest durable write; \
             compared with the latest first: {differences:#?}"
        )))
    }
}

/// Whether every use of a key space says that there is none.
pub(super) fn is_gone(engine: &dyn Engine, space: KeySpaceId) -> Check {
    let gone = "after the key space was dropped";
    ensure_err!(engine.get(space, b"a"), Error::NoSuchKeySpace, format!("get {gone}"));
    ensure_err!(engine.len(space), Error::NoSuchKeySpace, format!("len {gone}"));
    ensure_err!(engine.sample(space, 1), Error::NoSuchKeySpace, format!("sample {gone}"));
    ensure_err!(
        engine.scan(space, KeyRange::all(), Direction::Forward),
        Error::NoSuchKeySpace,
        format!("scan {gone}")
    );
    ensure_err!(engine.drop_key_space(space), Error::NoSuchKeySpace, format!("drop {gone}"));
    for op in [
        Op::Put { space, key: b"a", value: b"1" },
        Op::Delete { space, key: b"a" },
        Op::DeleteRange { space, start: b"", end: None },
    ] {
        let written = engine.write(&[op], Durability::Immediate);
        ensure_err!(written, Error::NoSuchKeySpace, format!("write {gone}"));
    }
    Ok(())
}
