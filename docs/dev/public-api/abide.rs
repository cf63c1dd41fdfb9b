pub use abide_gate::{
    AddressGuard, BoxFuture, Clock, Denied, DeniedKind, Event, Failure, Gate,
    GateBuilder, HolderId, Host, Origin, SignRequest, StoreError, SystemClock,
    UnsupportedUrl, Verdict, WallMillis, pacing, robots_cache,
};
#[cfg(feature = "metrics")]
pub use abide_gate::{record_metrics, sample_metrics};
pub use abide_http::{
    BuildError, FetchInfo, Hop, InvalidValue, LicenseToken, Options, PaymentPolicy,
    PaymentTerms, Price, RedirectHistory, RedirectPolicy, Scan, Stopped,
};
#[cfg(feature = "identity")]
pub use abide_identity as identity;
pub use abide_permissions::{
    Answer, AppDirectives, HeadEnd, MemoryPermissionStore, PermissionRecord,
    PermissionStore, Permissions, Preference, Preferences, ReadOptions, TagRules, Usage,
    link_follow,
};
pub use abide_robots::{InvalidText, ProductToken, Target};
#[derive(Clone)]
pub struct Abide {}
impl Abide {
    pub fn builder(token: &str) -> Builder {}
    pub async fn check(&self, url: &Url) -> Result<Verdict, Denied> {}
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {}
    pub async fn rules(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {}
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {}
    pub async fn invalidate(&self, origin: &Origin) {}
    pub async fn acquire(&self, url: &Url) -> Result<Permit, Denied> {}
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {}
    pub fn gate_handle(&self) -> &Gate {}
    pub fn user_agent(&self) -> &HeaderValue {}
    pub fn wrap(&self, inner: reqwest::Client) -> ClientWithMiddleware {}
    pub fn resolver(&self) -> Arc<impl Resolve + use<>> {}
    pub fn middleware(&self) -> impl Middleware + Clone + use<> {}
    pub fn gate(&self) -> impl Middleware + Clone + use<> {}
    pub fn pacing(&self) -> impl Middleware + Clone + use<> {}
}
impl fmt::Debug for Abide {}
#[must_use]
pub struct Builder {}
impl Builder {
    pub fn fallback(self, token: &str) -> Self {}
    pub fn user_agent(self, header: &str) -> Self {}
    pub fn gate(self, settings: GateBuilder) -> Self {}
    pub fn robots(self, policy: RobotsPolicy) -> Self {}
    pub fn pace(self, policy: PacePolicy) -> Self {}
    pub fn max_wait(self, wait: Duration) -> Self {}
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {}
    pub fn timeout(mut self, timeout: Duration) -> Self {}
    pub fn read_timeout(mut self, timeout: Duration) -> Self {}
    pub fn decode(mut self, on: bool) -> Self {}
    pub fn redirects(self, policy: RedirectPolicy) -> Self {}
    pub fn scan(self, scan: Scan) -> Self {}
    pub fn read_options(self, options: ReadOptions) -> Self {}
    pub fn fetch_tdmrep(self) -> Self {}
    pub fn require_tdmrep(self) -> Self {}
    pub fn policy_token(self, token: &str, usage: Usage, fallback: bool) -> Self {}
    pub fn allow_net(self, net: IpNet) -> Self {}
    pub fn danger_allow_all_addresses(self) -> Self {}
    pub fn resolve(mut self, name: &str, address: SocketAddr) -> Self {}
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {}
    pub fn robots_store(self, store: Arc<dyn RobotsStore>) -> Self {}
    pub fn host_store(self, store: Arc<dyn HostStore>) -> Self {}
    pub fn permission_store(self, store: Arc<dyn PermissionStore>) -> Self {}
    #[cfg(feature = "identity")]
    pub fn sign_requests(self, identity: abide_identity::WebBotAuth) -> Self {}
    pub fn payment(self, policy: PaymentPolicy) -> Self {}
    pub fn license_tokens(
        self,
        find: impl Fn(
            &Url,
            &[(String, String)],
        ) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {}
    pub fn observer(self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {}
    pub fn danger_report_only(self, why: &str) -> Self {}
    pub fn fetch(mut self, fetch: Arc<dyn Fetch>) -> Self {}
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {}
    pub fn build_client(
        self,
        inner: reqwest::ClientBuilder,
    ) -> Result<ClientWithMiddleware, BuildError> {}
    pub fn build_with(
        self,
        inner: reqwest::ClientBuilder,
    ) -> Result<(Abide, reqwest::Client), BuildError> {}
    pub fn build(mut self) -> Result<Abide, BuildError> {}
}
impl std::fmt::Debug for Builder {}
pub trait RequestBuilderExt: sealed::Sealed {
    #[must_use]
    fn abide(self, options: Options) -> Self;
}
impl RequestBuilderExt for reqwest_middleware::RequestBuilder {}
pub trait ResponseExt: sealed::Sealed {
    fn fetch_info(&self) -> Option<&FetchInfo>;
    fn permissions(&self) -> Permissions {}
    fn preferences(&self) -> Preferences {}
}
impl ResponseExt for reqwest::Response {}
impl<B> ResponseExt for http::Response<B> {}
