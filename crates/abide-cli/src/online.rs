//! What the calls that go online share: the crawler, and many URLs at a time with answers in order.
//!
//! `check`, `explain`, `fetch`, `crawl` and `lint` differ in what they ask. How the crawler is built from the
//! options, and how Ctrl-C ends a call, is the same for all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide::identity::WebBotAuth;
use abide::pacing::PacePolicy;
use abide::robots_cache::RobotsPolicy;
use abide::{Abide, BuildError, Event, ObserveExchanges, ReadOptions};
use futures_util::stream::{self, StreamExt};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, Semaphore};
use url::Url;

use crate::args::{Online, ResolveArg};
use crate::input::{Given, bad_line, read_file};
use crate::status::{Status, UsageError, wrong_usage};
use crate::stores::{STORE_TIMEOUT, Stores};
use crate::{agents, identity, proxy, style};

/// Runs one call on a runtime of its own, with the crawler that the options describe and its inner client.
/// Ctrl-C ends it.
pub(crate) fn run(
    online: &Online,
    call: impl AsyncFnOnce(Abide, reqwest::Client) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let call = async |abide, inner| {
        tokio::select! {
            result = call(abide, inner) => result,
            status = interruption() => {
                style::to_stderr(format_args!("interrupted"));
                Ok(status)
            }
        }
    };
    observed(online, |_| {}, None, call)
}

/// The same for a call that deals with Ctrl-C itself. `observe` sees what the crawler does, and `exchanges`
/// what goes over the wire. It fails where a gatekeeper has answered in place of a robots.txt.
pub(crate) fn observed(
    online: &Online,
    observe: impl Fn(&Event<'_>) + Send + Sync + 'static,
    exchanges: Option<Arc<dyn ObserveExchanges>>,
    call: impl AsyncFnOnce(Abide, reqwest::Client) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    // Also where the last good copy of robots.txt stands in, and the pages come.
    let is_refused = Arc::new(AtomicBool::new(false));
    let saw_refusal = Arc::clone(&is_refused);
    let observe = move |event: &Event<'_>| {
        if let Event::RobotsAnswered { entry } = event
            && entry.failure().is_some_and(|failure| failure.refusal().is_some())
        {
            saw_refusal.store(true, Ordering::Relaxed);
        }
        observe(event);
    };
    let status = with_crawlers(std::slice::from_ref(online), observe, exchanges, async |crawlers| {
        let [(abide, inner)] =
            <[_; 1]>::try_from(crawlers).map_err(|_| anyhow::anyhow!("expected one crawler"))?;
        call(abide, inner).await
    })?;
    Ok(status.and(Status::of(!is_refused.load(Ordering::Relaxed))))
}

/// Runs one call with a crawler for each of `onlines`, which differ in their names alone. They share one
/// store, which is opened before and closed after, and pace hosts together.
pub(crate) fn with_crawlers(
    onlines: &[Online],
    observe: impl Fn(&Event<'_>) + Send + Sync + 'static,
    exchanges: Option<Arc<dyn ObserveExchanges>>,
    call: impl AsyncFnOnce(Vec<(Abide, reqwest::Client)>) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let Some(online) = onlines.first() else { return wrong_usage("expected a product token") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let is_store_reported = Arc::new(AtomicBool::new(false));
    let is_reported = Arc::clone(&is_store_reported);
    let observer: EventObserver = Arc::new(move |event| {
        // Once, because a store that is away fails with every request.
        if let Some(failure) = store_failure(event).filter(|_| !is_reported.swap(true, Ordering::Relaxed)) {
            style::to_stderr(format_args!("{failure}; going on with what is in memory"));
        }
        observe(event);
    });
    let result = runtime.block_on(async {
        // What is wrong with the options is reported before a store is opened.
        let signature = signature(online)?;
        for online in onlines {
            drop(settings(online, signature.as_ref())?);
        }
        let stores = Stores::open(&online.store).await?;
        let crawlers = crawlers(onlines, &observer, exchanges.as_ref(), &stores, signature.as_ref());
        // The call takes the crawlers, and their pacer may have something to save before the store is closed.
        let gate = crawlers.as_ref().ok().and_then(|crawlers| Some(crawlers.first()?.0.gate().clone()));
        let result = match crawlers {
            Ok(crawlers) => {
                onlines.iter().for_each(notes);
                call(crawlers).await
            }
            Err(error) => Err(error),
        };
        // The store is closed from here on, and what fails later is not reported.
        is_store_reported.store(true, Ordering::Relaxed);
        let closed = stores.close(gate).await;
        result.and_then(|status| closed.map(|()| status))
    });
    // No one waits for what is still under way.
    runtime.shutdown_background();
    result
}

type EventObserver = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

fn store_failure(event: &Event<'_>) -> Option<String> {
    match event {
        Event::StoreDown { reason } => Some((*reason).to_owned()),
        Event::RobotsStoreFailed { error, .. } => Some(error.to_string()),
        _ => None,
    }
}

/// The crawlers that the options describe, each with its inner client.
fn crawlers(
    onlines: &[Online],
    observer: &EventObserver,
    exchanges: Option<&Arc<dyn ObserveExchanges>>,
    stores: &Stores,
    signature: Option<&WebBotAuth>,
) -> anyhow::Result<Vec<(Abide, reqwest::Client)>> {
    let mut crawlers: Vec<(Abide, reqwest::Client)> = Vec::new();
    for online in onlines {
        let first = crawlers.first().map(|(abide, _)| abide);
        crawlers.push(crawler(online, observer, exchanges, stores, signature, first)?);
    }
    Ok(crawlers)
}

fn crawler(
    online: &Online,
    observer: &EventObserver,
    exchanges: Option<&Arc<dyn ObserveExchanges>>,
    stores: &Stores,
    signature: Option<&WebBotAuth>,
    paced_with: Option<&Abide>,
) -> anyhow::Result<(Abide, reqwest::Client)> {
    let inner = inner(online)?;
    // Perhaps twice, and each with another builder, because reqwest's cannot be cloned.
    let build = |inner: &dyn Fn() -> reqwest::ClientBuilder| -> anyhow::Result<_> {
        let builder = settings(online, signature)?.observer(Arc::clone(observer)).http11(inner());
        let builder = exchanges.iter().fold(builder, |builder, seen| builder.exchanges(Arc::clone(seen)));
        let builder = paced_with.into_iter().fold(stores.on(builder), abide::Builder::paced_with);
        Ok(builder.build_with(inner()))
    };
    match build(&inner)? {
        Err(BuildError::Client(_)) if online.cacert.is_none() => {
            // A bare container has no certificate authorities. What has no TLS can be reached from there,
            // too.
            let without = build(&|| inner().tls_certs_only([]))?;
            let built = without.map_err(|error| explain(error, online))?;
            style::to_stderr(format_args!(
                "no certificate authorities are installed here, so https sites are unreachable (--cacert names some)"
            ));
            Ok(built)
        }
        built => built.map_err(|error| explain(error, online)),
    }
}

/// What signs the requests. Read once, because a key may come from a pipe.
fn signature(online: &Online) -> anyhow::Result<Option<WebBotAuth>> {
    match (&online.key, &online.signature_agent) {
        (Some(file), Some(url)) => identity::signer(file, url).map(Some),
        (None, None) => Ok(None),
        (Some(_), None) => wrong_usage("--key needs --signature-agent, where the public key is"),
        (None, Some(_)) => wrong_usage("--signature-agent needs --key, which signs"),
    }
}

fn settings(online: &Online, signature: Option<&WebBotAuth>) -> anyhow::Result<abide::Builder> {
    let tokens = online.tokens();
    let (first, rest) =
        tokens.split_first().ok_or_else(|| UsageError("expected a product token".to_owned()))?;
    let user_agent =
        online.user_agent.clone().unwrap_or_else(|| format!("{first}/{}", env!("CARGO_PKG_VERSION")));
    let robots = RobotsPolicy::default()
        .with_deadline(online.timeout)
        // A busy disk is no reason to fetch a robots.txt again that is in the store.
        .with_store_timeout(STORE_TIMEOUT)
        // So that `--concurrency` is the only limit.
        .with_fetches_max(usize::from(online.concurrency).max(512));
    let mut builder = Abide::builder(first)
        .user_agent(&user_agent)
        .robots(robots)
        .pace(pace(online))
        .max_wait(online.max_wait)
        // The body is read anyway, and whoever looks at a page wants to know of a robots meta wherever it is.
        .read_options(ReadOptions::for_tokens([]).with_whole_document(true))
        // reqwest's own counts (`inner`).
        .read_timeout(Duration::MAX);
    builder = resolving(builder, &online.resolve)?;
    builder = rest.iter().fold(builder, |builder, token| builder.fallback(token));
    builder = online.allow_net.iter().fold(builder, |builder, net| builder.allow_net(*net));
    builder = online.rules_of.iter().fold(builder, |builder, token| builder.danger_rules_of(token));
    if let Some(signature) = signature {
        builder = builder.sign_requests(signature.clone());
    }
    if online.trust_status {
        builder = builder.danger_trust_status();
    }
    if online.tdmrep {
        builder = builder.fetch_tdmrep();
    }
    if let Some(usage) = &online.purpose {
        builder = builder.purpose(usage.clone());
    }
    Ok(builder)
}

/// Any delay is possible; and sites that have a question must be able to ask it.
fn notes(online: &Online) {
    let delays = online.host_delay.iter().map(|(_, delay)| *delay);
    if delays.chain([online.delay]).any(|delay| delay < PacePolicy::DELAY) {
        let shortest = PacePolicy::DELAY.as_secs_f64();
        style::note(format_args!("a delay below {shortest} s is less considerate than most sites expect"));
    }
    if let Some(known) = agents::known().find(|known| is_named(online, known.token)) {
        let (token, operator) = (known.token, known.operator);
        style::note(format_args!(
            "requests go out under the name of {operator}'s crawler; check and explain read its rules with --for {token}, under a name of your own"
        ));
    }
    if is_unnamed(online) && online.user_agent.is_none() {
        style::note(format_args!(
            "requests go out as abide/{}, without a contact; better --agent MyBot --user-agent 'MyBot/1.0 (+https://example.com/bot)'",
            env!("CARGO_PKG_VERSION")
        ));
    }
}

fn is_named(online: &Online, token: &str) -> bool {
    online.tokens().first().is_some_and(|agent| agent.eq_ignore_ascii_case(token))
}

fn is_unnamed(online: &Online) -> bool {
    online.agent == ["abide"]
}

fn pace(online: &Online) -> PacePolicy {
    let policy = PacePolicy::default().danger_min_delay(online.delay).with_max_wait(online.max_wait);
    let policy = policy.with_store_outage(online.on_store_outage).with_refusals_max(online.refusals);
    // In their order, so that of two for one host the last counts: that of the command line, because those of
    // a file come first.
    let hosts = online.host_delay.iter();
    hosts.fold(policy, |policy, (host, delay)| policy.danger_host(host.clone(), *delay, 1))
}

/// What [`pace`] sets for the host of `url`.
pub(crate) fn delay_of(online: &Online, url: &Url) -> Duration {
    let host = abide::Host::of(url).ok();
    let own = online.host_delay.iter().rev().find(|(own, _)| host.as_ref() == Some(own));
    own.map_or(online.delay, |(_, delay)| *delay)
}

/// What makes the client, and makes it again.
fn inner(online: &Online) -> anyhow::Result<impl Fn() -> reqwest::ClientBuilder> {
    let (proxies, certificates) = (proxy::proxies(online)?, certificates(online)?);
    Ok(move || {
        // `proxy.rs` reads the environment instead: it resolves the proxy's name, and says what a proxy
        // leaves unchecked.
        let builder = reqwest::Client::builder().no_proxy().read_timeout(READ_TIMEOUT);
        let builder = proxies.iter().cloned().fold(builder, reqwest::ClientBuilder::proxy);
        match &certificates {
            Some(certificates) => builder.tls_certs_only(certificates.clone()),
            None => builder,
        }
    })
}

/// Those of `--cacert`.
fn certificates(online: &Online) -> anyhow::Result<Option<Vec<reqwest::Certificate>>> {
    let Some(path) = &online.cacert else { return Ok(None) };
    let pem = read_file(path)?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|_| UsageError(format!("{}: expected PEM certificates", path.display())))?;
    if certificates.is_empty() {
        return wrong_usage(format!("{}: expected PEM certificates, found none", path.display()));
    }
    Ok(Some(certificates))
}

/// What is wrong with the options is wrong usage.
fn explain(error: BuildError, online: &Online) -> anyhow::Error {
    match error {
        BuildError::Client(error) => {
            anyhow::Error::from_boxed(error).context("the client could not be built")
        }
        BuildError::Token(source) => UsageError(format!("--agent: {source}")).into(),
        other => match online.user_agent.as_deref().and_then(token_of).filter(|_| is_unnamed(online)) {
            // No token was given, so naming the default one is no help.
            Some(token) => UsageError(format!(
                "--user-agent: expected the product token in it; add --agent {token}, which robots.txt is read for"
            )),
            None => UsageError(format!("--user-agent: {other}")),
        }
        .into(),
    }
}

fn token_of(user_agent: &str) -> Option<&str> {
    let end = user_agent.find(|letter: char| !(letter.is_ascii_alphabetic() || matches!(letter, '_' | '-')));
    // Nearly every User-Agent begins with Mozilla, which is no crawler's name.
    user_agent.get(..end.unwrap_or(user_agent.len())).filter(|token| !token.is_empty() && *token != "Mozilla")
}

/// Runs `ask` for every URL, some at a time, and shows the answers in the order of the URLs. A host's URLs go
/// one after the other, so each waits for its own permit only, and not for all that were given before it.
pub(crate) async fn in_order<'a, A, F: Future<Output = A>>(
    online: &Online,
    urls: &'a [Given<Url>],
    ask: impl Fn(&'a str, Url) -> F,
    mut show: impl FnMut(A) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let slots = Arc::new(Semaphore::new(usize::from(online.concurrency)));
    let mut hosts: HashMap<String, Arc<Mutex<()>>> = HashMap::new();
    let ask = &ask;
    let one = |given: &'a Given<Url>| {
        let host = given.as_ref().ok().and_then(|(_, url)| url.host_str()).unwrap_or_default().to_owned();
        let host = Arc::clone(hosts.entry(host).or_default());
        let slots = Arc::clone(&slots);
        async move {
            let (text, url) = given.as_ref()?;
            // The host first: a URL that waits for its host takes no place from other hosts.
            let _turn = host.lock().await;
            let _slot = slots.acquire().await;
            Ok::<_, &String>(ask(text, url.clone()).await)
        }
    };
    let mut answers = std::pin::pin!(stream::iter(urls).map(one).buffered(AHEAD_MAX));
    let mut status = Status::Done;
    while let Some(answer) = answers.next().await {
        status = status.and(match answer {
            Ok(answer) => show(answer)?,
            Err(error) => bad_line(error, online.output.json)?,
        });
    }
    Ok(status)
}

/// Adds the entries of `--resolve`, which go before the operating system. A resolver does not know the port,
/// so those of one name must agree.
fn resolving(mut builder: abide::Builder, entries: &[ResolveArg]) -> Result<abide::Builder, UsageError> {
    let mut names: HashMap<&str, (u16, &[SocketAddr])> = HashMap::new();
    for ResolveArg { host, port, addresses } in entries {
        // As in curl, the last entry for a host and port counts.
        let before = names.insert(host, (*port, addresses));
        if let Some((other, _)) = before.filter(|(other, known)| other != port && known != addresses) {
            return Err(UsageError(format!(
                "--resolve {host}: a name leads to the same addresses on every port, found others for {port} than for {other}"
            )));
        }
    }
    for (name, (_, addresses)) in names {
        builder = match name {
            "*" => builder.resolver(Arc::new(Everywhere(addresses.to_vec()))),
            _ => addresses.iter().fold(builder, |builder, address| builder.resolve(name, *address)),
        };
    }
    Ok(builder)
}

struct Everywhere(Vec<SocketAddr>);

impl Resolve for Everywhere {
    fn resolve(&self, _: Name) -> Resolving {
        let found = self.0.clone().into_iter();
        Box::pin(async move { Ok(Box::new(found) as Addrs) })
    }
}

/// Waits for Ctrl-C, or the SIGTERM of those who stop services, and returns the exit status that shells
/// expect then. Both are listened for from this call on, before it is polled: a signal that comes with the
/// first request is not missed.
pub(crate) fn interruption() -> impl Future<Output = Status> {
    #[cfg(unix)]
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        #[cfg(unix)]
        if let (Ok(mut interrupt), Ok(mut terminate)) = signals {
            return tokio::select! {
                _ = interrupt.recv() => Status::Interrupted,
                _ = terminate.recv() => Status::Terminated,
            };
        }
        let _ = tokio::signal::ctrl_c().await;
        Status::Interrupted
    }
}

/// A second Ctrl-C, while the report is written, ends the call without it.
pub(crate) async fn end_at_once() {
    let _ = tokio::signal::ctrl_c().await;
    std::process::exit(Status::Interrupted as i32);
}

/// So far ahead of the answer that is to be printed next may others be.
const AHEAD_MAX: usize = 1024;

/// A page that sends nothing for this long is given up.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);
