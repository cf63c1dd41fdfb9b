//! Permissions behind an HTTP cache: what the server said is compared with what a crawler gets, through the real http-cache.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{MemoryPermissionStore, ResponseExt};
use abide_tests::{Reply, Seen, Server};
use fastrand::Rng;
use http_cache_reqwest::{Cache, CacheMode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::stacks::cache;
use crate::{Built, builder};

const LINES: [&str; 9] = [
    "noindex",
    "nofollow",
    "googlebot: noindex, nofollow",
    "*;nosnippet",
    "OtherBot;noindex",
    "ExampleBot;noindex, *;noarchive",
    "all",
    "none",
    "noindex, caf\u{e9}",
];

/// Whether a line keeps ExampleBot from indexing.
fn restricts(line: &str) -> bool {
    ["noindex", "ExampleBot;noindex, *;noarchive", "none", "noindex, caf\u{e9}"].contains(&line)
}

type Fields = Vec<(&'static str, &'static str)>;

fn pick<T: Copy>(random: &mut Rng, from: &[T]) -> T {
    random.choice(from).copied().unwrap()
}

fn some_rules(random: &mut Rng) -> Fields {
    (0..random.usize(..4))
        .map(|_| (pick(random, &["x-robots-tag", "robots-tag"]), pick(random, &LINES)))
        .collect()
}

/// One page as the server has it, and what it has said of it.
#[derive(Default)]
struct Page {
    version: u64,
    rules: Fields,
    has_meta: bool,
    types: Vec<&'static str>,
    /// The fields that count for a cache that keeps the last answer (RFC 9111 §3.2).
    said: Fields,
    said_meta: bool,
}

impl Page {
    fn change(&mut self, random: &mut Rng) {
        self.version += 1;
        self.rules = some_rules(random);
        self.has_meta = random.usize(..5) == 0;
        self.types =
            pick::<&[&str]>(random, &[&["text/html"], &["text/html"], &["text/plain", "text/html"]]).to_vec();
    }

    fn answer(&mut self, seen: &Seen, random: &mut Rng) -> Reply {
        let tag = format!("\"{}\"", self.version);
        let control = pick(random, &["max-age=60", "no-cache", "max-age=0", "no-cache"]);
        if seen.header("if-none-match") == Some(&tag) {
            // Some servers say on each 304 what they say on pages, others nothing, others something else.
            let fields = match random.usize(..3) {
                0 => Vec::new(),
                1 => self.rules.clone(),
                _ => some_rules(random),
            };
            self.said.retain(|(name, _)| !fields.iter().any(|(new, _)| new == name));
            self.said.extend(&fields);
            let mut head = vec![("etag", &*tag), ("cache-control", control)];
            head.extend(fields.iter().copied());
            return Reply::with_headers(304, &head, "");
        }
        self.said.clone_from(&self.rules);
        self.said_meta = self.has_meta;
        let mut head = vec![("etag", &*tag), ("cache-control", control)];
        head.extend(self.rules.iter().copied());
        head.extend(self.types.iter().map(|text| ("content-type", *text)));
        let meta = if self.has_meta { "<meta name=robots content=noindex>" } else { "" };
        Reply::with_headers(200, &head, format!("<!doctype html><title>x</title>{meta}<p>text"))
    }

    fn says_noindex(&self) -> bool {
        self.said_meta || self.said.iter().any(|(_, line)| restricts(line))
    }
}

type Pages = Arc<Mutex<(Rng, HashMap<String, Page>)>>;

async fn site(seed: u64) -> (Pages, Server) {
    let pages: Pages = Arc::new(Mutex::new((Rng::with_seed(seed), HashMap::new())));
    let served = Arc::clone(&pages);
    let server = Server::without_rules(move |seen| {
        let (random, pages) = &mut *served.lock().unwrap();
        pages.entry(seen.path.clone()).or_default().answer(seen, random)
    });
    (pages, server.await)
}

/// What came of many requests for pages that change.
#[derive(Debug, Default)]
struct Count {
    requests: usize,
    on_the_wire: usize,
    /// Permitted by what the crawler got, forbidden by what the server said.
    wrong: usize,
    known: usize,
}

async fn crawl(client: &ClientWithMiddleware, server: &Server, pages: &Pages, seed: u64) -> Count {
    let mut random = Rng::with_seed(seed);
    let mut count = Count::default();
    for sequence in 0..150 {
        let path = format!("/{seed}/{sequence}");
        for _ in 0..random.usize(..7) + 2 {
            if random.usize(..4) == 0 || !pages.lock().unwrap().1.contains_key(&path) {
                pages.lock().unwrap().1.entry(path.clone()).or_default().change(&mut random);
            }
            let page = client.get(format!("http://a.example{path}")).send().await.unwrap();
            let permissions = page.permissions();
            let names: Vec<_> = page.headers().keys().map(|name| name.as_str().to_owned()).collect();
            assert!(!names.iter().any(|name| name.starts_with("abide-")), "{names:?}");
            page.bytes().await.unwrap();
            let says_noindex = pages.lock().unwrap().1[&path].says_noindex();
            count.requests += 1;
            count.wrong += usize::from(says_noindex && permissions.noindex_known() == Some(false));
            count.wrong += usize::from(says_noindex && permissions.may_index());
            count.known += usize::from(permissions.noindex_known() == Some(says_noindex));
        }
    }
    count.on_the_wire = server.log().iter().filter(|seen| seen.path != "/robots.txt").count();
    count
}

#[tokio::test]
async fn a_cache_between_the_halves_loses_no_restriction() {
    use CacheMode::{Default, ForceCache, IgnoreRules, NoCache, NoStore};
    for (mode, seeds) in [(Default, 4), (ForceCache, 1), (IgnoreRules, 1), (NoCache, 1), (NoStore, 1)] {
        let (pages, server) = site(7).await;
        let (abide, inner) = builder(&server).parts();
        let mut cache = cache();
        cache.0.mode = mode;
        let client = ClientBuilder::new(inner).with(abide.gate()).with(cache).with(abide.pacing()).build();
        for seed in 1..=seeds {
            let count = crawl(&client, &server, &pages, seed).await;
            assert_eq!((count.wrong, count.known), (0, count.requests), "{mode:?}, seed {seed}: {count:?}");
        }
        let is_revalidated = server.log().iter().any(|seen| seen.header("if-none-match").is_some());
        assert!(is_revalidated || !matches!(mode, Default), "some are revalidated");
    }
}

#[tokio::test]
async fn abide_above_a_cache_takes_what_it_may_have_lost_for_unknown() {
    let (pages, server) = site(8).await;
    let (abide, inner) = builder(&server).parts();
    let client = ClientBuilder::new(inner).with(abide.middleware()).with(cache()).build();
    let count = crawl(&client, &server, &pages, 1).await;
    assert_eq!(count.wrong, 0, "{count:?}");
    assert!(count.on_the_wire < count.requests, "some are hits: {count:?}");
}

#[tokio::test]
async fn a_cache_that_drops_the_fields_of_abide_leaves_the_rest_unknown() {
    let (pages, server) = site(9).await;
    let (abide, inner) = builder(&server).parts();
    let mut cache = cache();
    cache.0.options.modify_response = Some(Arc::new(|response| {
        response.headers.remove("abide-received-x-robots-tag");
    }));
    let client = ClientBuilder::new(inner).with(abide.gate()).with(cache).with(abide.pacing()).build();
    let count = crawl(&client, &server, &pages, 1).await;
    assert_eq!(count.wrong, 0, "{count:?}");
    assert!(count.known < count.requests, "{count:?}");
}

#[tokio::test]
async fn an_entry_that_another_client_put_into_the_cache_is_unknown() {
    let server = Server::without_rules(|_| {
        Reply::with_headers(200, &[("content-type", "text/plain"), ("cache-control", "max-age=60")], "x")
    })
    .await;
    let (abide, inner) = builder(&server).parts();
    let shared = cache();
    let other = ClientBuilder::new(inner.clone()).with(Cache(shared.0.clone())).build();
    other.get("http://a.example/x").send().await.unwrap().bytes().await.unwrap();
    let client = ClientBuilder::new(inner).with(abide.gate()).with(shared).with(abide.pacing()).build();
    let hit = client.get("http://a.example/x").send().await.unwrap().permissions();
    assert_eq!((hit.noindex_known(), hit.may_index()), (None, false));
    let miss = client.get("http://a.example/y").send().await.unwrap().permissions();
    assert_eq!((miss.noindex_known(), miss.may_index()), (Some(false), true));
    let hit = client.get("http://a.example/y").send().await.unwrap().permissions();
    assert_eq!((hit.noindex_known(), hit.may_index()), (Some(false), true));
    assert_eq!((server.count("a.example/x"), server.count("a.example/y")), (1, 1));
}

#[tokio::test]
async fn a_hit_does_not_replace_a_record_that_came_later() {
    let said = Arc::new(Mutex::new("all"));
    let saying = Arc::clone(&said);
    let server = Server::without_rules(move |seen| match seen.header("if-none-match") {
        Some("\"2\"") => Reply::with_headers(304, &[("etag", "\"2\"")], ""),
        _ => {
            let said = *saying.lock().unwrap();
            let tag = if said == "all" { "\"1\"" } else { "\"2\"" };
            let kept = ("cache-control", "max-age=60");
            Reply::with_headers(200, &[("etag", tag), ("x-robots-tag", said), kept], "x")
        }
    })
    .await;
    let store = Arc::new(MemoryPermissionStore::new(NonZeroUsize::new(10).unwrap()));
    let (abide, inner) = builder(&server).permission_store(store).parts();
    let cached =
        ClientBuilder::new(inner.clone()).with(abide.gate()).with(cache()).with(abide.pacing()).build();
    let plain = ClientBuilder::new(inner).with(abide.middleware()).build();
    let url = "http://a.example/x";
    assert!(cached.get(url).send().await.unwrap().permissions().may_index());
    *said.lock().unwrap() = "noindex";
    // Times of records have a resolution of one millisecond.
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(!plain.get(url).send().await.unwrap().permissions().may_index());
    let hit = cached.get(url).send().await.unwrap().permissions();
    assert!(hit.may_index(), "the cache has the version before, which said so");
    let again = plain.get(url).header("if-none-match", "\"2\"").send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.permissions().noindex_known(), Some(true));
}
