//! `init`: a new network. Makes a folder for each party, with its keys, its certificate, those of all others, the founding
//! document, and a configuration file.

use super::config::{BatchConfig, CONFIG_FILE, NodeConfig, PartyConfig, PartyRole};
use super::order_log::OrderLog;
use crate::error::{LedgerError, LedgerResult};
use crate::file::LedgerFile;
use crate::genesis::{Genesis, Identity};
use crate::hash::{LedgerHash, hex};
use crate::signature::KeyPair;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const FOUNDING_FILE: &str = "founding";
const KEY_FILE: &str = "key";
const CERTIFICATE_KEY_FILE: &str = "certificate.key";
const CERTIFICATES_FOLDER: &str = "certificates";
const NAME_BYTES_MAX: usize = 63;

/// An organization that is founded.
#[derive(Debug, Clone)]
pub struct FoundedOrganization {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Its database.
    pub database: String,
}

/// A network that is founded.
#[derive(Debug, Clone)]
pub struct Founding {
    /// Its name.
    pub name: String,
    /// How many members have to agree.
    pub quorum: usize,
    /// The organizations.
    pub organizations: Vec<FoundedOrganization>,
    /// The addresses of the ordering servers.
    pub orderings: Vec<String>,
    /// Clients.
    pub clients: Vec<String>,
    /// How blocks are made.
    pub batch: BatchConfig,
}

/// The name of an ordering server among the parties: with a number if there are several.
pub fn ordering_name(at: usize, count: usize) -> String {
    if count == 1 { "ordering".to_owned() } else { format!("ordering-{}", at + 1) }
}

struct PartySecrets {
    config: PartyConfig,
    keys: KeyPair,
    certificate: String,
    certificate_key: String,
}

impl PartySecrets {
    fn new(name: &str, role: PartyRole, address: Option<&str>) -> LedgerResult<PartySecrets> {
        let is_letter =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if name.is_empty()
            || name.len() > NAME_BYTES_MAX
            || !name.chars().all(is_letter)
            || name.starts_with('-')
        {
            let form = "small letters, digits and hyphens, up to 63 of them, are expected";
            return Err(LedgerError::Refused(format!("\"{name}\" is no name of a party: {form}")));
        }
        let failed =
            |error: rcgen::Error| LedgerError::Missing(format!("no certificate for \"{name}\": {error}"));
        let key = rcgen::KeyPair::generate().map_err(failed)?;
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(PartySecrets {
            config: PartyConfig {
                name: name.to_owned(),
                role,
                address: address.map(str::to_owned),
                certificate: Path::new(CERTIFICATES_FOLDER).join(format!("{name}.pem")),
            },
            keys: KeyPair::generate()?,
            certificate: certificate.pem(),
            certificate_key: key.serialize_pem(),
        })
    }

    fn identity(&self) -> Identity {
        Identity { name: self.config.name.clone(), key: self.keys.public() }
    }
}

/// Writes a new file that only its owner may change, or read if it is a secret. One that is there is not overwritten.
fn write_new(path: &Path, content: &[u8], is_secret: bool) -> LedgerResult<()> {
    let failed = |error: std::io::Error| LedgerError::file(path, error);
    let mode = if is_secret { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)
}

fn make_folder(path: &Path) -> LedgerResult<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            LedgerError::file(path, "it is there already; nothing is overwritten")
        }
        _ => LedgerError::file(path, error),
    })
}

impl Founding {
    fn parties(&self) -> LedgerResult<Vec<PartySecrets>> {
        let mut parties = Vec::new();
        for FoundedOrganization { name, address, .. } in &self.organizations {
            parties.push(PartySecrets::new(name, PartyRole::Organization, Some(address))?);
        }
        // The group signs as one.
        let seed = KeyPair::generate()?.seed();
        for (at, address) in self.orderings.iter().enumerate() {
            let name = ordering_name(at, self.orderings.len());
            let mut server = PartySecrets::new(&name, PartyRole::Ordering, Some(address))?;
            server.keys = KeyPair::from_seed(&seed);
            parties.push(server);
        }
        for client in &self.clients {
            parties.push(PartySecrets::new(client, PartyRole::Client, None)?);
        }
        for (at, party) in parties.iter().enumerate() {
            if parties[..at].iter().any(|other| other.config.name == party.config.name) {
                return Err(LedgerError::Refused(format!(
                    "two parties have the name \"{}\"",
                    party.config.name
                )));
            }
        }
        Ok(parties)
    }

    /// Makes the folders of all parties in a folder. Nothing that is there is overwritten. The folders are then handed to the
    /// parties; this machine has seen all keys, so parties that do not trust it make new ones. Returns the network.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] for a policy or names that do not do, [`LedgerError::File`].
    pub fn write(&self, folder: &Path) -> LedgerResult<LedgerHash> {
        let parties = self.parties()?;
        let of = |role: PartyRole| parties.iter().filter(move |party| party.config.role == role);
        let ordering = of(PartyRole::Ordering).map(|party| party.keys.public()).next();
        let genesis = Genesis {
            name: self.name.clone(),
            members: of(PartyRole::Organization).map(PartySecrets::identity).collect(),
            quorum: self.quorum,
            ordering: ordering.ok_or_else(|| LedgerError::Refused("no ordering server".into()))?,
            clients: of(PartyRole::Client).map(PartySecrets::identity).collect(),
        };
        genesis.check()?;
        for organization in &self.organizations {
            crate::member::address::check(&organization.database)?;
        }
        if !folder.is_dir() {
            make_folder(folder)?;
        }
        for party in &parties {
            self.write_party(&folder.join(&party.config.name), party, &parties, &genesis)?;
        }
        Ok(genesis.network())
    }

    fn write_party(
        &self,
        folder: &Path,
        party: &PartySecrets,
        parties: &[PartySecrets],
        genesis: &Genesis,
    ) -> LedgerResult<()> {
        make_folder(folder)?;
        make_folder(&folder.join(CERTIFICATES_FOLDER))?;
        for other in parties {
            write_new(&folder.join(&other.config.certificate), other.certificate.as_bytes(), false)?;
        }
        write_new(&folder.join(FOUNDING_FILE), &genesis.encode(), false)?;
        write_new(&folder.join(KEY_FILE), hex(&party.keys.seed()).as_bytes(), true)?;
        write_new(&folder.join(CERTIFICATE_KEY_FILE), party.certificate_key.as_bytes(), true)?;
        let name = &party.config.name;
        let founded = self.organizations.iter().find(|organization| organization.name == *name);
        let file = match party.config.role {
            PartyRole::Organization => Some(PathBuf::from(format!("{name}.ledger"))),
            PartyRole::Ordering => Some(PathBuf::from("orders")),
            PartyRole::Client => None,
        };
        match (party.config.role, &file) {
            (PartyRole::Organization, Some(file)) => drop(LedgerFile::create(&folder.join(file), genesis)?),
            (_, Some(file)) => OrderLog::create(&folder.join(file), &genesis.network())?,
            _ => {}
        }
        let config = NodeConfig {
            name: name.clone(),
            listen: party.config.address.clone(),
            database: founded.map(|organization| organization.database.clone()),
            founding: FOUNDING_FILE.into(),
            key: KEY_FILE.into(),
            certificate_key: CERTIFICATE_KEY_FILE.into(),
            file,
            batch: (party.config.role == PartyRole::Ordering).then_some(self.batch),
            party: parties.iter().map(|party| party.config.clone()).collect(),
        };
        let path = folder.join(CONFIG_FILE);
        let text = toml::to_string(&config).map_err(|error| LedgerError::file(&path, error))?;
        let title = format!("# \"{name}\" in the network \"{}\" {}\n", self.name, genesis.network());
        // The database's password may be in it.
        write_new(&path, (title + &text).as_bytes(), true)
    }
}
