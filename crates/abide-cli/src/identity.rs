//! `abide identity`: the key by which a crawler signs its requests, and what it publishes of itself.
//!
//! `abide-identity` has the keys and the signatures; here are the files: a key only its owner can read, a directory, a page for site owners.

use std::error::Error as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abide_identity::{DIRECTORY_PATH, Directory, Key, Signer, WebBotAuth, thumbprint};
use askama::Template;
use url::Url;

use crate::args::{IdentityCall, PageArgs};
use crate::sanitize::quoted;
use crate::status::{Status, UsageError, wrong_usage};

pub(crate) fn run(call: &IdentityCall) -> anyhow::Result<Status> {
    match call {
        IdentityCall::New { file } => new(file)?,
        IdentityCall::Directory { key, headers, days } => directory(key, headers.as_ref(), *days)?,
        IdentityCall::Page(args) => write(&page(args)?)?,
    }
    Ok(Status::Done)
}

pub(crate) fn signer(file: &Path, url: &str) -> anyhow::Result<WebBotAuth> {
    Ok(WebBotAuth::new(key(file)?, url).map_err(|error| UsageError(format!("--signature-agent: {error}")))?)
}

fn key(file: &Path) -> Result<Key, UsageError> {
    Key::from_file(file).map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        UsageError(format!("--key {}: {error}{cause}", file.display()))
    })
}

fn new(file: &PathBuf) -> anyhow::Result<()> {
    let key = Key::generate()?;
    key.write_new(file)?;
    write(&format!(
        "Key {} is in {}.\nServe the output of `abide identity directory --key {}` at https://YOUR-HOST{DIRECTORY_PATH}.\n",
        thumbprint(&key.public_key()),
        file.display(),
        file.display()
    ))
}

fn directory(files: &[PathBuf], headers: Option<&Url>, days: u64) -> anyhow::Result<()> {
    if let Some(site) = headers.filter(|site| site.scheme() != "https") {
        let found = quoted(site.as_str());
        return wrong_usage(format!("--headers: expected the https URL of a site, found {found}"));
    }
    let keys = files.iter().map(|file| key(file)).collect::<Result<Vec<_>, _>>()?;
    let directory = Directory::new(keys.iter().map(|key| key as &dyn Signer))?;
    // Without a newline behind it: the signed digest is that of these bytes.
    let Some(site) = headers else { return write(directory.json()) };
    let url = site.join(DIRECTORY_PATH)?;
    let lifetime = Duration::from_secs(days * 24 * 60 * 60);
    let fields = directory.headers(&url, SystemTime::now(), lifetime)?;
    let lines = fields.iter().map(|(name, value)| Ok(format!("{name}: {}\n", value.to_str()?)));
    write(&lines.collect::<anyhow::Result<String>>()?)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

#[derive(Template)]
#[template(path = "crawler.html")]
struct CrawlerPage<'a> {
    args: &'a PageArgs,
    /// Where the contact leads to, if that is a mail address or a URL.
    link: Option<String>,
}

fn page(args: &PageArgs) -> anyhow::Result<String> {
    let link = match Url::parse(&args.contact) {
        Ok(url) if matches!(url.scheme(), "http" | "https" | "mailto") => Some(url.into()),
        _ => args.contact.contains('@').then(|| format!("mailto:{}", args.contact)),
    };
    Ok(CrawlerPage { args, link }.render()?)
}
