//! Renewals that travel together: the leases of a process that are due at about the same time are renewed in
//! one call.
//!
//! The first lease that is due waits an eighth of its life for others. All that were renewed together are due
//! together the next time, so the calls of a process do not grow with the number of its hosts. What cannot
//! wait, as a backoff that must be saved, is said at once, and then the host leaves the renewal.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::sleep;

use super::keeper::{Keeper, StoreCall, lock};
use super::lease::{LeaseSignals, RenewalPhase};
use crate::StoreError;
use crate::clock::Moment;

/// The hosts of one call. However it ends, also with its runtime, they are free for the next one.
#[derive(Debug)]
pub(super) struct Renewal {
    keeper: Weak<Keeper>,
    hosts: Mutex<Vec<RenewedHost>>,
}

#[derive(Clone, Debug)]
struct RenewedHost {
    key: Arc<str>,
    signals: Arc<LeaseSignals>,
}

/// Hosts in one call: a script in a server blocks it for a few milliseconds.
const HOSTS_MAX: usize = 64;

impl Renewal {
    /// The task of the host is woken when its lease was renewed, or is to be renewed in another way.
    pub(super) fn join(keeper: &Arc<Keeper>, key: &Arc<str>, signals: &Arc<LeaseSignals>) {
        let host = RenewedHost { key: Arc::clone(key), signals: Arc::clone(signals) };
        let current = lock(&keeper.renewal).upgrade();
        if current.is_some_and(|renewal| renewal.takes(&host)) {
            return;
        }
        let renewal = Arc::new(Self { keeper: Arc::downgrade(keeper), hosts: Mutex::new(vec![host]) });
        *lock(&keeper.renewal) = Arc::downgrade(&renewal);
        let waits = keeper.options.lease / 8;
        tokio::spawn(async move {
            sleep(waits).await;
            renewal.send().await;
        });
    }

    fn takes(&self, host: &RenewedHost) -> bool {
        let mut hosts = lock(&self.hosts);
        let has_room = hosts.len() < HOSTS_MAX;
        if has_room {
            hosts.push(host.clone());
        }
        has_room
    }

    async fn send(&self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        // Those that are due from now on make another one.
        *lock(&keeper.renewal) = Weak::new();
        let (asked, hosts) = (keeper.now(), lock(&self.hosts).clone());
        let calls: Vec<_> =
            hosts.iter().filter_map(|host| Some((host, host.call(&keeper, asked)?))).collect();
        let asks: Vec<_> = calls.iter().map(|(host, call)| (Arc::clone(&host.key), call.ask)).collect();
        if asks.is_empty() {
            return;
        }
        let store = Arc::clone(&keeper.store);
        let replies = keeper.command(async move { store.exchange_all(&asks).await }).await;
        let missing = || StoreError::new("fewer replies than there were exchanges");
        let mut replies = replies.map(Vec::into_iter);
        for (host, call) in &calls {
            let reply = match &mut replies {
                Ok(replies) => replies.next().unwrap_or_else(|| Err(missing())),
                Err(error) => Err(error.clone()),
            };
            let status = keeper.replied(&host.key, call, reply, asked);
            keeper.granted(&host.key, status, asked);
        }
    }
}

impl RenewedHost {
    /// What is said of it, unless that is nothing any more.
    fn call(&self, keeper: &Keeper, asked: Moment) -> Option<StoreCall> {
        let lease_is_sent =
            keeper.hosts.find(&self.key, |host| Some(host.lease_of(&self.signals)?.is_sent(asked)));
        lease_is_sent.flatten().filter(|is_sent| *is_sent)?;
        keeper.call(&self.key, keeper.lease_for(&self.key, true), asked)
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let hosts = std::mem::take(self.hosts.get_mut().unwrap_or_else(PoisonError::into_inner));
        for RenewedHost { key, signals } in hosts {
            let is_kept = keeper.hosts.find(&key, |host| {
                let lease = host.lease_of(&signals)?;
                lease.renewal = RenewalPhase::None;
                Some(())
            });
            if is_kept.flatten().is_some() {
                keeper.changed(&key, &signals);
                signals.news.notify_one();
            }
        }
    }
}
