//! What a resolver returned, and what of it may be contacted.
//!
//! A connection must use what was judged here: then a name that answers with a public address first and a private one later (DNS
//! rebinding) gains nothing.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use abide_gate::AddressGuard;

use crate::body::BoxError;

/// Of the addresses that a resolver returned for `name`, those that may be contacted: 64 at most.
///
/// For the resolvers and connectors of HTTP clients. A literal address in a URL meets no resolver;
/// [`AddressGuard::check_url`] is for those.
///
/// ```
/// use abide_gate::AddressGuard;
/// use abide_http::permitted_addresses;
///
/// let guard = AddressGuard::default();
/// let (private, public) = ("10.0.0.1:443".parse()?, "93.184.216.34:443".parse()?);
/// assert_eq!(permitted_addresses(&guard, "a.example", [private, public])?, [public]);
/// assert!(permitted_addresses(&guard, "b.example", [private]).is_err());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Errors
/// If that leaves none. [`failure_of`](crate::failure_of) tells whether one was refused.
pub fn permitted_addresses(
    guard: &AddressGuard,
    name: &str,
    found: impl IntoIterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, BoxError> {
    let (mut permitted, mut refused) = (Vec::new(), None);
    for address in found.into_iter().take(ADDRESSES_MAX) {
        match guard.check(address.ip()) {
            Ok(()) => permitted.push(address),
            Err(error) => refused = refused.or(error.address()),
        }
    }
    if permitted.is_empty() {
        return Err(NoAddress { name: name.to_owned(), refused }.into());
    }
    Ok(permitted)
}

/// The name has no address that may be contacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoAddress {
    name: String,
    refused: Option<IpAddr>,
}

impl NoAddress {
    /// The first address that was refused; `None`: the name has no address at all.
    pub(crate) fn refused(&self) -> Option<IpAddr> {
        self.refused
    }
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refused {
            Some(address) => write!(f, "{} resolves to {address}, which is not a public address", self.name),
            None => write!(f, "{} has no address", self.name),
        }
    }
}

impl Error for NoAddress {}

/// More addresses than this are of no use to one connection, and a resolver could return any number.
const ADDRESSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_usable_addresses_differs_from_one_without_any() {
        let private: SocketAddr = "10.0.0.1:443".parse().unwrap();
        let error = |found: &[SocketAddr]| {
            permitted_addresses(&AddressGuard::default(), "a.example", found.iter().copied())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(&[private]), "a.example resolves to 10.0.0.1, which is not a public address");
        assert_eq!(error(&[]), "a.example has no address");
    }

    #[test]
    fn of_any_number_of_addresses_64_are_looked_at() {
        let public: SocketAddr = "93.184.216.34:443".parse().unwrap();
        let found =
            permitted_addresses(&AddressGuard::default(), "a.example", std::iter::repeat(public)).unwrap();
        assert_eq!(found.len(), 64);
    }
}
