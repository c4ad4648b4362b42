//! The options of TLS.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The options of TLS: those of Redis that begin with `tls-`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// The port on which clients are served by TLS, at the addresses of [`crate::Config::bind`]; `None`: none, and
    /// `Some(0)`: a free one.
    pub port: Option<u16>,
    /// The file with the server's certificate and those between it and an authority, in PEM.
    pub cert_file: Option<PathBuf>,
    /// The file with the private key of that certificate, in PEM and not encrypted.
    pub key_file: Option<PathBuf>,
    /// The file with the certificates of the authorities that vouch for clients, in PEM.
    pub ca_cert_file: Option<PathBuf>,
    /// The clients that need a certificate.
    pub auth_clients: ClientCertificates,
    /// The versions of the protocol.
    pub protocols: TlsProtocols,
}

/// Whether clients must prove who they are by a certificate: Redis' `tls-auth-clients`.
///
/// ```
/// use halite_server::ClientCertificates;
///
/// assert_eq!("optional".parse(), Ok(ClientCertificates::Optional));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// All clients must.
    #[default]
    Required,
    /// A client may; a certificate that no known authority vouches for is refused.
    Optional,
    /// They are not asked for one.
    NotAsked,
}

impl FromStr for ClientCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "yes" => Ok(Self::Required),
            "optional" => Ok(Self::Optional),
            "no" => Ok(Self::NotAsked),
            _ => Err("argument(s) must be one of the following: no, yes, optional".to_owned()),
        }
    }
}

impl fmt::Display for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "yes",
            Self::Optional => "optional",
            Self::NotAsked => "no",
        })
    }
}

/// The versions of TLS that the server speaks: Redis' `tls-protocols`, and both if it is empty.
///
/// ```
/// use halite_server::TlsProtocols;
///
/// let protocols: TlsProtocols = "TLSv1.3".parse()?;
/// assert_eq!(protocols.to_string(), "TLSv1.3");
/// assert!("TLSv1".parse::<TlsProtocols>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsProtocols {
    /// The words as the operator wrote them.
    text: String,
    pub(super) has_12: bool,
    pub(super) has_13: bool,
}

impl FromStr for TlsProtocols {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut protocols = Self { text: text.to_owned(), ..Self::default() };
        for word in text.split_ascii_whitespace() {
            match word.to_ascii_lowercase().as_str() {
                "tlsv1.2" => protocols.has_12 = true,
                "tlsv1.3" => protocols.has_13 = true,
                _ => {
                    return Err(format!(
                        "`{word}` is no version that is spoken here: TLSv1.2, TLSv1.3"
                    ));
                }
            }
        }
        Ok(protocols)
    }
}

impl fmt::Display for TlsProtocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
