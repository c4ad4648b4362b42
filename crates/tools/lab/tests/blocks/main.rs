//! The building blocks under each power cut.

mod cells;
mod leaves;
mod logs;
mod pages;
