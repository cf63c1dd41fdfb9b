pub use redb::StorageBackend;
#[derive(Clone, Debug)]
pub struct Builder {}
impl Builder {
    #[must_use]
    pub fn cache_size(mut self, bytes: usize) -> Self {}
    #[must_use]
    pub fn max_records(mut self, records: u64) -> Self {}
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {}
    #[must_use]
    pub fn write_behind(mut self, wait: Duration) -> Self {}
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {}
    #[must_use]
    pub fn rebuild_if_corrupt(mut self, rebuild: bool) -> Self {}
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {}
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, Error> {}
    pub fn open_backend(self, backend: impl StorageBackend) -> Result<Store, Error> {}
}
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    Locked { path: PathBuf },
    Corrupt { path: PathBuf, found: Arc<str> },
    Version { path: PathBuf, expected: u8, found: u8 },
    Io { path: PathBuf, source: Arc<io::Error> },
    Closed { path: PathBuf },
}
impl Error {
    pub fn is_locked(&self) -> bool {}
    pub fn is_corrupt(&self) -> bool {}
}
#[derive(Clone, Debug)]
pub struct Store {}
impl Store {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {}
    pub fn builder() -> Builder {}
    pub fn path(&self) -> &Path {}
    pub async fn flush(&self) -> Result<(), Error> {}
    pub async fn close(&self) -> Result<(), Error> {}
    pub async fn usage(&self) -> Result<Usage, Error> {}
}
impl RobotsStore for Store {}
impl HostStore for Store {}
impl PermissionStore for Store {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    pub robots: u64,
    pub permissions: u64,
    pub bytes: u64,
}
