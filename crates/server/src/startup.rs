//! The first bytes of a connection: encryption begins or is declined, cancel requests are served, sessions start.

use crate::cancel::{CancelEntry, CancelRegistry};
use crate::encryption::{Encryption, HANDSHAKE_RECORD};
use crate::frontend::utf8;
use crate::tls::Tls;
use crate::wire::{Failure, Served, Wire};
use ankerdb_base::{Error, SqlState};
use ankerdb_socket::Stream;
use ankerdb_sql::SERVER_VERSION;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The one database.
pub(crate) const DATABASE: &str = "ankerdb";

/// How long a client may take to start a session, like PostgreSQL's `authentication_timeout`.
pub(crate) const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest startup packet, as in PostgreSQL.
const PACKET_BYTES_MAX: usize = 10_000;
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const PROTOCOL_3_0: u32 = 3 << 16;
/// The answer that declines encryption: a single byte.
const DECLINED: &[u8] = b"N";
const ACCEPTED: &[u8] = b"S";

/// Reads until the client starts a session, and returns the parameters that it asks for; `None` if it only cancels
/// one.
pub(crate) fn negotiate(
    wire: &mut Wire,
    cancels: &CancelRegistry,
    tls: Option<&Tls>,
) -> Served<Option<HashMap<String, String>>> {
    let until = Instant::now() + STARTUP_TIMEOUT;
    let mut impatient = || if Instant::now() < until { Ok(()) } else { Err(Failure::Gone) };
    wire.set_patience(Some(STARTUP_TIMEOUT))?;
    // Within the machine there is none, as in PostgreSQL.
    let tls = tls.filter(|_| !is_local(wire));
    if let Some(tls) = tls
        && wire.peek_first(&mut impatient)? == HANDSHAKE_RECORD
    {
        encrypt_at_once(wire, tls, until)?;
    }
    loop {
        let packet = read_packet(wire, &mut impatient)?;
        let (code, body) = packet.split_first_chunk::<4>().expect("at least four bytes were read");
        let is_encrypted = wire.encryption().is_some();
        match (u32::from_be_bytes(*code), tls) {
            (SSL_REQUEST, Some(tls)) if !is_encrypted => encrypt(wire, tls, until)?,
            (SSL_REQUEST | GSS_REQUEST, _) if !is_encrypted => {
                wire.output.extend_from_slice(DECLINED);
                wire.flush()?;
            }
            (CANCEL_REQUEST, _) => {
                if let Ok([process, secret]) = <[[u8; 4]; 2]>::try_from(body.as_chunks().0) {
                    cancels.cancel(i32::from_be_bytes(process), i32::from_be_bytes(secret));
                }
                return Ok(None);
            }
            (version, _) if version >> 16 == 3 => {
                let parameters = parse_parameters(body).map_err(Failure::Fatal)?;
                negotiate_version(wire, version, &parameters)?;
                wire.set_patience(None)?;
                return Ok(Some(parameters));
            }
            (version, _) => {
                let message = format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.0",
                    version >> 16,
                    version & 0xffff
                );
                return Err(fatal(SqlState::FeatureNotSupported, message));
            }
        }
    }
}

fn is_local(wire: &Wire) -> bool {
    matches!(wire.stream(), Stream::Unix(_))
}

/// Begins with encryption that a client has asked for.
fn encrypt(wire: &mut Wire, tls: &Tls, until: Instant) -> Served {
    if wire.has_input() {
        // Somebody on the way may have added it, so that it is taken for the client's own (CVE-2021-23222).
        let error = Error::new(SqlState::ProtocolViolation, "received unencrypted data after SSL request");
        return Err(Failure::Fatal(error.with_detail(
            "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
        )));
    }
    wire.encrypt(tls.credentials(), ACCEPTED, until)
}

/// Begins with encryption where a client has not asked first, as those of PostgreSQL 17 may do. They have to name the protocol, so that
/// a connection that was meant for another server is not taken for one of theirs.
fn encrypt_at_once(wire: &mut Wire, tls: &Tls, until: Instant) -> Served {
    wire.encrypt(tls.credentials(), &[], until)?;
    match wire.encryption().is_some_and(Encryption::has_named_protocol) {
        true => Ok(()),
        false => Err(fatal(
            SqlState::ProtocolViolation,
            "received direct SSL connection request without ALPN protocol negotiation extension",
        )),
    }
}

/// Refuses a client that comes without encryption where it is required, in PostgreSQL's words for that.
pub(crate) fn check_encryption(
    wire: &Wire,
    tls: Option<&Tls>,
    parameters: &HashMap<String, String>,
) -> Served {
    let user = user(parameters)?;
    if wire.encryption().is_some() || is_local(wire) || !tls.is_some_and(Tls::is_required) {
        return Ok(());
    }
    let host = wire.stream().peer_address().ok_or(Failure::Gone)?.ip();
    let database = database(parameters, user);
    let message = format!(
        "pg_hba.conf rejects connection for host \"{host}\", user \"{user}\", database \"{database}\", no encryption"
    );
    let error = Error::new(SqlState::InvalidAuthorizationSpecification, message);
    Err(Failure::Fatal(error.with_hint("The server requires TLS: connect with sslmode=require or stronger.")))
}

fn fatal(state: SqlState, message: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::Fatal(Error::new(state, message))
}

fn read_packet(wire: &mut Wire, impatient: &mut dyn FnMut() -> Served) -> Served<Vec<u8>> {
    let length = wire.read_exact(4, impatient)?;
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if !(8..=PACKET_BYTES_MAX).contains(&length) {
        return Err(fatal(SqlState::ProtocolViolation, "invalid length of startup packet"));
    }
    wire.read_exact(length - 4, impatient)
}

/// Pairs of zero-terminated strings, then one more zero byte.
fn parse_parameters(body: &[u8]) -> Result<HashMap<String, String>, Error> {
    let malformed = || {
        Error::new(
            SqlState::ProtocolViolation,
            "invalid startup packet layout: expected terminator as last byte",
        )
    };
    let mut parameters = HashMap::new();
    let mut fields = body.strip_suffix(&[0]).ok_or_else(malformed)?.split(|&byte| byte == 0);
    loop {
        match (fields.next(), fields.next()) {
            (Some(b""), None) => return Ok(parameters),
            (Some(name), Some(value)) if !name.is_empty() => {
                parameters.insert(utf8(name)?.to_owned(), utf8(value)?.to_owned());
            }
            _ => return Err(malformed()),
        }
    }
}

/// A client that speaks a newer 3.x, or wants protocol extensions, is told that it gets plain 3.0.
fn negotiate_version(wire: &mut Wire, version: u32, parameters: &HashMap<String, String>) -> Served {
    let extensions: Vec<String> =
        parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    match version == PROTOCOL_3_0 && extensions.is_empty() {
        true => Ok(()),
        false => wire.send(&NegotiateProtocolVersion::new(PROTOCOL_3_0 as i32, extensions)),
    }
}

/// The user's name, which every client has to say.
pub(crate) fn user(parameters: &HashMap<String, String>) -> Served<&String> {
    parameters.get("user").filter(|user| !user.is_empty()).ok_or_else(|| {
        fatal(SqlState::ProtocolViolation, "no PostgreSQL user name specified in startup packet")
    })
}

/// The database that the client asks for: the one with its user's name if it names none.
fn database<'p>(parameters: &'p HashMap<String, String>, user: &'p String) -> &'p String {
    parameters.get("database").filter(|name| !name.is_empty()).unwrap_or(user)
}

/// Checks what the client asks for: there is one database, and one encoding.
pub(crate) fn check(parameters: &HashMap<String, String>) -> Served {
    let user = user(parameters)?;
    let database = database(parameters, user);
    if database != DATABASE {
        return Err(fatal(SqlState::InvalidCatalogName, format!("database \"{database}\" does not exist")));
    }
    match parameters.get("client_encoding") {
        Some(name) if !is_utf8(name) => Err(fatal(
            SqlState::FeatureNotSupported,
            format!("client encoding \"{name}\" is not supported: only UTF8 is"),
        )),
        _ => Ok(()),
    }
}

/// Whether it is one of the names that clients use for UTF-8 (or for any encoding).
fn is_utf8(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    matches!(plain.as_str(), "utf8" | "unicode" | "sqlascii")
}

/// Whether a parameter of the startup packet is a setting of the session.
pub(crate) fn is_setting(name: &str) -> bool {
    !matches!(name, "user" | "database" | "options" | "replication" | "client_encoding")
        && !name.starts_with("_pq_.")
}

/// Settings in the form of command line options: `-c name=value`, `-cname=value` or `--name=value`. A backslash takes
/// the meaning from a blank.
pub(crate) fn parse_options(options: &str) -> Result<Vec<(String, String)>, Error> {
    let mut settings = Vec::new();
    let mut words = split_words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or(word.strip_prefix("-c")) {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => None,
        };
        match setting.as_deref().and_then(|setting| setting.split_once('=')) {
            Some((name, value)) => settings.push((name.replace('-', "_"), value.to_owned())),
            None => {
                let message = format!("invalid command-line argument for server process: {word}");
                return Err(Error::new(SqlState::InvalidParameterValue, message));
            }
        }
    }
    Ok(settings)
}

fn split_words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            character if character.is_ascii_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(characters.next()),
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Accepts the client and tells it about the server.
pub(crate) fn greet(
    wire: &mut Wire,
    parameters: &HashMap<String, String>,
    settings: &[(&'static str, String)],
    cancel: &CancelEntry,
) -> Served {
    wire.send(&Authentication::Ok)?;
    let user = parameters.get("user").map_or("", String::as_str);
    let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
    let fixed = [
        ("server_version", SERVER_VERSION),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("in_hot_standby", "off"),
        ("is_superuser", "on"),
        ("session_authorization", user),
    ];
    for (name, value) in fixed.into_iter().chain(settings) {
        wire.send(&ParameterStatus::new(name.to_owned(), value.to_owned()))?;
    }
    wire.send(&BackendKeyData::new(cancel.process, SecretKey::I32(cancel.secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_pairs_with_a_terminator() {
        let parsed = parse_parameters(b"user\0ann\0database\0\0\0").unwrap();
        assert_eq!(parsed["user"], "ann");
        assert_eq!(parsed["database"], "");
        assert!(parse_parameters(b"\0").unwrap().is_empty());
        for bad in [&b""[..], b"user\0ann", b"user\0ann\0", b"user\0\0"] {
            assert!(parse_parameters(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            parse_parameters(b"user\0\xff\0\0").unwrap_err().state(),
            SqlState::CharacterNotInRepertoire
        );
    }

    #[test]
    fn options_are_command_line_options() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options = "-c  default_transaction_isolation=read\\ committed --lock-timeout=0 -cwork_mem=1MB";
        assert_eq!(
            parse_options(options).unwrap(),
            [
                pair("default_transaction_isolation", "read committed"),
                pair("lock_timeout", "0"),
                pair("work_mem", "1MB")
            ]
        );
        assert!(parse_options(" ").unwrap().is_empty());
        assert!(parse_options("-x").is_err() && parse_options("-c").is_err());
    }

    #[test]
    fn names_of_utf8() {
        assert!(is_utf8("'utf-8'") && is_utf8("UTF8") && is_utf8("UNICODE"));
        assert!(!is_utf8("LATIN1"));
    }
}
