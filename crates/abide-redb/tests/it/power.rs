//! The power goes: what was synced is there, what was not may be there, torn or not at all.

use fastrand::Rng;

use crate::support::{Disk, Fault, Ledger, is_long, open, steps};

/// The disk is gone at every operation in turn; of what it had not synced some writes are there, in any
/// order, some torn.
#[tokio::test]
async fn every_crash_point_opens_and_holds_what_was_acknowledged() {
    let images = if is_long() { 50 } else { 2 };
    let steps = steps(1, 1, 60, 5);
    let (made, total) = {
        let (disk, mut ledger) = (Disk::default(), Ledger::default());
        let store = open(&disk).unwrap();
        let made = disk.operations();
        for step in &steps {
            ledger.step(&store, *step).await;
        }
        store.close().await.unwrap();
        (made, disk.operations())
    };
    assert!(total > 200, "the run is long enough: {total}");
    let (mut crashes, mut unmade, mut rng) = (0, 0, Rng::with_seed(7));
    for k in 0..total {
        let (disk, mut ledger) = (Disk::default(), Ledger::default());
        disk.fail(Fault::From(k));
        if let Ok(store) = open(&disk) {
            for step in &steps {
                ledger.step(&store, *step).await;
            }
            let _ = store.close().await;
        }
        for image in 0..images {
            let after = Disk::holding(disk.after_power_loss(&mut rng));
            let what = format!("crash at operation {k}, image {image}");
            match open(&after) {
                Ok(store) => ledger.clone().check(&store, &what).await,
                // The making of the database itself was interrupted, and nothing else: a file is made beside
                // its place, and put there when it is whole, which this disk cannot do.
                Err(error) => {
                    assert!(k < made && ledger.is_empty() && error.is_corrupt(), "{what}: {error}");
                    unmade += 1;
                }
            }
            crashes += 1;
        }
    }
    println!(
        "{crashes} crashes at {total} operations, {unmade} of them while the database was made, in the first {made}"
    );
}
