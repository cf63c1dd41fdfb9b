//! `abide.toml`, and the options that it sets.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{blocking, command, directory, reaching};

/// A call with this file, where every name leads to `server`; the directory holds the same file as
/// `abide.toml`.
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
        let fields = if is_found { (None, None) } else { (Some("1"), Some("2")) };
        assert_eq!((last.header("x-one"), last.header("x-two")), fields);
        assert_eq!(ran.lines().last().unwrap()["fetched"], json!(2), "{}", ran.out);
    }
    let ran = with(&server, FILE, "crawl --json --max-pages 1 a.example/", true).await;
    assert_eq!(ran.lines().last().unwrap()["fetched"], json!(1));
}

#[tokio::test]
async fn the_file_of_the_directory_is_named_and_neither_reaches_out_nor_writes() {
    let server = site().await;
    let (place, home) = (directory(), directory());
    let places = ["report", "save", "csv", "store", "output"].map(|name| (name, place.place(name)));
    let file: String = places.iter().map(|(name, path)| format!("{name} = \"{path}\"\n")).collect();
    let file = file.replace("store = \"", "store = \"redb:")
        + "proxy = \"http://127.0.0.1:9\"\nnoproxy = \"*\"\ncacert = \"/nonexistent\"\nkey = \"/nonexistent\"\n\
           header = \"X-Here: 1\"\nfiles-from = \"/nonexistent\"\nallow-net = \"10.0.0.0/8\"\nresolve = \"*:1:10.0.0.1\"\n\
           delay = 0\n[crawl]\nmax-pages = 2\nwarc = \"x\"\nuser = \"a:b\"\nwhy = \"x\"\n\
           danger-ignore-robots = \"http://a.example/\"\n";
    std::fs::write(place.place("abide.toml"), &file).unwrap();
    std::fs::create_dir(home.path().join("abide")).unwrap();
    std::fs::write(
        home.path().join("abide/abide.toml"),
        "agent = \"OwnBot\"\nheader = \"X-Own: 1\"\nmax-pages = 3\n",
    )
    .unwrap();
    let args = reaching(&server, "crawl --json a.example/");
    let (here, config) = (place.path().to_owned(), home.path().to_owned());
    let ran: crate::Ran =
        blocking(move || command(&args).current_dir(here).env("XDG_CONFIG_HOME", config).output().unwrap())
            .await
            .into();
    ran.ends_with(0).reports(&[
        &format!("with options from {} and abide.toml; --config \"\" reads none; ", home.place("abide/abide.toml")),
        "of the abide.toml found here, allow-net, cacert, csv, danger-ignore-robots, files-from, header, key, noproxy, output, proxy, \
         report, resolve, save, store, user, warc, why would count only with --config abide.toml",
    ]);
    assert_eq!(
        ran.lines().last().unwrap()["fetched"],
        json!(2),
        "that of the directory goes before that of the user"
    );
    let last = server.log().pop().unwrap();
    assert_eq!((last.header("x-own"), last.header("x-here")), (Some("1"), None));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "nothing was written");
}
