//! Several sites behind one loopback listener, told apart by their `Host`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};

/// The names that the embedded web answers to.
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

/// A running embedded web. It ends with the program.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
}

impl Web {
    /// Listens on a free port of 127.0.0.1 and answers for all of [`sites`].
    ///
    /// # Errors
    /// When loopback cannot be listened on.
    pub async fn start() -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let busy = Arc::new(AtomicBool::new(true));
        let app = Router::new().fallback(answer).with_state(busy);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The whole web: host and path in, answer out.
async fn answer(State(busy): State<Arc<AtomicBool>>, headers: HeaderMap, uri: Uri) -> Response<String> {
    let host = headers.get("host").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    match (host, uri.path()) {
        ("bakery.example", path) => bakery(path),
        // RFC 9309 §2.3.1.2: these rules count for journal.example, though another host serves them.
        ("journal.example", "/robots.txt") => redirect(301, "http://www.journal.example/robots.txt"),
        ("journal.example" | "www.journal.example", path) => journal(path),
        ("open.example", path) => open(path),
        ("broken.example", "/robots.txt") => status(500, "the disk is on fire"),
        ("broken.example", _) => page("Nobody should see this", ""),
        ("busy.example", path) => busy_site(path, &busy),
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
        // An address that is nobody's business from outside.
        "/inside" => redirect(302, "http://127.0.0.2/admin"),
        "/private/recipes.html" => page("Nobody should see this", ""),
        _ => status(404, "no such page"),
    }
}

fn journal(path: &str) -> Response<String> {
    let with = |name: &str, value: &str, mut response: Response<String>| {
        let name = axum::http::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value.parse()) {
            response.headers_mut().append(name, value);
        }
        response
    };
    match path {
        "/robots.txt" => text("User-agent: AbideExample\nDisallow: /drafts/\n\nUser-agent: *\nDisallow: /\n"),
        "/" => page(
            "The journal",
            r#"<a href="/header.html">a</a> <a href="/meta.html">b</a> <a href="/snippet.html">c</a>
               <a href="/drafts/1.html">d</a>"#,
        ),
        "/header.html" => with("robots-tag", "*;nosnippet, AbideExample;noindex", page("By header", "")),
        "/meta.html" => {
            let mut response = page("By meta", "");
            let body = response.body().replacen(
                "</title>",
                "</title><meta name=robots content='noindex, nofollow'>",
                1,
            );
            *response.body_mut() = body;
            response
        }
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
fn busy_site(path: &str, busy: &AtomicBool) -> Response<String> {
    let hold = |status_code, seconds: &str| {
        let mut response = status(status_code, "slow down");
        if let Ok(seconds) = seconds.parse() {
            response.headers_mut().insert("retry-after", seconds);
        }
        response
    };
    match path {
        "/robots.txt" if busy.swap(false, Ordering::Relaxed) => hold(429, "2"),
        "/robots.txt" => text("User-agent: *\nAllow: /\n"),
        "/" => page("The market", r#"<a href="/shop.html">shop</a> <a href="/stalls.html">stalls</a>"#),
        "/shop.html" => hold(503, "3600"),
        "/stalls.html" => page("Stalls", ""),
        _ => status(404, "no such page"),
    }
}

fn page(title: &str, body: &str) -> Response<String> {
    let html = format!(
        "<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>"
    );
    respond(200, "text/html; charset=utf-8", html)
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
