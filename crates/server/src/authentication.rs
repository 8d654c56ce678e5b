//! Asking a client for the server's password, before it gets a session (docs/design/authentication.md).

use crate::encryption::Encryption;
use crate::scram::{BINDING_MECHANISM, Binding, Challenge, MECHANISM, Verifier};
use crate::startup::{self, STARTUP_TIMEOUT};
use crate::wire::{Failure, Served, Wire};
use ankerdb_base::{Error, Result, SqlState};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pgwire::messages::startup::Authentication;
use postgres_protocol::password::scram_sha_256;
use std::collections::HashMap;
use std::time::Instant;

/// The longest message of a client, as in PostgreSQL.
const MESSAGE_BYTES_MAX: usize = 1024;
/// The type of all messages of a client meanwhile.
const RESPONSE: u8 = b'p';
const NONCE_BYTES: usize = 18;

/// A password that every client has to know, whatever user it says it is. The text itself is not kept.
#[derive(Clone)]
pub struct Password(Verifier);

impl Password {
    /// The password, or what PostgreSQL keeps of one (`rolpassword` in `pg_authid`, `SCRAM-SHA-256$...`). Takes some
    /// milliseconds.
    ///
    /// # Errors
    /// `InvalidParameterValue` if it is empty, or begins as such a verifier does and is none.
    pub fn new(secret: &str) -> Result<Password> {
        let wrong = |why: &'static str| Error::new(SqlState::InvalidParameterValue, why);
        let verifier = match secret.strip_prefix(MECHANISM).is_some_and(|rest| rest.starts_with('$')) {
            _ if secret.is_empty() => return Err(wrong("the password is empty")),
            true => Verifier::parse(secret),
            false => Verifier::parse(&scram_sha_256(secret.as_bytes())),
        };
        verifier.map(Password).ok_or_else(|| wrong("the SCRAM-SHA-256 verifier is malformed"))
    }
}

/// Shows nothing of it.
impl std::fmt::Debug for Password {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Password")
    }
}

/// Has the client prove that it knows the password.
pub(crate) fn authenticate(
    wire: &mut Wire,
    password: &Password,
    parameters: &HashMap<String, String>,
) -> Served {
    let user = startup::user(parameters)?;
    let until = Instant::now() + STARTUP_TIMEOUT;
    wire.set_patience(Some(STARTUP_TIMEOUT))?;
    let end_point = wire.encryption().and_then(Encryption::end_point).map(<[u8]>::to_vec);
    let offered = end_point.iter().map(|_| BINDING_MECHANISM).chain([MECHANISM]);
    wire.send(&Authentication::SASL(offered.map(str::to_owned).collect()))?;
    let initial = read_response(wire, until)?;
    let (binding, first) = first_message(&initial, end_point.as_deref()).map_err(Failure::Fatal)?;
    let challenge = Challenge::new(&password.0, first, &nonce().map_err(Failure::Fatal)?, binding);
    let challenge = challenge.map_err(Failure::Fatal)?;
    wire.send(&Authentication::SASLContinue(Bytes::from(challenge.message.clone())))?;
    let last = read_response(wire, until)?;
    let last = text(&last).map_err(Failure::Fatal)?;
    match challenge.verify(last).map_err(Failure::Fatal)? {
        Some(told) => {
            wire.send(&Authentication::SASLFinal(Bytes::from(told)))?;
            wire.set_patience(None)
        }
        None => {
            let message = format!("password authentication failed for user \"{user}\"");
            Err(Failure::Fatal(Error::new(SqlState::InvalidPassword, message)))
        }
    }
}

/// The next message of the client, which has to be one of the exchange.
fn read_response(wire: &mut Wire, until: Instant) -> Served<Vec<u8>> {
    wire.flush()?;
    let mut impatient = || if Instant::now() < until { Ok(()) } else { Err(Failure::Gone) };
    let head = wire.read_exact(5, &mut impatient)?;
    if head[0] != RESPONSE {
        let message = format!("expected SASL response, got message type {}", head[0]);
        return Err(Failure::Fatal(violation(message)));
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(Failure::Fatal(violation("invalid message length")));
    }
    wire.read_exact(length - 4, &mut impatient)
}

/// The client's first message, behind the name of the mechanism that it has chosen. `end_point`: what it was offered to bind to.
fn first_message<'a>(initial: &'a [u8], end_point: Option<&'a [u8]>) -> Result<(Binding<'a>, &'a str)> {
    let invalid = || violation("invalid message format");
    let end = initial.iter().position(|byte| *byte == 0).ok_or_else(invalid)?;
    let mechanism = &initial[..end];
    let binding = match end_point {
        Some(end_point) if mechanism == BINDING_MECHANISM.as_bytes() => Binding::EndPoint(end_point),
        Some(_) if mechanism == MECHANISM.as_bytes() => Binding::Declined,
        None if mechanism == MECHANISM.as_bytes() => Binding::Impossible,
        _ => return Err(violation("client selected an invalid SASL authentication mechanism")),
    };
    let (length, first) = initial[end + 1..].split_first_chunk::<4>().ok_or_else(invalid)?;
    if usize::try_from(u32::from_be_bytes(*length)) != Ok(first.len()) {
        return Err(invalid());
    }
    Ok((binding, text(first)?))
}

fn text(bytes: &[u8]) -> Result<&str> {
    let readable = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    readable.ok_or_else(|| violation("malformed SCRAM message"))
}

/// The server's part of an exchange's nonce.
fn nonce() -> Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Error::internal(format!("the system gives no random bits: {error}")))?;
    Ok(STANDARD.encode(bytes))
}

fn violation(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(SqlState::ProtocolViolation, message)
}
