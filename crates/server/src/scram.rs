//! SCRAM-SHA-256 (RFC 5802, RFC 7677) on the server's side, in the form that PostgreSQL gives it: the password is never sent, and what
//! the server keeps is of no use to a thief without guessing.
//!
//! ```text
//! client                                             server
//! n,,n=,r=<its nonce>                     ──►
//!                                         ◄──        r=<both nonces>,s=<salt>,i=<iterations>
//! c=biws,r=<both nonces>,p=<proof>        ──►        proof XOR HMAC(stored key, all that was said) is the client's key,
//!                                                    whose hash is the stored key
//!                                         ◄──        v=HMAC(server key, all that was said)
//! ```
//! Over TLS the client may bind its proof to the server's certificate (SCRAM-SHA-256-PLUS): it then says the certificate's hash where `c=biws`
//! stands, as part of what is proved. Somebody on the way with a certificate of their own cannot pass that on.

use ankerdb_base::{Error, Result, SqlState};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The mechanism's name, and how a stored verifier begins.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism that binds to the channel.
pub(crate) const BINDING_MECHANISM: &str = "SCRAM-SHA-256-PLUS";
/// How a client begins that binds to the server's certificate.
const END_POINT: &str = "p=tls-server-end-point";
const KEY_BYTES: usize = 32;

/// Whether the client binds its proof to the channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'c> {
    /// It could not: there is nothing to bind to.
    Impossible,
    /// It could, and has chosen the mechanism that does not.
    Declined,
    /// To a certificate with this hash.
    EndPoint(&'c [u8]),
}

/// What a server keeps of a password.
#[derive(Clone)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`, PostgreSQL's form; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Verifier> {
        let text = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (head, keys) = text.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let decoded = |text: &str| STANDARD.decode(text).ok();
        let salt = decoded(salt)?;
        let iterations = iterations.parse().ok().filter(|count| *count > 0)?;
        Some(Verifier {
            iterations,
            salt,
            stored_key: decoded(stored_key)?.try_into().ok()?,
            server_key: decoded(server_key)?.try_into().ok()?,
        })
    }
}

/// What the server has answered to a client's first message.
pub(crate) struct Challenge<'v> {
    verifier: &'v Verifier,
    /// How the client's first message begins, and what its proof is bound to: as it has to be repeated.
    header: Vec<u8>,
    is_bound: bool,
    client_first: String,
    nonce: String,
    /// The answer.
    pub message: String,
}

impl<'v> Challenge<'v> {
    /// Answers a client's first message; `nonce` is the server's part of the nonce, printable and without commas.
    ///
    /// # Errors
    /// `ProtocolViolation`, `FeatureNotSupported`.
    pub(crate) fn new(
        verifier: &'v Verifier,
        first: &str,
        nonce: &str,
        binding: Binding<'_>,
    ) -> Result<Challenge<'v>> {
        let (flag, rest) = first.split_once(',').ok_or_else(|| malformed("it has no header"))?;
        let bound_to = check_flag(flag, binding)?;
        let (identity, client_first) = rest.split_once(',').ok_or_else(|| malformed("it has no header"))?;
        if !identity.is_empty() {
            return Err(unsupported("client uses authorization identity, but it is not supported"));
        }
        if client_first.starts_with("m=") {
            return Err(unsupported("client requires an unsupported SCRAM extension"));
        }
        // The user is the one of the startup packet; this name is empty, or is passed over.
        let mut attributes = client_first.split(',');
        let is_named = attributes.next().is_some_and(|name| name.starts_with("n="));
        let own = attributes.next().and_then(|own| own.strip_prefix("r=")).filter(|own| is_nonce(own));
        let Some(own) = own.filter(|_| is_named) else { return Err(malformed("it has no nonce")) };
        let nonce = format!("{own}{nonce}");
        let message = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        Ok(Challenge {
            verifier,
            header: [flag.as_bytes(), b",,", bound_to].concat(),
            is_bound: !bound_to.is_empty(),
            client_first: client_first.to_owned(),
            nonce,
            message,
        })
    }

    /// The last message to a client that knows the password; `None` for one that does not.
    ///
    /// # Errors
    /// `ProtocolViolation` for a message that is no answer to this challenge.
    pub(crate) fn verify(&self, last: &str) -> Result<Option<String>> {
        let (said, proof) = last.rsplit_once(",p=").ok_or_else(|| malformed("it has no proof"))?;
        let mut attributes = said.split(',');
        let binding = attributes.next().and_then(|binding| binding.strip_prefix("c="));
        if binding != Some(&STANDARD.encode(&self.header)) {
            return Err(match self.is_bound {
                true => unauthorized("SCRAM channel binding check failed"),
                false => malformed("its header is not that of the first message"),
            });
        }
        if attributes.next().and_then(|nonce| nonce.strip_prefix("r=")) != Some(&self.nonce) {
            return Err(malformed("its nonce is another one"));
        }
        let proof: Option<[u8; KEY_BYTES]> =
            STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok());
        let proof = proof.ok_or_else(|| malformed("its proof is none"))?;
        let all = format!("{},{},{said}", self.client_first, self.message);
        let mut client_key = sign(&self.verifier.stored_key, &all);
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        let is_known = is_equal(&Sha256::digest(client_key), &self.verifier.stored_key);
        Ok(is_known.then(|| format!("v={}", STANDARD.encode(sign(&self.verifier.server_key, &all)))))
    }
}

/// What the client's proof is bound to, by the flag with which it begins: nothing, or the certificate's hash.
fn check_flag<'c>(flag: &str, binding: Binding<'c>) -> Result<&'c [u8]> {
    match (flag, binding) {
        ("n", Binding::Impossible | Binding::Declined) | ("y", Binding::Impossible) => Ok(&[]),
        // It could bind and was not offered to, or so it was told on the way.
        ("y", Binding::Declined) => Err(unauthorized("SCRAM channel binding negotiation error").with_detail(
            "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel \
             binding.",
        )),
        (END_POINT, Binding::EndPoint(end_point)) => Ok(end_point),
        (_, Binding::EndPoint(_)) if flag.starts_with("p=") => {
            let message = format!("unsupported SCRAM channel-binding type \"{}\"", &flag[2..]);
            Err(Error::new(SqlState::ProtocolViolation, message))
        }
        (_, Binding::EndPoint(_)) => {
            Err(malformed("the mechanism binds to the channel, and the message has no channel binding"))
        }
        _ => Err(malformed("the mechanism does not bind to the channel, and the message has a channel binding")),
    }
}

fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn sign(key: &[u8; KEY_BYTES], text: &str) -> [u8; KEY_BYTES] {
    let mut signer = Hmac::<Sha256>::new_from_slice(key).expect("keys may have any length");
    signer.update(text.as_bytes());
    signer.finalize().into_bytes().into()
}

/// Takes the time that it takes for equal ones.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

fn malformed(detail: &'static str) -> Error {
    Error::new(SqlState::ProtocolViolation, "malformed SCRAM message").with_detail(detail)
}

fn unauthorized(message: &'static str) -> Error {
    Error::new(SqlState::InvalidAuthorizationSpecification, message)
}

fn unsupported(message: &'static str) -> Error {
    Error::new(SqlState::FeatureNotSupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Binding::{Declined, EndPoint, Impossible};
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use postgres_protocol::password::scram_sha_256;

    fn verifier(password: &str) -> Verifier {
        Verifier::parse(&scram_sha_256(password.as_bytes())).unwrap()
    }

    /// What a client with a password hears from a server with another one.
    fn talk(
        verifier: &Verifier,
        password: &str,
        binding: ChannelBinding,
        own: Binding,
    ) -> Result<Option<String>> {
        let mut client = ScramSha256::new(password.as_bytes(), binding);
        let first = String::from_utf8(client.message().to_vec()).unwrap();
        let challenge = Challenge::new(verifier, &first, "abc/+9", own)?;
        client.update(challenge.message.as_bytes()).unwrap();
        let last = String::from_utf8(client.message().to_vec()).unwrap();
        let told = challenge.verify(&last)?;
        if let Some(told) = &told {
            client.finish(told.as_bytes()).unwrap();
        }
        Ok(told)
    }

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = stretched(b"pencil", &salt, 4096);
        let client_key = sign(&salted, "Client Key");
        let verifier = Verifier {
            iterations: 4096,
            salt,
            stored_key: Sha256::digest(client_key).into(),
            server_key: sign(&salted, "Server Key"),
        };
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let challenge =
            Challenge::new(&verifier, first, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", Impossible).unwrap();
        assert_eq!(
            challenge.message,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let told = challenge.verify(last).unwrap();
        assert_eq!(told.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    /// PBKDF2 with one block, as RFC 5802 calls it.
    fn stretched(password: &[u8], salt: &[u8], iterations: u32) -> [u8; KEY_BYTES] {
        let sign = |text: &[u8]| -> [u8; KEY_BYTES] {
            let mut signer = Hmac::<Sha256>::new_from_slice(password).unwrap();
            signer.update(text);
            signer.finalize().into_bytes().into()
        };
        let mut last = sign(&[salt, &[0, 0, 0, 1]].concat());
        let mut sum = last;
        for _ in 1..iterations {
            last = sign(&last);
            sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }

    #[test]
    fn those_that_know_the_password_are_let_in_and_others_are_not() {
        let known = verifier("s3cret \u{e9}");
        let talk = |password, binding| talk(&known, password, binding, Impossible).unwrap();
        assert!(talk("s3cret \u{e9}", ChannelBinding::unsupported()).is_some());
        assert!(talk("s3cret \u{e9}", ChannelBinding::unrequested()).is_some());
        assert!(talk("s3cret", ChannelBinding::unsupported()).is_none());
        assert!(talk("", ChannelBinding::unsupported()).is_none());
    }

    #[test]
    fn a_proof_is_bound_to_the_certificate_that_the_client_has_seen() {
        let known = verifier("x");
        let seen = |hash: &[u8]| ChannelBinding::tls_server_end_point(hash.to_vec());
        assert!(talk(&known, "x", seen(b"hash"), EndPoint(b"hash")).unwrap().is_some());
        assert!(talk(&known, "y", seen(b"hash"), EndPoint(b"hash")).unwrap().is_none());
        assert!(talk(&known, "x", ChannelBinding::unsupported(), Declined).unwrap().is_some());
        let refused = |binding, own| talk(&known, "x", binding, own).unwrap_err().state();
        let (violation, unauthorized) =
            (SqlState::ProtocolViolation, SqlState::InvalidAuthorizationSpecification);
        assert_eq!(refused(seen(b"another"), EndPoint(b"hash")), unauthorized);
        assert_eq!(refused(ChannelBinding::unrequested(), Declined), unauthorized);
        assert_eq!(refused(ChannelBinding::unrequested(), EndPoint(b"hash")), violation);
        assert_eq!(refused(ChannelBinding::unsupported(), EndPoint(b"hash")), violation);
        assert_eq!(refused(seen(b"hash"), Declined), violation);
        assert_eq!(refused(seen(b"hash"), Impossible), violation);
        let told = Challenge::new(&known, "p=tls-unique,,n=,r=a", "abc", EndPoint(b"hash")).err().unwrap();
        assert_eq!(told.message(), "unsupported SCRAM channel-binding type \"tls-unique\"");
    }

    #[test]
    fn messages_that_are_no_part_of_the_exchange_are_refused() {
        let known = verifier("x");
        for first in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,r=a",
            "n,,n=,r=",
            "n,,n=,r= ",
            "n,a=b,n=,r=a",
            "p=tls-unique,,n=,r=a",
            "n,,m=1,n=,r=a",
        ] {
            assert!(Challenge::new(&known, first, "abc", Impossible).is_err(), "{first}");
        }
        let challenge = Challenge::new(&known, "n,,n=,r=xyz", "abc", Impossible).unwrap();
        let proof = STANDARD.encode([0; KEY_BYTES]);
        assert!(challenge.verify(&format!("c=biws,r=xyzabc,p={proof}")).unwrap().is_none());
        for last in ["", "c=biws,r=xyzabc", "c=biws,r=xyzabc,p=", "c=biws,r=xyzabc,p=AAAA"] {
            assert!(challenge.verify(last).is_err(), "{last}");
        }
        for said in ["c=biws,r=xyzabd", "c=eSws,r=xyzabc", "c=biws", "r=xyzabc,c=biws"] {
            assert!(challenge.verify(&format!("{said},p={proof}")).is_err(), "{said}");
        }
    }

    #[test]
    fn verifiers_have_the_form_of_postgresql() {
        let text = scram_sha_256(b"x");
        assert!(Verifier::parse(&text).is_some());
        for bad in
            ["", "x", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA", &text[..text.len() - 4], "md5abc"]
        {
            assert!(Verifier::parse(bad).is_none(), "{bad}");
        }
        assert!(Verifier::parse(&text.replace("$4096:", "$0:")).is_none());
    }
}
