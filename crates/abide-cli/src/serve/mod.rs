//! `abide serve`: one process that every crawler on the machine asks.
//!
//! Fleets mix languages, and each crawler that limits for itself limits nothing together. The gate already
//! checks and paces for many callers; this puts HTTP and JSON before it, an end to every permit (`ledger`),
//! bounds, and reports. It never requests a page.
//!
//! ```text
//! connection ─▶ guard ──▶ calls ──▶ gate: check, acquire      (the call waits here; when its client goes
//!               token,     body,     │                         away, the future is dropped and leaves the queue)
//!               no browser table     ▼
//!                                    ledger: permit ─▶ finish, or the end of its ttl
//! ```

mod calls;
mod error;
mod guard;
mod ledger;
pub(crate) mod listen;
mod messages;
mod metrics;
mod openapi;
mod permissions;
mod reports;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use abide::Abide;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::args::ServeArgs;
use crate::sanitize::write_json;
use crate::status::{Status, UsageError, wrong_usage};
use crate::{online, style};
use calls::{Crawler, Service};
use guard::Guard;
use listen::{Listener, Place, Stream};

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Status> {
    let token = args.token_file.as_deref().map(guard::token).transpose()?;
    if let (Place::Tcp(address), None) = (&args.listen, &token)
        && !address.ip().is_loopback()
    {
        return wrong_usage(format!(
            "--listen {address}: expected --token-file, because others than this machine can connect there"
        ));
    }
    let metrics = metrics::install()?;
    let onlines = args.online.crawlers();
    let names = onlines.iter().map(|online| online.tokens().into_iter().next().unwrap_or_default());
    let names: Vec<String> = names.collect();
    let is_twice = |name: &String| names.iter().filter(|other| other.eq_ignore_ascii_case(name)).count() > 1;
    if let Some(name) = names.iter().find(|name| is_twice(name)) {
        return wrong_usage(format!("--agent {name}: expected several crawlers with different first tokens"));
    }
    online::with_crawlers(&onlines, abide_gate::record_metrics, None, async |crawlers| {
        let crawlers = onlines.iter().zip(names).zip(crawlers).map(|((online, name), (abide, _))| {
            Ok(Crawler { name, tokens: crate::input::tokens(&online.tokens()).map_err(UsageError)?, abide })
        });
        let crawlers = crawlers.collect::<anyhow::Result<Vec<Crawler>>>()?;
        listen::raise_the_limit_of_open_files();
        let listener = Listener::bind(&args.listen).await?;
        let address = if let Place::Tcp(address) = listener.place() { Some(address) } else { None };
        let (close, closing) = watch::channel(false);
        let service = Arc::new(Service {
            guard: Guard::new(address, token),
            max_wait: args.online.max_wait,
            waiting: Semaphore::new(args.waiting_max),
            waiting_max: args.waiting_max,
            pages: Semaphore::new(PAGES_MAX),
            ledger: ledger::Ledger::default(),
            closing,
            metrics,
            crawlers,
        });
        announce(&listener.place(), args.online.output.json)?;
        serve(listener, &service, &close, args.waiting_max).await;
        Ok(Status::Done)
    })
}

/// Says where it listens, for people and for whatever has started it.
fn announce(place: &Place, is_json: bool) -> anyhow::Result<()> {
    let url = match place {
        Place::Tcp(address) => format!("http://{address}"),
        Place::Unix(_) => place.to_string(),
    };
    if is_json {
        return style::print_json(&serde_json::json!({ "listening": url }));
    }
    Ok(style::say(&[(style::PLAIN, "listening on "), (style::NAME, url.as_str())])?)
}

/// Serves until a signal comes, and then what is open.
async fn serve(listener: Listener, service: &Arc<Service>, close: &watch::Sender<bool>, waiting_max: usize) {
    // Each call that waits has one. What is beyond is left in the system's queue.
    let connections = Arc::new(Semaphore::new(waiting_max.saturating_add(CONNECTIONS_BESIDE)));
    let graceful = GracefulShutdown::new();
    let upkeep = tokio::spawn(metrics::upkeep(Arc::clone(service)));
    let mut signal = pin!(online::interruption());
    loop {
        let accept = async {
            let place = Arc::clone(&connections).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (stream, place) = tokio::select! {
            accepted = accept => accepted,
            _ = &mut signal => break,
        };
        // What is left on a connection of this process is no concern of the others.
        match stream {
            Stream::Tcp(stream) => connect(TokioIo::new(stream), service, &graceful, place),
            #[cfg(unix)]
            Stream::Unix(stream) => connect(TokioIo::new(stream), service, &graceful, place),
        }
    }
    // No new connections, and its file goes.
    drop(listener);
    upkeep.abort();
    tokio::select! {
        () = end(service, close, graceful) => {}
        () = online::end_at_once() => {}
    }
}

/// Every call that waits is deferred. Clients that hold a permit and a connection have five seconds to
/// finish.
async fn end(service: &Service, close: &watch::Sender<bool>, graceful: GracefulShutdown) {
    let deadline = Instant::now() + OPEN_FOR;
    close.send_replace(true);
    while service.ledger.len() > 0 && graceful.count() > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(20)).await;
    }
    // Connections end with the call that is under way.
    let _ = timeout(deadline - Instant::now(), graceful.shutdown()).await;
}

/// Serves one connection in a task of its own.
fn connect<I>(io: I, service: &Arc<Service>, graceful: &GracefulShutdown, place: impl Send + 'static)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = Arc::clone(service);
    let answer = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, std::convert::Infallible>(service.answer(request).await) }
    });
    // A client that closes its side has gone: its call is dropped, and leaves the queue (`half_close` is off
    // by default).
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(io, answer);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A client that speaks no HTTP, or has gone, hears nothing.
        let _ = connection.await;
        drop(place);
    });
}

/// What a call is answered with.
pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) fn json_reply(status: StatusCode, answer: &impl Serialize) -> Reply {
    let mut body = Vec::new();
    // What is written has names for keys, and memory takes it.
    let _ = write_json(&mut body, answer);
    body.push(b'\n');
    reply(status, "application/json", body.into())
}

pub(crate) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// The first crawler is asked where a call names none.
pub(crate) fn first(crawlers: &[Crawler]) -> Option<&Abide> {
    crawlers.first().map(|crawler| &crawler.abide)
}

/// For calls that do not wait: reports, and those that finish permits.
const CONNECTIONS_BESIDE: usize = 1_024;

/// Pages that are read for permissions at a time, because each is in memory.
const PAGES_MAX: usize = 4;

/// How long the head of a request may take, and a connection be idle before it. Clients keep theirs open
/// between the calls of one page, and a page may take that long.
const HEAD_WITHIN: Duration = Duration::from_secs(75);

/// Of the head of a request, which has no cookies.
const HEAD_LEN_MAX: usize = 64 * 1024;

/// After SIGTERM.
const OPEN_FOR: Duration = Duration::from_secs(5);
