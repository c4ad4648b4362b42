//! The building blocks under measurement: each experiment redraws a figure of van Renen's paper.

pub mod cells;
pub mod interleaving;
pub mod logs;
pub mod pages;
