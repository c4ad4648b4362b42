//! Keys, values and names at and over their limits.

use super::{AMPLE, Check, Factory, Store, compare, ensure, ensure_err};
use crate::{
    Durability, Engine, Error, KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, Model, Op, VALUE_LEN_MAX,
};

/// The empty key and value, keys up to the longest, and the longest name of a key space are kept.
///
/// # Errors
/// The key, value or name that was not kept.
pub fn what_is_within_the_limits_is_kept(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let model = Model::new();
    for name in
        ["s", "a name with spaces, a \u{1f9c2} and a \0", &"n".repeat(KEY_SPACE_NAME_LEN_MAX)]
    {
        let (space, model_space) = (engine.key_space(name)?, model.key_space(name)?);
        for (engine, space) in [(engine, space), (&model, model_space)] {
            for len in [0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, KEY_LEN_MAX - 1, KEY_LEN_MAX] {
                for letter in [0, b'k', 0xff] {
                    let key = vec![letter; len];
                    for value in [&key[..], b""] {
                        engine
                            .write(&[Op::Put { space, key: &key, value }], Durability::Immediate)?;
                    }
                    // Every second key keeps an empty value.
                    if len % 2 == 0 {
                        let op = Op::Put { space, key: &key, value: &key };
                        engine.write(&[op], Durability::Deferred)?;
                    }
                }
            }
        }
    }
    compare::engines(engine, &model)
}

/// A key, value, range or name that is too long is refused with its own error.
///
/// # Errors
/// Another outcome, or the change that the refused call made.
pub fn what_is_over_a_limit_is_refused_and_changes_nothing(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let model = Model::new();
    let (space, model_space) = (engine.key_space("kept")?, model.key_space("kept")?);
    engine.write(&[Op::Put { space, key: b"a", value: b"1" }], Durability::Immediate)?;
    let op = Op::Put { space: model_space, key: b"a", value: b"1" };
    model.write(&[op], Durability::Immediate)?;

    let key = vec![b'k'; KEY_LEN_MAX + 1];
    let put = engine.write(&[Op::Put { space, key: &key, value: b"" }], Durability::Immediate);
    ensure_err!(put, Error::KeyTooLong { len: 65_537 }, "put of a key over the limit");
    let delete = engine.write(&[Op::Delete { space, key: &key }], Durability::Immediate);
    ensure_err!(delete, Error::KeyTooLong { len: 65_537 }, "delete of a key over the limit");
    ensure!(engine.get(space, &key)?.is_none(), "a key over the limit has a value");

    // The bound above the longest key is one byte longer than a key.
    let whole = Op::DeleteRange { space, start: &key, end: Some(&key) };
    engine.write(&[whole], Durability::Immediate)?;
    let bound = vec![b'k'; KEY_LEN_MAX + 2];
    let range = Op::DeleteRange { space, start: &bound, end: None };
    let range = engine.write(&[range], Durability::Immediate);
    ensure_err!(range, Error::KeyTooLong { .. }, "delete of a range with a bound over the limit");

    let value = vec![0; VALUE_LEN_MAX + 1];
    let put = engine.write(&[Op::Put { space, key: b"a", value: &value }], Durability::Immediate);
    ensure_err!(put, Error::ValueTooLong { len: 536_870_977 }, "put of a value over the limit");

    ensure_err!(engine.key_space(""), Error::KeySpaceName { len: 0 }, "an empty name");
    let name = "n".repeat(KEY_SPACE_NAME_LEN_MAX + 1);
    ensure_err!(engine.key_space(&name), Error::KeySpaceName { len: 256 }, "a long name");
    compare::engines(engine, &model)
}
