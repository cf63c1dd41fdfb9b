//! Names become addresses here, and refused addresses are dropped before a packet is sent.
//!
//! The connection uses what was checked, so a name that answers with a public address first and a private one later (DNS
//! rebinding) gains nothing. Literal addresses in a URL never reach a resolver: `abide_gate`'s gate judges those.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use abide_gate::AddressGuard;
use abide_http::permitted_addresses;

/// A resolver that returns only addresses which may be contacted.
pub(crate) struct GuardedResolver {
    /// Answers by the crawler's owner, by lower-case name: asked before the inner resolver, and guarded like it.
    fixed: HashMap<String, Vec<SocketAddr>>,
    inner: Arc<dyn Resolve>,
    addresses: Arc<AddressGuard>,
}

impl GuardedResolver {
    pub(crate) fn new(
        fixed: HashMap<String, Vec<SocketAddr>>,
        inner: Arc<dyn Resolve>,
        addresses: Arc<AddressGuard>,
    ) -> Self {
        Self { fixed, inner, addresses }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = Arc::clone(&self.addresses);
        let host = name.as_str().to_ascii_lowercase();
        let fixed = self.fixed.get(host.strip_suffix('.').unwrap_or(&host)).cloned();
        let asked = match fixed {
            Some(_) => None,
            None => Some(self.inner.resolve(name)),
        };
        Box::pin(async move {
            let found: Addrs = match (fixed, asked) {
                (Some(fixed), _) => Box::new(fixed.into_iter()),
                (None, Some(asked)) => asked.await?,
                (None, None) => Box::new(std::iter::empty()),
            };
            let addresses = permitted_addresses(&addresses, &host, found)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The operating system's resolver, as reqwest uses it by default.
#[derive(Debug)]
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

    /// Answers in turn with the given lists.
    struct Scripted(std::sync::Mutex<std::collections::VecDeque<Vec<&'static str>>>);

    impl Resolve for Scripted {
        fn resolve(&self, _: Name) -> Resolving {
            let answer = self.0.lock().unwrap().pop_front().unwrap_or_default();
            let answer: Vec<SocketAddr> =
                answer.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect();
            Box::pin(async move { Ok(Box::new(answer.into_iter()) as Addrs) })
        }
    }

    fn guarded(answers: &[&[&'static str]]) -> GuardedResolver {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        GuardedResolver::new(
            HashMap::from([("fixed.example".to_owned(), vec!["10.0.0.1:0".parse().unwrap()])]),
            Arc::new(Scripted(std::sync::Mutex::new(answers))),
            Arc::new(AddressGuard::default()),
        )
    }

    async fn ask(resolver: &GuardedResolver, name: &str) -> Result<Vec<String>, String> {
        match resolver.resolve(name.parse().unwrap()).await {
            Ok(found) => Ok(found.map(|address| address.ip().to_string()).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn private_addresses_are_dropped_and_the_others_used() {
        let resolver = guarded(&[&["10.0.0.1", "93.184.216.34", "::1"]]);
        assert_eq!(ask(&resolver, "a.example").await.unwrap(), ["93.184.216.34"]);
    }

    #[tokio::test]
    async fn rebinding_gains_nothing() {
        let resolver = guarded(&[&["93.184.216.34"], &["127.0.0.2"]]);
        assert!(ask(&resolver, "a.example").await.is_ok());
        let refused = ask(&resolver, "a.example").await.unwrap_err();
        assert_eq!(refused, "a.example resolves to 127.0.0.2, which is not a public address");
    }

    #[tokio::test]
    async fn fixed_answers_are_guarded_too() {
        assert!(ask(&guarded(&[]), "FIXED.example.").await.unwrap_err().contains("10.0.0.1"));
    }

    #[tokio::test]
    async fn no_answer_is_an_error() {
        assert_eq!(ask(&guarded(&[&[]]), "a.example").await.unwrap_err(), "a.example has no address");
    }
}
