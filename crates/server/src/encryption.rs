//! One client's connection, encrypted: TLS between the socket and the bytes of the protocol.
//!
//! ```text
//! socket ──► records ──decrypt──► waiting bytes ──► Wire::input
//! socket ◄── records ◄──encrypt──────────────────── Wire::output
//! ```
//! A record is decrypted as a whole, and holds up to 16 KiB: often more than was asked for. What waits here is not in the socket any more, so it is
//! asked for before the socket is ([`Encryption::has_waiting`]), or a message that has come would be slept for.
//!
//! There is no thread for it: a thread that needs bytes reads the socket, and what TLS itself has to say then (new keys, alerts) is sent by the
//! thread that has read.

use crate::tls::{Credentials, PROTOCOL_NAME};
use ankerdb_socket::{Stream, send_now};
use ankerdb_sql::Cipher;
use rustls::{ProtocolVersion, ServerConnection};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::Arc;
use std::time::Instant;

/// The first byte of a client that begins with TLS at once: a record of its handshake.
pub(crate) const HANDSHAKE_RECORD: u8 = 0x16;

/// The state of one client's encryption.
pub(crate) struct Encryption {
    connection: ServerConnection,
    /// Bytes that were decrypted and not taken.
    waiting: usize,
    credentials: Arc<Credentials>,
}

/// Reads by a function.
struct Source<F>(F);

impl<F: FnMut(&mut [u8]) -> Result<usize>> Read for Source<F> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        (self.0)(buffer)
    }
}

/// OpenSSL's name of a cipher suite, from the one of its standard as the library writes it.
fn openssl_name(suite: &str) -> String {
    match (suite.strip_prefix("TLS13_"), suite.strip_prefix("TLS_")) {
        (Some(rest), _) => format!("TLS_{rest}"),
        (_, Some(rest)) => {
            let rest = rest
                .strip_suffix("POLY1305_SHA256")
                .map_or(rest.to_owned(), |rest| format!("{rest}POLY1305"));
            rest.replace("_WITH", "").replace("AES_", "AES").replace('_', "-")
        }
        _ => suite.to_owned(),
    }
}

impl Encryption {
    /// Agrees with a client on keys. `sent` is what was read of it already.
    ///
    /// # Errors
    /// `TimedOut` if that takes longer than `until` by more than the socket waits; `InvalidData` for what is no TLS, or of a version
    /// that is given up; else those of the socket.
    pub(crate) fn agree(
        credentials: Arc<Credentials>,
        stream: &Stream,
        mut sent: &[u8],
        until: Instant,
    ) -> Result<Encryption> {
        let connection = ServerConnection::new(credentials.config()).map_err(Error::other)?;
        let mut encryption = Encryption { connection, waiting: 0, credentials };
        while encryption.connection.is_handshaking() {
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            let read = |buffer: &mut [u8]| match sent.is_empty() {
                true => (&*stream).read(buffer),
                false => sent.read(buffer),
            };
            match encryption.advance(stream, read) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(encryption)
    }

    /// Reads from the socket once, and decrypts what is whole. `false` at the end of the stream.
    fn advance(&mut self, stream: &Stream, read: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<bool> {
        if self.connection.read_tls(&mut Source(read))? == 0 {
            return Ok(false);
        }
        let processed = self.connection.process_new_packets();
        // Also of an error the client is told. What there is no room for goes with the next write.
        let flushed = match self.flush(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        };
        let state = processed.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        self.waiting = state.plaintext_bytes_to_read();
        flushed.map(|()| true)
    }

    /// Whether bytes wait that are not in the socket any more.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Reads as from a socket, from which `read` gets what is encrypted. 0 at the end of the stream, however the client has ended it: a
    /// message that was cut off is not acted upon.
    ///
    /// # Errors
    /// `Interrupted` if what has come is no whole record yet, so that the caller may look at the time; `InvalidData` for bytes that the client
    /// has not encrypted so; else those of `read`.
    pub(crate) fn receive(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        read: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        if !self.has_waiting() {
            if !self.advance(stream, read)? {
                return Ok(0);
            }
            if !self.has_waiting() {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        let taken = self.connection.reader().read(buffer)?;
        self.waiting -= taken;
        Ok(taken)
    }

    /// Writes all of it to the socket, encrypted, and what is left of earlier writes before. After an error `bytes` are those that were not
    /// taken; of the others some may be left for the next write.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn write_all(&mut self, stream: &Stream, bytes: &mut &[u8]) -> Result<()> {
        loop {
            self.flush(stream)?;
            if bytes.is_empty() {
                return Ok(());
            }
            let taken = self.connection.writer().write(bytes)?;
            *bytes = &bytes[taken..];
        }
    }

    fn flush(&mut self, stream: &Stream) -> Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut &*stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more will come, if it can be told without waiting.
    pub(crate) fn end(&mut self, stream: &Stream) {
        self.connection.send_close_notify();
        // A client that does not read, or is gone, sees the end of the stream without it.
        let mut last = Vec::new();
        if self.connection.write_tls(&mut last).is_ok() {
            let _ = send_now(stream, &last);
        }
    }

    /// The certificate's hash, for clients that bind their proof of the password to it.
    pub(crate) fn end_point(&self) -> Option<&[u8]> {
        self.credentials.end_point()
    }

    /// What it is done with, in OpenSSL's names.
    pub(crate) fn cipher(&self) -> Cipher {
        let version = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLSv1.2",
        };
        let suite = self.connection.negotiated_cipher_suite();
        let suite = suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()));
        let bits = if suite.contains("AES_128") { 128 } else { 256 };
        Cipher { version, name: openssl_name(&suite), bits }
    }

    /// Whether client and server have named the protocol within the handshake.
    pub(crate) fn has_named_protocol(&self) -> bool {
        self.connection.alpn_protocol() == Some(PROTOCOL_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{CertificateChain, PrivateKey};
    use rcgen::{CertificateParams, KeyPair};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use rustls_pki_types::CertificateDer;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn suites_have_the_names_that_openssl_gives_them() {
        for (suite, name) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(openssl_name(suite), name);
        }
    }

    fn credentials() -> (Arc<Credentials>, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let chain = CertificateChain::from_pem(certificate.pem().as_bytes()).unwrap();
        let secret = PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap();
        (Arc::new(Credentials::new(chain, secret).unwrap()), certificate.der().clone())
    }

    fn pair() -> (TcpStream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Stream::Tcp(listener.accept().unwrap().0))
    }

    #[test]
    fn a_client_that_stops_within_the_handshake_is_given_up() {
        let (mut client, stream) = pair();
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        // The head of a record that never comes, byte by byte, so that no read waits for long.
        let begun = Instant::now();
        let trickle = std::thread::spawn(move || {
            for byte in [HANDSHAKE_RECORD, 3, 1, 2].into_iter().chain([0; 1000]) {
                std::thread::sleep(Duration::from_millis(2));
                if client.write_all(&[byte]).is_err() {
                    break;
                }
            }
        });
        let agreed = Encryption::agree(credentials().0, &stream, &[], begun + Duration::from_millis(50));
        assert_eq!(agreed.err().unwrap().kind(), ErrorKind::TimedOut);
        drop(stream);
        trickle.join().unwrap();
    }

    #[test]
    fn what_is_read_is_what_was_written_and_a_part_of_a_record_is_nothing() {
        let (mut client, stream) = pair();
        let (credentials, certificate) = credentials();
        let mut trusted = RootCertStore::empty();
        trusted.add(certificate).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_root_certificates(trusted).with_no_client_auth());
        let mut connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let mut encryption = std::thread::scope(|scope| {
            let agreed = scope.spawn(|| Encryption::agree(credentials, &stream, &[], until).unwrap());
            connection.complete_io(&mut client).unwrap();
            agreed.join().unwrap()
        });
        connection.writer().write_all(b"a message").unwrap();
        let mut record = Vec::new();
        connection.write_tls(&mut record).unwrap();
        let mut room = [0; 4];
        let mut receive = |encryption: &mut Encryption, sent: &[u8]| {
            let mut sent = sent;
            let received = encryption.receive(&stream, &mut room, |buffer| sent.read(buffer));
            received.map(|read| room[..read].to_vec())
        };
        let partial = receive(&mut encryption, &record[..7]).err().unwrap();
        assert_eq!((partial.kind(), encryption.has_waiting()), (ErrorKind::Interrupted, false));
        assert_eq!(receive(&mut encryption, &record[7..]).unwrap(), b"a me");
        assert!(encryption.has_waiting());
        assert_eq!(receive(&mut encryption, &[]).unwrap(), b"ssag");
        assert_eq!(receive(&mut encryption, &[]).unwrap(), b"e");
        assert!(!encryption.has_waiting());
        assert_eq!(receive(&mut encryption, &[]).unwrap(), b"", "the end of the stream");
        let many: Vec<u8> = (0..100_000).map(|number| number as u8).collect();
        let mut read = vec![0; many.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| encryption.write_all(&stream, &mut &many[..]).unwrap());
            rustls::Stream::new(&mut connection, &mut client).read_exact(&mut read).unwrap();
        });
        assert_eq!(read, many);
        let garbage = receive(&mut encryption, &[0x17, 3, 3, 0, 3, 1, 2, 3]);
        assert_eq!(garbage.err().unwrap().kind(), ErrorKind::InvalidData);
    }
}
