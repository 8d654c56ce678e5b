//! Domains, as columns and texts that are kept know them: by a number that stays as long as the process lives, whatever the domain is
//! called. Which version of its conditions is the current one is a number of those that the floors above know; see docs/design/domains.md.

use ankerdb_base::{Error, Result, SqlState};
use std::sync::atomic::{AtomicU32, Ordering};

/// Domains that there can be in the life of a process.
const DOMAINS_MAX: usize = 1 << 16;
/// The first number that clients know a domain by: those of types of labels are counted from far below.
const FIRST_OID: u32 = 3 << 29;
/// Numbers of a domain: its own, and that of arrays of it.
const OIDS_OF_DOMAIN: u32 = 2;

/// A domain, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainType(u32);

/// How the name of a domain begins in texts that are kept; its number follows. It is written with the schema `pg_catalog`.
pub const KEPT_DOMAIN: &str = "domain_";

static MADE: AtomicU32 = AtomicU32::new(0);
/// The next number for clients.
static NEXT_OID: AtomicU32 = AtomicU32::new(FIRST_OID);
/// The number of each for clients.
static OIDS: [AtomicU32; DOMAINS_MAX] = [const { AtomicU32::new(0) }; DOMAINS_MAX];
/// The version of each that is committed.
static VERSIONS: [AtomicU32; DOMAINS_MAX] = [const { AtomicU32::new(0) }; DOMAINS_MAX];

impl DomainType {
    /// Another domain.
    ///
    /// # Errors
    /// `ProgramLimitExceeded` if there were too many.
    pub fn create() -> Result<DomainType> {
        DomainType::with_oid(|| NEXT_OID.fetch_add(OIDS_OF_DOMAIN, Ordering::Relaxed))
    }

    /// A domain that another process has made, with the number that clients know it by, which stays its own.
    ///
    /// # Errors
    /// `ProgramLimitExceeded` if there were too many.
    pub fn restore(oid: u32) -> Result<DomainType> {
        DomainType::leave_oid(oid);
        DomainType::with_oid(|| oid)
    }

    /// No domain that is made from now on gets this number, or one below.
    pub fn leave_oid(oid: u32) {
        NEXT_OID.fetch_max(oid.saturating_add(OIDS_OF_DOMAIN), Ordering::Relaxed);
    }

    fn with_oid(oid: impl FnOnce() -> u32) -> Result<DomainType> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        if number as usize >= DOMAINS_MAX {
            MADE.fetch_sub(1, Ordering::Relaxed);
            let message = format!("there cannot be more than {DOMAINS_MAX} domains");
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
        OIDS[number as usize].store(oid(), Ordering::Release);
        Ok(DomainType(number))
    }

    /// The domain with this number.
    pub fn by_number(number: u32) -> Option<DomainType> {
        (number < MADE.load(Ordering::Acquire)).then_some(DomainType(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Its number for clients, and in what is stored on disk.
    pub fn oid(self) -> u32 {
        OIDS[self.0 as usize].load(Ordering::Acquire)
    }

    /// The number of arrays of it.
    pub fn list_oid(self) -> u32 {
        self.oid() + 1
    }

    /// The version that is committed.
    pub fn version(self) -> u32 {
        VERSIONS[self.0 as usize].load(Ordering::Acquire)
    }

    /// Puts a version in place.
    pub fn set_version(self, version: u32) {
        VERSIONS[self.0 as usize].store(version, Ordering::Release);
    }
}
