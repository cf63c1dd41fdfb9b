//! Several sites behind one loopback listener, told apart by their `Host`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The sites of the crawl example.
pub fn sites() -> [&'static str; 6] {
    [
        "bakery.example",
        "journal.example",
        "www.journal.example",
        "open.example",
        "broken.example",
        "busy.example",
    ]
}

/// The four houses of the embedded web, with as many pages as one likes: fast ones and slow ones, some of them moved, missing or
/// forbidden. The station asks for a second between two requests, and the theatre closes for a while.
pub fn houses() -> [&'static str; 4] {
    ["harbour.example", "museum.example", "station.example", "theatre.example"]
}

/// The shops of the embedded web, `shop-1.example` and so on: all alike, but that the first is busy.
pub fn shops() -> impl Iterator<Item = String> {
    (1..=SHOPS).map(|number| format!("shop-{number}.example"))
}

/// How many shops there are.
const SHOPS: usize = 24;

/// A running embedded web. It ends with the program.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    state: Arc<Shared>,
}

impl Web {
    /// Listens on a free port of 127.0.0.1 and answers for all of [`sites`], [`houses`], [`shops`] and a few more.
    ///
    /// # Errors
    /// When loopback cannot be listened on.
    pub async fn start() -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Shared::default());
        let app = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets this web stand in for the real one: its names lead to it, and its address, which is loopback, may be contacted.
    pub fn stand_in(&self, builder: abide::Builder) -> abide::Builder {
        let names = sites()
            .into_iter()
            .chain(houses())
            .chain(["press.example", "library.example"])
            .map(str::to_owned);
        let builder = builder.allow_net(self.address.ip().into());
        names.chain(shops()).fold(builder, |builder, name| builder.resolve(&name, self.address))
    }

    /// A function for a shell, which puts this web in the place of the real one for the command `abide`.
    pub fn shell_function(&self) -> String {
        format!(
            "abide() {{ case $1 in check|fetch|crawl|explain) command abide \"$@\" --allow-net {} --resolve '*:80:{}';; \
             *) command abide \"$@\";; esac; }}",
            self.address.ip(),
            self.address
        )
    }

    /// Host and path of the first requests that arrived, robots.txt left out: at most 1,000.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.state.asked).clone()
    }

    /// How many bytes of the long page were handed to the network.
    pub fn long_page_sent(&self) -> u64 {
        self.state.long_page_sent.load(Ordering::Relaxed)
    }
}

/// A reqwest client for this web. It has no TLS, so that the examples run on a machine without certificates: use
/// `reqwest::Client::builder()`.
pub fn plain_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_certs_only([])
}

/// What the answers depend on.
#[derive(Debug, Default)]
struct Shared {
    has_been_busy: AtomicBool,
    has_failed: AtomicBool,
    has_closed: AtomicBool,
    has_paused: AtomicBool,
    long_page_sent: AtomicU64,
    asked: Mutex<Vec<String>>,
}

impl Shared {
    fn note(&self, host: &str, path: &str) {
        let mut asked = lock(&self.asked);
        if path != "/robots.txt" && asked.len() < ASKED_MAX {
            asked.push(format!("{host}{path}"));
        }
    }
}

fn lock(asked: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

const ASKED_MAX: usize = 1000;

/// The whole web: host and path in, answer out.
async fn answer(State(state): State<Arc<Shared>>, headers: HeaderMap, uri: Uri) -> Response<Body> {
    let host = headers.get("host").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    state.note(host, uri.path());
    if (host, uri.path()) == ("journal.example", "/long.html") {
        return long_page(&state);
    }
    if houses().contains(&host) {
        tokio::time::sleep(house_takes(host, uri.path())).await;
        return house(host, uri.path(), &state.has_paused).map(Body::from);
    }
    site(host, uri.path(), &state).map(Body::from)
}

fn site(host: &str, path: &str, state: &Shared) -> Response<String> {
    match (host, path) {
        // By its address, for clients that have no resolver to set.
        ("bakery.example" | "127.0.0.1", path) => bakery(path),
        // RFC 9309 §2.3.1.2: these rules count for journal.example, though another host serves them.
        ("journal.example", "/robots.txt") => redirect(301, "http://www.journal.example/robots.txt"),
        ("journal.example" | "www.journal.example", path) => journal(path),
        ("open.example", path) => open(path),
        ("broken.example", "/robots.txt") => status(500, "the disk is on fire"),
        ("broken.example", _) => page("No crawler should see this", ""),
        ("busy.example", path) => busy_site(path, &state.has_been_busy),
        ("press.example", path) => press(path),
        ("library.example", path) => library(path, &state.has_failed),
        (shop, path) if shop.starts_with("shop-") => shop_site(shop, path, &state.has_closed),
        _ => status(421, "no such site here"),
    }
}

fn bakery(path: &str) -> Response<String> {
    match path {
        "/robots.txt" => text(
            "# The bakery\n\
             User-agent: *\n\
             Disallow: /private/          # recipes\n\
             Allow: /private/menu.html\n\
             Disallow: /*?basket=\n\
             Crawl-delay: 0.5\n\
             Sitemap: http://bakery.example/sitemap.xml\n",
        ),
        "/" => page(
            "The bakery",
            r#"<a href="/bread.html">bread</a> <a href="/private/recipes.html">recipes</a>
               <a href="/private/menu.html">menu</a> <a href="/cakes.html?basket=1">buy</a>
               <a href="/old-recipes">old recipes</a> <a href="/partner">our journal</a>
               <a href="/inside">intranet</a>"#,
        ),
        "/bread.html" => page("Bread", r#"<a href="http://open.example/">flour</a>"#),
        "/private/menu.html" => page("Menu", ""),
        // An allowed page that leads into a disallowed one: the hop must be refused, too.
        "/old-recipes" => redirect(302, "/private/recipes.html"),
        "/partner" => redirect(301, "http://journal.example/"),
        // An address that must not be reached from outside.
        "/inside" => redirect(302, "http://127.0.0.2/admin"),
        "/private/recipes.html" => page("No crawler should see this", ""),
        _ => status(404, "no such page"),
    }
}

fn journal(path: &str) -> Response<String> {
    match path {
        "/robots.txt" => text("User-agent: AbideExample\nDisallow: /drafts/\n\nUser-agent: *\nDisallow: /\n"),
        "/" => page(
            "The journal",
            r#"<a href="/header.html">a</a> <a href="/meta.html">b</a> <a href="/snippet.html">c</a>
               <a href="/drafts/1.html">d</a>"#,
        ),
        "/header.html" => with("robots-tag", "*;nosnippet, AbideExample;noindex", page("By header", "")),
        "/meta.html" => page_with("By meta", "<meta name=robots content='noindex, nofollow'>", ""),
        "/snippet.html" => with("x-robots-tag", "max-snippet: 20, noarchive", page("Old header", "")),
        _ => status(404, "no such page"),
    }
}

fn open(path: &str) -> Response<String> {
    match path {
        // RFC 9309 §2.3.1.3: unavailable, so everything may be asked for.
        "/robots.txt" => status(404, "no robots.txt here"),
        "/" => page("Flour", r#"<a href="/mill.html">mill</a> <a href="http://broken.example/">friends</a>"#),
        "/mill.html" => page("The mill", r#"<a href="http://busy.example/">market</a>"#),
        _ => status(404, "no such page"),
    }
}

/// Answers 429 once, on robots.txt, and 503 on its shop for ever.
fn busy_site(path: &str, has_been_busy: &AtomicBool) -> Response<String> {
    match path {
        "/robots.txt" if !has_been_busy.swap(true, Ordering::Relaxed) => slow_down(429, "2"),
        "/robots.txt" => text("User-agent: *\nAllow: /\n"),
        "/" => page("The market", r#"<a href="/shop.html">shop</a> <a href="/stalls.html">stalls</a>"#),
        "/shop.html" => slow_down(503, "3600"),
        "/stalls.html" => page("Stalls", ""),
        _ => status(404, "no such page"),
    }
}

/// Every way to speak of AI: in robots.txt, in fields, in metas.
fn press(path: &str) -> Response<String> {
    match path {
        "/robots.txt" => text(
            "User-agent: *\n\
             Disallow: /archive/\n\
             Content-Usage: train-ai=y\n\
             Content-Usage: /poems/ train-ai=n\n\
             App-Directives: /news/ exampletrainer;excerpts=?0\n",
        ),
        "/archive/1.html" => page("No crawler should see this", ""),
        "/news/1.html" => page("News", ""),
        "/poems/1.html" => page("A poem", ""),
        "/columns/field.html" => with("content-usage", "train-ai=n", page("A column", "")),
        "/columns/signal.html" => with("content-signal", "ai-train=no, search=yes", page("A column", "")),
        "/columns/tags.html" => with("robots-tag", "*;noai", page("A column", "")),
        "/columns/meta.html" => page_with("A column", "<meta name=robots content=noai>", ""),
        "/columns/mining.html" => page_with("A column", "<meta name=tdm-reservation content=1>", ""),
        "/columns/open.html" => page("A column", ""),
        _ => status(404, "no such page"),
    }
}

/// A page that may be cached, and one that fails the first time.
fn library(path: &str, has_failed: &AtomicBool) -> Response<String> {
    match path {
        "/robots.txt" => text("User-agent: *\nDisallow: /loans/\n"),
        "/catalogue.html" => with("cache-control", "max-age=60", page("Catalogue", "")),
        "/opening-hours.html" if !has_failed.swap(true, Ordering::Relaxed) => slow_down(503, "2"),
        "/opening-hours.html" => page("Opening hours", ""),
        "/my-account" => redirect(302, "/loans/7.html"),
        _ => status(404, "no such page"),
    }
}

/// Shelves and a basket. The first shop closes for a moment when it is asked for its first shelf.
fn shop_site(host: &str, path: &str, has_closed: &AtomicBool) -> Response<String> {
    match path {
        "/robots.txt" => text("User-agent: *\nDisallow: /basket/\nDisallow: /*?sort=\n"),
        "/shelf/1" if host == "shop-1.example" && !has_closed.swap(true, Ordering::Relaxed) => {
            slow_down(429, "2")
        }
        path if path.starts_with("/shelf/") => page("A shelf", ""),
        path if path.starts_with("/basket/") => page("No crawler should see this", ""),
        _ => status(404, "no such page"),
    }
}

/// Numbered pages, each of which leads to the next ones.
fn house(host: &str, path: &str, has_paused: &AtomicBool) -> Response<String> {
    if path == "/robots.txt" {
        let delay = if host == "station.example" { "Crawl-delay: 1\n" } else { "" };
        return text(&format!("User-agent: *\nDisallow: /staff/\n{delay}"));
    }
    let number: usize = path[1..].parse().unwrap_or(0);
    match number {
        10 if host == "theatre.example" && !has_paused.swap(true, Ordering::Relaxed) => slow_down(503, "7"),
        5.. if number % 11 == 5 => status(404, "no such page"),
        3.. if number % 9 == 3 => redirect(301, &format!("/{}", number + 100)),
        _ => {
            let link = |number: usize| format!("<a href='/{number}'>{number}</a> ");
            let next: String = (number + 1..=number + 3).map(link).collect();
            page("A page", &format!("{next}<a href='/staff/{number}'>staff</a>"))
        }
    }
}

/// The time that a page of a house takes: mostly little, and always the same.
fn house_takes(host: &str, path: &str) -> Duration {
    let seed =
        path.bytes().chain(host.bytes()).fold(7_u64, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte));
    let millis = match seed % 13 {
        0 => 650,
        1..4 => 300,
        _ => 30 + seed % 100,
    };
    Duration::from_millis(millis)
}

/// 64 MiB whose head says `noindex`.
fn long_page(state: &Arc<Shared>) -> Response<Body> {
    let head = "<!doctype html><title>Long</title><meta name=robots content=noindex></head><body>";
    let body =
        LongBody { left: LONG_PAGE, next: Bytes::from_static(head.as_bytes()), state: Arc::clone(state) };
    let mut response = Response::new(Body::new(body));
    let (name, html) = (axum::http::header::CONTENT_TYPE, axum::http::HeaderValue::from_static("text/html"));
    response.headers_mut().insert(name, html);
    response
}

/// How long the long page is.
pub const LONG_PAGE: u64 = 64 * 1024 * 1024;

struct LongBody {
    left: u64,
    next: Bytes,
    state: Arc<Shared>,
}

impl http_body::Body for LongBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut data = std::mem::replace(&mut self.next, Bytes::from_static(&[b'x'; 64 * 1024]));
        data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        if data.is_empty() {
            return Poll::Ready(None);
        }
        let length = data.len() as u64;
        self.left -= length;
        self.state.long_page_sent.fetch_add(length, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn page(title: &str, body: &str) -> Response<String> {
    page_with(title, "", body)
}

fn page_with(title: &str, head: &str, body: &str) -> Response<String> {
    let html = format!(
        "<!doctype html><html><head><title>{title}</title>{head}</head><body><h1>{title}</h1>{body}</body></html>"
    );
    respond(200, "text/html; charset=utf-8", html)
}

fn with(name: &'static str, value: &'static str, mut response: Response<String>) -> Response<String> {
    let value = axum::http::HeaderValue::from_static(value);
    response.headers_mut().append(name, value);
    response
}

fn slow_down(code: u16, seconds: &'static str) -> Response<String> {
    with("retry-after", seconds, status(code, "slow down"))
}

fn text(body: &str) -> Response<String> {
    respond(200, "text/plain; charset=utf-8", body.to_owned())
}

fn status(status: u16, body: &str) -> Response<String> {
    respond(status, "text/plain; charset=utf-8", body.to_owned())
}

fn redirect(status: u16, location: &str) -> Response<String> {
    let mut response = respond(status, "text/plain", String::new());
    if let Ok(location) = location.parse() {
        response.headers_mut().insert("location", location);
    }
    response
}

fn respond(status: u16, content_type: &str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    if let (Ok(status), Ok(content_type)) = (status.try_into(), content_type.parse()) {
        *response.status_mut() = status;
        response.headers_mut().insert("content-type", content_type);
    }
    response
}
