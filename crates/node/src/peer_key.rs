//! Lets two servers that know the same shared secret agree on a key: SPAKE2 (RFC 9382) with P-256,
//! SHA-256, HKDF and HMAC.
//!
//! Each side sends a *share*, a point of the curve. A share looks like any other point, whatever
//! the secret is. So neither an eavesdropper nor a participant learns anything that lets it try
//! secrets offline: one handshake is one guess. `docs/design/peer-handshake.md` has the reasons for
//! this protocol.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use p256::elliptic_curve::group::Group;
use p256::elliptic_curve::sec1::{FromSec1Point, ToSec1Point};
use p256::{AffinePoint, NonZeroScalar, ProjectivePoint};
use sha2::{Digest, Sha256};

/// Bytes of a share: a point of P-256, uncompressed (SEC 1).
pub const SHARE_BYTES: usize = 65;

/// A share: the point that one side sends to the other.
pub type Share = [u8; SHARE_BYTES];

/// A MAC that proves that its sender has the key.
pub type Confirmation = [u8; 32];

/// The points M and N of RFC 9382 for P-256, compressed. Nobody knows their discrete logarithms.
const M: [u8; 33] = [
    0x02, 0x88, 0x6e, 0x2f, 0x97, 0xac, 0xe4, 0x6e, 0x55, 0xba, 0x9d, 0xd7, 0x24, 0x25, 0x79, 0xf2,
    0x99, 0x3b, 0x64, 0xe1, 0x6e, 0xf3, 0xdc, 0xab, 0x95, 0xaf, 0xd4, 0x97, 0x33, 0x3d, 0x8f, 0xa1,
    0x2f,
];
const N: [u8; 33] = [
    0x03, 0xd8, 0xbb, 0xd6, 0xc6, 0x39, 0xc6, 0x29, 0x37, 0xb0, 0x4d, 0x99, 0x7f, 0x38, 0xc3, 0x77,
    0x07, 0x19, 0xc6, 0x29, 0xd7, 0x01, 0x4d, 0x49, 0xa2, 0x4b, 0x4f, 0x98, 0xba, 0xa1, 0x29, 0x2b,
    0x49,
];

/// The names of the two sides in the protocol.
const DIALLER: &[u8] = b"quorate link v2, who dials";
const ACCEPTER: &[u8] = b"quorate link v2, who accepts";

/// The label that is hashed together with a secret to get its number.
const SECRET_LABEL: &[u8] = b"quorate link v2, secret";

const CONFIRMATION_INFO: &[u8] = b"ConfirmationKeys";

/// The side of a link that a server is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server that dialled.
    Dialler,
    /// The server that accepted the connection.
    Accepter,
}

/// A shared secret in the form that the protocol uses: the number w, and the points w*M and w*N.
pub struct SharedNumber {
    number: NonZeroScalar,
    blinds_dialler: ProjectivePoint,
    blinds_accepter: ProjectivePoint,
}

/// A key exchange that waits for the other side's share.
pub struct Exchange<'a> {
    shared: &'a SharedNumber,
    side: Side,
    drawn: NonZeroScalar,
    share: Share,
}

/// The result of an exchange. Both sides have equal keys only if they know the same secret.
pub struct Agreed {
    /// The key for the rest of the handshake; every exchange has a different one.
    pub key: [u8; 16],
    /// The confirmation that this side sends.
    pub own: Confirmation,
    /// The key of the other side's confirmation, and the bytes that it covers.
    of_other: (Vec<u8>, Vec<u8>),
}

impl SharedNumber {
    /// Derives the number of a secret, which may be any bytes.
    pub fn of(secret: &[u8]) -> SharedNumber {
        // The first hash that is below the order of the group; nearly always the very first.
        let drawn = (0_u64..).find_map(|attempt| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key has any length");
            mac.update(SECRET_LABEL);
            mac.update(&attempt.to_le_bytes());
            number(mac.finalize().into_bytes().into())
        });
        SharedNumber::new(drawn.expect("nearly every number is below the order"))
    }

    fn new(number: NonZeroScalar) -> SharedNumber {
        let [m, n] = [M, N].map(|bytes| point(&bytes).expect("is on the curve"));
        SharedNumber { blinds_dialler: m * *number, blinds_accepter: n * *number, number }
    }

    fn blind_of(&self, side: Side) -> &ProjectivePoint {
        match side {
            Side::Dialler => &self.blinds_dialler,
            Side::Accepter => &self.blinds_accepter,
        }
    }

    /// Starts an exchange. `draw` must return bytes that nobody else can know or predict.
    pub fn begin(&self, side: Side, mut draw: impl FnMut() -> [u8; 32]) -> Exchange<'_> {
        let drawn = loop {
            if let Some(drawn) = number(draw()) {
                break drawn;
            }
        };
        let share = ProjectivePoint::mul_by_generator(&drawn) + self.blind_of(side);
        Exchange { shared: self, side, drawn, share: bytes_of(&share) }
    }
}

impl Exchange<'_> {
    /// The share that this side sends.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Completes the exchange with the other side's share; `None` if those bytes are no valid
    /// share.
    pub fn finish(self, other: &Share) -> Option<Agreed> {
        self.finish_between(other, DIALLER, ACCEPTER)
    }

    fn finish_between(self, other: &Share, dialler: &[u8], accepter: &[u8]) -> Option<Agreed> {
        let (other_side, [dialled, accepted]) = match self.side {
            Side::Dialler => (Side::Accepter, [&self.share, other]),
            Side::Accepter => (Side::Dialler, [other, &self.share]),
        };
        let common = (point(other)? - self.shared.blind_of(other_side)) * *self.drawn;
        // Only somebody who knows the secret can choose a share with this result.
        if bool::from(common.is_identity()) {
            return None;
        }
        let number = self.shared.number.to_bytes();
        let mut transcript = Vec::new();
        let parts = [dialler, accepter, dialled, accepted, &bytes_of(&common), &number];
        for part in parts {
            transcript.extend_from_slice(&(part.len() as u64).to_le_bytes());
            transcript.extend_from_slice(part);
        }
        let digest = Sha256::digest(&transcript);
        let (key, confirms) = digest.split_at(16);
        let mut keys = [0; 32];
        let derived = Hkdf::<Sha256>::new(None, confirms).expand(CONFIRMATION_INFO, &mut keys);
        derived.expect("has 32 bytes to give");
        let (of_dialler, of_accepter) = keys.split_at(16);
        let (own, of_other) = match self.side {
            Side::Dialler => (of_dialler, of_accepter),
            Side::Accepter => (of_accepter, of_dialler),
        };
        Some(Agreed {
            key: key.try_into().expect("half of 32 bytes"),
            own: mac(own, &transcript).finalize().into_bytes().into(),
            of_other: (of_other.to_vec(), transcript),
        })
    }
}

impl Agreed {
    /// Whether the other side has the same key. Takes the same time for a wrong confirmation as for
    /// a right one.
    pub fn is_confirmed_by(&self, confirmation: &Confirmation) -> bool {
        let (key, transcript) = &self.of_other;
        mac(key, transcript).verify_slice(confirmation).is_ok()
    }
}

fn mac(key: &[u8], covered: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key has any length");
    mac.update(covered);
    mac
}

/// The scalar with these bytes, if it is within the order of the group and not 0.
fn number(bytes: [u8; 32]) -> Option<NonZeroScalar> {
    NonZeroScalar::from_repr(bytes.into()).into()
}

/// The point with these bytes, if it is on the curve and not at infinity.
fn point(bytes: &[u8]) -> Option<ProjectivePoint> {
    let point = ProjectivePoint::from(AffinePoint::from_sec1_bytes(bytes).ok()?);
    (!bool::from(point.is_identity())).then_some(point)
}

fn bytes_of(point: &ProjectivePoint) -> Share {
    let bytes = point.to_affine().to_sec1_point(false);
    // Shorter only at infinity, which is as unlikely as guessing a number of 256 bits.
    bytes.as_bytes().try_into().unwrap_or([0; SHARE_BYTES])
}

#[cfg(test)]
mod tests;
