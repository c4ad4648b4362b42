//! TLS as it is now.

use std::sync::Arc;

use rustls::ServerConfig;

use super::TlsOptions;
use super::acceptor::acceptor;

/// The options, and the configuration that is made of them.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) options: TlsOptions,
    /// Connections that come are accepted with it; `None`: there is no port for them.
    acceptor: Option<Arc<ServerConfig>>,
}

impl TlsSettings {
    /// Reads the files of the options, if there is a port.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, String> {
        let mut settings = Self { options, acceptor: None };
        settings.reload()?;
        Ok(settings)
    }

    /// Reads the files anew; an error changes nothing.
    pub(crate) fn reload(&mut self) -> Result<(), String> {
        if self.options.port.is_some() {
            self.acceptor = Some(acceptor(&self.options)?);
        }
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> Option<&Arc<ServerConfig>> {
        self.acceptor.as_ref()
    }
}
