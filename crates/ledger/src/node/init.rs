//! New networks. `init` makes a folder for each party at once, with its keys, its certificate, those of all others, the
//! founding document and a configuration file. Parties that do not want to show their keys to one machine make an *identity*
//! each, hand each other its public part, and *join*: from the same public parts all make the same founding document.

use super::config::{BatchConfig, CONFIG_FILE, CONSTRAINTS_HELP, NodeConfig, PartyConfig, PartyRole};
use super::order_log::OrderLog;
use crate::error::{LedgerError, LedgerResult};
use crate::file::LedgerFile;
use crate::genesis::{Genesis, Identity};
use crate::hash::{LedgerHash, hex, unhex};
use crate::signature::{KeyPair, PublicKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const FOUNDING_FILE: &str = "founding";
const KEY_FILE: &str = "key";
const CERTIFICATE_KEY_FILE: &str = "certificate.key";
const CERTIFICATES_FOLDER: &str = "certificates";
const NAME_BYTES_MAX: usize = 63;

/// The name of the file with what others may know of a party.
pub const PUBLIC_FILE: &str = "public.toml";

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

/// What all parties of a network agree about beside each other.
#[derive(Debug, Clone)]
pub struct NetworkTerms {
    /// Its name.
    pub name: String,
    /// How many members have to agree; more than half if it is not said.
    pub quorum: Option<usize>,
    /// How blocks are made.
    pub batch: BatchConfig,
}

/// A network that is founded.
#[derive(Debug, Clone)]
pub struct Founding {
    /// What it is about.
    pub terms: NetworkTerms,
    /// The organizations.
    pub organizations: Vec<FoundedOrganization>,
    /// The addresses of the ordering servers.
    pub orderings: Vec<String>,
    /// Those of the ordering services that take over, one after the other.
    pub successors: Vec<Vec<String>>,
    /// Clients.
    pub clients: Vec<String>,
}

/// The name of an ordering server among the parties: with a number if there are several.
pub fn ordering_name(at: usize, count: usize) -> String {
    if count == 1 { "ordering".to_owned() } else { format!("ordering-{}", at + 1) }
}

/// The name of a server of an ordering service that takes over: service 1 is the first one that does.
pub fn successor_name(service: usize, at: usize, count: usize) -> String {
    if count == 1 { format!("successor-{service}") } else { format!("successor-{service}-{}", at + 1) }
}

/// What others may know of a party.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicIdentity {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: PartyRole,
    /// Host and port at which others find it; clients have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Of an ordering server: which ordering service it is one of, from 1, which is that of those where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<u32>,
    /// What its signatures are verified with, in hexadecimal digits.
    pub key: String,
    /// Its certificate, as PEM.
    pub certificate: String,
}

struct PartySecrets {
    public: PublicIdentity,
    keys: KeyPair,
    certificate_key: String,
}

impl PublicIdentity {
    fn certificate_file(&self) -> PathBuf {
        Path::new(CERTIFICATES_FOLDER).join(format!("{}.pem", self.name))
    }

    fn party(&self) -> PartyConfig {
        let certificate = self.certificate_file();
        let (name, address) = (self.name.clone(), self.address.clone());
        PartyConfig { name, role: self.role, address, service: self.service, certificate }
    }

    fn identity(&self) -> LedgerResult<Identity> {
        check_name(&self.name)?;
        let key = unhex(&self.key).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let wrong = || LedgerError::Malformed(format!("the key of \"{}\" is no key", self.name));
        Ok(Identity { name: self.name.clone(), key: PublicKey(key.ok_or_else(wrong)?) })
    }
}

fn check_name(name: &str) -> LedgerResult<()> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_letter);
    if is_name && !name.starts_with('-') {
        return Ok(());
    }
    let form = "small letters, digits and hyphens, up to 63 of them, are expected";
    Err(LedgerError::Refused(format!("\"{name}\" is no name of a party: {form}")))
}

impl PartySecrets {
    fn new(name: &str, role: PartyRole, address: Option<&str>, keys: KeyPair) -> LedgerResult<PartySecrets> {
        check_name(name)?;
        let failed =
            |error: rcgen::Error| LedgerError::Missing(format!("no certificate for \"{name}\": {error}"));
        let key = rcgen::KeyPair::generate().map_err(failed)?;
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).map_err(failed)?;
        let public = PublicIdentity {
            name: name.to_owned(),
            role,
            address: address.map(str::to_owned),
            service: None,
            key: keys.public().to_string(),
            certificate: certificate.pem(),
        };
        Ok(PartySecrets { public, keys, certificate_key: key.serialize_pem() })
    }

    /// Makes the party's folder with its keys, and what others may know.
    fn write(&self, folder: &Path) -> LedgerResult<()> {
        make_folder(folder)?;
        write_new(&folder.join(KEY_FILE), hex(&self.keys.seed()).as_bytes(), true)?;
        write_new(&folder.join(CERTIFICATE_KEY_FILE), self.certificate_key.as_bytes(), true)?;
        let path = folder.join(PUBLIC_FILE);
        let text = toml::to_string(&self.public).map_err(|error| LedgerError::file(&path, error))?;
        write_new(&path, text.as_bytes(), false)
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

/// The keys of the ordering services, in the order in which they take over.
fn service_keys(parties: &[PublicIdentity]) -> LedgerResult<Vec<PublicKey>> {
    let mut services: BTreeMap<u32, PublicKey> = BTreeMap::new();
    for party in parties.iter().filter(|party| party.role == PartyRole::Ordering) {
        let Identity { name, key } = party.identity()?;
        if *services.entry(party.service.unwrap_or(1)).or_insert(key) != key {
            let reason = "has another key than the first one: a group of ordering servers signs as one";
            return Err(LedgerError::Refused(format!("\"{name}\" {reason}")));
        }
    }
    let wanted = 1..=services.len() as u32;
    if let Some(missing) = wanted.clone().find(|number| !services.contains_key(number)) {
        let reason = "services are numbered from 1, one after the other";
        return Err(LedgerError::Refused(format!(
            "no party is a server of ordering service {missing}: {reason}"
        )));
    }
    Ok(services.into_values().collect())
}

impl NetworkTerms {
    /// The founding document of these parties.
    fn genesis(&self, parties: &[PublicIdentity]) -> LedgerResult<Genesis> {
        let of = |role: PartyRole| {
            let parties = parties.iter().filter(move |party| party.role == role);
            parties.map(PublicIdentity::identity).collect::<LedgerResult<Vec<_>>>()
        };
        for (at, party) in parties.iter().enumerate() {
            if parties[..at].iter().any(|other| other.name == party.name) {
                return Err(LedgerError::Refused(format!("two parties have the name \"{}\"", party.name)));
            }
        }
        let members = of(PartyRole::Organization)?;
        let mut services = service_keys(parties)?.into_iter();
        let Some(ordering) = services.next() else {
            return Err(LedgerError::Refused("no party is an ordering server".into()));
        };
        let genesis = Genesis {
            name: self.name.clone(),
            quorum: self.quorum.unwrap_or(members.len() / 2 + 1),
            members,
            ordering,
            successors: services.collect(),
            clients: of(PartyRole::Client)?,
        };
        genesis.check()?;
        Ok(genesis)
    }

    /// Makes what a party needs to take part in a network, in its folder.
    fn write(
        &self,
        folder: &Path,
        own: &PublicIdentity,
        database: Option<&str>,
        parties: &[PublicIdentity],
    ) -> LedgerResult<LedgerHash> {
        let genesis = self.genesis(parties)?;
        make_folder(&folder.join(CERTIFICATES_FOLDER))?;
        for party in parties {
            write_new(&folder.join(party.certificate_file()), party.certificate.as_bytes(), false)?;
        }
        write_new(&folder.join(FOUNDING_FILE), &genesis.encode(), false)?;
        let name = &own.name;
        let file = match own.role {
            PartyRole::Organization => Some(PathBuf::from(format!("{name}.ledger"))),
            PartyRole::Ordering => Some(PathBuf::from("orders")),
            PartyRole::Client => None,
        };
        match (own.role, &file) {
            (PartyRole::Organization, Some(file)) => drop(LedgerFile::create(&folder.join(file), &genesis)?),
            (_, Some(file)) => OrderLog::create(&folder.join(file), &genesis.network())?,
            _ => {}
        }
        let config = NodeConfig {
            name: name.clone(),
            listen: own.address.clone(),
            database: database.map(str::to_owned),
            connections: None,
            recovery: None,
            checkpoint_blocks: None,
            audit_seconds: None,
            ordering_seconds: None,
            explorer: None,
            founding: FOUNDING_FILE.into(),
            key: KEY_FILE.into(),
            certificate_key: CERTIFICATE_KEY_FILE.into(),
            file,
            batch: (own.role == PartyRole::Ordering).then_some(self.batch),
            constraint_ms: None,
            agreement_blocks: None,
            constraint: Vec::new(),
            party: parties.iter().map(PublicIdentity::party).collect(),
        };
        let path = folder.join(CONFIG_FILE);
        let text = toml::to_string(&config).map_err(|error| LedgerError::file(&path, error))?;
        let title = format!("# \"{name}\" in the network \"{}\" {}\n", self.name, genesis.network());
        let help = if own.role == PartyRole::Organization { CONSTRAINTS_HELP } else { "" };
        // The database's password may be in it.
        write_new(&path, (title + &text + help).as_bytes(), true)?;
        Ok(genesis.network())
    }
}

impl Founding {
    fn parties(&self) -> LedgerResult<Vec<PartySecrets>> {
        let mut parties = Vec::new();
        for FoundedOrganization { name, address, database } in &self.organizations {
            crate::member::address::check(database)?;
            let role = PartyRole::Organization;
            parties.push(PartySecrets::new(name, role, Some(address), KeyPair::generate()?)?);
        }
        // The group signs as one.
        let seed = KeyPair::generate()?.seed();
        for (at, address) in self.orderings.iter().enumerate() {
            let name = ordering_name(at, self.orderings.len());
            let keys = KeyPair::from_seed(&seed);
            parties.push(PartySecrets::new(&name, PartyRole::Ordering, Some(address), keys)?);
        }
        for (service, addresses) in (1..).zip(&self.successors) {
            let seed = KeyPair::generate()?.seed();
            for (at, address) in addresses.iter().enumerate() {
                let name = successor_name(service, at, addresses.len());
                let keys = KeyPair::from_seed(&seed);
                let mut party = PartySecrets::new(&name, PartyRole::Ordering, Some(address), keys)?;
                party.public.service = Some(service as u32 + 1);
                parties.push(party);
            }
        }
        for client in &self.clients {
            parties.push(PartySecrets::new(client, PartyRole::Client, None, KeyPair::generate()?)?);
        }
        Ok(parties)
    }

    /// Makes the folders of all parties in a folder. Nothing that is there is overwritten. The folders are then handed to the
    /// parties; this machine has seen all keys. Returns the network.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] for a policy or names that do not do, [`LedgerError::File`].
    pub fn write(&self, folder: &Path) -> LedgerResult<LedgerHash> {
        let parties = self.parties()?;
        let all: Vec<PublicIdentity> = parties.iter().map(|party| party.public.clone()).collect();
        let network = self.terms.genesis(&all)?.network();
        if !folder.is_dir() {
            make_folder(folder)?;
        }
        for party in &parties {
            let own = folder.join(&party.public.name);
            party.write(&own)?;
            let founded = self.organizations.iter().find(|founded| founded.name == party.public.name);
            let database = founded.map(|founded| founded.database.as_str());
            self.terms.write(&own, &party.public, database, &all)?;
        }
        Ok(network)
    }
}

/// Makes the folder of one party: its keys, and the file with what others may know.
///
/// # Errors
/// [`LedgerError::Refused`] for a name that does not do, [`LedgerError::File`].
pub fn make_identity(
    folder: &Path,
    name: &str,
    role: PartyRole,
    address: Option<&str>,
    key: Option<&Path>,
    service: Option<u32>,
) -> LedgerResult<()> {
    if service.is_some() && role != PartyRole::Ordering {
        return Err(LedgerError::Refused(format!("\"{name}\" is no ordering server, and of no service")));
    }
    if address.is_none() && role != PartyRole::Client {
        return Err(LedgerError::Refused(format!("\"{name}\" needs an address at which others find it")));
    }
    let keys = match key {
        None => KeyPair::generate()?,
        Some(path) => super::config::read_key(path)?,
    };
    let mut party = PartySecrets::new(name, role, address, keys)?;
    party.public.service = service;
    party.write(folder)
}

/// Reads what others may know of a party.
///
/// # Errors
/// [`LedgerError::File`] with what is wrong.
fn read_public(path: &Path) -> LedgerResult<PublicIdentity> {
    let text = std::fs::read_to_string(path).map_err(|error| LedgerError::file(path, error))?;
    toml::from_str(&text).map_err(|error| LedgerError::file(path, error.to_string().trim()))
}

/// Makes what a party with an identity needs to take part in a network of these parties. All that are given the same public
/// parts and terms make the same network, in whatever order they have them. Returns it.
///
/// # Errors
/// [`LedgerError::Refused`] for a policy or names that do not do, [`LedgerError::File`].
pub fn join(
    folder: &Path,
    terms: &NetworkTerms,
    database: Option<&str>,
    others: &[PathBuf],
) -> LedgerResult<LedgerHash> {
    let own = read_public(&folder.join(PUBLIC_FILE))?;
    match (own.role, database) {
        (PartyRole::Organization, Some(database)) => crate::member::address::check(database)?,
        (PartyRole::Organization, None) => {
            return Err(LedgerError::Refused("an organization needs --database".into()));
        }
        _ => {}
    }
    let mut parties = vec![own.clone()];
    for path in others {
        let party = read_public(path)?;
        if party != own {
            parties.push(party);
        }
    }
    parties.sort_by(|one, other| one.name.cmp(&other.name));
    terms.write(folder, &own, database, &parties)
}
