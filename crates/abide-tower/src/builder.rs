//! How the layer is put together. The default is the polite choice.

use std::sync::Arc;

use abide_gate::access::Fetch;
use abide_gate::{GateBuilder, NoTimers};
use abide_http::Identity;
use abide_http::{Reader, Scan};
use abide_permissions::{PermissionStore, ReadOptions};
use tower_layer::Layer;

use crate::error::BuildError;
use crate::fetch::ServiceFetch;
use crate::layer::{AbideLayer, Core};
use crate::service::AbideService;

/// Settings of one crawler. Made by [`AbideLayer::builder`].
#[derive(Clone)]
#[must_use]
pub struct Builder {
    token: String,
    fallbacks: Vec<String>,
    user_agent: Option<String>,
    gate: GateBuilder,
    scan: Scan,
    read: ReadOptions,
    permission_store: Option<Arc<dyn PermissionStore>>,
}

impl Builder {
    pub(crate) fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            fallbacks: Vec::new(),
            user_agent: None,
            gate: GateBuilder::new(),
            scan: Scan::Eager,
            read: ReadOptions::for_tokens([]),
            permission_store: None,
        }
    }

    /// A further product token: the first of the chain that has a group in a robots.txt counts there
    /// (`ExampleBot-News`, then `ExampleBot`). For permissions every token of the chain counts.
    pub fn fallback(mut self, token: &str) -> Self {
        self.fallbacks.push(token.to_owned());
        self
    }

    /// The User-Agent that every request carries unless it has one. It must contain the first product token (RFC 9309 §2.2.1);
    /// without this setting it is that token.
    pub fn user_agent(mut self, header: &str) -> Self {
        self.user_agent = Some(header.to_owned());
        self
    }

    /// How robots.txt is obtained, how fast hosts are asked, how long a call may wait, which addresses may be contacted, and where
    /// all that is kept. Default: [`GateBuilder::new`].
    pub fn gate(mut self, settings: GateBuilder) -> Self {
        self.gate = settings;
        self
    }

    /// How permissions are read. Default: [`Scan::Eager`].
    pub fn scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// Limits and strictness of reading permissions. Its tokens are replaced by the crawler's own.
    pub fn read_options(mut self, options: ReadOptions) -> Self {
        self.read = options;
        self
    }

    /// Where permissions are kept between visits, so that a 304 comes with the last known rules. Default: nowhere.
    pub fn permission_store(mut self, store: Arc<dyn PermissionStore>) -> Self {
        self.permission_store = Some(store);
        self
    }

    /// The client with the layer around it; robots.txt goes through a clone of the client. For a client with a decompression layer use
    /// [`build`](Self::build).
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn wrap<S, B>(self, client: S) -> Result<AbideService<S>, BuildError>
    where
        S: Clone,
        ServiceFetch<S, B>: Fetch,
    {
        Ok(self.build(client.clone())?.layer(client))
    }

    /// The layer, with a service through whose clones robots.txt goes: best the bare client, without the layers that are only
    /// for pages. It must neither follow redirects, nor add credentials or cookies, nor decode bodies: a decompression layer stops after
    /// the first gzip member, and rules behind it are lost without a trace.
    ///
    /// Every service that the layer is put around shares its rules and its turns.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<S, B>(self, transport: S) -> Result<AbideLayer, BuildError>
    where
        ServiceFetch<S, B>: Fetch,
    {
        let identity = self.identity()?;
        let fetch = ServiceFetch::<S, B>::new(transport, identity.user_agent().clone());
        Ok(self.finish(identity, Arc::new(fetch)))
    }

    /// The layer, with a transport of your own for robots.txt.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with(self, fetch: Arc<dyn Fetch>) -> Result<AbideLayer, BuildError> {
        let identity = self.identity()?;
        Ok(self.finish(identity, fetch))
    }

    fn identity(&self) -> Result<Identity, BuildError> {
        NoTimers::check().map_err(BuildError::NoTimers)?;
        let identity = Identity::new(&self.token, &self.fallbacks, self.user_agent.as_deref());
        identity.map_err(BuildError::Identity)
    }

    fn finish(self, identity: Identity, fetch: Arc<dyn Fetch>) -> AbideLayer {
        let tokens = identity.tokens().to_vec();
        let read = self.read.with_tokens(tokens.iter().cloned());
        AbideLayer::new(Core {
            identity,
            gate: self.gate.build(tokens, fetch),
            reader: Reader::new(read).with_scan(self.scan).with_store(self.permission_store),
        })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("token", &self.token)
            .field("gate", &self.gate)
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}
