//! `abide identity`: the key by which a crawler signs its requests, and what it publishes of itself.

use std::error::Error as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abide_identity::{DIRECTORY_PATH, Directory, Key, Signer, WebBotAuth, thumbprint};
use anyhow::Context;
use htmlize::{escape_attribute, escape_text};
use url::Url;

use crate::args::{IdentityArgs, IdentityCall, PageArgs};
use crate::status::{Status, Usage};

pub(crate) fn run(args: &IdentityArgs) -> anyhow::Result<Status> {
    match &args.call {
        IdentityCall::New { file } => new(file)?,
        IdentityCall::Directory { key, headers, days } => directory(key, headers.as_ref(), *days)?,
        IdentityCall::Page(args) => write(&page(args))?,
    }
    Ok(Status::Done)
}

/// What signs the requests of a call.
pub(crate) fn signer(file: &Path, url: &str) -> anyhow::Result<WebBotAuth> {
    let key = Key::from_file(file).map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Usage(format!("--key {}: {error}{cause}", file.display()))
    })?;
    Ok(WebBotAuth::new(key, url).map_err(|error| Usage(format!("--signature-agent: {error}")))?)
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
    let keys = files.iter().map(Key::from_file).collect::<Result<Vec<_>, _>>()?;
    let directory = Directory::new(keys.iter().map(|key| key as &dyn Signer))?;
    // Without a newline behind it: the signed digest is that of these bytes.
    let Some(site) = headers else { return write(directory.json()) };
    let url = site.join(DIRECTORY_PATH).context("expected the https URL of a site after --headers")?;
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

fn page(args: &PageArgs) -> String {
    let agent = escape_text(args.agent.as_str());
    let contact = match Url::parse(&args.contact) {
        Ok(url) if matches!(url.scheme(), "http" | "https" | "mailto") => {
            format!("<a href=\"{}\">{}</a>", escape_attribute(url.as_str()), escape_text(&args.contact))
        }
        _ if args.contact.contains('@') => format!(
            "<a href=\"mailto:{}\">{}</a>",
            escape_attribute(&args.contact),
            escape_text(&args.contact)
        ),
        _ => escape_text(&args.contact).into_owned(),
    };
    let mut more = String::new();
    if !args.network.is_empty() {
        more += "<h2>Addresses</h2>\n<p>It comes from these addresses only:</p>\n<ul>\n";
        for network in &args.network {
            more += &format!("<li><code>{network}</code></li>\n");
        }
        more += "</ul>\n";
    }
    if let Some(keys) = &args.keys {
        more += &format!(
            "<h2>Signatures</h2>\n<p>It signs its requests (Web Bot Auth, RFC 9421). The public keys are at <a href=\"{}\">{}</a>. A request \
             without a signature by one of them is not from {agent}.</p>\n",
            escape_attribute(keys.as_str()),
            escape_text(keys.as_str())
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{agent}</title>\n<h1>{agent}</h1>\n<p>{}</p>\n<p>Contact: {contact}</p>\n\
         <h2>How to stop it</h2>\n<p>{agent} obeys robots.txt (RFC 9309). It leaves a site alone whose robots.txt says:</p>\n\
         <pre>User-agent: {agent}\nDisallow: /</pre>\n\
         <p>To slow it down, write <code>Crawl-delay: 10</code> into its group. It sends one request at a time, and waits when a server answers \
         429 or 503.</p>\n{more}</html>\n",
        escape_text(&args.why)
    )
}
