pub use abide_gate::{
    AddressGuard, BoxFuture, Denied, DeniedKind, Event, Failure, Gate, GateBuilder, Host,
    Origin, SignRequest, Verdict, pacing, robots_cache,
};
pub use abide_http::{
    BuildError, CrawlerBuilder, FetchInfo, Hop, InvalidValue, LicenseToken, Options,
    PaymentPolicy, PaymentTerms, Price, Scan,
};
#[cfg(feature = "identity")]
pub use abide_identity as identity;
pub use abide_permissions::{
    Answer, Permissions, Preference, Preferences, ReadOptions, TagRules, Usage,
};
pub type AbideBody<R> = ResponseBody<Pin<Box<R>>>;
#[derive(Debug, Clone)]
pub struct AbideLayer {}
impl AbideLayer {
    pub fn builder(token: &str) -> Builder {}
    pub fn gate(&self) -> &Gate {}
    pub fn user_agent(&self) -> &HeaderValue {}
}
impl<S> Layer<S> for AbideLayer {
    type Service = AbideService<S>;
}
#[derive(Debug, Clone)]
pub struct AbideService<S> {}
impl<S> AbideService<S> {
    pub fn gate(&self) -> &Gate {}
    pub fn get_ref(&self) -> &S {}
    pub fn into_inner(self) -> S {}
}
impl<S, B, R> Service<Request<B>> for AbideService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body + Default + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<AbideBody<R>>;
    type Error = ServiceError;
    type Future = ResponseFuture<R>;
}
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {}
impl Builder {
    pub fn user_agent(self, header: &str) -> Self {}
    pub fn gate(self, settings: GateBuilder) -> Self {}
    pub fn crawler(
        mut self,
        change: impl FnOnce(CrawlerBuilder) -> CrawlerBuilder,
    ) -> Self {}
    pub fn wrap<S, B, R>(self, client: S) -> Result<AbideService<S>, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone
            + Send + 'static,
        S::Future: Send + 'static,
        B: Default + Send + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {}
    pub fn build<S, B, R>(self, transport: S) -> Result<AbideLayer, BuildError>
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone
            + Send + 'static,
        S::Future: Send + 'static,
        B: Default + Send + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {}
    pub fn build_with(self, fetch: Arc<dyn Fetch>) -> Result<AbideLayer, BuildError> {}
}
#[derive(Clone)]
pub struct GuardedResolver<R = GaiResolver> {}
impl GuardedResolver {
    pub fn new(addresses: AddressGuard) -> Self {}
}
impl<R> GuardedResolver<R> {
    pub fn over(inner: R, addresses: AddressGuard) -> Self {}
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
}
impl<R> fmt::Debug for GuardedResolver<R> {}
pub trait ResponseExt: sealed::Sealed {
    fn fetch_info(&self) -> Option<&FetchInfo>;
    fn permissions(&self) -> Permissions {}
    fn preferences(&self) -> Preferences {}
}
impl<B> ResponseExt for http::Response<B> {}
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    Refused(Denied),
    NoOrigin { uri: Uri },
    Inner(BoxError),
}
impl ServiceError {
    pub fn refused(&self) -> Option<&Denied> {}
}
