//! `abide.toml`, and the options that it sets.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{blocking, command, directory, reaching};

/// A call with this file, where every name leads to `server`; the directory holds the same file as `abide.toml`.
async fn with(server: &Server, content: &str, args: &str, is_found: bool) -> crate::Ran {
    let directory = directory();
    let file = directory.place("abide.toml");
    std::fs::write(&file, content).unwrap();
    let named = if is_found { String::new() } else { format!("--config={file}") };
    let all = reaching(server, format!("{args} -q {named}"));
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
                        [crawl]\nmax-pages = 2\n";
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
}
