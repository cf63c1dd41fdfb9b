//! Names become addresses here, and refused addresses are dropped before a packet is sent.
//!
//! hyper-util's connector asks a service for addresses, and this is one: it is the address guard for those
//! who build their own client.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use abide_gate::AddressGuard;
use abide_http::permitted_addresses;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

use crate::BoxError;

/// A resolver for hyper-util's `HttpConnector` that returns only addresses which may be contacted.
///
/// Give it the guard of the layer's settings, so that both allow the same networks. It has no effect behind a
/// proxy, which resolves names itself.
///
/// ```
/// use abide_tower::{AbideLayer, Gate, GuardedResolver};
/// use hyper_util::client::legacy::{Client, connect::HttpConnector};
/// use hyper_util::rt::TokioExecutor;
///
/// let settings = Gate::builder().allow_net("10.1.0.0/16".parse()?);
/// let resolver = GuardedResolver::new(settings.address_guard().clone());
/// let connector = HttpConnector::new_with_resolver(resolver);
/// let client = Client::builder(TokioExecutor::new()).build::<_, http_body_util::Empty<bytes::Bytes>>(connector);
/// let client = AbideLayer::builder("ExampleBot").gate(settings).wrap(client)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GuardedResolver<R = GaiResolver> {
    addresses: AddressGuard,
    inner: R,
}

impl GuardedResolver {
    /// Wraps the operating system's resolver.
    pub fn new(addresses: AddressGuard) -> Self {
        Self::over(GaiResolver::new(), addresses)
    }
}

impl<R> GuardedResolver<R> {
    /// Wraps a resolver of your own.
    pub fn over(inner: R, addresses: AddressGuard) -> Self {
        Self { addresses, inner }
    }
}

impl<R> Service<Name> for GuardedResolver<R>
where
    R: Service<Name>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Error: Into<BoxError>,
    R::Future: Send + 'static,
{
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, addresses) = (name.as_str().to_owned(), self.addresses.clone());
        let found = self.inner.call(name);
        Box::pin(async move {
            let found = found.await.map_err(Into::into)?;
            Ok(permitted_addresses(&addresses, &host, found)?.into_iter())
        })
    }
}

impl<R> fmt::Debug for GuardedResolver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedResolver").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
