//! The files and targets that are measured, made from a fixed seed. The only place where they are made.

#![allow(clippy::restriction, reason = "the inputs are its own")]
#![allow(dead_code, reason = "each program that includes this uses a part of it")]

use std::fmt::Write as _;

/// The crawler that asks.
pub(crate) const AGENT: &str = "ExampleBot";

/// A small generator of numbers (xorshift64*): the same for each run and machine.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

const WORDS: &[&str] = &[
    "account", "admin", "api", "archive", "assets", "blog", "calendar", "cart", "catalog", "category",
    "checkout", "comments", "compare", "contact", "customer", "docs", "download", "events", "export", "feed",
    "files", "forum", "gallery", "help", "images", "internal", "item", "journal", "login", "media",
    "members", "news", "order", "page", "partner", "press", "print", "private", "product", "profile",
    "report", "review", "search", "share", "shop", "static", "store", "tag", "temp", "topic", "upload",
    "user", "video", "wiki",
];
const ENDINGS: &[&str] = &["pdf", "php", "aspx", "json", "xml", "gif", "zip", "docx", "cgi", "jsp"];
const KEYS: &[&str] =
    &["sort", "filter", "session", "page", "lang", "utm_source", "replytocom", "id", "view", "ref"];

fn literal(rng: &mut Rng) -> String {
    let mut out = String::new();
    for _ in 0..1 + rng.below(3) {
        let _ = write!(out, "/{}", rng.of(WORDS));
        if rng.percent(40) {
            let _ = write!(out, "-{}", rng.below(500));
        }
    }
    if rng.percent(60) {
        out.push('/');
    }
    out
}

/// A path that occurs once in a set of `many`.
fn distinct(rng: &mut Rng, many: usize) -> String {
    let number = rng.below(many * 10);
    format!("/{}/{}-{number}{}", rng.of(WORDS), rng.of(WORDS), rng.of(&["", "/", "/a"]))
}

fn wildcard(rng: &mut Rng, many: usize) -> String {
    let number = rng.below(many * 10);
    match rng.below(if many > 200 { 5 } else { 6 }) {
        0 => format!("/{}/*/{}-{number}/", rng.of(WORDS), rng.of(WORDS)),
        1 => format!("/*?{}={number}", rng.of(KEYS)),
        2 => format!("/*/{}{number}.{}$", rng.of(WORDS), rng.of(ENDINGS)),
        3 => format!("*/{}-{number}/", rng.of(WORDS)),
        4 => format!("/{}/*{}{number}=", rng.of(WORDS), rng.of(KEYS)),
        _ => format!("/*.{}$", rng.of(ENDINGS)),
    }
}

fn rule(rng: &mut Rng, wildcards: usize, many: usize) -> String {
    let kind = if rng.percent(15) { "Allow" } else { "Disallow" };
    let pattern = if rng.percent(wildcards) {
        wildcard(rng, many)
    } else if many > 100 {
        distinct(rng, many)
    } else {
        literal(rng)
    };
    format!("{kind}: {pattern}\n")
}

/// 217 bytes: two rules for `*`, and a sitemap.
pub(crate) fn tiny() -> String {
    let mut out =
        String::from("# See https://www.example.com/robots-policy for what we ask of crawlers, and why.\n");
    out.push_str("User-agent: *\nDisallow: /wp-admin/\nAllow: /wp-admin/admin-ajax.php\n\n");
    out.push_str("Sitemap: https://www.example.com/sitemap_index.xml\n");
    while out.len() < 216 {
        out.insert(2, '-');
    }
    out + "\n"
}

/// 1.7 KB: 34 rules for `*`, a fifth with wildcards, comments, sitemaps, a few named agents.
pub(crate) fn typical() -> String {
    let mut rng = Rng::new(2);
    let mut out = String::from("# robots.txt of www.example.com\n# Please be gentle.\n\n");
    for name in ["GPTBot", "CCBot", "AhrefsBot"] {
        let _ = writeln!(out, "User-agent: {name}\nDisallow: /\n");
    }
    out.push_str("User-agent: Googlebot\nUser-agent: Bingbot\nDisallow: /search\nAllow: /search/about\n\n");
    out.push_str("User-agent: *\nCrawl-delay: 2\n");
    for count in 0..34 {
        if count % 8 == 0 {
            let _ = writeln!(out, "\n# The {} section is not for machines", rng.of(WORDS));
        }
        out.push_str(&rule(&mut rng, 20, 34));
    }
    out.push_str(
        "\nSitemap: https://www.example.com/sitemap.xml\nSitemap: https://www.example.com/news.xml\n",
    );
    while out.len() < 1700 {
        out.push_str("# ----------------\n");
    }
    out
}

/// 44 KB: 30 groups, 1,500 rules, 150 of them ours.
pub(crate) fn large() -> String {
    let mut rng = Rng::new(3);
    let mut out = String::new();
    for group in 0..28 {
        let _ = writeln!(out, "User-agent: {}{}", rng.of(WORDS), ["Bot", "Spider", "-crawler"][group % 3]);
        for _ in 0..48 {
            out.push_str(&rule(&mut rng, 10, 1500));
        }
        out.push('\n');
        if group == 12 {
            let _ = writeln!(out, "User-agent: {AGENT}");
            for _ in 0..150 {
                out.push_str(&rule(&mut rng, 20, 1500));
            }
            out.push('\n');
        }
    }
    out.push_str("User-agent: *\nDisallow: /\n");
    out
}

/// 512,000 bytes: some 17,700 rules, all ours, a tenth with wildcards.
pub(crate) fn huge() -> String {
    let mut rng = Rng::new(4);
    let mut out = format!("User-agent: {AGENT}\n");
    while out.len() < 511_950 {
        out.push_str(&rule(&mut rng, 10, 17_700));
    }
    while out.len() < 512_000 {
        out.push('\n');
    }
    out
}

/// 2.8 KB: 120 rules, each with a wildcard or `$`.
pub(crate) fn wild() -> String {
    let mut rng = Rng::new(5);
    let mut out = String::from("User-agent: *\n");
    for _ in 0..120 {
        match rng.below(4) {
            0 => {
                let _ = writeln!(out, "Disallow: /{}$", rng.of(WORDS));
            }
            1 => {
                let _ = writeln!(out, "Disallow: /*.{}$", rng.of(ENDINGS));
            }
            2 => {
                let _ = writeln!(out, "Allow: /*?{}=", rng.of(KEYS));
            }
            _ => {
                let _ = writeln!(out, "Disallow: */{}/*/{}", rng.of(WORDS), rng.of(KEYS));
            }
        }
    }
    out
}

/// 500 KB, none of its groups ours.
pub(crate) fn foreign() -> String {
    let mut rng = Rng::new(6);
    let mut out = String::new();
    while out.len() < 500_000 {
        let _ = writeln!(out, "User-agent: {}Bot", rng.of(WORDS));
        for _ in 0..60 {
            out.push_str(&rule(&mut rng, 10, 17_700));
        }
        out.push('\n');
    }
    out
}

/// 500 KB of comments.
pub(crate) fn comments() -> String {
    let mut rng = Rng::new(7);
    let mut out = String::new();
    while out.len() < 500_000 {
        let _ = writeln!(out, "# {} and {} are kept for {}", rng.of(WORDS), rng.of(WORDS), rng.of(WORDS));
    }
    out
}

pub(crate) fn file(name: &str) -> Option<String> {
    Some(match name {
        "tiny" => tiny(),
        "typical" => typical(),
        "large" => large(),
        "huge" => huge(),
        "wild" => wild(),
        "foreign" => foreign(),
        "comments" => comments(),
        _ => return None,
    })
}

/// `rules` rules in our group, `wildcards` per cent of them with wildcards, and 256 paths: some hit early,
/// some late, some not at all.
pub(crate) fn match_set(rules: usize, wildcards: usize) -> (String, Vec<String>) {
    let mut rng = Rng::new(1000 + rules as u64 * 101 + wildcards as u64);
    let mut robots = format!("User-agent: {AGENT}\n");
    let mut patterns = Vec::new();
    for _ in 0..rules {
        let line = rule(&mut rng, wildcards, rules);
        patterns.push(
            line.split_once(": ").map(|(_, pattern)| pattern.trim_end().to_string()).unwrap_or_default(),
        );
        robots.push_str(&line);
    }
    let paths = (0..256).map(|number| path(&mut rng, &patterns, number)).collect();
    (robots, paths)
}

fn path(rng: &mut Rng, patterns: &[String], number: usize) -> String {
    match number % 4 {
        0 | 1 => {
            let pattern = &patterns[rng.below(patterns.len())];
            let path = pattern.replace('*', rng.of(&["", "x", "/a/b", "archive-12"])).replace('$', "");
            let path = if path.starts_with('/') { path } else { format!("/{path}") };
            if rng.percent(50) { format!("{path}index-{}", rng.below(1000)) } else { path }
        }
        2 => format!("{}article-{}.html", literal(rng), rng.below(100_000)),
        _ => format!("{}?{}={}&{}=1", literal(rng), rng.of(KEYS), rng.below(1000), rng.of(KEYS)),
    }
}

/// 309 bytes on average; a quarter of the files are distinct.
pub(crate) fn hosts(count: usize) -> Vec<String> {
    let mut rng = Rng::new(8);
    let distinct: Vec<String> = (0..count.div_ceil(4)).map(|number| host(&mut rng, number)).collect();
    (0..count).map(|number| distinct[number % distinct.len()].clone()).collect()
}

fn host(rng: &mut Rng, number: usize) -> String {
    let mut out = String::from("User-agent: *\n");
    for _ in 0..2 + rng.below(13) {
        out.push_str(&rule(rng, 20, 50));
    }
    if rng.percent(30) {
        out.push_str("\nUser-agent: GPTBot\nDisallow: /\n");
    }
    let _ = writeln!(out, "\nSitemap: https://www.host-{number}.example/sitemap.xml");
    out
}

/// Files of 512,000 bytes and paths of 16 KiB that were made to cause work.
pub(crate) fn hostile() -> Vec<(&'static str, String, String)> {
    let file = |line: &dyn Fn(usize) -> String| {
        let mut out = format!("user-agent: {AGENT}\n");
        for number in 0.. {
            let line = line(number);
            if out.len() + line.len() > 512_000 {
                return out;
            }
            out.push_str(&line);
        }
        out
    };
    let letters = |mut number: usize, length: usize| -> String {
        let mut out = String::new();
        for _ in 0..length {
            out.push(char::from(b'a' + (number % 20) as u8));
            number /= 20;
        }
        out
    };
    let long = 16 * 1024;
    let repeated = |piece: &str| format!("/{}", piece.repeat(long / piece.len()));
    let mut rng = Rng::new(9);
    let random: String = (0..long).map(|_| char::from(b'a' + rng.below(20) as u8)).collect();
    vec![
        ("stars", file(&|n| format!("allow:/*{}*z\n", letters(n, 3))), format!("/{random}")),
        (
            "many stars",
            file(&|n| format!("allow:/*{}z\n", letters(n, 40).replace("", "*"))),
            format!("/{random}"),
        ),
        ("almost", file(&|n| format!("allow:/*aaaaaaaab*{}\n", letters(n, 4))), repeated("aaaaaaaaaaaab")),
        (
            "order",
            file(&|n| format!("allow:/*{}*b{}c\n", letters(n, 3), letters(n, 2))),
            format!("/{random}"),
        ),
        ("one gram", file(&|n| format!("allow:/*aaaaa{n}b\n")), repeated("a")),
        ("one slot", file(&|n| format!("allow:/*aaaa*{}\n", letters(n, 3))), repeated("a")),
        ("ends", file(&|n| format!("allow:/*{}*$\n", letters(n, 4))), format!("/{random}")),
        ("nested", file(&|n| format!("allow:/{}\n", "a".repeat(n + 1))), repeated("a")),
        ("nested pieces", file(&|n| format!("allow:/*{}b\n", "a".repeat(n % 900))), repeated("a")),
        ("long pieces", file(&|n| format!("allow:/*{}{n}\n", "a".repeat(8000))), repeated("a")),
        (
            "escapes",
            file(&|n| format!("allow:/*%2F{}%3A*z\n", letters(n, 2))),
            format!("/?{}", "%2Faa:".repeat(2700)),
        ),
        (
            "long escapes",
            file(&|n| format!("allow:/*{}{n}\n", "%2Faa*".repeat(2600))),
            format!("/?{}", "/aa".repeat(5400)),
        ),
        ("agents", file(&|n| format!("user-agent: bot{}\n", letters(n, 4))), repeated("a")),
        ("literals", file(&|n| format!("allow:/{}\n", letters(n, 4))), format!("/{random}")),
        ("duplicates", file(&|_| String::from("allow:/*a*b*c*d$\n")), repeated("abc")),
    ]
}
