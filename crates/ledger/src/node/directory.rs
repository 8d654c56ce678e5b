//! The parties of a network as a process knows them: names, roles, addresses, certificates. Every party has a certificate that
//! it has signed itself, and every other one has a copy: there is no authority that could make one in another's name.

use super::config::{NodeFolder, PartyConfig, PartyRole};
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::path::Path;
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};

/// How long a connection may take.
const CONNECT_SECONDS_MAX: u64 = 5;

/// How long a connection may be silent before it is probed, and how long the answer may take.
const PROBE_SECONDS: u64 = 5;

/// A party.
#[derive(Debug, Clone)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: PartyRole,
    /// Host and port.
    pub address: Option<String>,
    /// Of an ordering server: of which service of the founding document it is, from 0.
    pub service: u32,
    certificate: String,
    certificate_bytes: Vec<u8>,
}

/// Of which service of the founding document an ordering server is, from 0.
fn service_of(party: &PartyConfig, genesis: &Genesis, path: &Path) -> LedgerResult<u32> {
    let (number, count) = (party.service.unwrap_or(1), genesis.services().count());
    if (1..=count).contains(&(number as usize)) {
        return Ok(number - 1);
    }
    let reason = format!("\"{}\" is of ordering service {number}, and there are {count}", party.name);
    Err(LedgerError::file(path, reason))
}

/// All parties, and which of them this process is.
#[derive(Debug, Clone)]
pub struct Directory {
    /// The founding document.
    pub genesis: Genesis,
    /// Its hash.
    pub network: LedgerHash,
    /// The parties.
    pub parties: Vec<Party>,
    own: usize,
    certificate_key: String,
}

impl Directory {
    /// Reads what the configuration of a folder names.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Untrusted`] with what does not fit the founding document.
    pub fn open(folder: &NodeFolder) -> LedgerResult<Directory> {
        let genesis = folder.genesis()?;
        let mut parties: Vec<Party> = Vec::new();
        for party in &folder.config.party {
            let path = folder.resolve(&party.certificate);
            let certificate =
                std::fs::read_to_string(&path).map_err(|error| LedgerError::file(&path, error))?;
            let parsed = CertificateDer::from_pem_slice(certificate.as_bytes())
                .map_err(|error| LedgerError::file(&path, format!("it is no certificate: {error:?}")))?;
            let certificate_bytes = parsed.as_ref().to_vec();
            if parties
                .iter()
                .any(|other| other.certificate_bytes == certificate_bytes || other.name == party.name)
            {
                let reason = format!("\"{}\" is there twice, by name or certificate", party.name);
                return Err(LedgerError::file(&path, reason));
            }
            parties.push(Party {
                name: party.name.clone(),
                role: party.role,
                address: party.address.clone(),
                service: service_of(party, &genesis, &path)?,
                certificate,
                certificate_bytes,
            });
        }
        let own = parties.iter().position(|party| party.name == folder.config.name);
        let own = own.ok_or_else(|| {
            let reason = format!("\"{}\" is none of its parties", folder.config.name);
            LedgerError::file(&folder.path.join(super::config::CONFIG_FILE), reason)
        })?;
        for member in &genesis.members {
            let is_it = |party: &&Party| party.role == PartyRole::Organization && party.name == member.name;
            if !parties.iter().any(|party| is_it(&party)) {
                let reason = format!("organization \"{}\" of the founding document is no party", member.name);
                return Err(LedgerError::Untrusted(reason));
            }
        }
        let network = genesis.network();
        Ok(Directory { genesis, network, parties, own, certificate_key: folder.certificate_key()? })
    }

    /// This process.
    pub fn own(&self) -> &Party {
        &self.parties[self.own]
    }

    /// The party with a certificate.
    pub fn by_certificate(&self, certificate: &[u8]) -> Option<&Party> {
        self.parties.iter().find(|party| party.certificate_bytes == certificate)
    }

    /// The servers of an ordering service, in the order in which all parties have them: the first one has number 1 in their group.
    pub fn orderings(&self, service: u32) -> impl Iterator<Item = &Party> {
        let is_of_it = move |party: &&Party| party.role == PartyRole::Ordering && party.service == service;
        self.parties.iter().filter(is_of_it)
    }

    /// The place of an organization in the founding document.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.genesis.members.iter().position(|member| member.name == name)
    }

    /// Organizations other than this process.
    pub fn others(&self) -> impl Iterator<Item = &Party> {
        let own = self.own().name.clone();
        self.parties.iter().filter(move |party| party.role == PartyRole::Organization && party.name != own)
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.own().certificate, &self.certificate_key)
    }

    /// How this process takes connections: from parties only.
    pub fn server_tls(&self) -> ServerTlsConfig {
        let all: Vec<&str> = self.parties.iter().map(|party| party.certificate.as_str()).collect();
        ServerTlsConfig::new()
            .identity(self.identity())
            .client_ca_root(Certificate::from_pem(all.join("\n")))
            .timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
    }

    /// A connection to a party, made when it is needed, and again when it breaks.
    ///
    /// # Errors
    /// [`LedgerError::Process`] if it has no address, or the certificates do not do.
    pub fn connect(&self, party: &Party) -> LedgerResult<Channel> {
        let failed = |message: String| LedgerError::Process { name: party.name.clone(), message };
        let address = party.address.as_ref().ok_or_else(|| failed("it has no address".into()))?;
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&party.certificate))
            .identity(self.identity())
            .domain_name(&party.name)
            .assume_http2(true);
        let endpoint = Endpoint::from_shared(format!("https://{address}"))
            .map_err(|error| failed(format!("\"{address}\" is no address: {error}")))?
            .tls_config(tls)
            .map_err(|error| failed(error.to_string()))?
            .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
            .http2_keep_alive_interval(Duration::from_secs(PROBE_SECONDS))
            .keep_alive_timeout(Duration::from_secs(PROBE_SECONDS))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        Ok(endpoint.connect_lazy())
    }
}
