//! The settings of Redis that a config file may have and that cannot be fulfilled here.

/// A setting, the values that promise nothing, and why others cannot be fulfilled: a server that took them would not
/// be what its operator believes.
pub(super) struct Promise {
    pub(super) name: &'static str,
    pub(super) harmless: &'static [&'static str],
    pub(super) why: &'static str,
}

const fn promise(
    name: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
) -> Promise {
    Promise { name, harmless, why }
}

const NO_REPLICATION: &str = "there is no replication here";
const NO_CHOICE_OF_CIPHERS: &str = "the ciphers of TLS are not a choice here; leave it out";

pub(super) static PROMISES: &[Promise] = &[
    promise("cluster-enabled", &["no"], "there is no cluster mode here"),
    promise("daemonize", &["no"], "the server runs in the foreground; have a supervisor start it"),
    promise("loadmodule", &[], "there are no modules here"),
    promise("min-replicas-to-write", &["0"], NO_REPLICATION),
    promise("min-slaves-to-write", &["0"], NO_REPLICATION),
    promise("rename-command", &[], "commands cannot be renamed here"),
    promise("replicaof", &[], NO_REPLICATION),
    promise("slaveof", &[], NO_REPLICATION),
    promise("tls-ca-cert-dir", &[""], "name one file with all certificates: tls-ca-cert-file"),
    promise("tls-ciphers", &[""], NO_CHOICE_OF_CIPHERS),
    promise("tls-ciphersuites", &[""], NO_CHOICE_OF_CIPHERS),
    promise("tls-cluster", &["no"], "there is no cluster mode here"),
    promise("tls-key-file-pass", &[""], "a key with a password cannot be read here"),
    promise("tls-replication", &["no"], NO_REPLICATION),
];

/// Settings that promise nothing, beside those that CONFIG SET calls immutable.
pub(super) static HARMLESS: &[&str] = &["dir", "locale-collate", "replica-full-sync-buffer-limit"];
