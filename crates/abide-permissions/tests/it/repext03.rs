//! draft-illyes-repext-03: limits, validity, the rendered document, and what is written. What is read is in `fields.rs`.

use abide_permissions::{Meta, Permissions, Provenance, ReadOptions, write_field};

use crate::{options, page, read};

#[test]
fn limits_have_defaults_and_are_at_least_8_kib() {
    let default = ReadOptions::new("ExampleBot".parse().unwrap());
    assert_eq!((default.field_limit(), default.head_limit()), (16 * 1024, 512 * 1024));
    assert_eq!(default.with_field_limit(100_000).unwrap().field_limit(), 100_000);
    let error = options().with_field_limit(8191).unwrap_err();
    assert_eq!(error.to_string(), "expected a field limit of at least 8192 bytes, found 8191");
    assert!(options().with_field_limit(8192).is_ok());
    assert!(options().with_content_limit(8191).is_err() && options().with_head_limit(8191).is_err());
    let error = options().with_memory_limit(16 * 1024 - 1).unwrap_err();
    assert_eq!(error.to_string(), "expected a memory limit of at least 16384 bytes, found 16383");
}

#[test]
fn the_rendered_document_adds_and_never_replaces() {
    for (document, rendered, rules) in [
        ("<meta name=robots content=noindex><p>", None, "noindex"),
        ("<meta name=robots content=noindex><p>", Some("all"), "noindex"),
        ("<p>", Some("nosnippet"), "nosnippet"),
    ] {
        let metas: Vec<Meta> = rendered.map(|content| Meta::new("robots", content)).into_iter().collect();
        let united = page(document).union_rendered(&options(), &metas);
        assert_eq!(united.rules().to_string(), rules, "{document} and {rendered:?}");
    }
    let united = page("<p>").union_rendered(&options(), &[Meta::new("robots", "nosnippet")]);
    assert!(matches!(united.statements()[0].0, Provenance::Rendered { index: 0, .. }));
}

#[test]
fn what_is_written_is_robots_tag() {
    let rules = read(&[("X-Robots-Tag", "noindex, nofollow, max-snippet: 20, foo")]).rules().clone();
    let token = "_bot".parse().unwrap();
    let (name, value) = write_field([(None, &rules), (Some(&token), &rules)]).unwrap();
    assert_eq!(name, "Robots-Tag");
    assert_eq!(value, "*;noindex;nofollow;max-snippet=20;foo, \"_bot\";noindex;nofollow;max-snippet=20;foo");
    assert_eq!(read(&[(name, &value)]).rules(), &rules);
    assert_eq!(
        write_field([(Some(&"ExampleBot".parse().unwrap()), &rules)]).unwrap().1[..18],
        *"ExampleBot;noindex"
    );
    assert_eq!(write_field([(None, Permissions::default().rules())]), None);
}
