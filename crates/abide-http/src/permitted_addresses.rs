//! What a resolver returned, and what of it may be contacted.
//!
//! A connection must use what was checked here: then a name that has a public address first and a private one
//! later (DNS rebinding) gains nothing.

use std::net::{IpAddr, SocketAddr};

use abide_gate::AddressGuard;
use thiserror::Error;

use crate::body::BoxError;

/// Filters the addresses that a resolver returned for `name`: those that may be contacted, at most 64.
///
/// For resolvers and connectors of HTTP clients. Check literal addresses in URLs with
/// [`AddressGuard::check_url`].
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
/// If none is left. [`failure_of`](crate::failure_of) returns whether one was refused.
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
    match refused {
        _ if !permitted.is_empty() => Ok(permitted),
        Some(address) => Err(NoAddress::Refused(name.to_owned(), address).into()),
        None => Err(NoAddress::None(name.to_owned()).into()),
    }
}

/// The name has no address that may be contacted.
#[derive(Debug, Error)]
pub(crate) enum NoAddress {
    #[error("{0} has no address")]
    None(String),
    #[error("{0} resolves to {1}, which is not a public address")]
    Refused(String, IpAddr),
}

/// More addresses than this are of no use to one connection, and a resolver could return any number.
const ADDRESSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_addresses_are_left_or_it_is_said_why_there_are_none() {
        let [private, public, own] =
            ["10.0.0.1:443", "93.184.216.34:443", "[::1]:443"].map(|address| address.parse().unwrap());
        let not_public = "a.example resolves to 10.0.0.1, which is not a public address";
        for (found, left) in [
            (vec![], Err("a.example has no address")),
            (vec![private, own], Err(not_public)),
            (vec![private, public, own], Ok(vec![public])),
        ] {
            let permitted = permitted_addresses(&AddressGuard::default(), "a.example", found.clone());
            let permitted = permitted.map_err(|error| error.to_string());
            assert_eq!(permitted, left.map_err(str::to_owned), "{found:?}");
        }
        let endless = permitted_addresses(&AddressGuard::default(), "a.example", std::iter::repeat(public));
        assert_eq!(endless.unwrap().len(), 64);
    }
}
