//! The crash lab.
//!
//! A store runs on a modelled [`Medium`](halite_pmem::Medium), which records every store, flush, fence and sync. From
//! that record follows, by the [`Rules`] of persistency, every image that a power cut may leave at any point. The lab
//! restores such images, lets the store recover from each, and compares its contents with those that it must and may
//! have. The recovery itself is recorded, and crashed in turn.
//!
//! A crash takes this path: `run` (the history on the medium) → `pending` (the part of its trace that is not certainly
//! durable, at one point: `cells` of bytes, and of the files beside the pool lengths and `names`) → `images` (the
//! images that may be left) → `disk` (one such image, put on the medium and into the `files`) → `run` again (the
//! recovery, and the store's further steps) → `explore`, which drives this and goes on from there.
//!
//! A store that keeps files beside its pool opens them by `DiskModel::of` the medium (`halite-disk`): one power cut
//! strikes both.
//!
//! The system under test is a [`Subject`]: [`Store`] for any engine, [`Space`] for the manager of segments, [`Objects`]
//! for object pools and zones, [`blocks`] for the building blocks. In a test, [`check`] panics at the first violation
//! and prints its story:
//!
//! ```
//! use halite_lab::{Rules, Store, check};
//!
//! let subject = Store::of(&halite_indexlog::REGISTRATION, "indexlog-mixed");
//! let tally = check(&subject, Rules::Memory, 0..3);
//! assert!(tally.crash_points > 0);
//! ```
//!
//! [`explore`] and [`mutate`] run a list of [`Job`]s on several threads for a budget; `halite lab` is only their
//! command line. [`suite`] is the list for an engine.
//!
//! [`isolation`] checks which effects of each other transactions observe, with crashes and without.
//!
//! [`Media`] tests a store on a medium that does not return the bytes that were stored. A strike takes this path: `run`
//! → `past` (the stores to each line, and their times) → `fault` → `media`.
#![forbid(unsafe_code)]

pub mod blocks;
mod campaign;
mod case;
mod cells;
mod check;
mod disk;
mod explore;
mod failures;
mod fault;
mod files;
mod heap;
mod images;
pub mod isolation;
mod job;
mod linearize;
mod lint;
mod media;
mod mutate;
mod names;
mod objects;
mod past;
mod pending;
mod plan;
pub mod planted;
mod quiet;
mod random;
mod replay;
mod rules;
mod run;
mod schedule;
mod space;
mod store;
mod story;
mod subject;
mod suite;
mod watch;
mod world;

pub use blocks::blocks_suite;
pub use campaign::{Report, explore};
pub use case::{Case, Crash};
pub use check::check;
pub use explore::{Effort, Explorer, Tally, Violation};
pub use fault::FaultKind;
pub use halite_contract::lab::{Kind, Variant};
pub use heap::{HeapOfRows, HeapStep, OpenHeap, Row};
pub use job::{Concurrency, Exploration, Finding, Job, Replay, Seen, Striking};
pub use lint::{Lint, Lints};
pub use media::{Answers, Ending, Media, MediaCase, MediaTally, MediaViolation, Unseen};
pub use mutate::{Mutant, Score, Verdict, mutate};
pub use objects::{Objects, ObjectsStep, OpenObjects};
pub use plan::{Budget, Plan, Progress};
pub use random::Random;
pub use replay::{NotReplayed, replay};
pub use rules::Rules;
pub use space::{Space, SpaceStep};
pub use store::{Change, Opener, Step, Store, refusal};
pub use story::place;
pub use subject::{Action, Refusal, Subject};
pub use suite::{media_suite, space_suite, suite};
pub use watch::Watch;
pub use world::{Digest, World};
