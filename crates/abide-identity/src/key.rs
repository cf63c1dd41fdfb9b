//! Ed25519 keys: from a file, a text or the machine's random numbers; and what signs, if the key is
//! elsewhere.
//!
//! The text that a key is read from is wiped from memory, and no `Debug` text, error or log shows the key.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::error::{IdentityError, Why};
use crate::names::TEST_KEY;

/// Signs with an Ed25519 key. [`Key`] does; implement it for a key that stays in an HSM or another process.
///
/// It is called once for each request, in the task that sends it, so it should return within microseconds.
pub trait Signer: fmt::Debug + Send + Sync {
    /// The public key, 32 bytes (RFC 8032 §5.1.5). Always the same.
    fn public_key(&self) -> [u8; 32];

    /// The signature of `message`, 64 bytes (RFC 8032 §5.1.6).
    ///
    /// # Errors
    /// Whatever goes wrong. The request is not sent then.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], Box<dyn std::error::Error + Send + Sync>>;
}

/// An Ed25519 key in memory. `Debug` shows only its thumbprint.
///
/// ```
/// use abide_identity::{Key, Signer};
///
/// let key = Key::generate()?;
/// let restored = Key::from_text(&key.to_pem())?;
/// assert_eq!(restored.public_key(), key.public_key());
/// # Ok::<(), abide_identity::IdentityError>(())
/// ```
pub struct Key {
    pair: Ed25519KeyPair,
    /// What the pair is made from (RFC 8032 §5.1.5), because ring gives it back in no form.
    seed: Zeroizing<[u8; SEED_LEN]>,
}

const SEED_LEN: usize = 32;
/// What stands before the seed in PKCS #8 (RFC 8410 §7): version 1, the algorithm 1.3.101.112, and two OCTET
/// STRINGs, one in the other.
const PKCS8_BEFORE_SEED: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

impl Key {
    /// Generates a new key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = Zeroizing::new([0; SEED_LEN]);
        SystemRandom::new().fill(seed.as_mut()).map_err(|error| Why::Signer(error.into()))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref());
        Ok(Self { pair: pair.map_err(|error| Why::Signer(error.into()))?, seed })
    }

    /// Reads a key from a file: PEM of PKCS #8, or a JWK. On Unix, only the owner may have access to the
    /// file.
    ///
    /// # Errors
    /// If the file cannot be read, others may read it, or it contains no Ed25519 private key.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let failed = |error| IdentityError::file(path, error);
        let file = std::fs::File::open(path).map_err(failed)?;
        // Of the file that was opened, because its name may lead to another one by now.
        check_permissions(path, &file.metadata().map_err(failed)?)?;
        // All at once, because growing would leave copies of the key in memory that nothing wipes.
        let mut text = Zeroizing::new(String::with_capacity(FILE_LEN_MAX));
        file.take(FILE_LEN_MAX as u64).read_to_string(&mut text).map_err(failed)?;
        Self::from_text(&text)
    }

    /// Reads a key from text: PEM of PKCS #8 (RFC 8410 §7), or a JWK (RFC 8037 §2).
    ///
    /// # Errors
    /// If it contains no Ed25519 private key.
    pub fn from_text(text: &str) -> Result<Self, IdentityError> {
        if text.trim_start().starts_with('{') { Self::from_jwk(text) } else { Self::from_pem(text) }
    }

    fn from_pem(text: &str) -> Result<Self, IdentityError> {
        let expected = || {
            IdentityError::key(
                "a PEM block PRIVATE KEY with an Ed25519 key (openssl genpkey -algorithm ed25519), or a JWK",
            )
        };
        let mut der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| expected())?;
        // `openssl genpkey` writes no public key to check the private one against.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        let seed = seed_of(der.secret_pkcs8_der());
        zeroize::Zeroize::zeroize(&mut der);
        let (pair, seed) = pair.ok().zip(seed).ok_or_else(expected)?;
        Ok(Self { pair, seed })
    }

    fn from_jwk(text: &str) -> Result<Self, IdentityError> {
        let expected = || {
            IdentityError::key(
                "a JWK of a private Ed25519 key: an object with \"kty\":\"OKP\", \"crv\":\"Ed25519\", \"x\" and \"d\"",
            )
        };
        // The errors of serde may quote the text, so they are dropped.
        let jwk: Jwk<'_> = serde_json::from_str(text).map_err(|_| expected())?;
        if jwk.kty != "OKP" || jwk.crv != "Ed25519" {
            return Err(expected());
        }
        let mut seed = Zeroizing::new([0; SEED_LEN]);
        let written = URL_SAFE_NO_PAD.decode_slice(jwk.d, seed.as_mut()).map_err(|_| expected())?;
        if written != SEED_LEN {
            return Err(expected());
        }
        let public_key = URL_SAFE_NO_PAD.decode(jwk.x).map_err(|_| expected())?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed.as_ref(), &public_key);
        Ok(Self { pair: pair.map_err(|_| expected())?, seed })
    }

    /// The private key as PEM of PKCS #8.
    pub fn to_pem(&self) -> Zeroizing<String> {
        // With room for all of it, because growing would leave a copy that nothing wipes.
        let mut der = Zeroizing::new(Vec::with_capacity(PKCS8_BEFORE_SEED.len().saturating_add(SEED_LEN)));
        der.extend_from_slice(&PKCS8_BEFORE_SEED);
        der.extend_from_slice(self.seed.as_ref());
        let text = Zeroizing::new(STANDARD.encode(&*der));
        Zeroizing::new(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", *text))
    }

    /// Writes the private key as PEM into a new file that only its owner may read.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), IdentityError> {
        let path = path.as_ref();
        let pem = self.to_pem();
        let mut options = std::fs::OpenOptions::new();
        // Never over a key that is there. The mode is set as the file is made, so at no time can others read
        // it.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(path).and_then(|mut file| {
            file.write_all(pem.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| IdentityError::file(path, error))
    }
}

impl Signer for Key {
    fn public_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        // An Ed25519 public key has 32 bytes; zip never panics.
        key.iter_mut().zip(self.pair.public_key().as_ref()).for_each(|(to, from)| *to = *from);
        key
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.pair.sign(message).as_ref().try_into()?)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&thumbprint(&self.public_key())).finish()
    }
}

/// The seed of a private key in PKCS #8, of which ring has taken the rest for right: it stands behind the
/// algorithm, in either version.
fn seed_of(der: &[u8]) -> Option<Zeroizing<[u8; SEED_LEN]>> {
    let (_, before) = PKCS8_BEFORE_SEED.split_at(PKCS8_BEFORE_SEED.len().saturating_sub(BEFORE_SEED_LEN));
    let at = der.windows(BEFORE_SEED_LEN).position(|part| part == before)?;
    let seed = der.get(at.checked_add(BEFORE_SEED_LEN)?..)?.first_chunk()?;
    Some(Zeroizing::new(*seed))
}

/// The algorithm and the two OCTET STRINGs before the seed, which both versions of PKCS #8 have.
const BEFORE_SEED_LEN: usize = 9;

/// A longer file is no key.
const FILE_LEN_MAX: usize = 16 * 1024;

/// A private key as JSON. Borrowed, so that no copy of it stays in memory.
#[derive(Deserialize)]
struct Jwk<'t> {
    kty: &'t str,
    crv: &'t str,
    x: &'t str,
    d: &'t str,
}

pub(crate) fn jwk_x(public_key: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(public_key)
}

/// # Errors
/// It is the RFC's test key.
pub(crate) fn check_own(signer: &dyn Signer) -> Result<(), IdentityError> {
    if jwk_x(&signer.public_key()) == TEST_KEY { Err(Why::TestKey.into()) } else { Ok(()) }
}

/// The SHA-256 thumbprint of a public key, base64url (RFC 7638 §3, with the members that RFC 8037 §2
/// requires, in their order).
pub fn thumbprint(public_key: &[u8; 32]) -> String {
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, jwk_x(public_key));
    URL_SAFE_NO_PAD.encode(digest(&SHA256, jwk.as_bytes()))
}

#[cfg(unix)]
fn check_permissions(path: &Path, metadata: &std::fs::Metadata) -> Result<(), IdentityError> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(Why::Permissions { path: path.to_owned(), mode }.into()) }
}

#[cfg(not(unix))]
fn check_permissions(_: &Path, _: &std::fs::Metadata) -> Result<(), IdentityError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_versions_of_pkcs8_are_read() {
        let version_2 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pem = |der: &[u8]| {
            format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
        };
        let key = Key::from_text(&pem(version_2.as_ref())).unwrap();
        let written = key.to_pem();
        assert_ne!(*written, pem(version_2.as_ref()), "it is written as version 1");
        let again = Key::from_text(&written).unwrap();
        assert_eq!(again.public_key(), key.public_key());
        assert_eq!(again.sign(b"message").unwrap(), key.sign(b"message").unwrap());
    }
}
