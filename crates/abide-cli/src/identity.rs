//! `abide identity`: the key by which a crawler signs its requests, and what it publishes of itself.
//!
//! `abide-identity` has the keys and the signatures; here are the files: a key only its owner can read, a
//! directory, a page for site owners.

use std::error::Error as _;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abide::{Options, RedirectPolicy};
use abide_identity::{DIRECTORY_PATH, Directory, Key, Signer, WebBotAuth, thumbprint};
use askama::Template;
use serde::Serialize;
use url::Url;

use crate::args::{IdentityCall, Online, PageArgs, SignedCheckArgs};
use crate::fetch::{self, Ask, FetchAnswer, FetchLine};
use crate::outcome::{self, Outcome};
use crate::own_site::OwnSite;
use crate::recorder::{self, Recorder};
use crate::sanitize::quoted;
use crate::status::{Status, UsageError, wrong_usage};
use crate::{online, style};

pub(crate) fn run(call: &IdentityCall) -> anyhow::Result<Status> {
    match call {
        IdentityCall::New { file } => new(file)?,
        IdentityCall::Directory { key, headers, days } => directory(key, headers.as_ref(), *days)?,
        IdentityCall::Page(args) => write(&page(args)?)?,
        IdentityCall::Check(args) => return check(args),
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

/// How the site receives a request without a signature, and one with it.
#[derive(Debug, Serialize)]
struct ReceivedLine {
    signed: bool,
    #[serde(flatten)]
    line: FetchLine,
}

/// Both in one process, one after the other, each with its own robots.txt: a gatekeeper may refuse that as
/// well.
fn check(args: &SignedCheckArgs) -> anyhow::Result<Status> {
    let (url, signed) = (&args.url, &args.online);
    if signed.key.is_none() {
        return wrong_usage(
            "expected --key and --signature-agent, with which one of the two requests is signed",
        );
    }
    if url.scheme() != "https" {
        let found = quoted(url.as_str());
        return wrong_usage(format!("expected an https URL, because only those are signed, found {found}"));
    }
    let unsigned = Online { key: None, signature_agent: None, ..signed.clone() };
    let mut let_in = [false; 2];
    for (is_signed, online) in [(false, &unsigned), (true, signed)] {
        if is_signed {
            std::thread::sleep(online.delay);
        }
        online::run(online, async |abide, inner| {
            let own_site = OwnSite::default();
            let client = recorder::client(abide, inner, online, own_site, online.output.verbose)?;
            let recorder = Recorder::default();
            let sink = |_: &[u8]| ControlFlow::Continue(());
            // One request each: a redirect is an answer, too.
            let options = Options::new().with_redirects(RedirectPolicy::never());
            let FetchAnswer { line, .. } =
                fetch::ask(&client, Ask::get(url.as_str(), options), &recorder, sink).await;
            // Any other status is an answer of the site, if not the one that was hoped for.
            let refuses = |status| matches!(status, 401 | 403 | 405 | 406 | 410 | 429);
            let is_let_in =
                line.outcome == Outcome::Fetched && line.status.is_some_and(|status| !refuses(status));
            *if is_signed { &mut let_in[1] } else { &mut let_in[0] } = is_let_in;
            print_received(online, ReceivedLine { signed: is_signed, line })?;
            Ok(Status::Done)
        })?;
    }
    let [unsigned, signed] = let_in;
    if !args.online.output.json {
        style::say(&[(
            style::PLAIN,
            match (unsigned, signed) {
                (false, true) => "the site lets the signed request in, and refuses the other",
                (true, true) => "the site lets both in: no signature is needed",
                (true, false) => "the site lets in the request without a signature only",
                (false, false) => "neither was let in; a signature counts only where its key is known",
            },
        )])?;
    }
    Ok(Status::of(signed))
}

fn print_received(online: &Online, received: ReceivedLine) -> anyhow::Result<()> {
    if online.output.json {
        return style::print_json(&received);
    }
    let ReceivedLine { signed, line } = received;
    let name = if signed { "signed    " } else { "unsigned  " };
    let mark = line.outcome.mark(line.status, "error");
    let why = outcome::without_url(&line.why, &line.url).unwrap_or(&line.why).to_owned();
    Ok(style::say(&[(style::PLAIN, name.to_owned()), mark, (style::PLAIN, format!("  {why}"))])?)
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
