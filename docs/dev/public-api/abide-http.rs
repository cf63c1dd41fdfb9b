#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    Token(InvalidText),
    UserAgent { user_agent: String, token: String },
    UserAgentField { user_agent: String },
    NoTimers,
    Client(BoxError),
}
#[derive(Debug)]
pub struct Call<'a> {}
impl<'a> Call<'a> {
    pub fn new(
        crawler: &'a Crawler,
        options: Options,
        method: &Method,
        url: &Url,
        timeout: Option<Duration>,
    ) -> Self {}
    pub fn paced_below(&mut self) {}
    #[must_use]
    pub fn checked_above(mut self, verdict: Verdict, wait_left: Duration) -> Self {}
    #[must_use]
    pub fn signed_by(mut self, signer: Option<Arc<dyn SignRequest>>) -> Self {}
    pub fn signer(&self) -> Option<&Arc<dyn SignRequest>> {}
    pub fn method(&self) -> &Method {}
    pub fn step(&self) -> Step {}
    pub fn may_repeat(&self) -> bool {}
    pub fn url(&self) -> &Url {}
    pub fn wait_left(&self) -> Duration {}
    pub fn timeout(&self) -> Option<Duration> {}
    pub fn verdict(&self) -> Option<&Verdict> {}
    pub fn cover<F: Future + Unpin>(
        &self,
        sending: F,
    ) -> impl Future<Output = F::Output> {}
    pub fn within<T>(&self, sending: impl FnOnce() -> T) -> T {}
    pub fn was_late(&mut self) {}
    pub fn sign(&self, headers: &mut HeaderMap) -> Result<(), Denied> {}
    pub fn add_signature(&mut self, headers: &mut HeaderMap) -> Result<(), Denied> {}
    pub fn add_given(&self, headers: &mut HeaderMap) {}
    pub fn sending(&mut self) {}
    pub fn answered(&mut self, head: ResponseHead<'_>) -> Result<(), Denied> {}
    pub fn observe(&mut self, status: StatusCode, headers: &HeaderMap) {}
    pub fn waited_below(&mut self, wait_left: Duration) {}
    pub fn answered_below(
        &mut self,
        head: ResponseHead<'_>,
        sent: Option<Verdict>,
        wire: Duration,
    ) -> Result<(), Denied> {}
    pub fn failed(&mut self, failure: Option<Failure>) -> Option<Denied> {}
    pub fn not_sent(&mut self) {}
    pub async fn saved(&self) {}
    pub fn lost_fields(&mut self) {}
    pub fn restore_fields(&mut self, status: StatusCode, headers: &mut HeaderMap) {}
    pub fn permit(&self) -> Option<&Permit> {}
    pub fn take_permit(&mut self) -> Option<Permit> {}
    pub fn follow(&mut self, headers: &mut HeaderMap) -> bool {}
    pub fn reading<'r>(
        &'r mut self,
        request: Option<&'r HeaderMap>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Reading<'r> {}
    pub fn finish<'r, B>(
        &'r mut self,
        request: Option<&'r HeaderMap>,
        response: Response<ResponseBody<B>>,
    ) -> impl Future<Output = Response<ResponseBody<B>>> + use<'r, 'a, B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {}
    pub fn history(&self) -> &RedirectHistory {}
    pub async fn keep_rules(&mut self, status: StatusCode, headers: &HeaderMap) {}
    pub fn denied(&self, kind: DeniedKind) -> Denied {}
    #[must_use]
    pub fn refused(&self, denied: Denied) -> Denied {}
    pub fn without_response(&mut self) -> RedirectHistory {}
}
impl Drop for Call<'_> {}
#[derive(Debug)]
pub struct CallSpan(_);
impl CallSpan {
    pub fn begin(method: &Method, url: &Url) -> Self {}
    pub fn cover<F: Future + Unpin>(
        &self,
        calling: F,
    ) -> impl Future<Output = F::Output> {}
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {}
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {}
}
#[derive(Debug)]
pub struct Crawler {}
impl Crawler {
    pub fn builder(token: &str) -> CrawlerBuilder {}
    pub fn gate(&self) -> &Gate {}
    pub fn user_agent(&self) -> &HeaderValue {}
}
#[derive(Clone)]
#[must_use]
pub struct CrawlerBuilder {}
impl CrawlerBuilder {
    pub fn fallback(mut self, token: &str) -> Self {}
    pub fn user_agent(mut self, header: &str) -> Self {}
    pub fn gate(mut self, change: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {}
    pub fn gate_settings(&self) -> &GateBuilder {}
    pub fn scan(mut self, scan: Scan) -> Self {}
    pub fn read_options(mut self, options: ReadOptions) -> Self {}
    pub fn policy_token(mut self, token: &str, usage: Usage, fallback: bool) -> Self {}
    pub fn permission_store(mut self, store: Arc<dyn PermissionStore>) -> Self {}
    pub fn redirects(mut self, policy: RedirectPolicy) -> Self {}
    #[cfg(feature = "identity")]
    pub fn sign_requests(mut self, identity: abide_identity::WebBotAuth) -> Self {}
    pub fn payment(mut self, policy: PaymentPolicy) -> Self {}
    pub fn license_tokens(
        mut self,
        find: impl Fn(
            &Url,
            &[(String, String)],
        ) -> Option<LicenseToken> + Send + Sync + 'static,
    ) -> Self {}
    pub fn danger_report_only(mut self, why: &str) -> Self {}
    pub fn checked_user_agent(&self) -> Result<HeaderValue, BuildError> {}
    pub fn build(self, fetch: Arc<dyn Fetch>) -> Result<Crawler, BuildError> {}
}
impl fmt::Debug for CrawlerBuilder {}
#[derive(Debug, Clone)]
pub struct FetchInfo {}
impl FetchInfo {
    pub fn of(extensions: &Extensions) -> Option<&Self> {}
    pub fn hops(&self) -> &[Hop] {}
    pub fn verdict(&self) -> Option<&Verdict> {}
    pub fn payment(&self) -> Option<&PaymentTerms> {}
    pub fn waited(&self) -> Duration {}
    pub fn stopped(&self) -> Option<Stopped> {}
    pub fn permissions(&self) -> Permissions {}
    pub fn preferences(&self) -> Preferences {}
    pub fn licenses(&self) -> Vec<(Box<str>, Provenance)> {}
    pub fn license_challenge(&self) -> Option<Vec<(String, String)>> {}
    pub fn app_directives(&self) -> Option<AppDirectives> {}
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {}
}
#[derive(Debug, Clone)]
pub struct Hop {}
impl Hop {
    pub fn payment(&self) -> Option<&PaymentTerms> {}
    pub fn url(&self) -> &Url {}
    pub fn status(&self) -> StatusCode {}
    pub fn verdict(&self) -> &Verdict {}
    pub fn waited(&self) -> Duration {}
    pub fn remote_addr(&self) -> Option<SocketAddr> {}
    pub fn permissions(&self) -> Option<&Permissions> {}
}
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct InvalidValue(pub(crate) _);
#[derive(Clone, Debug)]
pub struct LicenseToken(_);
impl LicenseToken {
    pub fn new(token: &str) -> Result<Self, InvalidValue> {}
}
#[derive(Debug, Clone, Default)]
pub struct Options {}
impl Options {
    #[must_use]
    pub fn new() -> Self {}
    #[must_use]
    pub fn with_max_wait(mut self, wait: Duration) -> Self {}
    #[must_use]
    pub fn with_scan(mut self, scan: Scan) -> Self {}
    #[must_use]
    pub fn with_redirects(mut self, policy: RedirectPolicy) -> Self {}
    #[must_use]
    pub fn danger_ignore_robots(mut self, origin: Origin, why: &str) -> Self {}
    #[must_use]
    pub fn or(self, others: Self) -> Self {}
}
#[derive(Clone, Debug)]
pub struct PaymentPolicy {}
impl PaymentPolicy {
    pub fn new(page: Price, run: Price) -> Self {}
    #[must_use]
    pub fn with_host_cap(mut self, host: Price) -> Self {}
    #[must_use]
    pub fn upfront(mut self) -> Self {}
    pub fn spent(&self) -> Price {}
    pub fn spent_on(&self, host: &str) -> Price {}
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentTerms {}
impl PaymentTerms {
    pub fn price(&self) -> Option<Price> {}
    pub fn charged(&self) -> Option<Price> {}
    pub fn error(&self) -> Option<&str> {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Price {}
impl Price {
    pub fn currency(&self) -> &str {}
    pub fn billionths(&self) -> u64 {}
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {}
}
impl FromStr for Price {
    type Err = InvalidValue;
}
impl fmt::Display for Price {}
#[derive(Debug)]
pub struct Reading<'a> {}
impl<'a> Reading<'a> {
    pub fn leaves_body(&self) -> bool {}
    pub fn fetch_info(self) -> FetchInfo {}
    pub fn finish<B>(
        self,
        mut response: Response<ResponseBody<B>>,
    ) -> impl Future<Output = Response<ResponseBody<B>>> + use<'a, B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {}
}
#[derive(Debug, Clone, Default)]
pub struct RedirectHistory {}
impl RedirectHistory {
    pub fn hops(&self) -> &[Hop] {}
    pub fn last(&self) -> Option<&Hop> {}
    pub fn waited(&self) -> Duration {}
    pub fn stopped(&self) -> Option<Stopped> {}
    pub fn chain(&self) -> Vec<(Url, StatusCode)> {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectPolicy {}
impl RedirectPolicy {
    #[must_use]
    pub fn with_hops_max(mut self, hops: usize) -> Self {}
    #[must_use]
    pub fn with_response_at_limit(mut self, on: bool) -> Self {}
    #[must_use]
    pub fn with_referer(mut self, on: bool) -> Self {}
    #[must_use]
    pub fn never() -> Self {}
}
impl Default for RedirectPolicy {}
pub struct ResponseBody<B> {}
impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> ResponseBody<B> {
    pub fn new(wire: B, version: Version, permit: Option<Permit>) -> Self {}
    #[must_use]
    pub fn with_read_timeout(mut self, limit: Option<Duration>) -> Self {}
    #[must_use]
    pub fn with_taken(mut self, taken: Result<Bytes, BoxError>) -> Self {}
}
impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = BoxError;
}
impl<B: Unpin> Unpin for ResponseBody<B> {}
impl<B: fmt::Debug> fmt::Debug for ResponseBody<B> {}
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'r> {
    pub status: StatusCode,
    pub headers: &'r HeaderMap,
    pub remote_addr: Option<SocketAddr>,
    pub url: Option<&'r Url>,
    pub is_repeatable: bool,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scan {
    Off,
    Headers,
    Eager,
    Lazy,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    Check,
    Acquire,
    Send,
    Follow,
    Done,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    NoLocation,
    SeveralLocations,
    InvalidLocation,
    UnsupportedScheme,
    BodyNotRepeatable,
    NotFollowing,
    AtLimit,
}
pub async fn admit(call: &mut Call<'_>) -> Result<(), Denied> {}
pub fn body_failure_of(error: &(dyn Error + 'static)) -> Failure {}
pub fn failure_of(error: &(dyn Error + 'static)) -> Option<Failure> {}
pub fn foreign_host<'h>(headers: &'h HeaderMap, url: &Url) -> Option<&'h HeaderValue> {}
pub fn log_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {}
pub fn permitted_addresses(
    guard: &AddressGuard,
    name: &str,
    found: impl IntoIterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, BoxError> {}
pub fn preserve_fields<B>(response: &mut Response<B>, now: WallMillis) {}
pub fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {}
pub fn same_resource(a: &Url, b: &Url) -> bool {}
pub async fn with_read_timeout<F: Future + Unpin>(
    limit: Option<Duration>,
    mut sending: F,
) -> io::Result<F::Output> {}
