pub use futures_core::future::BoxFuture;
pub mod pacing;
pub mod robots_cache;
#[cfg(feature = "testing")]
pub mod testing;
pub mod hosts;
pub mod robots_cache;
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressGuard {}
impl AddressGuard {
    #[must_use]
    pub fn with_allowed_net(mut self, net: IpNet) -> Self {}
    #[must_use]
    pub fn danger_allow_all(mut self) -> Self {}
    pub fn check(&self, address: IpAddr) -> Result<(), Failure> {}
    pub fn check_url(&self, url: &Url) -> Result<(), Failure> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub left: Duration,
    pub over: Duration,
    pub throttles: u8,
    pub cause: BackoffCause,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackoffCause {
    Answer { status: u16, retry_after: Option<Duration> },
    EnhanceYourCalm,
    Operator,
    Shared,
}
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    fn now(&self) -> Instant;
    fn wall(&self) -> WallMillis;
}
impl Clock for SystemClock {}
impl Clock for CaughtClock {}
#[cfg(feature = "testing")]
impl Clock for ManualClock {}
pub const DELAY_MAX: Duration = Duration::from_secs(86_400);
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeferReason {
    Backoff { status: Option<u16>, retry_after: Option<Duration> },
    Delay { delay: Duration },
    InFlight { since: WallMillis, open: Duration },
    Breaker { cause: Failure },
    RateLimit,
    Robots,
    OtherProcess,
}
#[derive(Debug, Clone)]
pub struct Denied {}
impl Denied {
    #[doc(hidden)]
    pub fn new(kind: DeniedKind, url: &Url, now: WallMillis) -> Self {}
    #[doc(hidden)]
    #[must_use]
    pub fn with_retry_at(mut self, retry_at: Option<WallMillis>) -> Self {}
    #[doc(hidden)]
    #[must_use]
    pub fn after(mut self, redirects: Vec<(Url, StatusCode)>) -> Self {}
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {}
    pub fn kind(&self) -> &DeniedKind {}
    pub fn url(&self) -> &Url {}
    pub fn hop(&self) -> usize {}
    pub fn redirects(&self) -> &[(Url, StatusCode)] {}
    pub fn decided_at(&self) -> SystemTime {}
    pub fn retry_at(&self) -> Option<SystemTime> {}
    pub fn name(&self) -> &'static str {}
    pub fn is_disallowed(&self) -> bool {}
    pub fn is_unreachable(&self) -> bool {}
    pub fn is_temporary(&self) -> bool {}
}
impl fmt::Display for Denied {}
impl Error for Denied {}
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DeniedKind {
    Disallowed { verdict: Verdict },
    Unreachable { since: SystemTime, cause: Failure },
    Deferred { reason: DeferReason },
    CrawlDelayTooLong { asked: Duration },
    AddressRefused { address: Option<IpAddr> },
    UnsupportedUrl,
    TooManyRedirects,
    RedirectBypass { got: Url },
    NoPacing,
    SentAgain { times: u32 },
    Identity { user_agent: String, token: String },
    ForeignHost { host: String },
    NotSigned { reason: String },
    Store { reason: String },
    Panicked { callback: &'static str },
    TdmrepUnknown,
    NoTimers,
    Interrupted,
}
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    RobotsAttempted { origin: &'a Origin, took: Duration },
    RobotsAnswered { entry: &'a Arc<RobotsEntry> },
    RobotsChanged { old: Option<&'a GoodCopy>, entry: &'a Arc<RobotsEntry> },
    RobotsStoreFailed { origin: &'a Origin, error: &'a StoreError },
    Granted { scope: &'a str, waited: Duration },
    Deferred { scope: &'a str, wait: Duration, reason: &'a DeferReason },
    BackedOff { scope: &'a str, lasts: Duration, cause: BackoffCause },
    RateLimitIgnored { scope: &'a str, field: &'static str },
    BreakerOpened { scope: &'a str, lasts: Duration, failure: Failure },
    BodyOpen { scope: &'a str, open: Duration },
    StoreDown { reason: &'a str },
    StoreBack,
    Overgrown { hosts: usize },
    Exception { scope: &'a str, delay: Duration, max_in_flight: u16 },
    Checked { origin: &'a Origin, verdict: &'a Verdict },
    Overridden { origin: &'a Origin, reason: &'a str },
    Refused { denied: &'a Denied, hop: usize },
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Failure {
    Dns,
    Refused,
    NoRoute,
    Connect,
    Tls,
    CertificateExpired,
    CertificateUntrusted,
    CertificateName,
    NotTls,
    Reset,
    Protocol,
    HeadTooLarge,
    EnhanceYourCalm,
    Timeout,
    Body,
    StillCoded,
    Html,
    AddressRefused(IpAddr),
    RedirectStatus,
    LocationMissing,
    LocationInvalid,
    RedirectDowngrade,
    Status(u16),
    Other,
}
impl Failure {
    pub fn is_dns(&self) -> bool {}
    pub fn is_connect(&self) -> bool {}
    pub fn is_tls(&self) -> bool {}
    pub fn is_timeout(&self) -> bool {}
    pub fn is_body(&self) -> bool {}
    pub fn is_refused(&self) -> bool {}
    pub fn is_redirect(&self) -> bool {}
    pub fn address(&self) -> Option<IpAddr> {}
    pub fn status(&self) -> Option<u16> {}
}
impl fmt::Display for Failure {}
impl std::error::Error for Failure {}
pub trait Fetch: fmt::Debug + Send + Sync + 'static {
    fn fetch(
        &self,
        request: RobotsRequest,
    ) -> BoxFuture<'_, Result<RobotsResponse, FetchError>>;
}
impl Fetch for PacedFetch {}
impl Fetch for RuledFetch {}
impl Fetch for Nowhere {}
#[derive(Clone)]
pub struct FetchError {}
impl FetchError {
    pub fn new(failure: Failure, text: impl Into<String>) -> Self {}
    pub fn failure(&self) -> Option<Failure> {}
}
impl fmt::Display for FetchError {}
impl fmt::Debug for FetchError {}
impl Error for FetchError {}
#[derive(Debug, Clone)]
pub struct Gate {}
impl Gate {
    pub fn builder() -> GateBuilder {}
    pub async fn admit(
        &self,
        url: &Url,
        budget: Duration,
    ) -> Result<(Verdict, Permit), Denied> {}
    pub async fn check(
        &self,
        url: &Url,
        left: &mut Duration,
    ) -> Result<Verdict, Denied> {}
    pub fn check_cached(&self, url: &Url) -> Option<Verdict> {}
    pub fn overridden(&self, verdict: Verdict, why: &Arc<str>) -> Verdict {}
    pub fn report_refused(&self, denied: &Denied) {}
    pub async fn answer(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Denied> {}
    pub fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {}
    pub async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {}
    pub async fn invalidate(&self, origin: &Origin) {}
    pub async fn acquire(
        &self,
        url: &Url,
        verdict: &mut Verdict,
        left: &mut Duration,
    ) -> Result<Permit, Denied> {}
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Denied> {}
    pub fn next_ready<'h>(
        &self,
        hosts: impl IntoIterator<Item = &'h Host>,
    ) -> Option<(&'h Host, NextSlot)> {}
    pub fn back_off(&self, scope: impl AsRef<str>, until: WallMillis) -> WallMillis {}
    pub fn report(&self, host: &Host) -> Option<HostReport> {}
    pub fn reports(&self) -> Vec<HostReport> {}
    pub fn stats(&self) -> Stats {}
    pub async fn settled(&self, limit: Duration) -> bool {}
    pub fn signer(&self) -> Option<&Arc<dyn SignRequest>> {}
    pub fn max_wait(&self) -> Duration {}
    pub fn now(&self) -> Instant {}
    pub fn wall(&self) -> WallMillis {}
}
#[derive(Clone)]
#[must_use]
pub struct GateBuilder {}
impl GateBuilder {
    pub fn new() -> Self {}
    pub fn robots(mut self, policy: RobotsPolicy) -> Self {}
    pub fn pace(mut self, policy: PacePolicy) -> Self {}
    pub fn max_wait(mut self, wait: Duration) -> Self {}
    pub fn allow_net(mut self, net: IpNet) -> Self {}
    pub fn danger_allow_all_addresses(mut self) -> Self {}
    pub fn addresses(mut self, guard: AddressGuard) -> Self {}
    pub fn address_guard(&self) -> &AddressGuard {}
    pub fn robots_store(mut self, store: Arc<dyn RobotsStore>) -> Self {}
    pub fn host_store(mut self, store: Arc<dyn HostStore>) -> Self {}
    pub fn observer(mut self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {}
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {}
    pub fn seed(mut self, seed: u64) -> Self {}
    pub fn sign_requests(mut self, signer: Arc<dyn SignRequest>) -> Self {}
    pub fn fetch_tdmrep(mut self) -> Self {}
    pub fn require_tdmrep(mut self) -> Self {}
    pub fn build(self, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Gate {}
}
impl Default for GateBuilder {}
impl fmt::Debug for GateBuilder {}
#[derive(Clone, PartialEq)]
pub struct GoodCopy {}
impl GoodCopy {
    pub fn body(&self) -> &[u8] {}
    pub fn is_truncated(&self) -> bool {}
    pub fn status(&self) -> u16 {}
    pub fn fetched_at(&self) -> WallMillis {}
    pub fn validated_at(&self) -> WallMillis {}
}
impl fmt::Debug for GoodCopy {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderId(pub u128);
impl HolderId {
    pub fn random() -> Self {}
}
impl fmt::Display for HolderId {}
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {}
impl Host {
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {}
    pub fn as_str(&self) -> &str {}
}
impl AsRef<str> for Host {}
impl std::borrow::Borrow<str> for Host {}
impl fmt::Debug for Host {}
impl fmt::Display for Host {}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEntry {}
impl HostEntry {
    pub fn exchange(
        &mut self,
        ask: &LeaseAsk,
        now: Duration,
        grace_until: Duration,
    ) -> (LeaseStatus, HostState) {}
    pub fn is_owed(&self, now: Duration) -> bool {}
    pub fn state(&self, now: Duration) -> HostState {}
    pub fn merge(&mut self, reported: &HostState, now: Duration) {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostReport {
    pub scope: Box<str>,
    pub requests: u32,
    pub deferrals: u32,
    pub backoffs: u32,
    pub waited: Duration,
    pub longest_wait: Duration,
    pub in_flight: usize,
    pub waiting: usize,
    pub open: Option<Duration>,
    pub backed_off_until: Option<WallMillis>,
    pub delay: Duration,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    pub quiet: Option<Duration>,
    pub delay: Duration,
    pub backoff: Option<Backoff>,
}
pub trait HostStore: fmt::Debug + Send + Sync + 'static {
    fn exchange<'a>(
        &'a self,
        host: &'a str,
        ask: LeaseAsk,
    ) -> StoreFuture<'a, (LeaseStatus, HostState)>;
}
impl HostStore for MemoryStore {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    pub holder: HolderId,
    pub want: Want,
    pub state: HostState,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    Leased { is_wanted: bool },
    Busy { wait: Duration, is_next: bool },
    Released,
}
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct ManualClock {}
#[cfg(feature = "testing")]
impl ManualClock {
    pub fn starting_at(wall: WallMillis) -> Self {}
    pub fn jump_to(&self, wall: WallMillis) {}
}
#[cfg(feature = "testing")]
impl Clock for ManualClock {}
pub struct MemoryStore {}
impl MemoryStore {
    pub fn new() -> Self {}
    #[must_use]
    pub fn with_capacity(self, bytes: u64) -> Self {}
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {}
}
impl Default for MemoryStore {}
impl fmt::Debug for MemoryStore {}
impl RobotsStore for MemoryStore {}
impl HostStore for MemoryStore {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextSlot {
    pub not_before: WallMillis,
    pub wait: Duration,
    pub overdue: Option<Duration>,
    pub waiting: usize,
    pub in_flight: usize,
}
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {}
impl Origin {
    pub fn of(url: &Url) -> Result<Self, UnsupportedUrl> {}
    pub fn as_str(&self) -> &str {}
    pub fn scheme(&self) -> &str {}
    pub fn robots_url(&self) -> Url {}
    pub fn host(&self) -> Host {}
}
impl fmt::Debug for Origin {}
impl fmt::Display for Origin {}
impl std::str::FromStr for Origin {
    type Err = UnsupportedUrl;
}
#[derive(Clone, Debug)]
pub struct PacePolicy {}
impl Default for PacePolicy {}
impl PacePolicy {
    pub const DELAY: Duration = Duration::from_secs(1);
    pub const MAX_WAIT: Duration = Duration::from_secs(30);
    pub fn archive() -> Self {}
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {}
    #[must_use]
    pub fn danger_min_delay(mut self, delay: Duration) -> Self {}
    #[must_use]
    pub fn danger_max_in_flight(mut self, max: u16) -> Self {}
    #[must_use]
    pub fn with_max_wait(mut self, wait: Duration) -> Self {}
    #[must_use]
    pub fn with_host_delay(mut self, host: Host, delay: Duration) -> Self {}
    #[must_use]
    pub fn danger_host(
        mut self,
        host: Host,
        delay: Duration,
        max_in_flight: u16,
    ) -> Self {}
    #[must_use]
    pub fn with_own_sites(self, hosts: impl IntoIterator<Item = Host>) -> Self {}
    #[must_use]
    pub fn danger_unleased(mut self, hosts: impl IntoIterator<Item = Host>) -> Self {}
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {}
    #[must_use]
    pub fn with_adaptive_delay(mut self) -> Self {}
    #[must_use]
    pub fn with_backoff_on_forbidden(mut self) -> Self {}
    #[must_use]
    pub fn with_hosts_max(mut self, max: usize) -> Self {}
    #[must_use]
    pub fn with_expected_workers(mut self, workers: u32) -> Self {}
    #[must_use]
    pub fn with_fail_closed(mut self) -> Self {}
    #[must_use]
    pub fn with_store_timeout(mut self, timeout: Duration) -> Self {}
    #[must_use]
    pub fn with_lease(mut self, ttl: Duration) -> Self {}
    pub fn min_delay(&self) -> Duration {}
    pub fn scopes(&self) -> &[Scope] {}
}
#[must_use = "the response ends for its host when the permit is dropped: keep it until the response has ended"]
pub struct Permit {}
impl Permit {
    pub fn waited(&self) -> Duration {}
    pub fn elapsed(&self) -> Duration {}
    pub fn observe(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<WallMillis> {}
    pub fn failed(&self, fault: Failure) -> Option<WallMillis> {}
    pub fn is_saved(&self) -> bool {}
    pub async fn saved(&self) {}
    pub fn finish(self) {}
    pub fn finish_with(self, status: StatusCode, headers: &HeaderMap) {}
    pub fn give_back(mut self) {}
}
impl Drop for Permit {}
impl fmt::Debug for Permit {}
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
pub struct RobotsEntry {}
impl RobotsEntry {
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {}
    pub fn explain(self: &Arc<Self>, target: &Target<'_>) -> Verdict {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn origin(&self) -> &Origin {}
    pub fn source(&self) -> Source {}
    pub fn copy(&self) -> Option<&GoodCopy> {}
    pub fn final_url(&self) -> Option<Url> {}
    pub fn status(&self) -> Option<u16> {}
    pub fn failure(&self) -> Option<Failure> {}
    pub fn fetched_at(&self) -> Option<WallMillis> {}
    pub fn age(&self, now: WallMillis) -> Option<Duration> {}
    pub fn asked_at(&self) -> WallMillis {}
    pub fn fresh_until(&self) -> WallMillis {}
    pub fn failing_since(&self) -> Option<WallMillis> {}
    pub fn attempts(&self) -> u32 {}
    pub fn retry_at(&self) -> WallMillis {}
    pub fn is_truncated(&self) -> bool {}
    pub fn is_not_text(&self) -> bool {}
    pub fn remarks(&self) -> Vec<Remark> {}
    pub fn record(&self) -> &RobotsRecord {}
}
impl fmt::Debug for RobotsEntry {}
#[derive(Debug, Default)]
pub struct RobotsLeases {}
impl RobotsLeases {
    pub fn lease(
        &self,
        origin: &Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> Option<WallMillis> {}
    pub fn release(&self, origin: &Origin, holder: Option<HolderId>) {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsPolicy {}
impl Default for RobotsPolicy {}
impl RobotsPolicy {
    #[must_use]
    pub fn cautious() -> Self {}
    pub fn is_cautious(&self) -> bool {}
    #[must_use]
    pub fn with_redirects_max(mut self, hops: usize) -> Self {}
    #[must_use]
    pub fn with_downgrade(mut self, follow: bool) -> Self {}
    #[must_use]
    pub fn with_html_unreachable(mut self) -> Self {}
    #[must_use]
    pub fn with_lasting_disallow(mut self) -> Self {}
    #[must_use]
    pub fn danger_allow_when_unreachable(mut self) -> Self {}
    #[must_use]
    pub fn with_lifetimes(mut self, shortest: Duration, longest: Duration) -> Self {}
    #[must_use]
    pub fn with_retry(mut self, first: Duration, longest: Duration) -> Self {}
    #[must_use]
    pub fn with_body_limit(mut self, bytes: usize) -> Self {}
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {}
    pub fn deadline(&self) -> Duration {}
    #[must_use]
    pub fn with_fetches_max(mut self, fetches: usize) -> Self {}
    #[must_use]
    pub fn with_store_timeout(mut self, timeout: Duration) -> Self {}
    #[must_use]
    pub fn with_memory_max(mut self, bytes: u64) -> Self {}
}
#[derive(Debug, Clone, PartialEq)]
pub struct RobotsRecord {}
impl RobotsRecord {
    pub fn origin(&self) -> &Origin {}
    pub fn asked_at(&self) -> WallMillis {}
    pub fn copy(&self) -> Option<&GoodCopy> {}
    pub fn failing_since(&self) -> Option<WallMillis> {}
    pub fn weight(&self) -> usize {}
}
impl RobotsRecord {
    pub fn encode(&self) -> Vec<u8> {}
    pub fn decode(bytes: &[u8]) -> Option<Self> {}
}
#[derive(Debug, Clone)]
pub struct RobotsRequest {}
impl RobotsRequest {
    pub fn new(url: Url, budget: Duration) -> Self {}
    pub fn url(&self) -> &Url {}
    pub fn is_conditional(&self) -> bool {}
    pub fn budget(&self) -> Duration {}
    pub fn hop(&self) -> usize {}
    pub fn headers(&self) -> HeaderMap {}
}
pub struct RobotsResponse {}
impl RobotsResponse {
    pub fn new(
        status: StatusCode,
        headers: HeaderMap,
        body: FetchBody,
        started: Instant,
    ) -> Self {}
    pub fn whole(
        status: StatusCode,
        headers: HeaderMap,
        body: impl Into<Bytes>,
        started: Instant,
    ) -> Self {}
    #[must_use]
    pub fn with_backoff_until(mut self, until: WallMillis) -> Self {}
    pub fn status(&self) -> StatusCode {}
    pub fn headers(&self) -> &HeaderMap {}
    pub fn started(&self) -> Instant {}
    pub fn hold(&self) -> Option<WallMillis> {}
    pub fn into_body(self) -> FetchBody {}
}
impl fmt::Debug for RobotsResponse {}
pub trait RobotsStore: fmt::Debug + Send + Sync + 'static {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>>;
    fn save<'a>(
        &'a self,
        origin: &'a Origin,
        record: &'a RobotsRecord,
    ) -> StoreFuture<'a, ()>;
    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> StoreFuture<'a, Option<WallMillis>>;
    fn release<'a>(
        &'a self,
        origin: &'a Origin,
        holder: HolderId,
    ) -> StoreFuture<'a, ()>;
    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64>;
}
impl RobotsStore for MemoryStore {}
#[derive(Clone)]
pub struct Scope {}
impl Scope {
    #[cfg(feature = "psl")]
    pub fn registrable_domain() -> Self {}
    pub fn custom(key: impl Fn(&Url) -> Option<String> + Send + Sync + 'static) -> Self {}
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {}
    #[must_use]
    pub fn with_max_in_flight(mut self, max: u16) -> Self {}
    #[must_use]
    pub fn with_feedback(mut self) -> Self {}
}
impl fmt::Debug for Scope {}
pub trait SignRequest: fmt::Debug + Send + Sync {
    fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: WallMillis,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
    fn asked(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Arc<dyn SignRequest>> {}
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    Fresh,
    Revalidated,
    LastGood,
    Unavailable(u16),
    TooManyRedirects,
    Unreachable(Failure),
    LongOutage,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    pub robots_fetches: u64,
    pub robots_requests: u64,
    pub robots_read: u64,
    pub robots_revalidated: u64,
    pub robots_unavailable: u64,
    pub robots_unreachable: u64,
    pub robots_last_good: u64,
    pub robots_deferred: u64,
    pub robots_lost: u64,
    pub robots_store_faults: u64,
    pub robots_bytes: u64,
    pub robots_in_flight: usize,
    pub overrides: u64,
    pub hosts: usize,
    pub in_flight: usize,
    pub waiting: usize,
    pub backed_off: usize,
}
#[derive(Clone)]
pub struct StoreError {}
impl StoreError {
    pub fn new(reason: impl fmt::Display) -> Self {}
}
impl fmt::Display for StoreError {}
impl fmt::Debug for StoreError {}
impl std::error::Error for StoreError {}
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;
impl Clock for SystemClock {}
pub const THROTTLES_KEPT: Duration = Duration::from_secs(30 * 60);
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedUrl {}
impl fmt::Display for UnsupportedUrl {}
impl std::error::Error for UnsupportedUrl {}
#[derive(Clone)]
pub struct Verdict {}
impl Verdict {
    pub fn tdmrep(&self) -> Option<&[u8]> {}
    pub fn is_tdmrep_unknown(&self) -> bool {}
    pub fn is_allowed(&self) -> bool {}
    pub fn rule(&self) -> Option<Record<'_>> {}
    pub fn rules(&self) -> Option<&abide_robots::RobotsVerdict> {}
    pub fn entry(&self) -> Option<&Arc<RobotsEntry>> {}
    pub fn source(&self) -> Option<Source> {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn override_reason(&self) -> Option<&str> {}
    pub fn refusal(&self, url: &Url, now: WallMillis) -> Option<Denied> {}
}
impl fmt::Display for Verdict {}
impl fmt::Debug for Verdict {}
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize
)]
pub struct WallMillis(_);
impl WallMillis {
    pub const fn from_millis(millis: u64) -> Self {}
    pub const fn as_millis(self) -> u64 {}
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {}
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {}
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {}
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {}
}
impl From<SystemTime> for WallMillis {}
impl fmt::Debug for WallMillis {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Lease { ttl: Duration, again_in: Duration, is_held: bool },
    Release,
}
pub async fn acquire(
    gate: &Gate,
    url: &Url,
    crawl_delay: Duration,
    budget: Duration,
) -> Result<Permit, Denied> {}
pub async fn backoffs_survive_reload<F, Fut>(store: Arc<dyn HostStore>, reopen: F)
where
    F: FnOnce(Arc<dyn HostStore>) -> Fut,
    Fut: Future<Output = Arc<dyn HostStore>>,
{}
pub fn caught_clock(clock: Arc<dyn Clock>) -> Arc<dyn Clock> {}
pub async fn conformance<F>(
    store: Arc<dyn HostStore>,
    pass: impl Fn(Duration) -> F + Send + Sync + 'static,
)
where
    F: Future<Output = ()> + Send + 'static,
{}
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{}
pub fn decoder<B>(
    headers: &HeaderMap,
) -> Option<impl FnOnce(B) -> BoxBody<Bytes, BoxError> + use<B>>
where
    B: Body<Data = Bytes> + Unpin + Send + Sync + 'static,
    B::Error: Into<BoxError>,
{}
pub fn gate(settings: GateBuilder) -> Gate {}
pub fn has_userinfo(url: &Url) -> bool {}
pub fn lacks_timers() -> bool {}
pub async fn on_the_wire<F>(
    budget: Duration,
    request: F,
) -> Result<RobotsResponse, FetchError>
where
    F: Future<Output = Result<RobotsResponse, FetchError>>,
{}
pub fn record_metrics(event: &Event<'_>) {}
pub fn retry_after(headers: &HeaderMap, wall: WallMillis) -> Option<Duration> {}
pub fn sample_metrics(gate: &Gate) {}
pub fn sample_record(
    origin: &Origin,
    asked_at: WallMillis,
    body: impl Into<Bytes>,
) -> RobotsRecord {}
pub fn stated_lifetime(fields: &[&[u8]], policy: &RobotsPolicy) -> Option<Duration> {}
pub async fn survives_a_clock_set_back<F>(
    store: Arc<dyn HostStore>,
    pass: impl Fn(Duration) -> F + Send + Sync + 'static,
    set_back: impl FnOnce(Duration),
)
where
    F: Future<Output = ()> + Send + 'static,
{}
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: RobotsStore,
    F: Future<Output = S>,
{}
pub async fn throttle_counts_are_forgiven<F>(
    store: Arc<dyn HostStore>,
    pass: impl Fn(Duration) -> F + Send + Sync + 'static,
)
where
    F: Future<Output = ()> + Send + 'static,
{}
pub fn unpaced(
    settings: GateBuilder,
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
) -> Gate {}
pub fn without_userinfo(url: &Url) -> Url {}
