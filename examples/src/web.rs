//! Several sites behind one loopback listener, distinguished by the Host field.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use abide_tests::{Reply, Seen, Server, Step};

/// Six sites: allowed and disallowed trees, and every outcome of a robots.txt.
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

/// The four houses of the embedded web, with as many pages as one likes: fast ones and slow ones, some of
/// them moved, missing or forbidden. The station asks for a second between two requests, and the theatre
/// closes for a while.
pub fn houses() -> [&'static str; 4] {
    ["harbour.example", "museum.example", "station.example", "theatre.example"]
}

/// The shops of the embedded web, `shop-1.example` and so on: all alike, but that the first is busy.
pub fn shops() -> impl Iterator<Item = String> {
    (1..=SHOPS).map(|number| format!("shop-{number}.example"))
}

/// How many shops there are.
const SHOPS: usize = 24;

/// A running embedded web. It ends when it is dropped.
#[derive(Debug)]
pub struct Web(Server);

impl Web {
    /// Listens on a free port of 127.0.0.1 and answers for all of [`sites`], [`houses`], [`shops`] and a few
    /// more.
    pub async fn start() -> Self {
        let asked = Mutex::new(HashSet::new());
        Self(
            Server::start(move |seen| {
                let is_first = asked.lock().unwrap_or_else(PoisonError::into_inner).insert(seen.what());
                answer(seen, is_first)
            })
            .await,
        )
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Lets this web stand in for the real one: its names lead to it, and its address, which is loopback, may
    /// be contacted.
    pub fn stand_in(&self, builder: abide::Builder) -> abide::Builder {
        let names = sites()
            .into_iter()
            .chain(houses())
            .chain(["press.example", "library.example"])
            .map(str::to_owned);
        let address = self.address();
        let builder = builder.allow_net(address.ip().into());
        names.chain(shops()).fold(builder, |builder, name| builder.resolve(&name, address))
    }

    /// A function for a shell, which puts this web in the place of the real one for the command `abide`.
    pub fn shell_function(&self) -> String {
        format!(
            "abide() {{ case $1 in check|fetch|crawl|explain) command abide \"$@\" --allow-net {} --resolve '*:80:{}';; \
             *) command abide \"$@\";; esac; }}",
            self.address().ip(),
            self.address()
        )
    }

    /// Host and path of the requests that arrived, robots.txt left out.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.0.asked();
        asked.retain(|what| !what.ends_with("/robots.txt"));
        asked
    }

    /// How many bytes of the long page were handed to the network.
    pub fn long_page_sent(&self) -> usize {
        self.0.log().iter().filter(|seen| seen.path == LONG_PATH).map(|seen| seen.sent).sum()
    }
}

/// A reqwest client for this web. It has no TLS, so that the examples run on a machine without certificates:
/// use `reqwest::Client::builder()`.
pub fn plain_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_certs_only([])
}

/// The whole web: host and path in, answer out. Some pages fail the first time that they are asked for.
fn answer(seen: &Seen, is_first: bool) -> Reply {
    let (host, path) = (seen.host(), seen.path.split('?').next().unwrap_or_default());
    match (host, path) {
        // By its address, for clients that have no resolver to set.
        ("bakery.example" | "127.0.0.1", path) => bakery(path),
        ("journal.example", LONG_PATH) => long_page(),
        // RFC 9309 §2.3.1.2: these rules count for journal.example, though another host serves them.
        ("journal.example", "/robots.txt") => Reply::redirect(301, "http://www.journal.example/robots.txt"),
        ("journal.example" | "www.journal.example", path) => journal(path),
        ("open.example", path) => open(path),
        ("broken.example", "/robots.txt") => Reply::new(500, "the disk is on fire"),
        ("broken.example", _) => page("No crawler should see this", ""),
        ("busy.example", path) => busy_site(path, is_first),
        ("press.example", path) => press(path),
        ("library.example", path) => library(path, is_first),
        (shop, path) if shop.starts_with("shop-") => shop_site(shop, path, is_first),
        (name, path) if houses().contains(&name) => {
            house(name, path, is_first).after(house_takes(name, path))
        }
        _ => Reply::new(421, "no such site here"),
    }
}

fn bakery(path: &str) -> Reply {
    match path {
        "/robots.txt" => Reply::new(
            200,
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
        "/old-recipes" => Reply::redirect(302, "/private/recipes.html"),
        "/partner" => Reply::redirect(301, "http://journal.example/"),
        // An address that must not be reached from outside.
        "/inside" => Reply::redirect(302, "http://127.0.0.2/admin"),
        "/private/recipes.html" => page("No crawler should see this", ""),
        _ => Reply::new(404, "no such page"),
    }
}

fn journal(path: &str) -> Reply {
    match path {
        "/robots.txt" => {
            Reply::new(200, "User-agent: AbideExample\nDisallow: /drafts/\n\nUser-agent: *\nDisallow: /\n")
        }
        "/" => page(
            "The journal",
            r#"<a href="/header.html">a</a> <a href="/meta.html">b</a> <a href="/snippet.html">c</a>
               <a href="/drafts/1.html">d</a>"#,
        ),
        "/header.html" => page("By header", "").with("robots-tag", "*;nosnippet, AbideExample;noindex"),
        "/meta.html" => page_with("By meta", "<meta name=robots content='noindex, nofollow'>", ""),
        "/snippet.html" => page("Old header", "").with("x-robots-tag", "max-snippet: 20, noarchive"),
        _ => Reply::new(404, "no such page"),
    }
}

fn open(path: &str) -> Reply {
    match path {
        // RFC 9309 §2.3.1.3: unavailable, so everything may be asked for.
        "/robots.txt" => Reply::new(404, "no robots.txt here"),
        "/" => page("Flour", r#"<a href="/mill.html">mill</a> <a href="http://broken.example/">friends</a>"#),
        "/mill.html" => page("The mill", r#"<a href="http://busy.example/">market</a>"#),
        _ => Reply::new(404, "no such page"),
    }
}

/// Answers 429 once, on robots.txt, and 503 on its shop for ever.
fn busy_site(path: &str, is_first: bool) -> Reply {
    match path {
        "/robots.txt" if is_first => Reply::retry_after(429, 2),
        "/robots.txt" => Reply::new(200, "User-agent: *\nAllow: /\n"),
        "/" => page("The market", r#"<a href="/shop.html">shop</a> <a href="/stalls.html">stalls</a>"#),
        "/shop.html" => Reply::retry_after(503, 3600),
        "/stalls.html" => page("Stalls", ""),
        _ => Reply::new(404, "no such page"),
    }
}

/// Every way to speak of AI: in robots.txt, in fields, in metas.
fn press(path: &str) -> Reply {
    match path {
        "/robots.txt" => Reply::new(
            200,
            "User-agent: *\n\
             Disallow: /archive/\n\
             Content-Usage: train-ai=y\n\
             Content-Usage: /poems/ train-ai=n\n\
             App-Directives: /news/ exampletrainer;excerpts=?0\n",
        ),
        "/archive/1.html" => page("No crawler should see this", ""),
        "/news/1.html" => page("News", ""),
        "/poems/1.html" => page("A poem", ""),
        "/columns/field.html" => page("A column", "").with("content-usage", "train-ai=n"),
        "/columns/signal.html" => page("A column", "").with("content-signal", "ai-train=no, search=yes"),
        "/columns/tags.html" => page("A column", "").with("robots-tag", "*;noai"),
        "/columns/meta.html" => page_with("A column", "<meta name=robots content=noai>", ""),
        "/columns/mining.html" => page_with("A column", "<meta name=tdm-reservation content=1>", ""),
        "/columns/open.html" => page("A column", ""),
        _ => Reply::new(404, "no such page"),
    }
}

/// A page that may be cached, and one that fails the first time.
fn library(path: &str, is_first: bool) -> Reply {
    match path {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /loans/\n"),
        "/catalogue.html" => page("Catalogue", "").with("cache-control", "max-age=60"),
        "/opening-hours.html" if is_first => Reply::retry_after(503, 2),
        "/opening-hours.html" => page("Opening hours", ""),
        "/my-account" => Reply::redirect(302, "/loans/7.html"),
        _ => Reply::new(404, "no such page"),
    }
}

/// Shelves and a basket. The first shop closes for a moment when it is asked for its first shelf.
fn shop_site(host: &str, path: &str, is_first: bool) -> Reply {
    match path {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /basket/\nDisallow: /*?sort=\n"),
        "/shelf/1" if host == "shop-1.example" && is_first => Reply::retry_after(429, 2),
        path if path.starts_with("/shelf/") => page("A shelf", ""),
        path if path.starts_with("/basket/") => page("No crawler should see this", ""),
        _ => Reply::new(404, "no such page"),
    }
}

/// Numbered pages, each of which leads to the next ones.
fn house(host: &str, path: &str, is_first: bool) -> Reply {
    if path == "/robots.txt" {
        let delay = if host == "station.example" { "Crawl-delay: 1\n" } else { "" };
        return Reply::new(200, format!("User-agent: *\nDisallow: /staff/\n{delay}"));
    }
    let number: usize = path[1..].parse().unwrap_or(0);
    match number {
        10 if host == "theatre.example" && is_first => Reply::retry_after(503, 7),
        5.. if number % 11 == 5 => Reply::new(404, "no such page"),
        3.. if number % 9 == 3 => Reply::redirect(301, &format!("/{}", number + 100)),
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
fn long_page() -> Reply {
    let head = "<!doctype html><title>Long</title><meta name=robots content=noindex></head><body>";
    let length = head.len() + LONG_PAGE;
    let fields =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n{head}");
    Reply::raw(vec![
        Step::Send(fields.into_bytes()),
        Step::Repeat(vec![b'x'; 64 * 1024], LONG_PAGE / 64 / 1024),
    ])
}

const LONG_PATH: &str = "/long.html";
/// How long the body of the long page is, at least.
pub const LONG_PAGE: usize = 64 * 1024 * 1024;

fn page(title: &str, body: &str) -> Reply {
    page_with(title, "", body)
}

fn page_with(title: &str, head: &str, body: &str) -> Reply {
    let html = format!(
        "<!doctype html><html><head><title>{title}</title>{head}</head><body><h1>{title}</h1>{body}</body></html>"
    );
    Reply::html(html)
}
