//! The promises of files, and of their model.

mod files;
mod model;
