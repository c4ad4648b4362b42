//! Storage pools of several devices: any allowed loss, damage and return of devices, with all data right.

mod bench;
mod damage;
mod faults;
mod full;
mod loss;
mod places;
