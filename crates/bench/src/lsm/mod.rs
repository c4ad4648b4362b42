//! What the LSM engine is made of, and the engine itself, under measurement: each experiment redraws a
//! figure of Yan et al.

pub mod halloc;
