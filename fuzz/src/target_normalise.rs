//! The normal form of a target is its own normal form, is ASCII, starts with a slash, and decides as the
//! target does. The keys of a URL are those of its scheme, host and port: they know no user, name themselves
//! again, and are read back as they are written.

use abide_gate::{Host, Origin, has_userinfo, without_userinfo};
use abide_robots::Target;
use url::Url;

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    let (text, pattern) = input.split_once('\n').unwrap_or((input, ""));
    let target = Target::new(text);
    let normal = target.as_str().to_string();
    assert!(normal.is_ascii() && normal.starts_with('/'));
    let again = Target::new(&normal);
    assert_eq!(again.as_str(), normal);
    assert_eq!(target.covered_by(pattern.as_bytes()), again.covered_by(pattern.as_bytes()));

    let placed = |prefix: &str| format!("{prefix}{text}").parse::<Url>();
    for url in [placed(""), placed("https://"), placed("http://a.example")].into_iter().flatten() {
        keys(&url);
    }
}

fn keys(url: &Url) {
    let Ok(origin) = Origin::of(url) else {
        assert!(!matches!(url.scheme(), "http" | "https") && Host::of(url).is_err(), "{url}");
        return;
    };
    // The URL standard's own words for it, which leave the default port out.
    let (host, port) =
        (url.host_str().expect("http has one"), url.port_or_known_default().expect("http has one"));
    assert_eq!(origin.as_str(), format!("{}://{host}:{port}", url.scheme()));
    assert_eq!(origin.as_str().parse().as_ref(), Ok(&origin), "a key is read back");
    let robots = origin.robots_url();
    assert_eq!((robots.path(), robots.query(), robots.fragment()), ("/robots.txt", None, None));
    assert_eq!(Origin::of(&robots).as_ref(), Ok(&origin));
    assert_eq!(Host::of(url).as_ref(), Ok(&origin.host()));
    assert_eq!(origin.host().as_str(), host.strip_suffix('.').unwrap_or(host));

    let plain = without_userinfo(url);
    let mut named = url.clone();
    named.set_username("sesame").expect("http has a host");
    named.set_password(Some("open")).expect("http has a host");
    assert!(has_userinfo(&named) && !has_userinfo(&plain) && !has_userinfo(&robots));
    assert_eq!(without_userinfo(&named), plain);
    assert_eq!((Origin::of(&named), Host::of(&named)), (Ok(origin.clone()), Host::of(&plain)));
    assert_eq!(Target::of(&named), Target::of(&plain));
    let keys = [origin.as_str(), origin.host().as_str(), &format!("{origin:?} {origin}")].concat();
    assert!(!keys.contains('@'), "{keys}");
}
