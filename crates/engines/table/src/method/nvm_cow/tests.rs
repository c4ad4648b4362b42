//! Fences, snapshots, damage, and a full pool.
