//! The files with the server's certificate and its key.

use super::{ServeOptions, secret};
use ankerdb_engine::Result;
use ankerdb_server::{CertificateChain, Credentials, PrivateKey, Tls};
use std::path::{Path, PathBuf};

const CERTIFICATE: &str = "--tls-certificate";
const KEY: &str = "--tls-key";

/// The files, and the encryption that they are for.
pub(super) struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    tls: Tls,
}

impl TlsFiles {
    /// Reads the files, if there are to be any, and warns of a certificate that clients will refuse.
    pub(super) fn read(options: &ServeOptions) -> Result<Option<TlsFiles>> {
        let (Some(certificate), Some(key)) = (&options.tls_certificate, &options.tls_key) else {
            return Ok(None);
        };
        let tls = Tls::new(credentials(certificate, key)?, options.tls_required);
        Ok(Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), tls }))
    }

    pub(super) fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Reads the files again, for connections from now on. If that fails, those read before go on being used.
    pub(super) fn renew(&self) {
        match credentials(&self.certificate, &self.key) {
            Ok(credentials) => {
                self.tls.replace(credentials);
                eprintln!("ankerdb: the certificate was read again");
            }
            Err(error) => eprintln!("ankerdb: the certificate stays as it was: {}", error.message()),
        }
    }
}

fn credentials(certificate: &Path, key: &Path) -> Result<Credentials> {
    let chain =
        std::fs::read(certificate).map_err(|error| secret::wrong(CERTIFICATE, certificate, &error))?;
    let chain = CertificateChain::from_pem(&chain)
        .map_err(|error| secret::wrong(CERTIFICATE, certificate, &error.message()))?;
    let secret = secret::read(KEY, key)?;
    let secret = PrivateKey::from_pem(&secret).map_err(|error| secret::wrong(KEY, key, &error.message()))?;
    let credentials = Credentials::new(chain, secret).map_err(|error| {
        secret::wrong(KEY, key, &format!("{} in \"{}\"", error.message(), certificate.display()))
    })?;
    if let Some(warning) = credentials.warning() {
        eprintln!(
            "ankerdb: {CERTIFICATE} \"{}\": {warning}; clients that check it will not connect",
            certificate.display()
        );
    }
    Ok(credentials)
}
