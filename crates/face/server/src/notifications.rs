//! Keyspace notifications: the events that tell clients how keys change.
//!
//! An event has a class, and CONFIG `notify-keyspace-events` names the classes that are sent, by a letter each, and the
//! channels: with `K`, the event goes to the channel `__keyspace@<db>__:<key>`, with `E` the key goes to
//! `__keyevent@<db>__:<event>`. A command tells of its change by [`Store::notify`](crate::store::Store::notify), and a
//! command on a collection names its events when it saves it ([`crate::collection`]).

use std::fmt::{self, Write as _};

/// A class of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// Commands on keys of any type, such as DEL and EXPIRE.
    Generic,
    String,
    List,
    Set,
    Hash,
    SortedSet,
    /// Keys that have expired.
    Expired,
    /// Keys that were removed to make room.
    Evicted,
    Stream,
    Module,
    /// Keys that did not exist before.
    New,
    /// Reads of keys that do not exist.
    KeyMiss,
}

/// The classes in the order in which Redis writes their letters, and whether `A` stands for it too.
const CLASSES: [(EventClass, u8, bool); 12] = [
    (EventClass::Generic, b'g', true),
    (EventClass::String, b'$', true),
    (EventClass::List, b'l', true),
    (EventClass::Set, b's', true),
    (EventClass::Hash, b'h', true),
    (EventClass::SortedSet, b'z', true),
    (EventClass::Expired, b'x', true),
    (EventClass::Evicted, b'e', true),
    (EventClass::Stream, b't', true),
    (EventClass::Module, b'd', true),
    (EventClass::New, b'n', false),
    (EventClass::KeyMiss, b'm', false),
];

/// The bits of the channels, behind those of the classes.
const KEYSPACE: u32 = 1 << 30;
const KEYEVENT: u32 = 1 << 31;

/// The events that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Events(u32);

impl Events {
    /// The events that letters name, in any order.
    pub(crate) fn parse(letters: &[u8]) -> Option<Self> {
        let mut events = Self::default();
        for &letter in letters {
            events.0 |= match letter {
                b'A' => Self::all().0,
                b'K' => KEYSPACE,
                b'E' => KEYEVENT,
                _ => {
                    let class = CLASSES.iter().find(|(_, known, _)| *known == letter)?;
                    bit(class.0)
                }
            };
        }
        Some(events)
    }

    /// Those of all classes that `A` stands for.
    fn all() -> Self {
        let classes = CLASSES.iter().filter(|(_, _, is_in_all)| *is_in_all);
        Self(classes.fold(0, |bits, (class, _, _)| bits | bit(*class)))
    }

    /// Whether events of a class are sent, to any channel.
    #[inline]
    pub(crate) fn include(self, class: EventClass) -> bool {
        self.0 & bit(class) != 0 && self.0 & (KEYSPACE | KEYEVENT) != 0
    }

    /// Whether events are sent to the channels of keys.
    pub(crate) fn go_to_keys(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Whether events are sent to the channels of events.
    pub(crate) fn go_to_events(self) -> bool {
        self.0 & KEYEVENT != 0
    }
}

const fn bit(class: EventClass) -> u32 {
    1 << class as u32
}

/// As Redis writes them: `A` for all classes that it stands for, then the channels, and misses last.
impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letter = |is_there: bool, letter: u8| match is_there {
            true => f.write_char(char::from(letter)),
            false => Ok(()),
        };
        let all = Self::all().0;
        let is_all = self.0 & all == all;
        letter(is_all, b'A')?;
        for (class, name, is_in_all) in CLASSES {
            let is_last = class == EventClass::KeyMiss;
            letter(self.0 & bit(class) != 0 && !is_last && !(is_all && is_in_all), name)?;
        }
        letter(self.go_to_keys(), b'K')?;
        letter(self.go_to_events(), b'E')?;
        letter(self.0 & bit(EventClass::KeyMiss) != 0, b'm')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_written_in_one_order() {
        for (letters, written) in [
            ("", ""),
            ("AKE", "AKE"),
            ("EKdtexzhsl$g", "AKE"),
            ("KEmn", "nKEm"),
            ("KEdn$g", "g$dnKE"),
            ("nAKm", "AnKm"),
            ("KEg$lshzxet", "g$lshzxetKE"),
            ("xKx", "xK"),
        ] {
            assert_eq!(Events::parse(letters.as_bytes()).unwrap().to_string(), written);
        }
        assert_eq!(Events::parse(b"KZ"), None);
    }

    #[test]
    fn nothing_is_sent_without_a_channel() {
        let include = |letters: &[u8], class| Events::parse(letters).unwrap().include(class);
        assert!(include(b"KA", EventClass::String) && include(b"Ex", EventClass::Expired));
        assert!(!include(b"A", EventClass::String) && !include(b"K", EventClass::String));
        assert!(!include(b"KEA", EventClass::New) && !include(b"KEA", EventClass::KeyMiss));
    }
}
