//! What may come in with a dependency, by `deny.toml`, held without a tool: floors, bans, licences, one registry. And one Rust version.

use std::collections::BTreeSet;

fn read(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text between the next `before`, and the next `after` behind it.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

fn strings(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// What `deny.toml` denies: a crate, or its versions below a floor.
fn denied() -> Vec<(String, Option<[u64; 3]>)> {
    let file = read("deny.toml");
    let entries = file.lines().filter_map(|line| between(line.trim_start(), "{ crate = \"", "\""));
    let denied: Vec<_> = entries
        .map(|entry| match entry.split_once(":<") {
            Some((name, floor)) => (name.to_owned(), Some(numbers(floor))),
            None => (entry.to_owned(), None),
        })
        .collect();
    let floors = denied.iter().filter(|(_, floor)| floor.is_some()).count();
    assert!(floors >= 11 && denied.len() - floors >= 5, "deny.toml was read: {denied:?}");
    denied
}

/// Name, version and source of every package in a lock file.
fn locked(path: &str) -> Vec<(String, [u64; 3], Option<String>)> {
    let file = read(path);
    let packages = file.split("[[package]]\n").skip(1).map(|package| {
        let value = |key: &str| between(package, &format!("{key} = \""), "\"").map(str::to_owned);
        (value("name").unwrap(), numbers(&value("version").unwrap()), value("source"))
    });
    let packages: Vec<_> = packages.collect();
    assert!(packages.len() > 100, "{path} was read");
    packages
}

/// `0.103.16+build`, `1.2.3-rc.1` and `4.4`: three numbers.
fn numbers(version: &str) -> [u64; 3] {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let mut parts = version[..end].split('.').map(|part| part.parse().expect("a number"));
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

const LOCKS: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// What `deny.toml` denies of the packages that are locked.
fn found(is_floor: bool) -> Vec<String> {
    let denied = denied();
    let packages = LOCKS.iter().flat_map(|path| locked(path).into_iter().map(move |package| (path, package)));
    let is_denied = |name: &str, version: [u64; 3]| {
        denied.iter().any(|(denied, floor)| {
            denied == name && floor.is_some() == is_floor && floor.is_none_or(|floor| version < floor)
        })
    };
    packages
        .filter(|(_, (name, version, _))| is_denied(name, *version))
        .map(|(path, (name, version, _))| format!("{path}: {name} {version:?}"))
        .collect()
}

#[test]
fn what_is_banned_is_not_there() {
    assert_eq!(found(false), Vec::<String>::new());
}

#[test]
fn no_dependency_is_below_its_floor() {
    assert_eq!(found(true), Vec::<String>::new());
    let packages = locked(LOCKS[0]);
    for must in ["h2", "rustls", "tokio", "bytes", "idna", "redb"] {
        assert!(packages.iter().any(|(name, ..)| name == must), "{must} has gone: drop its floor");
    }
}

#[test]
fn everything_comes_from_one_registry() {
    for (name, _, source) in LOCKS.iter().flat_map(|path| locked(path)) {
        let is_known = match source.as_deref() {
            Some(source) => source == "registry+https://github.com/rust-lang/crates.io-index",
            None => name.starts_with("abide"),
        };
        assert!(is_known, "{name} comes from {source:?}");
    }
}

#[test]
fn every_licence_is_one_that_is_allowed() {
    let file = read("deny.toml");
    let allow: BTreeSet<&str> = strings(between(&file, "\nallow = [", "\n]").unwrap()).collect();
    let exceptions: Vec<Vec<&str>> =
        strings_by_line(between(&file, "\nexceptions = [", "\n]").unwrap()).collect();
    assert!(allow.len() > 5 && exceptions.iter().all(|exception| exception.len() == 2), "{exceptions:?}");

    let tree = ["tree", "--workspace", "--all-features", "--locked", "--prefix=none", "--format={p}\t{l}"];
    let output = std::process::Command::new(env!("CARGO"))
        .args(tree)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let packages: BTreeSet<(&str, &str)> = listed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(package, licence)| (package.split(' ').next().unwrap(), licence.trim_end_matches(" (*)")))
        .collect();
    assert!(packages.len() > 200, "{}", packages.len());
    for (name, licence) in packages {
        let is_allowed = |id: &str| allow.contains(id) || exceptions.contains(&vec![id, name]);
        assert!(satisfied(licence, &is_allowed), "{name} has the licence {licence:?}");
    }
}

fn strings_by_line(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| strings(line).collect()).filter(|line: &Vec<_>| !line.is_empty())
}

/// Whether an SPDX expression can be met by licences that are allowed.
fn satisfied(expression: &str, is_allowed: &impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words, is_allowed)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, is_allowed: &impl Fn(&str) -> bool) -> bool {
    let mut is_met = all_of(words, is_allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_met |= all_of(words, is_allowed);
    }
    is_met
}

fn all_of(words: &mut Words<'_>, is_allowed: &impl Fn(&str) -> bool) -> bool {
    let mut is_met = one(words, is_allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words, is_allowed);
    }
    is_met
}

fn one(words: &mut Words<'_>, is_allowed: &impl Fn(&str) -> bool) -> bool {
    match words.next() {
        Some("(") => {
            let is_met = any_of(words, is_allowed);
            words.next() == Some(")") && is_met
        }
        Some(id) if words.next_if_eq(&"WITH").is_some() => {
            is_allowed(&format!("{id} WITH {}", words.next().unwrap_or_default()))
        }
        Some(id) => is_allowed(id),
        None => false,
    }
}

#[test]
fn an_expression_is_met_by_what_is_allowed() {
    let is_allowed = |id: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&id);
    for (expression, is_met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND GPL-3.0", false),
        ("ISC AND (GPL-3.0 OR MIT)", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(satisfied(expression, &is_allowed), is_met, "{expression}");
    }
}

#[test]
fn every_crate_ships_its_licences_and_says_where_it_lives() {
    let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates")).unwrap();
    let crates: Vec<_> = crates.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir()).collect();
    assert!(crates.len() > 8, "{crates:?}");
    for name in crates.iter().map(|entry| entry.file_name().into_string().unwrap()) {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(read(&format!("crates/{name}/{licence}")), read(licence), "{name}");
        }
        assert!(read(&format!("crates/{name}/README.md")).contains("abide"));
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let documentation = format!("documentation = \"https://docs.rs/{name}\"");
        for part in [
            "\ndescription = ",
            "\nrepository.workspace = true",
            &documentation,
            "\ncategories",
            "\nkeywords",
            "[package.metadata.docs.rs]\nall-features = true",
        ] {
            assert!(manifest.contains(part), "{name} lacks {part}");
        }
    }
}

/// The crates of abide that each crate is built with. Arrows only point towards `abide-robots` and `abide-identity`.
const ARROWS: [(&str, &[&str]); 10] = [
    ("abide", &["abide-gate", "abide-http", "abide-identity", "abide-permissions", "abide-robots"]),
    (
        "abide-cli",
        &[
            "abide",
            "abide-http",
            "abide-identity",
            "abide-permissions",
            "abide-redb",
            "abide-redis",
            "abide-robots",
        ],
    ),
    ("abide-gate", &["abide-robots"]),
    ("abide-http", &["abide-gate", "abide-identity", "abide-permissions", "abide-robots"]),
    ("abide-identity", &[]),
    ("abide-permissions", &["abide-robots"]),
    ("abide-redb", &["abide-gate", "abide-permissions"]),
    ("abide-redis", &["abide-gate", "abide-permissions"]),
    ("abide-robots", &[]),
    ("abide-tower", &["abide-gate", "abide-http", "abide-identity", "abide-permissions"]),
];

#[test]
fn crates_know_those_below_them_alone() {
    for (name, below) in ARROWS {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let dependencies = between(&manifest, "\n[dependencies]\n", "\n[").unwrap();
        let names = dependencies.lines().filter_map(|line| line.split([' ', '.']).next());
        let mut found: Vec<_> = names.filter(|name| name.starts_with("abide")).collect();
        found.sort_unstable();
        assert_eq!(found, below, "{name}");
    }
}

/// The crates that need no dependency which asks for more.
const OLDER_RUST: &str = "1.88";

#[test]
fn pages_name_the_rust_versions_that_manifests_state() {
    let root = read("Cargo.toml");
    let version = between(&root, "\nrust-version = \"", "\"").unwrap();
    let members =
        ["crates", "examples", "tests"].map(|part| format!("{}/../{part}", env!("CARGO_MANIFEST_DIR")));
    let crates = std::fs::read_dir(&members[0]).unwrap().map(|entry| entry.unwrap().path());
    let manifests = crates.chain(members[1..].iter().map(Into::into)).map(|folder| folder.join("Cargo.toml"));
    let manifests: Vec<_> = manifests.filter(|manifest| manifest.exists()).collect();
    assert!(manifests.len() > 8, "{manifests:?}");
    let older = format!("\nrust-version = \"{OLDER_RUST}\"\n");
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest).unwrap();
        let is_stated = text.contains("\nrust-version.workspace = true\n") || text.contains(&older);
        assert!(is_stated, "{}", manifest.display());
    }
    for page in ["README.md", "CONTRIBUTING.md", "docs/dev/releasing.md"] {
        for stated in read(page).split("Rust 1.").skip(1) {
            let minor: String = stated.chars().take_while(char::is_ascii_digit).collect();
            assert!([version, OLDER_RUST].contains(&&*format!("1.{minor}")), "{page}: 1.{minor}");
        }
    }
}
