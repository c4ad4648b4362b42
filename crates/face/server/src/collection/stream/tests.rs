//! Streams against a model that keeps everything in maps.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::failure::Failure;

type Entries = BTreeMap<StreamId, Vec<u8>>;

/// The pending entry of a group: its consumer, the time of its delivery, and the number of these.
type PendingEntries = BTreeMap<StreamId, (Vec<u8>, u64, u64)>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ModelGroup {
    last: StreamId,
    consumers: Vec<Vec<u8>>,
    pending: PendingEntries,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    entries: Entries,
    last: StreamId,
    max_deleted: StreamId,
    added: u64,
    groups: BTreeMap<Vec<u8>, ModelGroup>,
}

#[derive(Debug, Clone)]
enum Step {
    Add { gap: u64 },
    Remove { nth: prop::sample::Index },
    TrimLen { len: u64 },
    TrimId { nth: prop::sample::Index },
    TrimBlocks { block: u64, len: u64, limit: u64 },
    Set { gap: u64, added: u64 },
    CreateGroup { group: u8, nth: prop::sample::Index },
    DestroyGroup { group: u8 },
    RemoveConsumer { group: u8, consumer: u8 },
    Read { group: u8, consumer: u8, count: u64 },
    ReadAgain { group: u8, consumer: u8, count: u64 },
    Acknowledge { group: u8, nth: prop::sample::Index },
    Claim { group: u8, consumer: u8, nth: prop::sample::Index, force: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    let (group, consumer) = (0..2_u8, 0..3_u8);
    prop_oneof![
        8 => (1..4_u64).prop_map(|gap| Step::Add { gap }),
        2 => index().prop_map(|nth| Step::Remove { nth }),
        1 => (0..20_u64).prop_map(|len| Step::TrimLen { len }),
        1 => index().prop_map(|nth| Step::TrimId { nth }),
        1 => (1..4_u64, 0..10_u64, 0..8_u64)
            .prop_map(|(block, len, limit)| Step::TrimBlocks { block, len, limit }),
        1 => (0..4_u64, 0..9_u64).prop_map(|(gap, added)| Step::Set { gap, added }),
        2 => (group.clone(), index()).prop_map(|(group, nth)| Step::CreateGroup { group, nth }),
        1 => group.clone().prop_map(|group| Step::DestroyGroup { group }),
        1 => (group.clone(), consumer.clone())
            .prop_map(|(group, consumer)| Step::RemoveConsumer { group, consumer }),
        4 => (group.clone(), consumer.clone(), 1..6_u64)
            .prop_map(|(group, consumer, count)| Step::Read { group, consumer, count }),
        2 => (group.clone(), consumer.clone(), 1..6_u64)
            .prop_map(|(group, consumer, count)| Step::ReadAgain { group, consumer, count }),
        3 => (group.clone(), index()).prop_map(|(group, nth)| Step::Acknowledge { group, nth }),
        2 => (group, consumer, index(), any::<bool>())
            .prop_map(|(group, consumer, nth, force)| Step::Claim { group, consumer, nth, force }),
    ]
}

/// A database that only this test has.
fn database(engine: &str) -> halite::Database {
    let builder = halite::Database::builder().engine(engine).max_size(64 << 20);
    builder.in_memory().unwrap()
}

const KEY: &[u8] = b"stream";

fn name_of(prefix: char, number: u8) -> Vec<u8> {
    format!("{prefix}{number}").into_bytes()
}

impl Model {
    /// An id that is there, or was, or comes before all.
    fn pick(&self, nth: prop::sample::Index) -> StreamId {
        let ms = nth.index(self.last.ms as usize + 1) as u64;
        StreamId { ms, seq: 0 }
    }

    fn remove_first(&mut self, count: u64) {
        for _ in 0..count {
            self.entries.pop_first();
        }
    }

    fn apply(&mut self, step: &Step, now_ms: u64) {
        match *step {
            Step::Add { gap } => {
                self.last = StreamId { ms: self.last.ms + gap, seq: 0 };
                self.added += 1;
                self.entries.insert(self.last, fields(self.last));
            }
            Step::Remove { nth } => {
                let id = self.pick(nth);
                if self.entries.remove(&id).is_some() {
                    self.max_deleted = self.max_deleted.max(id);
                }
            }
            Step::TrimLen { len } => {
                self.remove_first((self.entries.len() as u64).saturating_sub(len));
            }
            Step::TrimId { nth } => self.entries = self.entries.split_off(&self.pick(nth)),
            Step::TrimBlocks { block, len, limit } => {
                let most = if limit == 0 { u64::MAX } else { limit };
                let mut removed = 0;
                loop {
                    let left = self.entries.len() as u64;
                    let in_block = block - (self.added - left) % block;
                    let next = in_block.min(left);
                    if next == 0 || left - next < len || removed + next > most {
                        break;
                    }
                    self.remove_first(next);
                    removed += next;
                }
            }
            Step::Set { gap, added } => {
                self.last = StreamId { ms: self.last.ms + gap, seq: 0 };
                self.added += added;
            }
            Step::CreateGroup { group, nth } => {
                let last = self.pick(nth);
                let new = ModelGroup { last, ..ModelGroup::default() };
                self.groups.entry(name_of('g', group)).or_insert(new);
            }
            Step::DestroyGroup { group } => drop(self.groups.remove(&name_of('g', group))),
            Step::RemoveConsumer { group, consumer } => {
                let consumer = name_of('c', consumer);
                if let Some(group) = self.groups.get_mut(&name_of('g', group)) {
                    group.consumers.retain(|other| *other != consumer);
                    group.pending.retain(|_, pending| pending.0 != consumer);
                }
            }
            Step::Read { group, consumer, count } => {
                let Some(group) = self.groups.get_mut(&name_of('g', group)) else { return };
                let consumer = group.consumer(consumer);
                let after = group.last.next().unwrap();
                for id in self.entries.range(after..).map(|(id, _)| *id).take(count as usize) {
                    group.last = id;
                    group.pending.insert(id, (consumer.clone(), now_ms, 1));
                }
            }
            Step::ReadAgain { group, consumer, count } => {
                let Some(group) = self.groups.get_mut(&name_of('g', group)) else { return };
                let consumer = group.consumer(consumer);
                let own = group.pending.iter_mut().filter(|(_, pending)| pending.0 == consumer);
                for (id, pending) in own.take(count as usize) {
                    if self.entries.contains_key(id) {
                        (pending.1, pending.2) = (now_ms, pending.2 + 1);
                    }
                }
            }
            Step::Acknowledge { group, nth } => {
                let id = self.pick(nth);
                if let Some(group) = self.groups.get_mut(&name_of('g', group)) {
                    group.pending.remove(&id);
                }
            }
            Step::Claim { group, consumer, nth, force } => {
                let id = self.pick(nth);
                let Some(group) = self.groups.get_mut(&name_of('g', group)) else { return };
                let consumer = group.consumer(consumer);
                if !self.entries.contains_key(&id) {
                    group.pending.remove(&id);
                } else if force || group.pending.contains_key(&id) {
                    let before = group.pending.get(&id).map_or(1, |pending| pending.2);
                    group.pending.insert(id, (consumer, now_ms, before + 1));
                }
            }
        }
    }
}

impl ModelGroup {
    fn consumer(&mut self, number: u8) -> Vec<u8> {
        let name = name_of('c', number);
        if !self.consumers.contains(&name) {
            self.consumers.push(name.clone());
            self.consumers.sort();
        }
        name
    }
}

fn fields(id: StreamId) -> Vec<u8> {
    id.to_string().into_bytes()
}

/// Does a step on the stream, within a transaction.
fn apply(store: &mut Store, model: &Model, step: &Step) -> Outcome {
    let now_ms = store.now_ms;
    let mut stream = match Stream::find(store, 0, KEY)? {
        Some(stream) => stream,
        None => Stream::create(store, 0, KEY)?,
    };
    let group_of = |group: u8| name_of('g', group);
    let reader = |stream: &mut Stream, store: &mut Store, group: u8, consumer: u8| {
        let (group, consumer) = (group_of(group), name_of('c', consumer));
        if stream.group(store, &group)?.is_none() {
            return Ok(None);
        }
        let (number, _) = stream.find_or_make_consumer(store, &group, &consumer, now_ms)?;
        Ok::<_, Failure>(Some((group, number)))
    };
    match *step {
        Step::Add { gap } => {
            let id = StreamId { ms: model.last.ms + gap, seq: 0 };
            stream.add(store, id, &fields(id))?;
        }
        Step::Remove { nth } => drop(stream.remove(store, model.pick(nth))?),
        Step::TrimLen { len } => drop(stream.trim(store, Keep::Last(len), Exactness::Exact)?),
        Step::TrimId { nth } => {
            stream.trim(store, Keep::From(model.pick(nth)), Exactness::Exact)?;
        }
        Step::TrimBlocks { block, len, limit } => {
            stream.trim(store, Keep::Last(len), Exactness::Blocks { len: block, limit })?;
        }
        Step::Set { gap, added } => {
            let last = StreamId { ms: model.last.ms + gap, seq: 0 };
            stream.set(store, last, Some(model.added + added), None)?;
        }
        Step::CreateGroup { group, nth } => {
            stream.create_group(store, &group_of(group), model.pick(nth), None)?;
        }
        Step::DestroyGroup { group } => drop(stream.destroy_group(store, &group_of(group))?),
        Step::RemoveConsumer { group, consumer } => {
            if stream.group(store, &group_of(group))?.is_some() {
                stream.remove_consumer(store, &group_of(group), &name_of('c', consumer))?;
            }
        }
        Step::Read { group, consumer, count } => {
            if let Some((group, consumer)) = reader(&mut stream, store, group, consumer)? {
                let reader = Reader { group: &group, consumer, now_ms };
                stream.read_new(store, &reader, count, false, |_, _| ControlFlow::Continue(()))?;
            }
        }
        Step::ReadAgain { group, consumer, count } => {
            if let Some((group, consumer)) = reader(&mut stream, store, group, consumer)? {
                let reader = Reader { group: &group, consumer, now_ms };
                let go_on = |_, _: Option<&[u8]>| ControlFlow::Continue(());
                stream.read_again(store, &reader, StreamId::MIN, count, go_on)?;
            }
        }
        Step::Acknowledge { group, nth } => {
            if stream.group(store, &group_of(group))?.is_some() {
                stream.acknowledge(store, &group_of(group), model.pick(nth))?;
            }
        }
        Step::Claim { group, consumer, nth, force } => {
            if let Some((group, consumer)) = reader(&mut stream, store, group, consumer)? {
                let reader = Reader { group: &group, consumer, now_ms };
                let how = Claiming {
                    min_idle_ms: 0,
                    delivered_ms: now_ms,
                    count: None,
                    force,
                    only_ids: false,
                };
                stream.claim(store, &reader, model.pick(nth), &how)?;
            }
        }
    }
    stream.save(store, None)
}

/// The stream as a model, with what DRAM knows of it checked against its elements.
fn seen(store: &mut Store) -> Option<Model> {
    let stream = Stream::find(store, 0, KEY).unwrap()?;
    let mut model = Model::default();
    let visit = |id, fields: Bytes| {
        model.entries.insert(id, fields.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    stream.visit(store, StreamId::MIN, StreamId::MAX, Order::Ascending, visit).unwrap();
    assert_eq!(stream.last_entry(store).unwrap(), model.entries.keys().next_back().copied());
    let state = stream.state(store).unwrap();
    assert_eq!(state.len, model.entries.len() as u64);
    assert_eq!(state.first, model.entries.keys().next().copied().unwrap_or_default());
    (model.last, model.max_deleted, model.added) = (state.last, state.max_deleted, state.added);
    let mut numbers = Vec::new();
    for (name, group) in &state.groups {
        let consumers = group.by_name().map(|consumer| consumer.name.to_vec()).collect();
        let pending: usize = group.by_name().map(|consumer| consumer.pending.len()).sum();
        assert_eq!(pending as u64, group.pending);
        let of = group.consumers.iter();
        let of: BTreeMap<_, _> =
            of.map(|(number, of)| (*number, (of.name.to_vec(), of.pending.clone()))).collect();
        numbers.push((name.to_vec(), group.number, of));
        let group = ModelGroup { last: group.last, consumers, ..ModelGroup::default() };
        model.groups.insert(name.to_vec(), group);
    }
    for (name, number, consumers) in numbers {
        let group = model.groups.get_mut(&name).unwrap();
        let visit = |id, pending: Pending| {
            let (name, of) = &consumers[&pending.consumer];
            assert!(of.contains(&id));
            group.pending.insert(id, (name.clone(), pending.delivered_ms, pending.count));
            Ok(ControlFlow::Continue(()))
        };
        stream.visit_pending(store, number, StreamId::MIN, Order::Ascending, visit).unwrap();
        assert_eq!(group.pending.len(), consumers.values().map(|of| of.1.len()).sum::<usize>());
    }
    Some(model)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_stream_is_as_its_model(
        steps in prop::collection::vec((step(), 0..6_u8), 1..80),
        engine in prop::sample::select(halite::ENGINES),
    ) {
        let db = database(engine);
        let (mut store, mut model) = (Store::open(db.clone(), 1).unwrap(), Model::default());
        for (number, (step, fate)) in steps.iter().enumerate() {
            store.now_ms = 1000 + number as u64;
            let before = seen(&mut store);
            store.begin();
            apply(&mut store, &model, step).unwrap();
            if *fate == 0 {
                // A transaction that is not carried out leaves nothing, in DRAM neither.
                store.rollback();
                prop_assert_eq!(seen(&mut store), before);
                continue;
            }
            model.apply(step, store.now_ms);
            prop_assert_eq!(seen(&mut store), Some(model.clone()));
            store.commit().unwrap();
            prop_assert_eq!(seen(&mut store), Some(model.clone()));
            if *fate == 1 {
                // All of it follows from what is stored.
                let mut again = Store::open(db.clone(), 1).unwrap();
                again.now_ms = store.now_ms;
                prop_assert_eq!(seen(&mut again), Some(model.clone()));
                store = again;
            }
        }
        // A copy has all of it, and a removal leaves nothing.
        store.begin();
        store.copy((0, KEY), (0, b"copy")).unwrap();
        store.remove(0, KEY).unwrap();
        store.rename((0, b"copy"), (0, KEY)).unwrap();
        store.commit().unwrap();
        let expected = seen(&mut store);
        prop_assert!(expected.is_none() || expected == Some(model));
        store.remove(0, KEY).unwrap();
        while store.reclaim() {}
        let mut again = Store::open(db.clone(), 1).unwrap();
        prop_assert!(seen(&mut again).is_none() && !again.has_dropped());
    }
}

proptest! {
    #[test]
    fn any_stored_bytes_are_a_stream_or_damage(
        record in prop::option::of(prop::collection::vec(any::<u8>(), 0..60)),
        elements in prop::collection::vec(
            (0..5_u8, prop::collection::vec(0..3_u8, 0..24), prop::collection::vec(0..3_u8, 0..40)),
            0..6,
        ),
    ) {
        let db = database("indexlog");
        let mut store = Store::open(db.clone(), 1).unwrap();
        store.begin();
        let stream = Stream::create(&mut store, 0, KEY).unwrap();
        let of = stream.elements;
        stream.save(&mut store, None).unwrap();
        for (first, key, value) in &elements {
            store.put_element(&of, &[&[*first][..], key].concat(), value).unwrap();
        }
        if let Some(record) = &record {
            let record = [&[Type::Stream.tag()], &record[..]].concat();
            store.put_stored(0, KEY, &record, NewDeadline::Keep).unwrap();
        }
        store.commit().unwrap();
        let mut store = Store::open(db, 1).unwrap();
        store.begin();
        let Ok(Some(mut stream)) = Stream::find(&mut store, 0, KEY) else { return Ok(()) };
        if stream.state(&mut store).is_ok() {
            stream.remove(&mut store, StreamId::MIN).unwrap();
            stream.trim(&mut store, Keep::Last(0), Exactness::Exact).unwrap();
        }
    }
}

#[test]
fn an_entry_is_one_write_and_a_short_stream_writes_its_record_seldom() {
    let mut store = Store::open(database("indexlog"), 1).unwrap();
    let mut records = std::collections::BTreeSet::new();
    for ms in 1..=1000 {
        store.begin();
        let mut stream = match Stream::find(&mut store, 0, KEY).unwrap() {
            Some(stream) => stream,
            None => Stream::create(&mut store, 0, KEY).unwrap(),
        };
        stream.add(&mut store, StreamId { ms, seq: 0 }, b"").unwrap();
        stream.trim(&mut store, Keep::Last(100), Exactness::Exact).unwrap();
        stream.save(&mut store, None).unwrap();
        store.commit().unwrap();
        records.insert(store.get(0, KEY).unwrap().unwrap().bytes().to_vec());
    }
    assert!((2..=11).contains(&records.len()), "{} records", records.len());
}
