//! The few forms of CBOR (RFC 8949) that a `COSE_Sign1` needs. See [`to_be_signed`].

use crate::Statement;

const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;

/// Headers of COSE: algorithm, content type, key id, claims; and the claims issuer and subject.
const ALG: u8 = 1;
const CONTENT_TYPE: u8 = 3;
const KEY_ID: u8 = 4;
const CLAIMS: u8 = 15;
const ISSUER: u8 = 1;
const SUBJECT: u8 = 2;
/// `EdDSA`, which is -8.
const EDDSA: u8 = 0x27;

/// Appends the head of an item: its kind, and its length or value.
fn head(out: &mut Vec<u8>, kind: u8, length: usize) {
    let kind = kind << 5;
    match length {
        0..=23 => out.push(kind | length as u8),
        24..=0xff => out.extend([kind | 24, length as u8]),
        0x100..=0xffff => out.extend([&[kind | 25], &(length as u16).to_be_bytes()[..]].concat()),
        _ => out.extend([&[kind | 26], &(length as u32).to_be_bytes()[..]].concat()),
    }
}

fn bytes(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    head(out, kind, content.len());
    out.extend_from_slice(content);
}

/// The protected headers of a statement.
pub(crate) fn protected(statement: &Statement) -> Vec<u8> {
    let mut out = Vec::new();
    head(&mut out, MAP, 4);
    out.extend([ALG, EDDSA, CONTENT_TYPE]);
    bytes(&mut out, TEXT, b"application/json");
    out.push(KEY_ID);
    bytes(&mut out, BYTES, statement.key_id.as_bytes());
    out.push(CLAIMS);
    head(&mut out, MAP, 2);
    out.push(ISSUER);
    bytes(&mut out, TEXT, format!("urn:recount:tenant:{}", statement.tenant).as_bytes());
    out.push(SUBJECT);
    bytes(&mut out, TEXT, format!("urn:recount:run:{}", statement.run_id).as_bytes());
    out
}

/// The `Sig_structure` of RFC 9052, which is what is signed.
pub(crate) fn to_be_signed(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    head(&mut out, LIST, 4);
    bytes(&mut out, TEXT, b"Signature1");
    bytes(&mut out, BYTES, protected);
    bytes(&mut out, BYTES, b"");
    bytes(&mut out, BYTES, payload);
    out
}

pub(crate) fn sign1(protected: &[u8], payload: &[u8], signature: &[u8]) -> Vec<u8> {
    // Tag 18 is COSE_Sign1.
    let mut out = vec![0xd2];
    head(&mut out, LIST, 4);
    bytes(&mut out, BYTES, protected);
    head(&mut out, MAP, 0);
    bytes(&mut out, BYTES, payload);
    bytes(&mut out, BYTES, signature);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 8949, appendix A.
    #[test]
    fn heads_are_those_of_the_standard() {
        for (length, expected) in [
            (0, &[0x40][..]),
            (23, &[0x57]),
            (24, &[0x58, 24]),
            (255, &[0x58, 255]),
            (256, &[0x59, 1, 0]),
            (65_536, &[0x5a, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            head(&mut out, BYTES, length);
            assert_eq!(out, expected, "{length}");
        }
    }
}
