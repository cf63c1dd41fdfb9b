pub mod redirect;
pub mod seen;
#[derive(Debug)]
pub struct CallSpan {}
impl CallSpan {
    pub fn begin(method: &Method, url: &Url) -> Self {}
    pub fn cover<F: Future + Unpin>(
        &self,
        calling: F,
    ) -> impl Future<Output = F::Output> {}
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {}
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {}
}
#[derive(Debug, PartialEq, Eq)]
pub struct Hop {
    pub url: Url,
    pub method: Method,
    pub keeps_body: bool,
    pub keeps_credentials: bool,
}
#[derive(Debug, Clone)]
pub struct Hop {}
impl Hop {
    pub fn new(
        url: Url,
        status: StatusCode,
        verdict: Verdict,
        waited: Duration,
    ) -> Self {}
    #[must_use]
    pub fn with_remote_addr(mut self, remote: Option<SocketAddr>) -> Self {}
    pub fn url(&self) -> &Url {}
    pub fn status(&self) -> StatusCode {}
    pub fn verdict(&self) -> &Verdict {}
    pub fn waited(&self) -> Duration {}
    pub fn remote_addr(&self) -> Option<SocketAddr> {}
    pub fn permissions(&self) -> Option<&Permissions> {}
}
#[derive(Debug)]
pub struct HopSpan {}
impl HopSpan {
    pub fn begin(number: usize, url: &Url) -> Self {}
    pub fn cover<F: Future + Unpin>(
        &self,
        sending: F,
    ) -> impl Future<Output = F::Output> {}
    pub fn within<T>(&self, sending: impl FnOnce() -> T) -> T {}
    pub fn answered(&self, status: StatusCode, waited: Duration, wire: Duration) {}
}
#[derive(Debug, Clone)]
pub struct Identity {}
impl Identity {
    pub fn new(
        token: &str,
        fallbacks: &[String],
        user_agent: Option<&str>,
    ) -> Result<Self, IdentityError> {}
    pub fn tokens(&self) -> &[ProductToken] {}
    pub fn user_agent(&self) -> &HeaderValue {}
    pub fn sign(&self, headers: &mut HeaderMap) -> Result<(), Error> {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityError {
    Token(InvalidToken),
    UserAgent { user_agent: String, token: String },
    UserAgentField { user_agent: String },
}
impl fmt::Display for IdentityError {}
impl std::error::Error for IdentityError {}
#[derive(Debug)]
#[must_use = "nothing is told until it is asked"]
pub struct Left<'a> {}
impl Left<'_> {
    pub fn visit(self, trail: Trail) -> Visit {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAddress {}
impl NoAddress {
    pub fn refused(&self) -> Option<IpAddr> {}
}
impl fmt::Display for NoAddress {}
impl Error for NoAddress {}
#[derive(Debug)]
pub struct PermitBody<B: Body> {}
impl<B: Body> PermitBody<B> {
    pub fn new(body: B, permit: Permit) -> Self {}
    #[must_use]
    pub fn with_version(mut self, version: Version) -> Self {}
    pub fn has_ended(&self) -> bool {}
}
impl<B> Body for PermitBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;
}
#[derive(Clone)]
pub struct Reader {}
impl Reader {
    pub fn new(options: ReadOptions) -> Self {}
    #[must_use]
    pub fn with_scan(mut self, scan: Scan) -> Self {}
    #[must_use]
    pub fn with_store(mut self, store: Option<Arc<dyn PermissionStore>>) -> Self {}
    pub fn response_to<'a>(
        &'a self,
        method: &'a Method,
        received: WallMillis,
    ) -> Reading<'a> {}
}
impl fmt::Debug for Reader {}
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is read until it is told what the answer was"]
pub struct Reading<'a> {}
impl<'a> Reading<'a> {
    pub fn with_scan(mut self, scan: Option<Scan>) -> Self {}
    pub fn with_request(mut self, fields: Option<&'a HeaderMap>) -> Self {}
    pub fn from_cache(mut self, time: WallMillis) -> Self {}
    pub fn with_missing_fields(mut self) -> Self {}
    pub async fn pass(self, trail: &mut Trail, status: StatusCode, headers: &HeaderMap) {}
    pub fn leave(self, status: StatusCode, headers: &HeaderMap) -> Option<Left<'a>> {}
    pub fn finish<B>(
        self,
        trail: Trail,
        response: Response<B>,
    ) -> impl Future<Output = Response<WatchedBody<B>>>
    where
        B: Body<Data = Bytes> + Unpin,
    {}
}
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedirectPolicy {
    pub follow: bool,
    pub hops_max: usize,
    pub referer: bool,
}
impl RedirectPolicy {
    #[must_use]
    pub fn with_hops_max(mut self, hops: usize) -> Self {}
    #[must_use]
    pub fn with_referer(mut self, on: bool) -> Self {}
    #[must_use]
    pub fn never() -> Self {}
}
impl Default for RedirectPolicy {}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scan {
    Off,
    Headers,
    Eager,
    Lazy,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Wire,
    Kept(WallMillis),
    Unknown,
}
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Answer,
    Stop(Stopped),
    Follow(Hop),
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    NoLocation,
    SeveralLocations,
    InvalidLocation,
    UnsupportedScheme,
    BodyNotRepeatable,
    NotFollowing,
}
impl std::fmt::Display for Stopped {}
#[derive(Debug, Clone, Default)]
pub struct Trail {}
impl Trail {
    pub fn push(&mut self, hop: Hop) {}
    pub fn stop(&mut self, stopped: Stopped) {}
    pub fn hops(&self) -> &[Hop] {}
    pub fn last(&self) -> Option<&Hop> {}
    pub fn waited(&self) -> Duration {}
    pub fn ends_after(&mut self, waited: Duration) {}
    pub fn stopped(&self) -> Option<Stopped> {}
    pub fn chain(&self) -> Vec<(Url, StatusCode)> {}
}
#[derive(Debug, Clone)]
pub struct Visit {}
impl Visit {
    pub fn of(extensions: &Extensions) -> Option<&Self> {}
    pub fn hops(&self) -> &[Hop] {}
    pub fn verdict(&self) -> Option<&Verdict> {}
    pub fn waited(&self) -> Duration {}
    pub fn stopped(&self) -> Option<Stopped> {}
    pub fn permissions(&self) -> Permissions {}
    pub fn preferences(&self) -> Preferences {}
    pub fn app_directives(&self) -> Option<AppDirectives> {}
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {}
}
pub struct WatchedBody<B: Body> {}
impl<B: Body<Data = Bytes> + Unpin> WatchedBody<B> {
    pub fn new(wire: B) -> Self {}
    pub fn into_whole(mut self) -> Result<Bytes, Self> {}
}
impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;
}
impl<B: Body + Unpin> Unpin for WatchedBody<B> {}
impl<B: Body + fmt::Debug> fmt::Debug for WatchedBody<B> {}
pub fn body_failure_of(error: &(dyn Error + 'static)) -> Failure {}
pub fn failure_of(error: &(dyn Error + 'static)) -> Option<Failure> {}
pub fn foreign_host<'h>(headers: &'h HeaderMap, url: &Url) -> Option<&'h HeaderValue> {}
pub fn permitted_addresses(
    guard: &AddressGuard,
    name: &str,
    found: impl IntoIterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, NoAddress> {}
pub fn referer(from: &Url, to: &Url) -> Option<http::HeaderValue> {}
pub fn refuse_foreign_host(headers: &HeaderMap, url: &Url) -> Result<(), Error> {}
pub fn same_origin(a: &Url, b: &Url) -> bool {}
pub fn same_resource(a: &Url, b: &Url) -> bool {}
pub fn step(
    follow: bool,
    method: &Method,
    url: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Step {}
pub fn strip_body_headers(headers: &mut HeaderMap) {}
pub fn strip_credentials(headers: &mut HeaderMap) {}
pub fn take(status: StatusCode, headers: &mut HeaderMap) -> Source {}
pub fn tell<B>(response: &mut Response<B>, now: WallMillis) {}
pub fn tell_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {}
