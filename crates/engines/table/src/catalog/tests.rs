use std::collections::BTreeMap;

use halite_codec::{CHECKSUM, Seed, put_behind};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{TableSchema, Type, strategies::ty};

const SEED: Seed = Seed::new(7);

fn schema(name: &str) -> TableSchema {
    TableSchema::builder(name)
        .column("id", Type::Int32)
        .nullable("name", Type::VarChar(40))
        .column("money", Type::Decimal(12, 2))
        .primary_key(["id"])
        .index("by_name", ["name", "money"])
        .unique_index("one_name", ["name"])
        .build()
        .unwrap()
}

/// A catalog with everything that can be encoded.
fn varied() -> Catalog {
    let catalog = Catalog::new().create_table(schema("first")).unwrap().0;
    let catalog = catalog.create_table(schema("second")).unwrap().0;
    let catalog = catalog.create_index("first", "new", &["money"], true).unwrap().0;
    let catalog = catalog.create_table(schema("third")).unwrap().0.drop_table("third").unwrap();
    catalog.truncate_table("second").unwrap().0.drop_index("second", "by_name").unwrap()
}

#[test]
fn statements_give_ids_states_and_names() {
    let (catalog, id) = Catalog::new().create_table(schema("t")).unwrap();
    assert_eq!((id, catalog.version()), (TableId(16), 1));
    let table = catalog.table("t").unwrap();
    assert_eq!((table.id(), table.primary()), (TableId(16), IndexId(17)));
    let ids: Vec<_> = table.indexes().map(|index| (index.id, index.state)).collect();
    assert_eq!(ids, [(IndexId(18), IndexState::Ready), (IndexId(19), IndexState::Ready)]);
    assert_eq!(table.index("one_name").unwrap().id, IndexId(19));
    assert_eq!(catalog.index_by_id(IndexId(19)).unwrap().1, Some(1));
    assert_eq!(catalog.index_by_id(IndexId(17)).unwrap().1, None);
    assert!(catalog.index_by_id(IndexId(16)).is_none());

    let (catalog, id) = catalog.create_index("t", "new", &["money"], false).unwrap();
    assert_eq!(id, IndexId(20));
    let state = |catalog: &Catalog| catalog.table("t").unwrap().index("new").unwrap().state;
    assert_eq!(state(&catalog), IndexState::Building);
    let catalog = catalog.index_built("t", "new").unwrap();
    assert_eq!(state(&catalog), IndexState::Ready);

    let catalog = catalog.drop_index("t", "by_name").unwrap();
    assert_eq!(catalog.dropping(), [Dropping::Index(IndexId(18))]);
    let names: Vec<_> = catalog
        .table("t")
        .unwrap()
        .indexes()
        .map(|index| (index.id.0, index.schema.name().to_owned()))
        .collect();
    assert_eq!(names, [(19, "one_name".to_owned()), (20, "new".to_owned())]);

    let catalog = catalog.rename_table("t", "u").unwrap();
    assert_eq!(catalog.table("u").unwrap().id(), TableId(16));
    assert!(catalog.table("t").is_err());

    let (catalog, id) = catalog.truncate_table("u").unwrap();
    assert_eq!(id, TableId(21));
    assert_eq!(
        catalog.table("u").unwrap().indexes().map(|index| index.id.0).collect::<Vec<_>>(),
        [23, 24]
    );
    let dropping: Vec<u32> = catalog.dropping().iter().map(|dropping| dropping.id()).collect();
    assert_eq!(dropping, [16, 17, 18, 19, 20]);
    assert!(catalog.table_by_id(TableId(16)).is_err());
    assert_eq!(catalog.table_by_id(TableId(21)).unwrap().id(), TableId(21));

    let first = catalog.dropping()[..2].to_vec();
    let catalog = catalog.reclaimed(&first).reclaimed(&first);
    assert_eq!(catalog.dropping().len(), 3);
    let catalog = catalog.drop_table("u").unwrap();
    assert_eq!((catalog.tables().len(), catalog.dropping().len()), (0, 7));
    assert_eq!(catalog.create_table(schema("u")).unwrap().1, TableId(25));
}

#[test]
fn wrong_statements_are_errors_that_name_the_thing() {
    let catalog = Catalog::new().create_table(schema("t")).unwrap().0;
    let catalog = catalog.create_table(schema("u")).unwrap().0;
    let texts = [
        catalog.create_table(schema("t")).unwrap_err(),
        catalog.drop_table("v").unwrap_err(),
        catalog.truncate_table("v").unwrap_err(),
        catalog.rename_table("v", "w").unwrap_err(),
        catalog.rename_table("t", "u").unwrap_err(),
        catalog.rename_table("t", "").unwrap_err(),
        catalog.create_index("v", "i", &["id"], false).unwrap_err(),
        catalog.create_index("t", "by_name", &["id"], false).unwrap_err(),
        catalog.create_index("t", "i", &["none"], false).unwrap_err(),
        catalog.create_index("t", "i", &[], false).unwrap_err(),
        catalog.drop_index("t", "i").unwrap_err(),
        catalog.index_built("t", "i").unwrap_err(),
    ]
    .map(|error| error.to_string());
    let parts = [
        "table \"t\" already",
        "no table \"v\"",
        "no table \"v\"",
        "no table \"v\"",
        "table \"u\" already",
        "name \"\" of a table",
        "no table \"v\"",
        "index \"by_name\" already",
        "no column \"none\"",
        "index \"i\" has no columns",
        "no index \"i\"",
        "no index \"i\"",
    ];
    for (text, part) in texts.iter().zip(parts) {
        assert!(text.contains(part), "{text}");
    }
    let mut full = catalog;
    full.next_id = u32::MAX - 1;
    assert!(matches!(full.create_table(schema("w")), Err(Error::NoMoreIds)));
}

#[test]
fn any_flipped_byte_cut_or_other_seed_of_a_catalog_is_damage() {
    let bytes = varied().encode(SEED);
    assert_eq!(Catalog::decode(&bytes, SEED).unwrap(), varied());
    let damaged = |bytes: &[u8], seed| {
        let error = Catalog::decode(bytes, seed).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    };
    damaged(&bytes, Seed::new(8));
    damaged(&[&bytes[..], &[0]].concat(), SEED);
    for at in 0..bytes.len() {
        damaged(&bytes[..at], SEED);
        for flip in [1, 0x80, 0xff] {
            let mut flipped = bytes.clone();
            flipped[at] ^= flip;
            damaged(&flipped, SEED);
        }
    }
}

/// Damage that the checksum does not tell, as of a writer with a defect.
fn decode_resealed(mut payload: Vec<u8>) -> bool {
    put_behind(&mut payload, SEED);
    match Catalog::decode(&payload, SEED) {
        Ok(catalog) => {
            assert_eq!(catalog.encode(SEED), payload);
            true
        }
        Err(Error::Damaged { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn wrong_bytes_under_a_right_checksum_are_damage_or_a_catalog_of_these_bytes() {
    let bytes = varied().encode(SEED);
    let payload = &bytes[..bytes.len() - CHECKSUM];
    let mut refused = 0;
    for at in 0..payload.len() {
        assert!(!decode_resealed(payload[..at].to_vec()), "{at}");
        for byte in 0..=255 {
            let mut changed = payload.to_vec();
            changed[at] = byte;
            refused += u32::from(!decode_resealed(changed));
        }
    }
    assert!(refused > 128 * payload.len() as u32 / 2, "{refused}");
}

#[test]
fn a_catalog_that_no_statements_make_is_damage() {
    let good = varied();
    let mut twice = good.clone();
    twice.tables.push(Arc::clone(&twice.tables[0]));
    let mut low = good.clone();
    low.next_id = 20;
    let mut unsorted = good.clone();
    unsorted.dropping.reverse();
    let mut same_id = good.clone();
    same_id.dropping.push(Dropping::Table(good.tables[1].id));
    let mut old = good.clone();
    old.version = u64::MAX;
    let empty = Catalog { next_id: 0, ..Catalog::new() };
    for (catalog, part) in [
        (twice, "one name"),
        (low, "never given"),
        (unsorted, "not in order"),
        (same_id, "twice"),
        (old, "version"),
        (empty, "never given"),
    ] {
        let error = Catalog::decode(&catalog.encode(SEED), SEED).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[derive(Clone, Debug)]
enum Statement {
    Create(u8),
    Drop(u8),
    Truncate(u8),
    Rename(u8, u8),
    CreateIndex(u8, u8),
    Built(u8, u8),
    DropIndex(u8, u8),
    Reclaim(u8),
}

fn statement() -> impl Strategy<Value = Statement> {
    let name = || 0..4_u8;
    prop_oneof![
        3 => name().prop_map(Statement::Create),
        1 => name().prop_map(Statement::Drop),
        1 => name().prop_map(Statement::Truncate),
        1 => (name(), name()).prop_map(|(from, to)| Statement::Rename(from, to)),
        3 => (name(), name()).prop_map(|(table, index)| Statement::CreateIndex(table, index)),
        1 => (name(), name()).prop_map(|(table, index)| Statement::Built(table, index)),
        1 => (name(), name()).prop_map(|(table, index)| Statement::DropIndex(table, index)),
        1 => (0..9_u8).prop_map(Statement::Reclaim),
    ]
}

/// The names of tables with those of their indexes: the model.
type Model = BTreeMap<String, BTreeMap<String, bool>>;

/// The statement on a catalog and on the model, which refuse the same.
fn execute(catalog: &Catalog, model: &mut Model, statement: &Statement) -> Option<Catalog> {
    let name = |number: &u8| format!("n{number}");
    match statement {
        Statement::Create(table) => {
            let fresh = !model.contains_key(&name(table));
            if fresh {
                let indexes = [("by_name".to_owned(), true), ("one_name".to_owned(), true)];
                model.insert(name(table), indexes.into());
            }
            let made = catalog.create_table(schema(&name(table))).ok().map(|(catalog, _)| catalog);
            assert_eq!(made.is_some(), fresh);
            made
        }
        Statement::Drop(table) => {
            let made = catalog.drop_table(&name(table)).ok();
            assert_eq!(made.is_some(), model.remove(&name(table)).is_some());
            made
        }
        Statement::Truncate(table) => {
            let made = catalog.truncate_table(&name(table)).ok().map(|(catalog, _)| catalog);
            let indexes = model.get_mut(&name(table));
            assert_eq!(made.is_some(), indexes.is_some());
            indexes.into_iter().flatten().for_each(|(_, ready)| *ready = true);
            made
        }
        Statement::Rename(from, to) => {
            let made = catalog.rename_table(&name(from), &name(to)).ok();
            let possible = model.contains_key(&name(from)) && !model.contains_key(&name(to));
            assert_eq!(made.is_some(), possible);
            if possible {
                let indexes = model.remove(&name(from)).unwrap();
                model.insert(name(to), indexes);
            }
            made
        }
        Statement::CreateIndex(table, index) => {
            let made = catalog.create_index(&name(table), &name(index), &["name"], index % 2 == 0);
            let indexes =
                model.get_mut(&name(table)).filter(|indexes| !indexes.contains_key(&name(index)));
            assert_eq!(made.is_ok(), indexes.is_some());
            indexes.map(|indexes| indexes.insert(name(index), false));
            made.ok().map(|(catalog, _)| catalog)
        }
        Statement::Built(table, index) => {
            let made = catalog.index_built(&name(table), &name(index)).ok();
            let ready =
                model.get_mut(&name(table)).and_then(|indexes| indexes.get_mut(&name(index)));
            assert_eq!(made.is_some(), ready.is_some());
            ready.into_iter().for_each(|ready| *ready = true);
            made
        }
        Statement::DropIndex(table, index) => {
            let made = catalog.drop_index(&name(table), &name(index)).ok();
            let removed =
                model.get_mut(&name(table)).and_then(|indexes| indexes.remove(&name(index)));
            assert_eq!(made.is_some(), removed.is_some());
            made
        }
        Statement::Reclaim(count) => {
            let things = &catalog.dropping()[..catalog.dropping().len().min(usize::from(*count))];
            Some(catalog.reclaimed(things))
        }
    }
}

/// The ids of a catalog.
fn ids(catalog: &Catalog) -> Vec<u32> {
    let tables = catalog.tables().iter();
    let of_tables = tables.flat_map(|table| {
        [table.id().0, table.primary().0].into_iter().chain(table.indexes().map(|index| index.id.0))
    });
    of_tables.chain(catalog.dropping().iter().map(|dropping| dropping.id())).collect()
}

proptest! {
    #[test]
    fn statements_are_those_of_a_model_and_use_no_id_twice(statements in vec(statement(), 1..40)) {
        let (mut catalog, mut model) = (Catalog::new(), Model::new());
        let mut greatest = FIRST_ID - 1;
        for statement in &statements {
            let Some(next) = execute(&catalog, &mut model, statement) else { continue };
            let (before, after) = (ids(&catalog), ids(&next));
            for &id in &after {
                prop_assert!(before.contains(&id) || id > greatest, "{} again", id);
            }
            if !matches!(statement, Statement::Reclaim(_)) {
                // No id is lost before its space is reclaimed.
                prop_assert!(before.iter().all(|id| after.contains(id)));
            }
            greatest = after.iter().copied().fold(greatest, u32::max);
            prop_assert_eq!(next.version(), catalog.version() + 1);
            prop_assert_eq!(&Catalog::decode(&next.encode(SEED), SEED).unwrap(), &next);
            let names = |table: &Arc<Table>| {
                let ready = |state| state == IndexState::Ready;
                let indexes = table.indexes().map(|index| (index.schema.name().to_owned(), ready(index.state)));
                (table.schema().name().to_owned(), indexes.collect())
            };
            prop_assert_eq!(&next.tables().iter().map(names).collect::<Model>(), &model);
            catalog = next;
        }
    }

    #[test]
    fn every_type_is_decoded_as_it_was(types in vec((ty(), any::<bool>()), 1..20)) {
        let mut builder = TableSchema::builder("t").column("id", Type::Int8).primary_key(["id"]);
        for (number, &(ty, nullable)) in types.iter().enumerate() {
            let name = format!("c{number}");
            builder = if nullable { builder.nullable(&name, ty) } else { builder.column(&name, ty) };
        }
        let catalog = Catalog::new().create_table(builder.build().unwrap()).unwrap().0;
        prop_assert_eq!(Catalog::decode(&catalog.encode(SEED), SEED).unwrap(), catalog);
    }

    #[test]
    fn noise_under_a_right_checksum_is_damage(noise in vec(any::<u8>(), 0..80)) {
        let head = &Catalog::new().encode(SEED)[..6];
        decode_resealed([head, &noise].concat());
        prop_assert!(Catalog::decode(&noise, SEED).is_err());
    }
}
