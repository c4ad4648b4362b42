//! The options of `halite serve` about the sockets that clients connect to.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use halite_server::{ClientCertificates, Config, TlsProtocols};

/// The sockets of a server, and whom it serves there.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The addresses to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    bind: Vec<IpAddr>,

    /// The port; 0 takes a free one, or none beside --tls-port or --unix-socket [default: 6379]
    #[arg(long)]
    port: Option<u16>,

    /// Listen on a unix socket, too. A file that a server has left there is replaced, and removed at the end
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// The mode of the unix socket's file, such as 770; by default as the umask has it
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    unix_socket_perm: Option<u32>,

    /// Whether clients of other machines are refused while no password is set: yes or no [default: yes]
    #[arg(long, value_name = "YES|NO", value_parser = parse_yes_no)]
    protected_mode: Option<bool>,

    /// The same as --protected-mode no
    #[arg(long, conflicts_with = "protected_mode")]
    no_protected_mode: bool,

    /// Serve clients by TLS on this port, at the same addresses; needs --tls-cert-file and --tls-key-file; 0: none
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,

    /// The server's certificate and those between it and an authority, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,

    /// The private key of that certificate, in PEM, without a password
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,

    /// The certificates of the authorities that vouch for clients, in PEM
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,

    /// Whether clients need a certificate: yes, optional or no [default: yes]
    #[arg(long, value_name = "WHO")]
    tls_auth_clients: Option<ClientCertificates>,

    /// The versions to speak, such as TLSv1.3 [default: "TLSv1.2 TLSv1.3"]
    #[arg(long, value_name = "VERSIONS")]
    tls_protocols: Option<TlsProtocols>,
}

impl ListenArgs {
    /// Takes the options over; those that are not given leave the configuration as it is.
    pub(crate) fn configure(&self, config: &mut Config) {
        if !self.bind.is_empty() {
            config.bind.clone_from(&self.bind);
            config.note_option("bind");
        }
        if let Some(port) = self.port {
            config.port = port;
            config.note_option("port");
        }
        if self.unix_socket.is_some() {
            config.unix_socket.clone_from(&self.unix_socket);
            config.note_option("unixsocket");
        }
        if let Some(mode) = self.unix_socket_perm {
            config.unix_socket_mode = Some(mode).filter(|&mode| mode > 0);
            config.note_option("unixsocketperm");
        }
        if let Some(is_on) = self.protected_mode.or(self.no_protected_mode.then_some(false)) {
            config.protected_mode = is_on;
            config.note_option("protected-mode");
        }
        self.configure_tls(config);
        let has_others = config.tls.port.is_some() || config.unix_socket.is_some();
        config.plain_tcp = config.port > 0 || !has_others;
    }

    fn configure_tls(&self, config: &mut Config) {
        if let Some(port) = self.tls_port {
            config.tls.port = Some(port).filter(|&port| port > 0);
            config.note_option("tls-port");
        }
        if self.tls_cert_file.is_some() {
            config.tls.cert_file.clone_from(&self.tls_cert_file);
            config.note_option("tls-cert-file");
        }
        if self.tls_key_file.is_some() {
            config.tls.key_file.clone_from(&self.tls_key_file);
            config.note_option("tls-key-file");
        }
        if self.tls_ca_cert_file.is_some() {
            config.tls.ca_cert_file.clone_from(&self.tls_ca_cert_file);
            config.note_option("tls-ca-cert-file");
        }
        if let Some(clients) = self.tls_auth_clients {
            config.tls.auth_clients = clients;
            config.note_option("tls-auth-clients");
        }
        if let Some(protocols) = &self.tls_protocols {
            config.tls.protocols.clone_from(protocols);
            config.note_option("tls-protocols");
        }
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777);
    mode.ok_or_else(|| "a mode is octal, such as 770".to_owned())
}

fn parse_yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say yes or no".to_owned()),
    }
}
