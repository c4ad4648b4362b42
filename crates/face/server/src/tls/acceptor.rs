//! The configuration with which connections are accepted, made of certificates and a key.
//!
//! No error shows a byte of the files: one of them holds the key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::trust::Trust;
use super::{ClientCertificates, TlsOptions, TlsProtocols};

/// Reads the files of the options, and makes a configuration of them, or says what is wrong.
pub(super) fn acceptor(options: &TlsOptions) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(named(&options.cert_file, "tls-cert-file")?)?;
    let key = private_key(named(&options.key_file, "tls-key-file")?)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(&versions(&options.protocols));
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = match verifier(options, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key);
    let config = config.map_err(|error| format!("the certificate and the key: {error}"))?;
    Ok(Arc::new(config))
}

fn named<'a>(file: &'a Option<PathBuf>, name: &str) -> Result<&'a Path, String> {
    file.as_deref().ok_or_else(|| format!("{name} is not set"))
}

fn versions(protocols: &TlsProtocols) -> Vec<&'static SupportedProtocolVersion> {
    let all = !protocols.has_12 && !protocols.has_13;
    let mut versions = Vec::new();
    versions.extend((all || protocols.has_13).then_some(&TLS13));
    versions.extend((all || protocols.has_12).then_some(&TLS12));
    versions
}

/// The judge of clients' certificates, if clients are asked for them.
fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if options.auth_clients == ClientCertificates::NotAsked {
        return Ok(None);
    }
    let Some(file) = &options.ca_cert_file else {
        return Err("tls-ca-cert-file is not set, and tls-auth-clients is not `no`".to_owned());
    };
    let mut roots = RootCertStore::empty();
    let trusted = certificates(file)?;
    for certificate in &trusted {
        let added = roots.add(certificate.clone());
        added.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match options.auth_clients {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    let verifier = builder.build().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Some(Arc::new(Trust::new(verifier, trusted))))
}

/// The certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = |error| unreadable(file, error, "certificate");
    let certificates = CertificateDer::pem_file_iter(file).map_err(read)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(read)?;
    match certificates.is_empty() {
        true => Err(unreadable(file, pem::Error::NoItemsFound, "certificate")),
        false => Ok(certificates),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| unreadable(file, error, "private key without a password"))
}

fn unreadable(file: &Path, error: pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("{}: {error}", file.display()),
        // Some of these errors quote what they have found.
        _ => format!("{}: there is no {wanted} in it, in PEM", file.display()),
    }
}
