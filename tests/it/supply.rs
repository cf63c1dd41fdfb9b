//! What may come in with a dependency, by `deny.toml`, held without a tool: floors, bans, licences, one
//! registry. And one Rust version.

use std::collections::BTreeSet;

use semver::{Version, VersionReq};
use toml::{Table, Value};

fn read(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn toml(path: &str) -> Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn strings(array: &Value) -> impl Iterator<Item = &str> {
    array.as_array().unwrap().iter().map(|text| text.as_str().unwrap())
}

/// What `deny.toml` denies: a crate, or some of its versions.
fn denied() -> Vec<(String, Option<VersionReq>)> {
    let file = toml("deny.toml");
    let entries =
        file["bans"]["deny"].as_array().unwrap().iter().map(|entry| entry["crate"].as_str().unwrap());
    let denied: Vec<_> = entries
        .map(|entry| match entry.split_once(':') {
            Some((name, versions)) => (name.to_owned(), Some(versions.parse().unwrap())),
            None => (entry.to_owned(), None),
        })
        .collect();
    let floors = denied.iter().filter(|(_, floor)| floor.is_some()).count();
    assert!(floors >= 11 && denied.len() - floors >= 5, "deny.toml was read: {denied:?}");
    denied
}

/// Name, version and source of every package in the lock file.
fn locked() -> Vec<(String, Version, Option<String>)> {
    let file = toml("Cargo.lock");
    let packages = file["package"].as_array().unwrap().iter().map(|package| {
        let value = |key: &str| package.get(key).map(|value| value.as_str().unwrap().to_owned());
        (value("name").unwrap(), value("version").unwrap().parse().unwrap(), value("source"))
    });
    let packages: Vec<_> = packages.collect();
    assert!(packages.len() > 100, "Cargo.lock was read");
    packages
}

#[test]
fn nothing_is_banned_or_below_its_floor() {
    let (denied, packages) = (denied(), locked());
    for (name, version, _) in &packages {
        let is_denied = denied.iter().any(|(denied, below)| {
            denied == name && below.as_ref().is_none_or(|below| below.matches(version))
        });
        assert!(!is_denied, "{name} {version}");
    }
    for must in ["h2", "rustls", "tokio", "bytes", "idna", "redb"] {
        assert!(packages.iter().any(|(name, ..)| name == must), "{must} has gone: drop its floor");
    }
}

#[test]
fn everything_comes_from_one_registry() {
    for (name, _, source) in locked() {
        let is_known = match source.as_deref() {
            Some(source) => source == "registry+https://github.com/rust-lang/crates.io-index",
            None => name.starts_with("abide"),
        };
        assert!(is_known, "{name} comes from {source:?}");
    }
}

#[test]
fn every_licence_is_one_that_is_allowed() {
    let file = toml("deny.toml");
    let allow: BTreeSet<&str> = strings(&file["licenses"]["allow"]).collect();
    let exceptions = file["licenses"]["exceptions"].as_array().unwrap();
    let is_exception = |id: &str, name: &str| {
        let of_it = exceptions.iter().filter(|exception| exception["crate"].as_str() == Some(name));
        of_it.flat_map(|exception| strings(&exception["allow"])).any(|allowed| allowed == id)
    };
    assert!(allow.len() > 5, "{allow:?}");

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
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
        let is_met = expression.unwrap_or_else(|error| panic!("{name}: {error}")).evaluate(|wanted| {
            let id = wanted.to_string();
            allow.contains(&*id) || is_exception(&id, name)
        });
        assert!(is_met, "{name} has the licence {licence:?}");
    }
}

/// The names of all crates that are published.
fn crates() -> Vec<String> {
    let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    let names: Vec<_> = crates.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(names.len() > 8, "{names:?}");
    names
}

#[test]
fn every_crate_ships_its_licences_and_says_where_it_lives() {
    for name in crates() {
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

/// The crates of abide that each crate is built with. Arrows only point towards `abide-robots`.
const ARROWS: &str = "\
abide: abide-gate abide-http abide-identity abide-permissions abide-robots
abide-cli: abide abide-gate abide-http abide-identity abide-permissions abide-postgres abide-redb abide-redis abide-robots
abide-gate: abide-robots
abide-http: abide-gate abide-permissions abide-robots
abide-identity: abide-gate abide-http abide-permissions
abide-permissions: abide-robots
abide-postgres: abide-gate abide-permissions
abide-redb: abide-gate abide-permissions
abide-redis: abide-gate abide-permissions
abide-robots:
abide-tower: abide-gate abide-http abide-identity abide-permissions";

#[test]
fn crates_know_those_below_them_alone() {
    for (name, below) in ARROWS.lines().map(|line| line.split_once(':').unwrap()) {
        let manifest = toml(&format!("crates/{name}/Cargo.toml"));
        let dependencies = manifest["dependencies"].as_table().unwrap();
        let mut found: Vec<_> = dependencies.keys().filter(|name| name.starts_with("abide")).collect();
        found.sort_unstable();
        assert_eq!(found, below.split_whitespace().collect::<Vec<_>>(), "{name}");
    }
}

/// The crates that need no dependency which asks for more.
const OLDER_RUST: &str = "1.88";

#[test]
fn pages_name_the_rust_versions_that_manifests_state() {
    let root = toml("Cargo.toml");
    let version = root["workspace"]["package"]["rust-version"].as_str().unwrap();
    let crates = crates().into_iter().map(|name| format!("crates/{name}"));
    let older = format!("\nrust-version = \"{OLDER_RUST}\"\n");
    for folder in crates.chain(["examples", "fuzz", "tests"].map(str::to_owned)) {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let is_stated = manifest.contains("\nrust-version.workspace = true\n") || manifest.contains(&older);
        assert!(is_stated, "{folder}");
    }
    for page in ["README.md", "CONTRIBUTING.md", "docs/dev/releasing.md"] {
        for stated in read(page).split("Rust 1.").skip(1) {
            let minor: String = stated.chars().take_while(char::is_ascii_digit).collect();
            assert!([version, OLDER_RUST].contains(&&*format!("1.{minor}")), "{page}: 1.{minor}");
        }
    }
}
