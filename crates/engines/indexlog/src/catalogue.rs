//! The names of the key spaces, of which the first partition keeps a catalogue for all.

use std::sync::Arc;

use halite_contract::{Error, Result};

use crate::entry::Entry;
use crate::key_spaces::{CATALOGUE, is_internal};
use crate::read::view::{KeySpace, View};
use crate::write::Writer;

/// The key spaces in the catalogue that the first partition's view shows, with their names.
pub(crate) fn read_catalogue(view: &View, salt: u64) -> Result<Vec<(u32, Arc<str>)>> {
    let Some(catalogue) = view.spaces.get(&CATALOGUE) else { return Ok(Vec::new()) };
    let mut named = Vec::new();
    for entry in catalogue.index.iter().map(Entry::from_bits) {
        let (name, value) = view.pin(entry)?.pair(salt)?;
        let id = <[u8; 4]>::try_from(&value[..]).ok().map(u32::from_le_bytes);
        let id = id.filter(|&id| !is_internal(id));
        let (Ok(name), Some(id)) = (std::str::from_utf8(&name), id) else {
            return Err(Error::Damaged {
                what: "the catalogue of key spaces".into(),
                why: "an entry is not a name and a number".into(),
            });
        };
        named.push((id, name.into()));
    }
    Ok(named)
}

/// The key spaces and their names.
pub(crate) struct Names(Vec<(u32, Arc<str>)>);

impl Names {
    /// The names in the first partition's catalogue, which is made if there is none.
    pub(crate) fn read(writer: &Writer, view: &mut View) -> Result<Self> {
        view.space_mut(CATALOGUE);
        Ok(Self(read_catalogue(view, writer.storage.space.salt())?))
    }

    /// Gives the key spaces of a partition their names.
    pub(crate) fn give(&self, writer: &mut Writer, view: &mut View) -> Result<()> {
        for (id, name) in &self.0 {
            view.space_mut(*id).name = Arc::clone(name);
            writer.note_space(*id);
        }
        let unnamed = |(id, space): (&u32, &KeySpace)| {
            (!is_internal(*id) && space.name.is_empty() && !space.index.is_empty()).then_some(*id)
        };
        if let Some(id) = view.spaces.iter().find_map(unnamed) {
            return Err(Error::Damaged {
                what: format!("key space {id}"),
                why: "it has records and no name".into(),
            });
        }
        view.spaces.retain(|id, space| is_internal(*id) || !space.name.is_empty());
        Ok(())
    }
}
