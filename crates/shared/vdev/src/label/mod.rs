//! Labels: the superblocks of a pool, in a ring on every leaf.
//!
//! The label of generation `g` is in slot `g mod 32` of the ring. So the 32 newest generations stay, and a label that a
//! power cut tears costs the oldest of them. A pool writes its data, syncs, writes the labels of all leaves, and syncs
//! again; on opening it reads all labels ([`read_labels`]) and finds which leaves have its newest state ([`choose`]).
//!
//! `format` has the bytes of a slot, `ring` the slots of a leaf, `choice` the comparison of leaves.

mod choice;
mod format;
mod ring;

pub use choice::{Chosen, Verdict, choose};
pub(crate) use format::Slot;
pub use format::{EPOCHS_MAX, Epoch, LABEL_PAYLOAD_MAX, LABEL_SLOTS, Label, Position};
pub use ring::{InvalidSlot, LeafLabels, read_labels};
pub(crate) use ring::{clear_torn, wipe};
