pub const DIRECTORY_MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";
#[derive(Debug)]
pub struct Directory<'k> {}
impl<'k> Directory<'k> {
    pub fn new(
        keys: impl IntoIterator<Item = &'k dyn Signer>,
    ) -> Result<Self, IdentityError> {}
    pub fn json(&self) -> &str {}
    pub fn headers(
        &self,
        url: &Url,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<HeaderMap, IdentityError> {}
}
#[derive(Debug, thiserror::Error)]
pub struct IdentityError(_);
impl IdentityError {
    pub fn is_permissions(&self) -> bool {}
    pub fn is_signer(&self) -> bool {}
}
pub struct Key(_);
impl Key {
    pub fn generate() -> Result<Self, IdentityError> {}
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, IdentityError> {}
    pub fn from_text(text: &str) -> Result<Self, IdentityError> {}
    pub fn to_pem(&self) -> Result<Zeroizing<String>, IdentityError> {}
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), IdentityError> {}
}
impl Signer for Key {}
impl fmt::Debug for Key {}
pub const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
pub trait Signer: fmt::Debug + Send + Sync {
    fn public_key(&self) -> [u8; 32];
    fn sign(
        &self,
        message: &[u8],
    ) -> Result<[u8; 64], Box<dyn std::error::Error + Send + Sync>>;
}
impl Signer for Key {}
#[derive(Debug, Clone)]
pub struct WebBotAuth {}
impl WebBotAuth {
    pub fn new(signer: impl Signer + 'static, url: &str) -> Result<Self, IdentityError> {}
    pub fn with_lifetime(mut self, lifetime: Duration) -> Result<Self, IdentityError> {}
    #[must_use]
    pub fn with_nonce(mut self) -> Self {}
    #[must_use]
    pub fn with_authority_only(mut self) -> Self {}
    #[must_use]
    pub fn with_bare_agent(mut self) -> Self {}
    #[must_use]
    pub fn only_when_asked(mut self) -> Self {}
    pub fn is_only_when_asked(&self) -> bool {}
    pub fn keyid(&self) -> &str {}
    pub fn url(&self) -> &Url {}
    pub fn as_asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Self> {}
    pub fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<(), IdentityError> {}
}
pub fn thumbprint(public_key: &[u8; 32]) -> String {}
