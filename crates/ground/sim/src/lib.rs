//! The foundations of the crash lab.
//!
//! The two interfaces to stored bytes, memory that persists (`halite-pmem`) and files (`halite-disk`), can
//! be tested without a device. Each has a model of its own, and both models belong to one [`Machine`]: it
//! has the power, and a [`Trace`] of all events of its devices, in one order. So one power cut takes all of
//! them.
//!
//! The other modules serve the real interfaces, too:
//! - [`cost`]: steps that tests count;
//! - [`locks`]: locks that a deterministic scheduler can hold;
//! - [`Kernel`] and [`Failures`]: calls of the kernel, any of which a test can let fail;
//! - [`planted`]: bugs that are compiled in to test the lab.
#![forbid(unsafe_code)]

pub mod cost;
mod kernel;
pub mod locks;
mod machine;
#[doc(hidden)]
pub mod planted;
mod trace;

pub use kernel::{Call, Failures, Kernel};
pub use machine::{Happened, Machine};
pub use trace::{Event, How, Request, Site, Trace, What};
