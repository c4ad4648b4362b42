//! The file of the folder that says where to look for the leaves of the store: the text of a topology.
//!
//! It is a hint only: the superblock of any leaf says the same, and is believed. A store whose devices are those of a
//! store without a topology has none.

use std::sync::Arc;

use halite_contract::Result;
use halite_disk::Disk;
use halite_vdev::Topology;

/// The file's name.
pub(super) const NAME: &str = "devices";

/// The name under which it is written.
const NEW: &str = "devices-new";

/// Bytes of it at most.
const LEN_MAX: u64 = 1 << 20;

/// Writes the hint, durably.
pub(crate) fn write(disk: &Disk, topology: &Topology) -> Result<()> {
    let write = || {
        if disk.list()?.iter().any(|(name, _)| name == NEW) {
            disk.remove(NEW)?;
        }
        let mut writer = disk.create(NEW)?;
        writer.write(format!("{topology}\n").as_bytes())?;
        writer.sync()?;
        drop(writer);
        disk.rename(NEW, NAME)?;
        disk.sync()
    };
    Ok(write().map_err(Arc::new)?)
}

/// Removes the hint, if there is one.
pub(super) fn remove(disk: &Disk) -> Result<()> {
    for (name, _) in disk.list().map_err(Arc::new)? {
        if name == NAME || name == NEW {
            disk.remove(&name).map_err(Arc::new)?;
        }
    }
    Ok(())
}

/// Reads the hint, if there is one that can be read.
pub(super) fn read(disk: &Disk) -> Result<Option<Topology>> {
    let names = disk.list().map_err(Arc::new)?;
    let Some((_, len)) = names.iter().find(|(name, len)| name == NAME && *len <= LEN_MAX) else {
        return Ok(None);
    };
    let mut bytes = vec![0; *len as usize];
    let file = disk.open(NAME).map_err(Arc::new)?;
    let is_read = file.read_at(0, &mut bytes).is_ok();
    Ok(std::str::from_utf8(&bytes).ok().filter(|_| is_read).and_then(|text| text.parse().ok()))
}
