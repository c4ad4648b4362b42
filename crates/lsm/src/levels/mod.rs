//! The levels.
