//! The versions of pages that earlier crawls have fetched, in a database beside the store or a table of it.
//!
//! A page whose version is known is asked for conditionally. Where it has not changed, the links of that
//! version are followed.

use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::args::StoreArg;
use crate::crawl::frontier::{UrlKind, known_as};
use crate::crawl::links::Found;

/// What is kept of a page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Version {
    etag: Option<String>,
    last_modified: Option<String>,
    /// Of its status and content.
    digest: u64,
    /// What it named was read as a sitemap.
    is_sitemap: bool,
    pub(crate) found: Found,
}

impl Version {
    pub(crate) fn new(fields: &HeaderMap, kind: UrlKind, digest: u64, found: Found) -> Self {
        let text = |name: HeaderName| fields.get(name)?.to_str().ok().map(str::to_owned);
        let (etag, last_modified) = (text(ETAG), text(LAST_MODIFIED));
        // Without either, no answer can say that it has not changed.
        let found = if etag.is_some() || last_modified.is_some() { found } else { Found::default() };
        Self { etag, last_modified, digest, is_sitemap: kind.is_sitemap(), found }
    }

    pub(crate) fn is_changed(&self, digest: u64) -> bool {
        self.digest != digest
    }

    /// What asks for another version only.
    pub(crate) fn condition(&self, kind: UrlKind) -> HeaderMap {
        let fields = [(IF_NONE_MATCH, &self.etag), (IF_MODIFIED_SINCE, &self.last_modified)];
        let field = |(name, value): (HeaderName, &Option<String>)| {
            Some((name, HeaderValue::from_str(value.as_deref()?).ok()?))
        };
        // A page that is to be read as a sitemap now was not read as one.
        let is_same_kind = self.is_sitemap == kind.is_sitemap();
        fields.into_iter().filter(|_| is_same_kind).filter_map(field).collect()
    }
}

/// FNV-1a, because it must be the same tomorrow and under another compiler.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The versions that are known, in the store or beside it.
#[derive(Debug)]
pub(crate) struct Versions {
    pages: Box<dyn Pages>,
    /// Not written yet. What a kill loses of these is asked for as if it were new.
    pending: Vec<(String, Vec<u8>)>,
}

/// Each write waits for the disk.
const PENDING_MAX: usize = 64;
/// A page may name as much as it likes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where they are kept: JSON by URL.
trait Pages: std::fmt::Debug + Send {
    fn get(&self, url: &str) -> Option<Vec<u8>>;

    fn put(&self, pages: &[(String, Vec<u8>)]) -> anyhow::Result<()>;
}

impl Versions {
    /// Of a store that keeps them. Opened after the store, whose lock is that of a file beside it as well.
    #[cfg_attr(
        not(any(feature = "redb", feature = "postgres")),
        allow(unreachable_code, unused_variables, reason = "no store keeps versions then")
    )]
    pub(crate) fn of(store: &StoreArg) -> anyhow::Result<Option<Self>> {
        let pages: Box<dyn Pages> = match store {
            #[cfg(feature = "redb")]
            StoreArg::Redb(path) => Box::new(redb::File::beside(path)?),
            #[cfg(feature = "postgres")]
            StoreArg::Postgres(url) => Box::new(postgres::Table::of(url)?),
            _ => return Ok(None),
        };
        Ok(Some(Self { pages, pending: Vec::new() }))
    }

    /// One that cannot be read is none: the page is asked for as if it were new.
    pub(crate) fn get(&self, url: &Url) -> Option<Version> {
        serde_json::from_slice(&self.pages.get(known_as(url).as_str())?).ok()
    }

    pub(crate) fn set(&mut self, url: &Url, version: &Version) -> anyhow::Result<()> {
        self.pending.push((known_as(url).into(), serde_json::to_vec(version)?));
        let bytes: usize = self.pending.iter().map(|(url, version)| url.len() + version.len()).sum();
        if self.pending.len() < PENDING_MAX && bytes < BYTES_MAX { Ok(()) } else { self.flush() }
    }

    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        let pages = std::mem::take(&mut self.pending);
        if pages.is_empty() { Ok(()) } else { self.pages.put(&pages) }
    }
}

#[cfg(feature = "redb")]
mod redb {
    use std::path::{Path, PathBuf};

    use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

    use super::Pages;
    use crate::status::UsageError;

    /// A database beside the store: `STORE.pages`.
    #[derive(Debug)]
    pub(super) struct File {
        database: Database,
        path: PathBuf,
    }

    impl File {
        pub(super) fn beside(store: &Path) -> anyhow::Result<Self> {
            let mut path = store.as_os_str().to_owned();
            path.push(".pages");
            let path = PathBuf::from(path);
            let wrong = |error: redb::Error| UsageError(format!("{}: {error}", path.display()));
            let database = Database::create(&path).map_err(|error| wrong(error.into()))?;
            let file = Self { database, path: path.clone() };
            // So that what cannot be written is known before the crawl.
            file.write(&[]).map_err(wrong)?;
            Ok(file)
        }

        fn write(&self, pages: &[(String, Vec<u8>)]) -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(PAGES)?;
                for (url, version) in pages {
                    // Beyond the bound, those that are there stay.
                    if table.len()? < PAGES_MAX || table.get(&**url)?.is_some() {
                        table.insert(&**url, &**version)?;
                    }
                }
            }
            Ok(transaction.commit()?)
        }
    }

    impl Pages for File {
        fn get(&self, url: &str) -> Option<Vec<u8>> {
            let table = self.database.begin_read().ok()?.open_table(PAGES).ok()?;
            Some(table.get(url).ok()??.value().to_vec())
        }

        fn put(&self, pages: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
            self.write(pages).map_err(|error| anyhow::anyhow!("{}: {error}", self.path.display()))
        }
    }

    /// JSON by URL. Another format gets another name.
    const PAGES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("pages 1");
    /// As many as a crawl knows.
    const PAGES_MAX: u64 = 1_000_000;
}

#[cfg(feature = "postgres")]
mod postgres {
    use tokio::runtime::Handle;
    use tokio::task::block_in_place;

    use super::Pages;
    use crate::status::UsageError;
    use crate::stores::STORE_TIMEOUT;

    /// A table of the store.
    #[derive(Debug)]
    pub(super) struct Table(abide_postgres::Store);

    impl Table {
        pub(super) fn of(url: &str) -> anyhow::Result<Self> {
            let store = abide_postgres::Store::builder(url).command_timeout(STORE_TIMEOUT).open();
            Ok(Self(store.map_err(|error| UsageError(format!("--store: {error}")))?))
        }
    }

    /// Waited for as for a disk: at a polite pace there is time for that.
    impl Pages for Table {
        fn get(&self, url: &str) -> Option<Vec<u8>> {
            block_in_place(|| Handle::current().block_on(self.0.load_page(url))).ok()?
        }

        fn put(&self, pages: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
            Ok(block_in_place(|| Handle::current().block_on(self.0.save_pages(pages)))?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_for_a_version_that_has_a_validator() {
        for (fields, kind, asked) in [
            (&[(ETAG, "\"1\""), (LAST_MODIFIED, "Sat, 21 Nov 2026 00:31:50 GMT")][..], UrlKind::Page, 2),
            (&[(ETAG, "W/\"1\"")], UrlKind::Page, 1),
            (&[(ETAG, "\"1\"")], UrlKind::Sitemap, 0),
            (&[], UrlKind::Page, 0),
        ] {
            let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let version = Version::new(&fields.collect(), UrlKind::Page, 1, Found::default());
            assert_eq!(version.condition(kind).len(), asked);
        }
    }

    #[test]
    #[cfg(feature = "redb")]
    fn a_version_outlives_its_crawl() {
        let directory = tempfile::tempdir().unwrap();
        let (store, url) = (directory.path().join("s.redb"), "http://a/%7e".parse().unwrap());
        let store = StoreArg::Redb(store);
        let mut versions = Versions::of(&store).unwrap().unwrap();
        versions.set(&url, &Version::new(&HeaderMap::new(), UrlKind::Page, 7, Found::default())).unwrap();
        versions.flush().unwrap();
        drop(versions);
        let versions = Versions::of(&store).unwrap().unwrap();
        assert!(!versions.get(&"http://u:p@a/~#x".parse().unwrap()).unwrap().is_changed(7));
        assert!(versions.get(&"http://a/other".parse().unwrap()).is_none());
    }
}
