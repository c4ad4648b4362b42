//! Options of the key-value workloads.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::distribution::Distribution;
use super::records::{KeyForm, VALUE_LEN_MIN};
use super::workload::{Kind, Mix, Workload};
use crate::{Error, Params, Result};

/// How long the measured part of a workload is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// This many operations of all threads together.
    Operations(u64),
    /// This long.
    Time(Duration),
}

/// The workloads and their sizes. One seed generates the same operations for every store and run.
#[derive(Debug, Clone, PartialEq)]
pub struct KvOptions {
    /// The workloads, in order.
    pub workloads: Vec<Workload>,
    /// Records to load.
    pub records: u64,
    /// How long the measured part is.
    pub length: Length,
    /// Threads.
    pub threads: usize,
    /// Operations a second of all threads together, on a fixed schedule (open loop); without it, each
    /// thread begins an operation when its last one ends (closed loop).
    pub rate: Option<u64>,
    /// Fields of a record of YCSB.
    pub fields: usize,
    /// Bytes of a field.
    pub field_len: usize,
    /// Bytes of a key of the other workloads, at least 8; 16, or 8 for `pibench`, if not given.
    pub key_len: Option<usize>,
    /// Bytes of their values, at least 8; 100, or 8 for `pibench`, if not given.
    pub value_len: Option<usize>,
    /// The operations of `pibench`.
    pub mix: Mix,
    /// The distribution, in place of the workload's own.
    pub distribution: Option<Distribution>,
    /// Its parameter: theta of the zipfian ones, h of the self-similar one.
    pub skew: Option<f64>,
}

impl Default for KvOptions {
    /// YCSB's core workloads: a million records of 10 fields of 100 bytes, a million operations, one
    /// thread, closed loop.
    fn default() -> Self {
        Self {
            workloads: Workload::YCSB.to_vec(),
            records: 1_000_000,
            length: Length::Operations(1_000_000),
            threads: 1,
            rate: None,
            fields: 10,
            field_len: 100,
            key_len: None,
            value_len: None,
            mix: Mix::of(&[(Kind::Read, 100)]),
            distribution: None,
            skew: None,
        }
    }
}

/// Threads at most.
const THREADS_MAX: u64 = 1024;

/// A day.
const SECONDS_MAX: u64 = 24 * 3600;

impl KvOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let (key_len, value_len) = (self.key_len.unwrap_or(16), self.value_len.unwrap_or(100));
        let operations = match self.length {
            Length::Operations(operations) => operations,
            Length::Time(time) if time.as_secs_f64() > SECONDS_MAX as f64 => {
                let why = format!("{} s is more than a day", time.as_secs_f64());
                return Err(Error::Wrong { option: "--seconds", why });
            }
            Length::Time(time) => time.as_nanos() as u64,
        };
        for (option, value, least, most) in [
            ("--records", self.records, 1, 1 << 40),
            ("--operations or --seconds", operations, 1, 1 << 50),
            ("--threads", self.threads as u64, 1, THREADS_MAX),
            ("--rate", self.rate.unwrap_or(1), 1, 1_000_000_000),
            ("--fields", self.fields as u64, 1, 1 << 20),
            ("--field-len", self.field_len as u64, 1, 1 << 20),
            ("--key-len", key_len as u64, 8, KEY_LEN_MAX as u64),
            ("--value-len", value_len as u64, VALUE_LEN_MIN as u64, VALUE_LEN_MAX as u64),
        ] {
            if !(least..=most).contains(&value) {
                let why = format!("{value} is not between {least} and {most}");
                return Err(Error::Wrong { option, why });
            }
        }
        let document = self.fields * self.field_len;
        if !(VALUE_LEN_MIN..=VALUE_LEN_MAX).contains(&document) {
            let why = format!(
                "{} fields of {} bytes are not between {VALUE_LEN_MIN} and {VALUE_LEN_MAX} bytes",
                self.fields, self.field_len
            );
            return Err(Error::Wrong { option: "--fields", why });
        }
        self.check_skew()
    }

    fn check_skew(&self) -> Result<()> {
        let Some(skew) = self.skew else { return Ok(()) };
        for workload in &self.workloads {
            let distribution = self.distribution(*workload);
            let most = if distribution == Distribution::SelfSimilar { 0.5 } else { 1.0 };
            if !(skew > 0.0 && skew < most) {
                let why = format!("{skew} is not between 0 and {most}, as {distribution} needs it");
                return Err(Error::Wrong { option: "--skew", why });
            }
        }
        Ok(())
    }

    /// Refuses records that do not fit into the folder's medium, before they fill it.
    pub(crate) fn check_space(&self, folder: &Path) -> Result<()> {
        let Ok(medium) = rustix::fs::statvfs(folder) else { return Ok(()) };
        let free = medium.f_bavail.saturating_mul(medium.f_frsize);
        for workload in &self.workloads {
            let record = self.key_form(*workload).len_max() + self.value_len(*workload);
            let needed = self.records.saturating_mul(record as u64);
            if needed > free {
                let folder = folder.display();
                let why = format!(
                    "{} records of {record} bytes do not fit into the {free} bytes that are free \
                     in {folder}; name fewer, or another --folder",
                    self.records
                );
                return Err(Error::Wrong { option: "--records", why });
            }
        }
        Ok(())
    }

    pub(crate) fn distribution(&self, workload: Workload) -> Distribution {
        self.distribution.unwrap_or(workload.distribution())
    }

    pub(crate) fn skew(&self, workload: Workload) -> f64 {
        self.skew.unwrap_or(self.distribution(workload).default_skew())
    }

    pub(crate) fn key_form(&self, workload: Workload) -> KeyForm {
        match (workload.key_form(), self.key_len) {
            (KeyForm::Multiplicative { .. }, Some(len)) => KeyForm::Multiplicative { len },
            (KeyForm::Mixed { .. }, Some(len)) => KeyForm::Mixed { len },
            (form, _) => form,
        }
    }

    pub(crate) fn value_len(&self, workload: Workload) -> usize {
        if workload.is_ycsb() {
            self.fields * self.field_len
        } else {
            self.value_len.unwrap_or(workload.value_len())
        }
    }

    /// The parameters of a workload's rows.
    pub(crate) fn params(&self, workload: Workload) -> Params {
        let mut params = Params::new();
        let mut put = |name: &str, value| params.insert(name.to_owned(), value);
        put("records", json!(self.records));
        put("key-len", json!(self.key_form(workload).len_max()));
        put("value-len", json!(self.value_len(workload)));
        if let Some(mix) = workload.mix(&self.mix) {
            match self.length {
                Length::Operations(operations) => put("operations", json!(operations)),
                Length::Time(time) => put("seconds", json!(time.as_secs_f64())),
            };
            put("mix", json!(mix.to_string()));
            put("distribution", json!(self.distribution(workload).to_string()));
            if self.distribution(workload) != Distribution::Uniform {
                put("skew", json!(self.skew(workload)));
            }
        }
        put("threads", json!(self.threads));
        if let Some(rate) = self.rate {
            put("rate", json!(rate));
        }
        params
    }
}

/// Bytes of the longest key that every store takes.
const KEY_LEN_MAX: usize = 511;

/// Bytes of the longest value, so that a worker's buffers stay small.
const VALUE_LEN_MAX: usize = 64 << 20;
