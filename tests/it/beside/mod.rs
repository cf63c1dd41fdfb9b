//! The same request through plain reqwest and through abide, to the same server: what the caller gets, and
//! what the server sees, are the same, or differ as the case says. `docs/dev/beside-reqwest.md` says why.

mod cases;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use abide::{Builder, Denied, Scan};
use abide_tests::{Names, StoppedClock};
use http_body_util::BodyExt;
use hyper::ext::ReasonPhrase;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response};
use reqwest_middleware::ClientWithMiddleware;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) use self::server::Site;
use self::server::{AUTHORITY, text};
use crate::{AGENT, builder};

/// A request, and what differs.
struct Case {
    /// A row of the table in the document.
    behaviour: &'static str,
    ask: Box<dyn Fn(&Client) -> RequestBuilder + Send + Sync>,
    read: Read,
    /// How often it is sent, by the same client.
    times: usize,
    /// Settings of reqwest, for both; the address is the server's.
    inner: fn(ClientBuilder, SocketAddr) -> ClientBuilder,
    abide: fn(Builder) -> Builder,
    /// In one version only.
    http2: Option<bool>,
    /// Fact, with reqwest, through abide.
    differs: BTreeSet<[String; 3]>,
}

/// What the caller does with the response.
#[derive(Debug, Clone, Copy)]
enum Read {
    Text,
    TextAs(&'static str),
    Json,
    Bytes,
    Chunks,
    Stream,
    /// With trailers.
    Frames,
    ErrorForStatus,
    Upgrade,
    Unread,
}

/// By name, in words.
type Facts = BTreeMap<String, String>;

impl Case {
    fn new(
        behaviour: &'static str,
        read: Read,
        ask: impl Fn(&Client) -> RequestBuilder + Send + Sync + 'static,
    ) -> Self {
        let (ask, differs) = (Box::new(ask), BTreeSet::new());
        Self {
            behaviour,
            ask,
            read,
            times: 1,
            inner: |inner, _| inner,
            abide: |abide| abide,
            http2: None,
            differs,
        }
    }

    fn twice(self) -> Self {
        Self { times: 2, ..self }
    }

    fn with(self, inner: fn(ClientBuilder, SocketAddr) -> ClientBuilder) -> Self {
        Self { inner, ..self }
    }

    fn with_abide(self, abide: fn(Builder) -> Builder) -> Self {
        Self { abide, ..self }
    }

    fn http1(self) -> Self {
        Self { http2: Some(false), ..self }
    }

    fn http2(self) -> Self {
        Self { http2: Some(true), ..self }
    }

    fn differs(mut self, fact: &str, reqwest: &str, abide: &str) -> Self {
        self.differs.insert([fact, reqwest, abide].map(str::to_owned));
        self
    }

    /// A response with reqwest, to these requests, and none through abide.
    fn refused(self, reqwest: &str, abide: &str, requests: &str) -> Self {
        let case = self.differs("outcome", reqwest, abide);
        if requests.is_empty() { case } else { case.differs("requests", requests, "") }
    }

    /// What is not as the case says, through abide, which reads pages as `scan` says.
    async fn run(&self, http2: bool, scan: Scan) -> String {
        let site = Site::start(http2).await;
        let inner = || {
            let certificate = reqwest::Certificate::from_pem(AUTHORITY.pem().as_bytes()).unwrap();
            let inner = Client::builder().tls_certs_only([certificate]).no_proxy().referer(false);
            // What the system would end after 30 s of this machine's time, however busy it is.
            #[cfg(target_os = "linux")]
            let inner = inner.tcp_user_timeout(None::<Duration>);
            let inner = (self.inner)(inner, site.address);
            if http2 { inner.http2_prior_knowledge() } else { inner }
        };
        let plain = inner().user_agent(AGENT).dns_resolver(Names(site.address)).build().unwrap();
        let theirs = self.facts(&site, &plain, None).await;
        let mut failed = String::new();
        for scan in [Scan::Eager, scan] {
            let abide = builder(site.address).scan(scan);
            let (abide, inner) = (self.abide)(abide).build_with(inner()).unwrap();
            let client = abide.wrap(inner);
            let ours = self.facts(&site, &plain, Some(&client)).await;
            let found = different(&theirs, &ours);
            for (what, facts) in [("found", &found - &self.differs), ("missing", &self.differs - &found)] {
                failed.extend(facts.iter().map(|fact| format!("  {what} {fact:?}, {scan:?}\n")));
            }
        }
        if !failed.is_empty() {
            let request = (self.ask)(&plain).build().unwrap();
            let version = if http2 { "HTTP/2" } else { "HTTP/1.1" };
            failed = format!("{version} {} {} {}\n{failed}", self.behaviour, request.method(), request.url());
        }
        failed
    }

    /// What the caller gets from the last of its requests, by reqwest's client or through abide, and what the
    /// server sees of all.
    async fn facts(&self, site: &Site, plain: &Client, abide: Option<&ClientWithMiddleware>) -> Facts {
        let mut facts = Facts::new();
        for _ in 0..self.times {
            let request = (self.ask)(plain).build().unwrap();
            let response = match abide {
                Some(abide) => abide.execute(request).await,
                None => plain.execute(request).await.map_err(Into::into),
            };
            facts = match response {
                Ok(response) => self.read.facts(response).await,
                Err(error) => [("outcome".to_owned(), shown(&error))].into(),
            };
        }
        let mut lines = Vec::new();
        for (number, [line, fields, body]) in site.asked().into_iter().enumerate() {
            facts.insert(format!("fields {number}"), fields);
            facts.insert(format!("body {number}"), body);
            lines.push(line);
        }
        facts.insert("requests".to_owned(), lines.join("; "));
        facts
    }
}

/// Facts that are not the same. What only one of the two has, a response or a further request, shows in
/// `outcome` and `requests`.
fn different(theirs: &Facts, ours: &Facts) -> BTreeSet<[String; 3]> {
    let both = theirs.iter().filter_map(|(fact, theirs)| Some((fact, theirs, ours.get(fact)?)));
    both.filter(|(_, theirs, ours)| theirs != ours)
        .map(|(fact, theirs, ours)| trimmed(fact, theirs, ours))
        .collect()
}

/// Of two lists what is between the same beginning and the same end.
fn trimmed(fact: &str, theirs: &str, ours: &str) -> [String; 3] {
    let (theirs, ours): (Vec<_>, Vec<_>) = (theirs.split("; ").collect(), ours.split("; ").collect());
    let begin = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    let (theirs, ours) = (&theirs[begin..], &ours[begin..]);
    let end = theirs.iter().rev().zip(ours.iter().rev()).take_while(|(a, b)| a == b).count();
    [fact.to_owned(), theirs[..theirs.len() - end].join("; "), ours[..ours.len() - end].join("; ")]
}

impl Read {
    async fn facts(self, response: Response) -> Facts {
        let mut fields: Vec<_> = response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", text(value.as_bytes())))
            .collect();
        // Between fields of different names the order means nothing (RFC 9110 §5.3).
        fields.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        let cookies: Vec<_> =
            response.cookies().map(|cookie| format!("{}={}", cookie.name(), cookie.value())).collect();
        let reason = response.extensions().get::<ReasonPhrase>().map(|reason| text(reason.as_bytes()));
        let certificate = response
            .extensions()
            .get::<reqwest::tls::TlsInfo>()
            .and_then(|info| info.peer_certificate())
            .map(text);
        let mut facts: Facts = [
            ("outcome", response.status().to_string()),
            ("version", format!("{:?}", response.version())),
            ("url", response.url().to_string()),
            ("fields", fields.join("; ")),
            ("length", format!("{:?}", response.content_length())),
            ("address", format!("{:?}", response.remote_addr())),
            ("cookies", cookies.join("; ")),
            ("reason", format!("{reason:?}")),
            ("certificate", format!("{certificate:?}")),
        ]
        .map(|(name, fact)| (name.to_owned(), fact))
        .into();
        let read = self.read(response).await;
        facts.insert("read".to_owned(), read.unwrap_or_else(|error| shown(&error.into())));
        facts
    }

    async fn read(self, mut response: Response) -> reqwest::Result<String> {
        let mut bytes = Vec::new();
        Ok(match self {
            Self::Text => response.text().await?,
            Self::TextAs(charset) => response.text_with_charset(charset).await?,
            Self::Json => format!("{:?}", response.json::<BTreeMap<String, Vec<u32>>>().await?),
            Self::Bytes => text(&response.bytes().await?),
            Self::Chunks => {
                while let Some(chunk) = response.chunk().await? {
                    bytes.extend(chunk);
                }
                text(&bytes)
            }
            Self::Stream => {
                let mut stream = pin!(response.bytes_stream());
                while let Some(chunk) =
                    std::future::poll_fn(|context| futures_util::Stream::poll_next(stream.as_mut(), context))
                        .await
                {
                    bytes.extend(chunk?);
                }
                text(&bytes)
            }
            Self::Frames => {
                let mut body = http::Response::<reqwest::Body>::from(response).into_body();
                let mut trailers = None;
                while let Some(frame) = body.frame().await {
                    match frame?.into_data() {
                        Ok(data) => bytes.extend(data),
                        Err(frame) => trailers = frame.into_trailers().ok(),
                    }
                }
                format!("{} {trailers:?}", text(&bytes))
            }
            Self::ErrorForStatus => response.error_for_status()?.text().await?,
            Self::Upgrade => {
                let mut stream = response.upgrade().await?;
                let mut back = [0; 4];
                stream.write_all(b"ping").await.unwrap();
                stream.read_exact(&mut back).await.unwrap();
                text(&back)
            }
            Self::Unread => String::new(),
        })
    }
}

/// What an error is taken for, its URL, and its causes. Of a refusal the name.
fn shown(error: &reqwest_middleware::Error) -> String {
    if let Some(denied) = Denied::find(error) {
        return format!("denied: {}", denied.name());
    }
    let reqwest_middleware::Error::Reqwest(error) = error else { return error.to_string() };
    let kinds = [
        ("builder", error.is_builder()),
        ("redirect", error.is_redirect()),
        ("status", error.is_status()),
        ("timeout", error.is_timeout()),
        ("request", error.is_request()),
        ("connect", error.is_connect()),
        ("dns", error.is_dns()),
        ("body", error.is_body()),
        ("decode", error.is_decode()),
        ("upgrade", error.is_upgrade()),
    ];
    let mut shown: Vec<_> = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| (*kind).to_owned()).collect();
    shown.extend(error.status().map(|status| status.to_string()));
    shown.extend(error.url().map(ToString::to_string));
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // reqwest's wrapper around the errors of a body that it did not make itself, as often as it was
        // wrapped.
        if !error.is::<reqwest::Error>() {
            shown.push(format!("<- {error}"));
        }
        cause = error.source();
    }
    shown.join(" ")
}

#[tokio::test]
async fn each_behaviour_of_reqwest_is_kept_or_differs_as_stated() {
    let mut running = tokio::task::JoinSet::new();
    for http2 in [false, true] {
        for (number, case) in cases_in(http2).into_iter().enumerate() {
            let scan = [Scan::Lazy, Scan::Headers, Scan::Off][number % 3];
            running.spawn(async move { case.run(http2, scan).await });
        }
    }
    let failed: String = StoppedClock::stop().pass_until(running.join_all()).await.concat();
    assert!(failed.is_empty(), "\n{failed}");
}

fn cases_in(http2: bool) -> Vec<Case> {
    cases::cases().into_iter().filter(|case| case.http2.is_none_or(|only| only == http2)).collect()
}

#[test]
fn the_document_has_a_row_for_each_behaviour() {
    let document = include_str!("../../../docs/dev/beside-reqwest.md");
    let (same, different) = document.split_once("\n## Different").unwrap();
    let lists = same.lines().filter_map(|line| line.strip_prefix("* ")?.split_once(": "));
    let same: BTreeSet<_> = lists.flat_map(|(_, list)| list.split(", ")).collect();
    let rows = different.lines().filter_map(|line| line.strip_prefix("| ")).skip(2);
    let different: BTreeSet<_> = rows.map(|row| row.split(" | ").next().unwrap()).collect();
    let cases = cases::cases();
    let behaviours_where = |differs: bool| {
        let cases = cases.iter().filter(|case| case.differs.is_empty() != differs);
        cases.map(|case| case.behaviour).collect::<BTreeSet<_>>()
    };
    assert_eq!((same, different), (behaviours_where(false), behaviours_where(true)));
    let counted = format!("{} over HTTP/1.1, {} over HTTP/2", cases_in(false).len(), cases_in(true).len());
    assert!(document.contains(&counted), "{counted}");
}
