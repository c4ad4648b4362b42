//! The judge of clients' certificates.
//!
//! An authority's certificate may be its owner's, too: `openssl req -x509` makes such a one, and people without another
//! authority name it as `tls-ca-cert-file` and give it to clients. The library refuses an authority as a client, whatever
//! else it may be for; OpenSSL, and so Redis, takes such a one. Here one is taken that is trusted by itself: its owner could
//! vouch for any other.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// The library's judge, which also takes the trusted certificates themselves.
#[derive(Debug)]
pub(super) struct Trust {
    judge: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn new(
        judge: Arc<dyn ClientCertVerifier>,
        trusted: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { judge, trusted }
    }
}

/// Whether a certificate was refused for no other reason than that it is an authority's. Its time has been looked at by then.
fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl ClientCertVerifier for Trust {
    fn offer_client_auth(&self) -> bool {
        self.judge.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.judge.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.judge.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.judge.verify_client_cert(own, others, now) {
            Err(error) if is_of_authority(&error) && self.trusted.iter().any(|one| one == own) => {
                Ok(ClientCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
