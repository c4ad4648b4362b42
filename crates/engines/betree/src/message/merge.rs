//! Two messages of one key as one, and a message on a value.

use super::action::Action;
use super::held::{HeldMessage, Payload};
use super::kinds::{Kind, Message};
use super::large_value::LargeValue;
use super::{Parsed, patches, upsert};

/// The message that two merged to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Merged<'a> {
    /// The newer one, as it was.
    Newer(Message<'a>),
    /// One of their parts.
    Owned(Kind, Vec<u8>),
}

impl Merged<'_> {
    /// The message.
    #[cfg(test)]
    pub(crate) fn message(&self) -> Message<'_> {
        match self {
            Self::Newer(message) => *message,
            Self::Owned(kind, payload) => Message { kind: *kind, payload },
        }
    }
}

/// One message with the effect of `newer` after `older`. A large value of the older one to which the result does not
/// refer is reported to `dropped`.
///
/// # Errors
/// The defect of a payload; a custom message of a dataset without an action.
pub(crate) fn merge<'a>(
    key: &[u8],
    newer: Message<'a>,
    older: Message<'_>,
    action: Option<&Action>,
    dropped: &mut dyn FnMut(LargeValue),
) -> Parsed<Merged<'a>> {
    if newer.kind.is_complete() {
        older.large()?.into_iter().for_each(dropped);
        return Ok(Merged::Newer(newer));
    }
    match older.kind {
        Kind::Delete | Kind::Insert => {
            let value = (older.kind == Kind::Insert).then_some(older.payload);
            patch(key, value, newer.kind, newer.payload, action)
        }
        Kind::PatchedInsert => {
            let (value, before) = patches::read_patched(older.payload)?;
            let before = Message { kind: Kind::Custom, payload: before };
            let (kind, composed) = compose(key, newer, before, action)?;
            patch(key, value, kind, &composed, action)
        }
        Kind::Upsert | Kind::Custom => {
            let (kind, payload) = compose(key, newer, older, action)?;
            Ok(Merged::Owned(kind, payload))
        }
        Kind::InsertLarge => {
            older.large()?;
            Ok(patched(older.payload, newer.kind, newer.payload))
        }
        Kind::PatchedLarge => {
            let (_, patch) = older.patched()?;
            let reference = &older.payload[..older.payload.len() - patch.payload.len() - 1];
            let (kind, composed) = compose(key, newer, patch, action)?;
            Ok(patched(reference, kind, &composed))
        }
    }
}

/// A patch on the large value of an encoded reference.
fn patched(reference: &[u8], kind: Kind, patch: &[u8]) -> Merged<'static> {
    Merged::Owned(Kind::PatchedLarge, [reference, &[kind as u8], patch].concat())
}

/// A value with a patch on it. If its action cannot be called now, they stay apart.
fn patch(
    key: &[u8],
    value: Option<&[u8]>,
    kind: Kind,
    payload: &[u8],
    action: Option<&Action>,
) -> Parsed<Merged<'static>> {
    let message = Message { kind, payload };
    match change(key, message, value.map(<[u8]>::to_vec), action) {
        Ok(Some(value)) => Ok(Merged::Owned(Kind::Insert, value)),
        Ok(None) => Ok(Merged::Owned(Kind::Delete, Vec::new())),
        Err(_) if kind == Kind::Custom && is_defect(action) => {
            Ok(Merged::Owned(Kind::PatchedInsert, patches::patched(value, payload)))
        }
        Err(why) => Err(why),
    }
}

/// Whether an action cannot be called.
pub(crate) fn is_defect(action: Option<&Action>) -> bool {
    action.is_some_and(|action| action.defect().is_some())
}

/// One message with the effect of two that are not complete.
fn compose(
    key: &[u8],
    newer: Message<'_>,
    older: Message<'_>,
    action: Option<&Action>,
) -> Parsed<(Kind, Vec<u8>)> {
    if (newer.kind, older.kind) == (Kind::Upsert, Kind::Upsert) {
        return Ok((Kind::Upsert, upsert::compose(newer.payload, older.payload)?));
    }
    let patches = |message: Message<'_>| match message.kind {
        Kind::Upsert => patches::of_upsert(message.payload),
        _ => message.payload.to_vec(),
    };
    let composed = patches::compose(key, &patches(newer), &patches(older), action)?;
    Ok((Kind::Custom, composed))
}

/// The value after a message that is not complete.
fn change(
    key: &[u8],
    message: Message<'_>,
    mut value: Option<Vec<u8>>,
    action: Option<&Action>,
) -> Parsed<Option<Vec<u8>>> {
    match message.kind {
        Kind::Upsert => upsert::apply(message.payload, value.get_or_insert_default())?,
        _ => value = patches::apply(key, message.payload, value, action)?,
    }
    Ok(value)
}

/// The value after a message. `value` is the older one; for a message that refers to a large value
/// ([`Message::large`]), the bytes of that, which the caller has read.
///
/// # Errors
/// See [`merge`].
pub(crate) fn apply(
    key: &[u8],
    message: Message<'_>,
    value: Option<Vec<u8>>,
    action: Option<&Action>,
) -> Parsed<Option<Vec<u8>>> {
    match message.kind {
        Kind::Delete => Ok(None),
        Kind::Insert => Ok(Some(message.payload.to_vec())),
        Kind::Upsert | Kind::Custom => change(key, message, value, action),
        Kind::InsertLarge => Ok(value),
        Kind::PatchedLarge => change(key, message.patched()?.1, value, action),
        Kind::PatchedInsert => {
            let (value, patches) = patches::read_patched(message.payload)?;
            patches::apply(key, patches, value.map(<[u8]>::to_vec), action)
        }
    }
}

impl HeldMessage {
    /// This message after an older one of the same key: [`merge`], and no copy if that keeps the newer one.
    pub(crate) fn after(
        self,
        key: &[u8],
        older: Message<'_>,
        action: Option<&Action>,
        dropped: &mut dyn FnMut(LargeValue),
    ) -> Parsed<Self> {
        if let Merged::Owned(kind, payload) = merge(key, self.message(), older, action, dropped)? {
            return Ok(Self { kind, payload: Payload::Owned(payload) });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::Arc;

    use super::super::{MessageAction, Piece};
    use super::*;
    use crate::storage::{Address, Extent};

    /// Messages that append bytes (0), set the value (1) or delete it (2).
    struct Append;

    impl MessageAction for Append {
        fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
            match message.split_first() {
                Some((0, rest)) => value.get_or_insert_default().extend_from_slice(rest),
                Some((1, rest)) => *value = Some(rest.to_vec()),
                _ => *value = None,
            }
        }

        fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
            match (newer.split_first(), older.first()) {
                (Some((0, rest)), Some(0 | 1)) => [older, rest].concat(),
                (Some((0, rest)), _) => [&[1], rest].concat(),
                _ => newer.to_vec(),
            }
        }
    }

    /// A large value of so many bytes, all of which are its birth.
    fn large(len: u64, birth: u64) -> LargeValue {
        let extent = Extent { address: Address::new(1, 2, birth), blocks: 1 };
        LargeValue { entered: birth, len, birth, pieces: vec![Piece { extent, checksum: 5 }] }
    }

    fn messages(is_custom: bool) -> impl Strategy<Value = (Kind, Vec<u8>)> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..20);
        let change = if is_custom {
            let custom = |(tag, bytes): (u8, Vec<u8>)| {
                (Kind::Custom, patches::of_message(&[&[tag], &bytes[..]].concat()))
            };
            (0_u8..3, bytes()).prop_map(custom).boxed()
        } else {
            upsert::tests::payloads().prop_map(|payload| (Kind::Upsert, payload)).boxed()
        };
        prop_oneof![
            1 => Just((Kind::Delete, Vec::new())),
            1 => bytes().prop_map(|value| (Kind::Insert, value)),
            1 => (0_u64..30, 0_u64..200).prop_map(|(len, birth)| {
                let mut payload = Vec::new();
                large(len, birth).encode(&mut payload);
                (Kind::InsertLarge, payload)
            }),
            3 => change,
        ]
    }

    type Owned = (Kind, Vec<u8>);

    fn append() -> Action {
        Action::new("append".into(), Some(Arc::new(Append)))
    }

    fn view((kind, payload): &Owned) -> Message<'_> {
        Message { kind: *kind, payload }
    }

    fn merged(newer: &Owned, older: &Owned) -> (Owned, Vec<LargeValue>) {
        let mut dropped = Vec::new();
        let merged = merge(b"k", view(newer), view(older), Some(&append()), &mut |large| {
            dropped.push(large)
        })
        .unwrap();
        ((merged.message().kind, merged.message().payload.to_vec()), dropped)
    }

    fn applied(message: &Owned, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let value = match view(message).large().unwrap() {
            Some(large) => Some(vec![large.birth as u8; large.len as usize]),
            None => value,
        };
        apply(b"k", view(message), value, Some(&append())).unwrap()
    }

    fn laws(a: Owned, b: Owned, c: Owned, value: Option<Vec<u8>>) {
        let (ab, dropped) = merged(&b, &a);
        assert_eq!(applied(&ab, value.clone()), applied(&b, applied(&a, value.clone())));
        // A large value of the two is in the result, or was dropped; the newer one's is never dropped.
        let larges = |messages: &[&Owned]| -> Vec<LargeValue> {
            messages.iter().filter_map(|message| view(message).large().unwrap()).collect()
        };
        let mut left = dropped.clone();
        left.extend(larges(&[&ab]));
        assert_eq!(left, larges(&[&a, &b]));
        let (left, mut left_dropped) = merged(&c, &ab);
        let (bc, mut right_dropped) = merged(&c, &b);
        let (right, more) = merged(&bc, &a);
        assert_eq!(left, right);
        left_dropped.extend(dropped);
        right_dropped.extend(more);
        let order = |large: &LargeValue| (large.birth, large.len);
        left_dropped.sort_by_key(order);
        right_dropped.sort_by_key(order);
        assert_eq!(left_dropped, right_dropped);
        // The same without copies.
        let held = HeldMessage::from(view(&b))
            .after(b"k", view(&a), Some(&append()), &mut |_| {})
            .unwrap();
        assert_eq!(held.message(), view(&ab));
    }

    proptest! {
        #[test]
        fn merging_upserts_is_applying_one_after_the_other_and_associative(
            (a, b, c) in (messages(false), messages(false), messages(false)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            laws(a, b, c, value);
        }

        #[test]
        fn merging_custom_messages_is_applying_one_after_the_other_and_associative(
            (a, b, c) in (messages(true), messages(true), messages(true)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            laws(a, b, c, value);
        }

        #[test]
        fn any_payloads_are_merged_and_applied_without_panic(
            newer in (0_u8..7, prop::collection::vec(any::<u8>(), 0..40)),
            older in (0_u8..7, prop::collection::vec(any::<u8>(), 0..40)),
        ) {
            let owned = |(code, payload): (u8, Vec<u8>)| (Kind::of_code(code).unwrap(), payload);
            let (newer, older) = (owned(newer), owned(older));
            if let Ok(merged) = merge(b"k", view(&newer), view(&older), Some(&append()), &mut |_| {}) {
                let _ = merged.message().large();
            }
        }
    }

    #[test]
    fn complete_messages_win_without_a_copy_and_strangers_are_refused() {
        let newer = Message::insert(b"new");
        let merged = merge(b"k", newer, Message::insert(b"old"), None, &mut |_| {}).unwrap();
        assert!(
            matches!(merged, Merged::Newer(message) if std::ptr::eq(message.payload, newer.payload))
        );
        let custom = Message { kind: Kind::Custom, payload: &patches::of_message(b"\0x") };
        let refused = merge(b"k", custom, Message::DELETE, None, &mut |_| {});
        assert!(refused.is_err(), "the dataset has no action");
        assert!(Kind::of_code(7).is_err());
    }

    #[test]
    fn patches_wait_for_an_action_that_is_missing_and_take_effect_then() {
        let (missing, there) = (Action::new("append".into(), None), append());
        let mut upsert = crate::message::UpsertBuilder::default();
        upsert.overwrite(1, b"up");
        let all: [Owned; 4] = [
            (Kind::Insert, b"value".to_vec()),
            (Kind::Custom, patches::of_message(b"\0one")),
            (Kind::Upsert, upsert.finish()),
            (Kind::Custom, patches::of_message(b"\0two")),
        ];
        for first in 0..2 {
            let (mut with, mut without) = (all[first].clone(), all[first].clone());
            for newer in &all[first + 1..] {
                let both = [(&there, &mut with), (&missing, &mut without)];
                for (action, older) in both {
                    let merged =
                        merge(b"k", view(newer), view(older), Some(action), &mut |_| {}).unwrap();
                    *older = (merged.message().kind, merged.message().payload.to_vec());
                }
            }
            let after = |message: &Owned, action| apply(b"k", view(message), None, Some(action));
            assert_eq!(after(&without, &missing), Err(crate::message::ACTION_MISSING));
            let expected = after(&with, &there).unwrap();
            assert!(expected.is_some());
            assert_eq!(after(&without, &there).unwrap(), expected);
        }
    }
}
