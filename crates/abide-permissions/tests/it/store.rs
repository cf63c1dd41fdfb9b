//! The suite of stores accepts the memory store, and rejects wrong ones by the expectation that they break.

use std::future::{Future, ready};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use abide_permissions::testing::{conformance, sample_record, survives_reopening};
use abide_permissions::{
    BoxFuture, MemoryPermissionStore, PermissionError, PermissionRecord, PermissionStore,
};

/// The futures here wait for nothing but being polled again.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

fn memory() -> MemoryPermissionStore {
    MemoryPermissionStore::new(NonZeroUsize::new(100).unwrap())
}

fn rejection(name: &str, suite: impl Future<Output = ()>) -> String {
    match catch_unwind(AssertUnwindSafe(|| run(suite))) {
        Ok(()) => panic!("{name}: expected the suite to reject it"),
        Err(panic) => *panic.downcast().unwrap(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Forgets,
    KeepsFirst,
    KeepsLast,
    KeepsLater,
    MixesUpUrls,
    RemovesNothing,
    RemovesAll,
    LosesWhenDropped,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    records: std::sync::Mutex<MemoryPermissionStore>,
    yields: AtomicBool,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self { fault, records: memory().into(), yields: AtomicBool::new(true) }
    }

    fn key<'a>(&self, url: &'a str) -> &'a str {
        if self.fault == Fault::MixesUpUrls { url.split('?').next().unwrap() } else { url }
    }

    fn get(&self, url: &str) -> Option<PermissionRecord> {
        run(self.records.lock().unwrap().load(url)).unwrap()
    }

    fn remove_now(&self, url: &str) {
        run(self.records.lock().unwrap().remove(url)).unwrap();
    }
}

impl PermissionStore for Faulty {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(ready(Ok(self.get(self.key(url)))))
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let url = self.key(record.url());
            let old = self.get(url).map(|old| old.received_at());
            match self.fault {
                Fault::Forgets => return Ok(()),
                Fault::KeepsFirst if old.is_some() => return Ok(()),
                Fault::KeepsLater if old == Some(record.received_at()) => {
                    return Ok(());
                }
                Fault::KeepsLast => self.remove_now(url),
                Fault::LosesWhenDropped if old < Some(record.received_at()) => {
                    self.remove_now(url);
                    std::future::poll_fn(|_| match self.yields.fetch_not(Ordering::SeqCst) {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    })
                    .await;
                }
                _ => {}
            }
            run(self.records.lock().unwrap().save(record)).map(drop)
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        match self.fault {
            Fault::RemovesNothing => {}
            Fault::RemovesAll => *self.records.lock().unwrap() = memory(),
            _ => self.remove_now(url),
        }
        Box::pin(ready(Ok(())))
    }
}

#[test]
fn the_memory_store_passes_the_suite() {
    run(conformance(|| ready(memory())));
    run(conformance(|| ready(Faulty::new(Fault::None))));
}

#[test]
fn wrong_stores_are_rejected() {
    for (fault, expectation) in [
        (Fault::Forgets, "it was saved, and is not dropped for being stale"),
        (Fault::KeepsFirst, "it was received later"),
        (Fault::KeepsLast, "one that was received earlier does not replace it"),
        (Fault::KeepsLater, "of two that were received at the same time the last writer wins"),
        (Fault::MixesUpUrls, "nothing was saved"),
        (Fault::RemovesNothing, "it was removed"),
        (Fault::RemovesAll, "only another URL's was removed"),
        (Fault::LosesWhenDropped, "a save that was dropped is done or not"),
    ] {
        let name = format!("{fault:?}");
        let text = rejection(&name, conformance(|| ready(Faulty::new(fault))));
        assert!(
            text.starts_with("load(\"https://a.example/") && text.contains(expectation),
            "{name}: {text}"
        );
        assert!(text.contains(": expected ") && text.contains(", found "), "{name}: {text}");
    }
}

#[test]
fn a_store_that_loses_everything_does_not_survive_reopening() {
    let text = rejection("memory", survives_reopening(|| ready(memory())));
    assert!(text.contains("(it was saved before the store was closed), found none"), "{text}");
}

#[test]
fn a_sample_has_something_in_every_field() {
    let record = sample_record("https://a.example/", 1);
    for field in ["etag", "robots-tag", "x-robots-tag", "cache-control", "tdm-reservation"] {
        assert_ne!(record.lines(field).count(), 0, "{field}");
    }
}
