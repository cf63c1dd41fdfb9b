//! Names become addresses here, and refused addresses are dropped before a packet is sent.
//!
//! The connection uses what was checked, so a name that answers with a public address first and a private one
//! later (DNS rebinding) gains nothing. Literal addresses in a URL never reach a resolver: `abide_gate`'s
//! gate checks those.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use abide_gate::AddressGuard;
use abide_http::permitted_addresses;

use crate::wire::count_lookup;

/// A resolver that returns only addresses which may be contacted.
pub(crate) struct GuardedResolver {
    /// Answers by the crawler's owner, by lower-case name: asked before the inner resolver, and guarded like
    /// it.
    pub(crate) fixed: HashMap<String, Vec<SocketAddr>>,
    pub(crate) inner: Arc<dyn Resolve>,
    pub(crate) addresses: Arc<AddressGuard>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        count_lookup();
        let addresses = Arc::clone(&self.addresses);
        let host = name.as_str().to_ascii_lowercase();
        let found: Resolving = match self.fixed.get(host.strip_suffix('.').unwrap_or(&host)).cloned() {
            Some(fixed) => Box::pin(async { Ok(Box::new(fixed.into_iter()) as Addrs) }),
            None => self.inner.resolve(name),
        };
        Box::pin(async move {
            let addresses = permitted_addresses(&addresses, &host, found.await?)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The operating system's resolver, as reqwest uses it by default.
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fixed_name_is_known_in_any_case_and_guarded() {
        let fixed = HashMap::from([("fixed.example".to_owned(), vec!["10.0.0.1:0".parse().unwrap()])]);
        let resolver = GuardedResolver { fixed, inner: Arc::new(SystemResolver), addresses: Arc::default() };
        let Err(refused) = resolver.resolve("FIXED.example.".parse().unwrap()).await else {
            panic!("a private address is refused")
        };
        assert!(refused.to_string().contains("10.0.0.1"), "{refused}");
    }
}
