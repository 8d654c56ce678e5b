//! What connections are encrypted with: certificates, their key, and TLS as PostgreSQL has it (docs/design/tls.md).

use crate::certificate::{CertificateParts, CertificateTime};
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// The protocol's name where client and server agree on one within the handshake (ALPN), as in PostgreSQL 17.
pub(crate) const PROTOCOL_NAME: &[u8] = b"postgresql";

/// The server's certificate, and those that lead from it to an authority that clients trust.
pub struct CertificateChain(Vec<CertificateDer<'static>>);

/// The key whose public half the server's certificate certifies.
pub struct PrivateKey(Arc<dyn SigningKey>);

/// A certificate chain and the key that belongs to it.
pub struct Credentials {
    config: Arc<ServerConfig>,
    /// The certificate's hash that clients bind their proof of the password to, if it has one.
    end_point: Option<Vec<u8>>,
    not_before: CertificateTime,
    not_after: CertificateTime,
}

/// Encryption for clients. Clones share what it is done with.
#[derive(Clone)]
pub struct Tls {
    credentials: Arc<RwLock<Arc<Credentials>>>,
    is_required: bool,
}

fn wrong(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(SqlState::InvalidParameterValue, why)
}

impl CertificateChain {
    /// Reads a file in PEM: the server's certificate first.
    ///
    /// # Errors
    /// `InvalidParameterValue` if there is none in it, or one cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<CertificateChain> {
        let chain: std::result::Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(text).collect();
        let chain = chain.map_err(|error| wrong(format!("its PEM is malformed: {error}")))?;
        let first = chain.first().ok_or_else(|| wrong("there is no certificate in it"))?;
        CertificateParts::read(first).ok_or_else(|| wrong("its first certificate is malformed"))?;
        Ok(CertificateChain(chain))
    }
}

impl PrivateKey {
    /// Reads a file in PEM: RSA, ECDSA over P-256 or P-384, or Ed25519.
    ///
    /// # Errors
    /// `InvalidParameterValue` if there is none in it, or it is encrypted or of another kind.
    pub fn from_pem(text: &[u8]) -> Result<PrivateKey> {
        let is_encrypted = text.windows(b"ENCRYPTED".len()).any(|word| word == b"ENCRYPTED");
        let key = match PrivateKeyDer::from_pem_slice(text) {
            Ok(key) => key,
            Err(_) if is_encrypted => {
                return Err(wrong(
                    "the private key is encrypted; `openssl pkey` writes it without its passphrase",
                ));
            }
            Err(PemError::NoItemsFound) => return Err(wrong("there is no private key in it")),
            Err(error) => return Err(wrong(format!("its PEM is malformed: {error}"))),
        };
        let key = ring::sign::any_supported_type(&key);
        let unsupported = "its private key is malformed or not supported: RSA of 2048 to 8192 bits, ECDSA over P-256 or P-384 and \
                           Ed25519 are";
        key.map(PrivateKey).map_err(|_| wrong(unsupported))
    }
}

impl Credentials {
    /// # Errors
    /// `InvalidParameterValue` if the key does not belong to the first certificate.
    pub fn new(chain: CertificateChain, key: PrivateKey) -> Result<Credentials> {
        let first = chain.0[0].clone();
        let parts = CertificateParts::read(&first).expect("it was read when the chain was made");
        // Compared as they are encoded: that works for certificates of X.509's first version, too, which PostgreSQL's manual makes.
        if key.0.public_key().is_none_or(|public| public.as_ref() != parts.public_key) {
            return Err(wrong("the private key does not belong to the first certificate"));
        }
        let certified = CertifiedKey::new(chain.0, key.0);
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Error::internal(format!("cannot set TLS up: {error}")))?;
        let mut config =
            builder.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        // Like PostgreSQL, whose clients do not resume: nothing is kept of connections that have ended.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
        let (not_before, not_after) = (parts.not_before, parts.not_after);
        Ok(Credentials {
            config: Arc::new(config),
            end_point: parts.end_point(&first),
            not_before,
            not_after,
        })
    }

    /// What to say of a certificate that clients will refuse today.
    pub fn warning(&self) -> Option<String> {
        let now = CertificateTime::now();
        match () {
            () if now > self.not_after => Some(format!("the certificate has expired on {}", self.not_after)),
            () if now < self.not_before => {
                Some(format!("the certificate is not valid before {}", self.not_before))
            }
            () => None,
        }
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    pub(crate) fn end_point(&self) -> Option<&[u8]> {
        self.end_point.as_deref()
    }
}

impl Tls {
    /// `is_required`: whether clients that do not ask for it are refused. Those within the machine never have it.
    pub fn new(credentials: Credentials, is_required: bool) -> Tls {
        Tls { credentials: Arc::new(RwLock::new(Arc::new(credentials))), is_required }
    }

    /// From the next connection on, this is used.
    pub fn replace(&self, credentials: Credentials) {
        *self.credentials.write() = Arc::new(credentials);
    }

    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        self.credentials.read().clone()
    }

    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }
}

/// Shows nothing of the key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("is_required", &self.is_required).finish_non_exhaustive()
    }
}
