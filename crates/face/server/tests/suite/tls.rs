//! Clients that speak TLS.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use halite_resp_client::{Limits, read_reply};
use halite_server::Config;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::common::{Running, eventually, request, shown, words};

on_threads! {
    requests_and_replies_travel_by_tls
    large_values_travel_by_tls
    clients_need_a_certificate_as_configured
    an_authority_that_is_trusted_may_be_a_client
    a_handshake_that_does_not_go_on_is_given_up
    plain_text_is_no_tls
    certificates_are_replaced_while_the_server_runs
    only_the_configured_versions_are_spoken
    a_connection_ends_in_order
    a_goodbye_that_comes_with_a_request_is_heard
}

/// An authority, and a certificate with a key that it vouches for.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
        write("ca.pem", own.pem());
        write("ca-key.pem", issuer.key().serialize_pem());
        write("cert.pem", certificate.pem());
        write("key.pem", key.serialize_pem());
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the files of this authority by those of another.
    fn become_like(&self, other: &Self, names: &[&str]) {
        for name in names {
            fs::copy(other.file(name), self.file(name)).unwrap();
        }
    }
}

/// A server whose certificate is one of the authority, and which knows clients of that authority.
fn start(authority: &Authority, auth_clients: &str, change: impl FnOnce(&mut Config)) -> Running {
    Running::start_with(|config| {
        config.tls.port = Some(0);
        config.tls.cert_file = Some(authority.file("cert.pem"));
        config.tls.key_file = Some(authority.file("key.pem"));
        config.tls.ca_cert_file = Some(authority.file("ca.pem"));
        config.tls.auth_clients = auth_clients.parse().unwrap();
        change(config);
    })
}

fn certificates(file: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file).unwrap().map(Result::unwrap).collect()
}

/// A client by TLS.
struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    /// Connects, trusting `trusted`, with the certificate of `own`.
    fn with(
        addr: SocketAddr,
        trusted: &Authority,
        own: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        certificates(&trusted.file("ca.pem")).into_iter().for_each(|ca| roots.add(ca).unwrap());
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_file(own.file("key.pem")).unwrap();
                builder.with_client_auth_cert(certificates(&own.file("cert.pem")), key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.set_nodelay(true).unwrap();
        Self(BufReader::new(StreamOwned::new(session, socket)))
    }

    fn new(addr: SocketAddr, trusted: &Authority) -> Self {
        Self::with(addr, trusted, None, &[&TLS13, &TLS12])
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)?;
        self.0.get_mut().flush()
    }

    fn reply(&mut self) -> io::Result<String> {
        let limits = Limits { string_len_max: 64 << 20, ..Limits::default() };
        read_reply(&mut self.0, &limits).map(|reply| shown(&reply))
    }

    /// The reply to a request of words without spaces.
    fn ask(&mut self, line: &str) -> io::Result<String> {
        self.send(&request(&words(line)))?;
        self.reply()
    }
}

fn requests_and_replies_travel_by_tls() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |_| {});
    for version in [&TLS12, &TLS13] {
        let mut client = Client::with(server.tls(), &authority, None, &[version]);
        assert_eq!(client.ask("SET k 1").unwrap(), "+OK");
        let pipeline: Vec<u8> = (0..16).flat_map(|_| request(&["INCR", "k"])).collect();
        client.send(&pipeline).unwrap();
        for number in 2..18 {
            assert_eq!(client.reply().unwrap(), format!(":{number}"));
        }
    }
    // A plain client sees the same.
    let mut plain = server.client();
    plain.check(&[("GET k", "\"17\"")]);
    assert!(plain.ask("CLIENT LIST").contains(&format!("laddr={}", server.addr)));
    let port = server.tls().port().to_string();
    assert_eq!(plain.ask("CONFIG GET tls-port"), format!("[\"tls-port\", \"{port}\"]"));
    let mut subscriber = Client::new(server.tls(), &authority);
    assert!(subscriber.ask("SUBSCRIBE c").is_ok());
    plain.check(&[("PUBLISH c hello", ":1")]);
    assert_eq!(subscriber.reply().unwrap(), "[\"message\", \"c\", \"hello\"]");
}

fn large_values_travel_by_tls() {
    const LEN: usize = 10 << 20;
    let authority = Authority::new("one");
    let server = start(&authority, "no", |_| {});
    let value: Vec<u8> = (0..LEN).map(|at| b'a' + (at / 1000 % 26) as u8).collect();
    let mut client = Client::new(server.tls(), &authority);
    client.send(&request(&[&b"SET"[..], b"k", &value])).unwrap();
    assert_eq!(client.reply().unwrap(), "+OK");
    // The reply waits until the client reads.
    client.send(&[request(&["GET", "k"]), request(&["STRLEN", "k"])].concat()).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.as_bytes()[1..=LEN] == value, "another value of {} bytes", reply.len());
    assert_eq!(client.reply().unwrap(), format!(":{LEN}"));
}

fn clients_need_a_certificate_as_configured() {
    let (authority, foreign) = (Authority::new("one"), Authority::new("foreign"));
    for (auth_clients, without, with_foreign) in
        [("yes", false, false), ("optional", true, false), ("no", true, true)]
    {
        let server = start(&authority, auth_clients, |_| {});
        for version in [&TLS12, &TLS13] {
            let answers = |own| {
                let mut client = Client::with(server.tls(), &authority, own, &[version]);
                client.ask("PING").is_ok_and(|reply| reply == "+PONG")
            };
            assert_eq!(answers(None), without, "{auth_clients}");
            assert_eq!(answers(Some(&foreign)), with_foreign, "{auth_clients}");
            assert!(answers(Some(&authority)), "{auth_clients}");
        }
    }
}

fn an_authority_that_is_trusted_may_be_a_client() {
    let [authority, trusted, foreign] = ["server", "client", "foreign"].map(Authority::new);
    // Clients whose certificates are those of authorities, with a key of their own.
    for own in [&trusted, &foreign] {
        fs::copy(own.file("ca.pem"), own.file("cert.pem")).unwrap();
        fs::copy(own.file("ca-key.pem"), own.file("key.pem")).unwrap();
    }
    let server = start(&authority, "yes", |config| {
        config.tls.ca_cert_file = Some(trusted.file("ca.pem"));
    });
    for version in [&TLS12, &TLS13] {
        let answers = |own| {
            let mut client = Client::with(server.tls(), &authority, Some(own), &[version]);
            client.ask("PING").is_ok_and(|reply| reply == "+PONG")
        };
        assert!(answers(&trusted));
        assert!(!answers(&foreign));
    }
}

fn a_handshake_that_does_not_go_on_is_given_up() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |config| {
        config.limits.handshake_timeout = Duration::from_millis(500);
        config.client_count_max = 3;
    });
    let mut plain = server.client();
    plain.check(&[("PING", "+PONG")]);
    let mut silent = TcpStream::connect(server.tls()).unwrap();
    let mut begun = TcpStream::connect(server.tls()).unwrap();
    // The beginning of a record with the first message of a handshake.
    begun.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").unwrap();
    // Both are clients, of which there may be three, as long as they are there.
    for socket in [&mut silent, &mut begun] {
        let _ = socket.set_read_timeout(Some(Duration::from_secs(60)));
        let mut rest = Vec::new();
        // The end, maybe behind an alert.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() < 100);
    }
    eventually("room for other clients", || {
        plain.ask("INFO clients").contains("connected_clients:1\\r\\n")
    });
    assert_eq!(Client::new(server.tls(), &authority).ask("PING").unwrap(), "+PONG");
}

fn plain_text_is_no_tls() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |_| {});
    for text in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0xff; 100_000]] {
        let mut socket = TcpStream::connect(server.tls()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may close the connection in the middle.
        let _ = socket.write_all(text);
        let mut reply = Vec::new();
        let _ = socket.read_to_end(&mut reply);
        assert!(!reply.starts_with(b"+"), "{}", reply.escape_ascii());
    }
    server.client().check(&[("PING", "+PONG")]);
}

fn certificates_are_replaced_while_the_server_runs() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let server = start(&first, "no", |_| {});
    let mut old = Client::new(server.tls(), &first);
    assert_eq!(old.ask("PING").unwrap(), "+PONG");
    let mut plain = server.client();
    let trusts = |authority: &Authority| Client::new(server.tls(), authority).ask("PING").is_ok();
    assert!(trusts(&first) && !trusts(&second));

    // A key that is another certificate's, and a file that is not there: the old ones stay.
    let set = |name: &str, file: PathBuf| format!("{name} {}", file.display());
    let (cert, key) = ("tls-cert-file", "tls-key-file");
    for wrong in [
        set(cert, second.file("cert.pem")),
        set(key, first.file("none.pem")),
        set(key, first.file("cert.pem")),
        "tls-auth-clients maybe".to_owned(),
        "tls-protocols SSLv3".to_owned(),
    ] {
        let refused = plain.ask(&format!("CONFIG SET {wrong}"));
        assert!(refused.starts_with("-ERR CONFIG SET failed"), "{wrong}: {refused}");
    }
    assert!(trusts(&first) && !trusts(&second));

    let both = [set(cert, second.file("cert.pem")), set(key, second.file("key.pem"))].join(" ");
    plain.check(&[(&format!("CONFIG SET {both}"), "+OK")]);
    assert!(!trusts(&first) && trusts(&second));
    assert_eq!(old.ask("PING").unwrap(), "+PONG");

    // Files whose names stay, but not their bytes.
    second.become_like(&first, &["cert.pem", "key.pem"]);
    let same = set(cert, second.file("cert.pem"));
    plain.check(&[(&format!("CONFIG SET {same}"), "+OK")]);
    assert!(trusts(&first));
}

fn only_the_configured_versions_are_spoken() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |config| {
        config.tls.protocols = "TLSv1.3".parse().unwrap();
    });
    let ask = |version| Client::with(server.tls(), &authority, None, &[version]).ask("PING");
    assert!(ask(&TLS12).is_err());
    assert_eq!(ask(&TLS13).unwrap(), "+PONG");
    server.client().check(&[
        ("CONFIG GET tls-protocols", "[\"tls-protocols\", \"TLSv1.3\"]"),
        ("CONFIG SET tls-protocols TLSv1.2", "+OK"),
    ]);
    assert!(ask(&TLS13).is_err());
    assert_eq!(ask(&TLS12).unwrap(), "+PONG");
}

fn a_connection_ends_in_order() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |_| {});
    let mut client = Client::new(server.tls(), &authority);
    assert_eq!(client.ask("QUIT").unwrap(), "+OK");
    let mut rest = Vec::new();
    // An end that the server has not announced would be an error.
    assert_eq!(client.0.read_to_end(&mut rest).unwrap(), 0);
}

fn a_goodbye_that_comes_with_a_request_is_heard() {
    let authority = Authority::new("one");
    let server = start(&authority, "no", |_| {});
    let mut client = Client::new(server.tls(), &authority);
    assert_eq!(client.ask("PING").unwrap(), "+PONG");
    let stream = client.0.get_mut();
    stream.conn.writer().write_all(&request(&["PING"])).unwrap();
    stream.conn.send_close_notify();
    let mut records = Vec::new();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut records).unwrap();
    }
    // In one segment, and the socket stays open.
    stream.sock.write_all(&records).unwrap();
    assert_eq!(client.reply().unwrap(), "+PONG");
    assert_eq!(client.0.read_to_end(&mut Vec::new()).unwrap(), 0);
}
