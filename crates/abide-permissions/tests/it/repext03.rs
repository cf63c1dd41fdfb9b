//! draft-illyes-repext-03: limits, validity, and the rendered document. What is read is in `fields.rs`.

use std::time::SystemTime;

use abide_permissions::{Fetched, Meta, PermissionRecord, Provenance, ReadOptions, TagRules};

use crate::{options, scan};

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
        let fetched =
            Fetched::new(200, &[], scan(&options(), document.as_bytes(), usize::MAX), SystemTime::UNIX_EPOCH);
        let mut record = PermissionRecord::new("https://a.example/", &fetched);
        record.union_rendered(rendered.map(|content| Meta::new("robots", content)));
        let united = record.permissions(&options());
        assert_eq!(united.rules().to_string(), rules, "{document} and {rendered:?}");
        let is_rendered =
            |(source, _): &(Provenance, TagRules)| matches!(source, Provenance::Rendered { .. });
        assert_eq!(united.statements().iter().any(is_rendered), rendered == Some("nosnippet"));
    }
}
