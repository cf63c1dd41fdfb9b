#[derive(Clone)]
#[must_use]
pub struct Builder {}
impl Builder {
    pub fn key_prefix(mut self, prefix: &str) -> Self {}
    pub fn command_timeout(mut self, timeout: Duration) -> Self {}
    pub fn record_life(mut self, life: Duration) -> Self {}
    pub async fn connect(self) -> Result<Store, Error> {}
    pub fn open(self) -> Result<Store, Error> {}
}
impl fmt::Debug for Builder {}
#[derive(Clone, Debug, thiserror::Error)]
pub struct Error {}
impl Error {
    pub fn is_usage(&self) -> bool {}
    pub fn is_unreachable(&self) -> bool {}
}
#[derive(Clone)]
pub struct Store {}
impl Store {
    pub async fn connect(url: &str) -> Result<Self, Error> {}
    pub fn builder(url: &str) -> Builder {}
}
impl fmt::Debug for Store {}
impl HostStore for Store {}
impl PermissionStore for Store {}
impl RobotsStore for Store {}
