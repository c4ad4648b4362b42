//! The rules that a topology has to keep to, however it was written.

use std::collections::BTreeSet;

use super::{CLASSES_MAX, Class, LeafPlace, TopologyError, VDEVS_MAX, VdevTopology, size};
use crate::Arrangement;

/// Finds the first defect.
pub(super) fn check(classes: &[Class]) -> Result<(), TopologyError> {
    if classes.is_empty() {
        return Err(TopologyError::Empty);
    }
    if classes.len() > CLASSES_MAX {
        return Err(TopologyError::TooManyClasses { found: classes.len(), max: CLASSES_MAX });
    }
    let mut paths = BTreeSet::new();
    for (class, Class { vdevs, .. }) in classes.iter().enumerate() {
        match vdevs.len() {
            0 => return Err(TopologyError::EmptyClass { class }),
            found if found > VDEVS_MAX => {
                return Err(TopologyError::TooManyVdevs { class, found, max: VDEVS_MAX });
            }
            _ => {}
        }
        for vdev in vdevs {
            check_vdev(vdev)?;
            for path in vdev.leaves.iter().filter_map(LeafPlace::path) {
                if !paths.insert(normal(path)) {
                    return Err(TopologyError::SamePath { path: path.to_owned() });
                }
            }
        }
    }
    Ok(())
}

fn check_vdev(vdev: &VdevTopology) -> Result<(), TopologyError> {
    if let Some(why) = vdev.arrangement.defect(vdev.leaves.len()) {
        return Err(TopologyError::Leaves { vdev: vdev.to_string(), why });
    }
    for leaf in &vdev.leaves {
        if let Some(size) = leaf.size().filter(|&size| !size::is_size(size)) {
            return Err(TopologyError::Size { size: size.to_string() });
        }
        // The pool of the store itself has no path.
        let may_be_empty = matches!(leaf, LeafPlace::Pmem { .. });
        let is_wrong = |path: &&str| path.is_empty() && !may_be_empty || path.contains('\0');
        if let Some(path) = leaf.path().filter(is_wrong) {
            return Err(TopologyError::Path { path: path.to_owned() });
        }
    }
    let is_mirror = vdev.arrangement == Arrangement::Mirror;
    if is_mirror && vdev.leaves.iter().any(|leaf| leaf.size() != vdev.leaves[0].size()) {
        return Err(TopologyError::SizesDiffer { vdev: vdev.to_string() });
    }
    Ok(())
}

/// A path without the parts that mean nothing. Links are not followed: the devices need not be there yet.
fn normal(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, parts.join("/"))
}
