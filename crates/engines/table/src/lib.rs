//! The testbed of Arulraj et al.: tuples with fixed and variable fields, under recovery methods of which only one is
//! active, so that what a method costs on a medium is measured by itself.
#![forbid(unsafe_code)]

pub mod index;
