//! What the server has to know of its own certificate and cannot ask its TLS library: whose key it certifies, when it is valid, and how it
//! was signed.
//!
//! ```text
//! SEQUENCE ─┬─ SEQUENCE (what is signed) ─┬─ [0] version, where it is not the first
//!           │                             ├─ INTEGER serial number
//!           │                             ├─ SEQUENCE signature algorithm
//!           │                             ├─ SEQUENCE issuer
//!           │                             ├─ SEQUENCE validity: two times
//!           │                             ├─ SEQUENCE subject
//!           │                             └─ SEQUENCE public key
//!           └─ SEQUENCE signature algorithm, signature ...                              (RFC 5280, section 4.1)
//! ```
//! Certificates are the operator's own: nothing is verified here, which is for clients to do.

use sha2::{Digest, Sha256, Sha384, Sha512};
use std::time::{SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;

/// Algorithms of RSA with PKCS #1, without the last number: 1.2.840.113549.1.1.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// ECDSA with a hash of SHA-2, without the last number: 1.2.840.10045.4.3.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// ECDSA with SHA-1: 1.2.840.10045.4.1.
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];

/// An element of a DER encoding.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// With tag and length.
    whole: &'a [u8],
}

/// Takes the next element from an encoding, if it is whole.
fn next<'a>(encoded: &mut &'a [u8]) -> Option<Element<'a>> {
    let whole = *encoded;
    let [tag, first, rest @ ..] = whole else { return None };
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *encoded = rest;
    Some(Element { tag: *tag, content, whole: &whole[..whole.len() - rest.len()] })
}

/// Takes the next element's content, if it has this tag.
fn next_of<'a>(encoded: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(encoded).filter(|element| element.tag == tag).map(|element| element.content)
}

/// The parts of a certificate that matter to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CertificateParts<'a> {
    /// The public key as certificates and keys encode it.
    pub public_key: &'a [u8],
    pub not_before: CertificateTime,
    pub not_after: CertificateTime,
    /// The object identifier of the algorithm by which it was signed.
    signature_algorithm: &'a [u8],
}

/// A time to the second, UTC; in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CertificateTime {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
}

impl<'a> CertificateParts<'a> {
    /// Reads a certificate of any version; `None` if it is malformed.
    pub(crate) fn read(mut certificate: &'a [u8]) -> Option<CertificateParts<'a>> {
        let mut outer = next_of(&mut certificate, SEQUENCE)?;
        let mut signed = next_of(&mut outer, SEQUENCE)?;
        let signature_algorithm = next_of(&mut next_of(&mut outer, SEQUENCE)?, OBJECT_IDENTIFIER)?;
        if signed.first() == Some(&VERSION) {
            next(&mut signed)?;
        }
        let _serial_number = next(&mut signed)?;
        let _signature_algorithm = next_of(&mut signed, SEQUENCE)?;
        let _issuer = next_of(&mut signed, SEQUENCE)?;
        let mut validity = next_of(&mut signed, SEQUENCE)?;
        let (not_before, not_after) =
            (CertificateTime::read(&mut validity)?, CertificateTime::read(&mut validity)?);
        let _subject = next_of(&mut signed, SEQUENCE)?;
        let public_key = next(&mut signed).filter(|key| key.tag == SEQUENCE)?.whole;
        Some(CertificateParts { public_key, not_before, not_after, signature_algorithm })
    }

    /// The certificate's hash that a channel is bound to (`tls-server-end-point` of RFC 5929, section 4.1): by the hash function of its
    /// signature, or by SHA-256 in place of a broken one. `None` where the signature has no such function (Ed25519), or names
    /// it in parameters (RSASSA-PSS), which PostgreSQL 15 does not read, either.
    pub(crate) fn end_point(&self, certificate: &[u8]) -> Option<Vec<u8>> {
        let algorithm = self.signature_algorithm;
        let hash: fn(&[u8]) -> Vec<u8> = match (algorithm.strip_prefix(RSA), algorithm.strip_prefix(ECDSA)) {
            (Some([4 | 5 | 11]), _) | (_, Some([2])) => |bytes| Sha256::digest(bytes).to_vec(),
            (Some([12]), _) | (_, Some([3])) => |bytes| Sha384::digest(bytes).to_vec(),
            (Some([13]), _) | (_, Some([4])) => |bytes| Sha512::digest(bytes).to_vec(),
            _ if algorithm == ECDSA_SHA1 => |bytes| Sha256::digest(bytes).to_vec(),
            _ => return None,
        };
        Some(hash(certificate))
    }
}

impl CertificateTime {
    /// Reads `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, the two forms that certificates have.
    fn read(encoded: &mut &[u8]) -> Option<CertificateTime> {
        let Element { tag, content, .. } = next(encoded)?;
        let digits = content.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        let number = |digits: &[u8]| digits.iter().fold(0, |sum, digit| 10 * sum + i64::from(digit - b'0'));
        let (year, rest) = match (tag, digits.len()) {
            // Two digits stand for the years from 1950 to 2049.
            (UTC_TIME, 12) => (1950 + (number(&digits[..2]) + 50) % 100, &digits[2..]),
            (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
            _ => return None,
        };
        let [month, day, hour, minute, second] =
            std::array::from_fn(|place| number(&rest[2 * place..2 * place + 2]));
        Some(CertificateTime { year, month, day, second_of_day: 3600 * hour + 60 * minute + second })
    }

    pub(crate) fn now() -> CertificateTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        CertificateTime::at(since.as_secs() as i64)
    }

    /// So many seconds after the beginning of 1970.
    fn at(seconds: i64) -> CertificateTime {
        // Years from March on, so that a leap day is the last of its year; 400 of them have 146,097 days.
        let days = seconds.div_euclid(86_400) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let second_of_day = seconds.rem_euclid(86_400);
        CertificateTime { year: 400 * era + year_of_era + next_year, month, day, second_of_day }
    }
}

/// The date.
impl std::fmt::Display for CertificateTime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    fn moment(year: i64, month: i64, day: i64, second_of_day: i64) -> CertificateTime {
        CertificateTime { year, month, day, second_of_day }
    }

    #[test]
    fn times_of_certificates_are_read_and_compared() {
        let read = |tag: u8, text: &str| {
            CertificateTime::read(&mut &[&[tag, text.len() as u8][..], text.as_bytes()].concat()[..])
        };
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(moment(2049, 12, 31, 86_399)));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(moment(1950, 1, 1, 0)));
        assert_eq!(read(GENERALIZED_TIME, "20500229010203Z"), Some(moment(2050, 2, 29, 3723)));
        for (tag, bad) in [(UTC_TIME, "4912312359Z"), (UTC_TIME, "20500101000000Z"), (2, "500101000000Z")] {
            assert_eq!(read(tag, bad), None, "{bad}");
        }
        assert_eq!(CertificateTime::at(0), moment(1970, 1, 1, 0));
        assert_eq!(CertificateTime::at(951_782_399), moment(2000, 2, 28, 86_399));
        assert_eq!(CertificateTime::at(951_782_400), moment(2000, 2, 29, 0));
        assert_eq!(CertificateTime::at(1_798_761_600), moment(2027, 1, 1, 0));
        assert!(moment(2026, 12, 31, 5) < moment(2027, 1, 1, 4));
        assert_eq!(moment(2027, 1, 1, 4).to_string(), "2027-01-01");
    }

    #[test]
    fn certificates_are_read_up_to_their_keys() {
        for (algorithm, end_point_bytes) in
            [(&PKCS_ECDSA_P256_SHA256, Some(32)), (&PKCS_ECDSA_P384_SHA384, Some(48)), (&PKCS_ED25519, None)]
        {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(2026, 2, 3);
            parameters.not_after = rcgen::date_time_ymd(2126, 4, 5);
            let certificate = parameters.self_signed(&key).unwrap();
            let parts = CertificateParts::read(certificate.der()).unwrap();
            assert_eq!(parts.public_key, rcgen::PublicKeyData::subject_public_key_info(&key));
            assert_eq!((parts.not_before, parts.not_after), (moment(2026, 2, 3, 0), moment(2126, 4, 5, 0)));
            assert_eq!(parts.end_point(certificate.der()).map(|hash| hash.len()), end_point_bytes);
            for cut in [0, 1, 2, 3, 4, 40, 100, certificate.der().len() - 1] {
                assert_eq!(CertificateParts::read(&certificate.der()[..cut]), None, "{cut}");
            }
        }
    }
}
