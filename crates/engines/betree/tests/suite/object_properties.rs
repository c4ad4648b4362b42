//! Objects do what byte vectors with names do, whatever happens to them, in the memtable and in trees.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::ops::ControlFlow;
use std::path::Path;

use halite_betree::object::{CHUNK_LEN, Object, ObjectStore};
use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Durability, Engine};
use proptest::prelude::*;

use crate::conformance::small;
use crate::objects::{is_no_such_object, open};

const NAMES: [&[u8]; 3] = [b"a", b"ab", b"\xff\0"];

#[derive(Debug, Clone)]
enum Step {
    Open(usize),
    Write { handle: usize, offset: usize, len: usize, fill: u8 },
    WriteSlices { handle: usize, offset: usize, lens: Vec<usize>, fill: u8 },
    Truncate { handle: usize, size: usize },
    Read { handle: usize, offset: usize, len: usize },
    Rename { old: usize, new: usize, may_replace: bool },
    Delete(usize),
    SetMetadata { handle: usize, key: u8, len: usize },
    DeleteMetadata { handle: usize, key: u8 },
    Reopen,
}

/// Offsets that lie at chunks' bounds, or anywhere in the first four.
fn offset() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        (0_usize..4, -3_isize..4)
            .prop_map(|(chunk, by)| (chunk * CHUNK_LEN).saturating_add_signed(by)),
        0_usize..4 * CHUNK_LEN,
    ]
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![0_usize..40, 1_000_usize..5_000, Just(CHUNK_LEN), 0_usize..2 * CHUNK_LEN]
}

fn step() -> impl Strategy<Value = Step> {
    let handle = 0_usize..8;
    let write = (handle.clone(), offset(), len(), any::<u8>());
    let slices = prop::collection::vec(len(), 0..4);
    let slices = (handle.clone(), offset(), slices, any::<u8>());
    prop_oneof![
        3 => (0..NAMES.len()).prop_map(Step::Open),
        8 => write.prop_map(|(handle, offset, len, fill)| Step::Write { handle, offset, len, fill }),
        2 => slices.prop_map(|(handle, offset, lens, fill)| Step::WriteSlices { handle, offset, lens, fill }),
        4 => (handle.clone(), offset()).prop_map(|(handle, size)| Step::Truncate { handle, size }),
        4 => (handle.clone(), offset(), len()).prop_map(|(handle, offset, len)| Step::Read { handle, offset, len }),
        2 => (0..NAMES.len(), 0..NAMES.len(), any::<bool>())
            .prop_map(|(old, new, may_replace)| Step::Rename { old, new, may_replace }),
        1 => (0..NAMES.len()).prop_map(Step::Delete),
        2 => (handle.clone(), 0_u8..3, 0_usize..3_000).prop_map(|(handle, key, len)| Step::SetMetadata { handle, key, len }),
        1 => (handle, 0_u8..3).prop_map(|(handle, key)| Step::DeleteMetadata { handle, key }),
        1 => Just(Step::Reopen),
    ]
}

type Customs = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Model {
    names: BTreeMap<Vec<u8>, u64>,
    /// Bytes and custom metadata.
    objects: BTreeMap<u64, (Vec<u8>, Customs)>,
}

impl Model {
    fn write(&mut self, id: u64, offset: usize, bytes: &[u8]) {
        let (all, _) = self.objects.get_mut(&id).unwrap();
        if !bytes.is_empty() {
            all.resize(all.len().max(offset + bytes.len()), 0);
            all[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Compares everything.
    fn check(&self, store: &ObjectStore) {
        let listed: Vec<_> = store.iter(b"").unwrap().map(Result::unwrap).collect();
        let names: Vec<_> = listed.iter().map(|(name, info)| (name.clone(), info.id)).collect();
        assert!(names.iter().cloned().eq(self.names.clone()), "{names:?} {:?}", self.names);
        let with_a = store.iter(b"a").unwrap().map(|object| object.unwrap().0);
        assert!(with_a.eq(self.names.keys().filter(|name| name.starts_with(b"a")).cloned()));
        for (name, info) in listed {
            let (bytes, customs) = &self.objects[&info.id];
            assert_eq!(info.size, bytes.len() as u64);
            let object = store.open(&name).unwrap();
            assert_eq!(object.info().unwrap(), info);
            let mut read = vec![7; bytes.len() + 9];
            assert_eq!(object.read_at(0, &mut read).unwrap(), bytes.len());
            assert!(read[..bytes.len()] == bytes[..], "the bytes of {name:?}");
            let listed = object.list_metadata().unwrap();
            let listed = listed.into_iter().map(|(key, value)| (key, value.to_vec()));
            assert!(listed.eq(customs.clone()));
        }
    }
}

fn bytes(len: usize, fill: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(fill | 1).wrapping_add(fill)).collect()
}

fn run(folder: &Path, options: fn() -> BetreeOptions, steps: &[Step]) {
    let deferred =
        |engine: &Betree| engine.objects("store").unwrap().with_durability(Durability::Deferred);
    let mut engine = open(folder, options());
    let mut store = deferred(&engine);
    let mut model = Model::default();
    let mut handles: Vec<Object> = Vec::new();
    for step in steps {
        let of = |handle: usize| (!handles.is_empty()).then(|| &handles[handle % handles.len()]);
        match step {
            Step::Open(name) => {
                let object = store.open_or_create(NAMES[*name]).unwrap();
                let known = model.names.insert(NAMES[*name].to_vec(), object.id());
                assert!(known.is_none_or(|id| id == object.id()));
                model.objects.entry(object.id()).or_default();
                if known.is_none() {
                    assert_eq!(object.size().unwrap(), 0, "a new object is empty");
                }
                handles.push(object);
            }
            Step::Reopen => {
                model.check(&store);
                handles.clear();
                drop(engine);
                assert!(store.exists(b"a").is_err(), "a handle of a closed engine is refused");
                engine = open(folder, options());
                store = deferred(&engine);
                model.check(&store);
            }
            Step::Rename { old, new, may_replace } => {
                let (old, new) = (NAMES[*old], NAMES[*new]);
                let renamed = match may_replace {
                    true => store.rename_replacing(old, new),
                    false => store.rename(old, new),
                };
                let is_free = *may_replace || old == new || !model.names.contains_key(new);
                let may = model.names.contains_key(old) && is_free;
                assert_eq!(renamed.is_ok(), may);
                if may && old != new {
                    let id = model.names.remove(old).unwrap();
                    if let Some(replaced) = model.names.insert(new.to_vec(), id) {
                        model.objects.remove(&replaced);
                    }
                }
            }
            Step::Delete(name) => {
                let deleted = store.delete(NAMES[*name]);
                let known = model.names.remove(NAMES[*name]);
                assert_eq!(deleted.is_ok(), known.is_some());
                known.map(|id| model.objects.remove(&id));
            }
            Step::Write { handle, offset, len, fill } => {
                let Some(object) = of(*handle) else { continue };
                let bytes = bytes(*len, *fill);
                let written = object.write_at(*offset as u64, &bytes);
                match model.objects.contains_key(&object.id()) {
                    true => written.map(|()| model.write(object.id(), *offset, &bytes)).unwrap(),
                    false => assert!(is_no_such_object(&written.unwrap_err())),
                }
            }
            Step::WriteSlices { handle, offset, lens, fill } => {
                let Some(object) = of(*handle) else { continue };
                let all: Vec<_> = lens.iter().map(|len| bytes(*len, *fill)).collect();
                let slices: Vec<_> = all.iter().map(|bytes| IoSlice::new(bytes)).collect();
                let written = object.write_vectored_at(*offset as u64, &slices);
                match model.objects.contains_key(&object.id()) {
                    true => {
                        written.map(|()| model.write(object.id(), *offset, &all.concat())).unwrap()
                    }
                    false => assert!(is_no_such_object(&written.unwrap_err())),
                }
            }
            Step::Truncate { handle, size } => {
                let Some(object) = of(*handle) else { continue };
                let cut = object.truncate(*size as u64);
                match model.objects.get_mut(&object.id()) {
                    Some((bytes, _)) => cut.map(|()| bytes.resize(*size, 0)).unwrap(),
                    None => assert!(is_no_such_object(&cut.unwrap_err())),
                }
            }
            Step::Read { handle, offset, len } => {
                let Some(object) = of(*handle) else { continue };
                let (mut a, mut b) = (vec![7; *len / 3], vec![7; *len - *len / 3]);
                let mut slices = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
                let read = object.read_vectored_at(*offset as u64, &mut slices);
                match model.objects.get(&object.id()) {
                    Some((bytes, _)) => {
                        let expected = bytes.get(*offset..).unwrap_or_default();
                        let expected = &expected[..expected.len().min(*len)];
                        assert_eq!(read.unwrap(), expected.len());
                        assert!([a, b].concat()[..expected.len()] == *expected);
                    }
                    None => assert!(is_no_such_object(&read.unwrap_err())),
                }
            }
            Step::SetMetadata { handle, key, len } => {
                let Some(object) = of(*handle) else { continue };
                let value = bytes(*len, *key);
                let set = object.set_metadata(&[*key], &value);
                match model.objects.get_mut(&object.id()) {
                    Some((_, customs)) => {
                        set.map(|()| drop(customs.insert(vec![*key], value))).unwrap()
                    }
                    None => assert!(is_no_such_object(&set.unwrap_err())),
                }
            }
            Step::DeleteMetadata { handle, key } => {
                let Some(object) = of(*handle) else { continue };
                let deleted = object.delete_metadata(&[*key]);
                match model.objects.get_mut(&object.id()) {
                    Some((_, customs)) => {
                        deleted.unwrap();
                        customs.remove(&[*key][..]);
                        assert!(object.metadata(&[*key]).unwrap().is_none());
                    }
                    None => assert!(is_no_such_object(&deleted.unwrap_err())),
                }
            }
        }
    }
    model.check(&store);
    let report = engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    model.check(&store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn objects_in_small_trees_are_byte_vectors(steps in prop::collection::vec(step(), 1..60)) {
        run(tempfile::tempdir().unwrap().path(), small, &steps);
    }

    #[test]
    fn objects_in_memtables_are_byte_vectors(steps in prop::collection::vec(step(), 1..60)) {
        run(tempfile::tempdir().unwrap().path(), BetreeOptions::default, &steps);
    }
}
