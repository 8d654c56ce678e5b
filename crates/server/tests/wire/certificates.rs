//! Certificates of tests' own authorities.

use ankerdb_server::{CertificateChain, Credentials, PrivateKey, Tls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::{Arc, OnceLock};

/// An authority, and the certificate of a server that it has signed.
pub(crate) struct Authority {
    /// What clients trust, in PEM.
    pub root: String,
    pub certificate: String,
    pub key: String,
    root_der: CertificateDer<'static>,
}

/// The one of servers that have none of their own: for `localhost`.
pub(crate) fn shared() -> &'static Authority {
    static SHARED: OnceLock<Authority> = OnceLock::new();
    SHARED.get_or_init(|| Authority::signing_for("localhost"))
}

impl Authority {
    pub(crate) fn signing_for(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "the test's authority");
        let root = parameters.self_signed(&key).unwrap();
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        Authority {
            root: root.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            root_der: root.der().clone(),
        }
    }

    pub(crate) fn credentials(&self) -> Credentials {
        let chain = CertificateChain::from_pem(self.certificate.as_bytes()).unwrap();
        Credentials::new(chain, PrivateKey::from_pem(self.key.as_bytes()).unwrap()).unwrap()
    }

    pub(crate) fn tls(&self, is_required: bool) -> Tls {
        Tls::new(self.credentials(), is_required)
    }

    /// The client's side of a connection to `localhost` that names these protocols.
    pub(crate) fn client(&self, protocols: &[&[u8]]) -> ClientConnection {
        let mut trusted = RootCertStore::empty();
        trusted.add(self.root_der.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(trusted).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }
}
