//! Field values and how they are read: the table `vectors/fields.tsv`.

use std::time::SystemTime;

use abide_permissions::{Flag, Head, Permissions, Reading, Rules, reading_of};

use crate::{options, read};

/// The rules without the unknown ones, as the table writes them.
fn known(rules: &Rules) -> String {
    let unknown = rules.unknown().count();
    let text = rules.to_string();
    let words: Vec<&str> = text.split(", ").filter(|word| !word.is_empty()).collect();
    match &words[..words.len() - unknown] {
        [] => "-".to_owned(),
        words => words.join(", "),
    }
}

#[test]
fn every_row_of_the_table_is_read_as_it_says() {
    let mut rows = 0;
    for row in include_str!("../vectors/fields.tsv").lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let value = columns[0].replace("<HTAB>", "\t").replace("<EMPTY>", "");
        for name in ["Robots-Tag", "x-robots-tag"] {
            let permissions = read(&[(name, &value)]);
            assert_eq!(reading_of(value.as_bytes(), &options()).as_str(), columns[1], "{value}");
            assert_eq!(known(permissions.rules()), columns[2], "{value}");
            if let Some(unknown) = columns.get(3) {
                let found: Vec<&str> = permissions.rules().unknown().collect();
                assert_eq!(found.join(", "), *unknown, "{value}");
            }
            assert!(!permissions.is_truncated(), "{value}");
        }
        rows += 1;
    }
    assert!(rows > 100, "{rows} rows");
}

#[test]
fn obs_text_is_harmless() {
    for value in
        [&b"*;noindex, \xff\xfe;nosnippet"[..], b"noindex, caf\xe9", b"caf\xe9=x, noindex", b"noindex,\x80"]
    {
        let permissions =
            Permissions::read(&options(), [("robots-tag", value)], Head::default(), SystemTime::UNIX_EPOCH);
        assert!(permissions.rules().states(Flag::NoIndex), "{}", value.escape_ascii());
    }
}

#[test]
fn the_reading_of_each_statement_is_told() {
    let permissions =
        read(&[("X-Robots-Tag", "noindex"), ("Robots-Tag", "*;noindex, ?"), ("robots-tag", "*=nofollow")]);
    let sources: Vec<String> = permissions.statements().iter().map(|s| s.source().to_string()).collect();
    assert_eq!(
        sources,
        [
            "X-Robots-Tag line 1 (legacy): noindex",
            "Robots-Tag line 1 (sf-salvage): *;noindex",
            "Robots-Tag line 2 (draft-00): *=nofollow",
        ]
    );
    assert_eq!(Reading::SfSalvage.to_string(), "sf-salvage");
}

#[test]
fn an_empty_line_states_nothing_and_earns_no_remark() {
    for value in ["", "  ", "\t"] {
        let permissions = read(&[("Robots-Tag", value), ("X-Robots-Tag", value)]);
        assert!(permissions.rules().is_empty() && permissions.remarks().is_empty(), "{value:?}");
    }
    // Of a line that the limit cuts within its first member, the limit is what there is to say.
    let cut = "a".repeat(9_000);
    assert_eq!(read(&[("Robots-Tag", &cut)]).remarks().len(), 1);
}

#[test]
fn read_strictly_each_statement_still_tells_its_line() {
    let strict = options().with_strict_sf(true);
    let lines =
        [("Robots-Tag", "*;noindex"), ("Robots-Tag", "other;noai, *;nosnippet"), ("Robots-Tag", "*;noai")];
    let read = crate::read_with(&strict, &lines, Head::default());
    let told: Vec<_> = read.statements().iter().map(|statement| statement.source().to_string()).collect();
    assert_eq!(
        told,
        [
            "Robots-Tag line 1 (sf): *;noindex",
            "Robots-Tag line 2 (sf): *;nosnippet",
            "Robots-Tag line 3 (sf): *;noai"
        ]
    );
}
