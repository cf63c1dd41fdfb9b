//! `abide.toml`, and the options that it sets.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{Words, blocking, command, directory, has, reaching};

/// A call with this file, where every name leads to `server`; the directory holds the same file as `abide.toml`.
async fn with(server: &Server, content: &str, args: impl Words, is_found: bool) -> crate::Ran {
    let directory = directory();
    let file = directory.place("abide.toml");
    std::fs::write(&file, content).unwrap();
    let mut all = reaching(server, args);
    all.push("-q".to_owned());
    all.extend((!is_found).then(|| format!("--config={file}")));
    blocking(move || command(&all).current_dir(directory.path()).output().unwrap()).await.into()
}

async fn site() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>"),
        _ => Reply::html("end"),
    })
    .await
}

#[tokio::test]
async fn options_of_the_file_stand_below_those_of_the_command_line() {
    const FILE: &str = "agent = \"FileBot\"\nuser-agent = \"FileBot/1 (+https://my.example)\"\ndelay = 0\nheader = [\"X-One: 1\", \"X-Two: 2\"]\n\
                        [crawl]\nmax-pages = 2\n[fetch]\njson = true\n";
    let server = site().await;
    for is_found in [false, true] {
        let ran = with(&server, FILE, "crawl --json a.example/", is_found).await;
        let last = server.log().pop().unwrap();
        assert_eq!(last.header("user-agent"), Some("FileBot/1 (+https://my.example)"), "{}", ran.err);
        assert_eq!((last.header("x-one"), last.header("x-two")), (Some("1"), Some("2")));
        assert_eq!(ran.lines().last().unwrap()["fetched"], json!(2), "{}", ran.out);
    }
    let ran = with(&server, FILE, "crawl --json --max-pages 1 a.example/", true).await;
    assert_eq!(ran.lines().last().unwrap()["fetched"], json!(1));
    // The table of the call says that it prints JSON.
    let ran = with(&server, FILE, "fetch -a Other -A Other/3 a.example/1", true).await;
    assert_eq!(ran.line()["outcome"], json!("fetched"));
    assert_eq!(server.log().pop().unwrap().header("user-agent"), Some("Other/3"));
}

#[tokio::test]
async fn a_host_has_a_delay_and_a_limit_of_its_own() {
    let server = site().await;
    let content = "delay = 0\n[host.\"slow.example\"]\ndelay = \"400ms\"\nmax-pages = 2\n";
    let ran = with(&server, content, "crawl --json slow.example/ a.example/", true).await;
    let (slow, other) = (ran.host("slow.example"), ran.host("a.example"));
    has(&slow, json!({"fetched": 2, "left": 2}));
    has(&other, json!({"fetched": 4}));
    let gaps = [slow, other].map(|host| host["gap_min_ms"].as_u64());
    assert!(gaps[0] >= Some(350) && gaps[1] < Some(350), "{gaps:?}");
}

#[tokio::test]
async fn what_the_call_sets_for_a_host_stands_above_the_file() {
    let server = site().await;
    let content = "delay = 0\n[host.\"A.example\"]\nmax-pages = 1\n[host.\"b.example\"]\nmax-pages = 2\n";
    let ran =
        with(&server, content, "crawl --json --host-max-pages=a.example=3 a.example/ b.example/", true).await;
    assert_eq!(["a", "b"].map(|host| ran.host(host)["fetched"].clone()), [3, 2].map(|pages| json!(pages)));
}

#[test]
fn the_demonstration_needs_nothing() {
    let ran = crate::Ran::from(command("demo").env("HTTP_PROXY", "http://127.0.0.1:9").output().unwrap());
    ran.ends_with(0).shows(&[
        "200  http://bakery.example/private/menu.html",
        "denied  http://bakery.example/private/recipes  disallowed by \"Disallow: /private/\"",
        "refused  http://bakery.example/inside",
        "404  http://bakery.example/gone",
        "  noindex\n",
        "200  http://market.example/stalls",
        "(503, Retry-After 3 s)",
        "robots.txt can't be fetched: it returned status 500",
        "15 URLs: 9 ok, 1 redirected, 1 client error, 3 denied, 1 refused",
    ]);
}
