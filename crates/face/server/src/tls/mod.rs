//! TLS: the operator's options, and how they become the configuration with which connections are accepted.
//!
//! [`crate::transport`] speaks TLS on a connection. A change of an option reads all files anew and holds for the
//! connections that come then; if that fails, the old configuration stays.

mod acceptor;
mod options;
mod settings;
mod trust;

pub use options::{ClientCertificates, TlsOptions, TlsProtocols};
pub(crate) use settings::TlsSettings;
