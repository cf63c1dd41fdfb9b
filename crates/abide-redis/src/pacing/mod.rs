//! Turns: in one script where the server runs scripts, by `WATCH` where it does not. Both keep the same data by the same rules, so
//! that processes of both kinds can share a server.

mod cause;
mod decide;
mod script;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::{
    Busy, Cause, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, ScopeKey, ScopeState, StoreFuture,
};
use abide_gate::{Clock, SystemClock, WallMillis};

use self::decide::{Operation, Outcome, Reserve, Stored, micros};
use crate::greeting::Greeting;
use crate::key::TurnKeys;
use crate::link::Link;
use crate::node::Reached;
use crate::{Error, Store};

impl PaceStore for Store {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        let scopes = self.scopes(scopes);
        let turns = Turns { link: Arc::clone(&self.link) };
        Box::pin(async move {
            let (caller, out) = (Arc::new(()), Out::enter(&self.link, ask.lease));
            let is_waited_for = Arc::downgrade(&caller);
            let reserved = self.link.run(async move {
                let reply = turns.reserve(&scopes, ask).await?;
                if is_waited_for.strong_count() == 0 && matches!(reply, Reply::Granted { .. }) {
                    // Nobody is there any more who could give it back.
                    for scope in &scopes {
                        turns.one(&scope.keys, &Operation::Unsent { lease: ask.lease }).await?;
                    }
                }
                Ok(reply)
            });
            let reply = reserved.await?;
            drop(caller);
            if matches!(reply, Reply::Granted { .. }) {
                out.stays();
            }
            Ok(reply)
        })
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        self.each(scopes, move |_| Operation::Renew { lease, ttl: micros(ttl) })
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        // It goes with the command: also if the caller goes, and whether it could be told or not.
        let out = Out::enter(&self.link, lease);
        self.each(scopes, move |gap| {
            let _ = &out;
            match ended {
                Ended::Unsent => Operation::Unsent { lease },
                // What else there may be one day: a response is the safe guess.
                _ => Operation::Response { lease, gap },
            }
        })
    }

    fn confirm<'a>(
        &'a self,
        scopes: &'a [ScopeAsk],
        lease: LeaseId,
        wait: Duration,
    ) -> StoreFuture<'a, bool> {
        let scopes = self.scopes(scopes);
        let turns = Turns { link: Arc::clone(&self.link) };
        Box::pin(async move {
            Ok(self.link.run(async move { turns.confirm(&scopes, lease, micros(wait)).await }).await?)
        })
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        let (keys, turns) = (self.link.keys.turn(scope.as_str()), Turns { link: Arc::clone(&self.link) });
        // Only the server's clock counts, so what is told is the length of the hold, by the clock that `until` was made with.
        let ahead = decide::ahead(until, SystemClock.wall());
        let hold = Operation::Hold { ahead, strikes, cause: cause::write(cause) };
        Box::pin(async move {
            match self.link.run(async move { turns.one(&keys, &hold).await }).await? {
                Outcome::Held { left } => Ok(SystemClock.wall().plus(Duration::from_micros(left))),
                _ => Err(Error::unexpected(&self.link.server).into()),
            }
        })
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        let (keys, turns) = (self.link.keys.turn(scope.as_str()), Turns { link: Arc::clone(&self.link) });
        Box::pin(async move {
            let stored = self.link.run(async move { turns.read(&keys).await });
            Ok(stored.await?.0.state())
        })
    }

    fn losses(&self) -> u64 {
        self.link.losses()
    }
}

impl Store {
    fn scopes(&self, scopes: &[ScopeAsk]) -> Vec<Scope> {
        let scope = |ask: &ScopeAsk| Scope {
            keys: self.link.keys.turn(ask.key.as_str()),
            gap: micros(ask.gap),
            limit: ask.max_in_flight.max(1),
        };
        scopes.iter().map(scope).collect()
    }

    /// The same to every scope, whatever becomes of the others.
    fn each<'a>(
        &'a self,
        scopes: &'a [ScopeAsk],
        operation: impl Fn(u64) -> Operation + Send + 'static,
    ) -> StoreFuture<'a, ()> {
        let scopes = self.scopes(scopes);
        let turns = Turns { link: Arc::clone(&self.link) };
        Box::pin(async move {
            let all = self.link.run(async move {
                let mut last = Ok(());
                for scope in &scopes {
                    last = turns.one(&scope.keys, &operation(scope.gap)).await.map(drop).and(last);
                }
                last
            });
            Ok(all.await?)
        })
    }
}

/// A lease that is out, or about to be. Dropping this says that it is not any more.
struct Out {
    link: Arc<Link>,
    lease: Option<LeaseId>,
}

impl Out {
    fn enter(link: &Arc<Link>, lease: LeaseId) -> Self {
        link.granted(lease);
        Self { link: Arc::clone(link), lease: Some(lease) }
    }

    /// It was granted: whoever gives it back says so.
    fn stays(mut self) {
        self.lease = None;
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Some(lease) = self.lease {
            self.link.given_back(lease);
        }
    }
}

/// A scope of a request, its numbers in microseconds.
struct Scope {
    keys: TurnKeys,
    gap: u64,
    limit: u16,
}

/// The turns on a server.
struct Turns {
    link: Arc<Link>,
}

/// How often a request is made again because the server has lost its data meanwhile, or because another was faster.
const TRIES: usize = 3;

impl Turns {
    /// All scopes, or none.
    async fn reserve(&self, scopes: &[Scope], ask: LeaseAsk) -> Result<Reply, Error> {
        for _ in 0..TRIES {
            let mut attempt =
                Attempt { turns: self, ask, is_whole: true, is_stale: false, strikes: 0, taken: Vec::new() };
            let refused = attempt.all(scopes).await?;
            let Attempt { is_whole, is_stale, strikes, taken, .. } = attempt;
            if is_whole && !is_stale && refused.is_none() {
                let wait = taken.last().map_or(0, |(_, wait, _)| *wait);
                return Ok(Reply::Granted { wait: Duration::from_micros(wait), strikes });
            }
            for (scope, _, moved) in &taken {
                self.one(&scope.keys, &Operation::Undo { lease: ask.lease, moved: *moved }).await?;
            }
            if let Some(refused) = refused
                && is_whole
            {
                return Ok(refused);
            }
        }
        Err(Error::forgetful(&self.link.server))
    }

    /// Whether a lease is still there in all scopes, and so is the data that granted it.
    async fn confirm(&self, scopes: &[Scope], lease: LeaseId, wait: u64) -> Result<bool, Error> {
        for scope in scopes {
            let (stored, is_whole) = self.read(&scope.keys).await?;
            if !is_whole || !stored.stands(lease, scope.gap, scope.limit, wait) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is stored, and whether the server's data is whole. If not, the server is greeted again.
    async fn read(&self, keys: &TurnKeys) -> Result<(Stored, bool), Error> {
        let read = |at: Reached| async move {
            let (stored, is_whole) = watch::read(&at, keys).await?;
            if !is_whole {
                at.lost();
            }
            Ok((stored, is_whole))
        };
        self.link.at(&keys.slot, read).await
    }

    async fn one(&self, keys: &TurnKeys, operation: &Operation) -> Result<Outcome, Error> {
        let one = |at: Reached| async move { Ok(run(&at, keys, operation).await?.0) };
        self.link.at(&keys.slot, one).await
    }

    /// The outcome of a request for one scope, and whether the server's data was whole when it was done. If it was not, or the clock
    /// was set back, the server is greeted again before the next command.
    async fn ask(
        &self,
        scope: &Scope,
        ask: LeaseAsk,
        delay: u64,
        is_question: bool,
    ) -> Result<(Outcome, bool), Error> {
        let asked = |at: Reached| async move {
            if at.is_forgetful() {
                return Err(Error::forgetful(at.server()));
            }
            let mut reserve = reserve(scope, ask, at.greeting(), delay, is_question);
            reserve.is_evicting |= self.link.is_taken_over(&scope.keys.slot);
            let (outcome, is_whole) = run(&at, &scope.keys, &Operation::Reserve(reserve)).await?;
            if !is_whole {
                // It was decided from data that had been lost.
                at.lost();
            }
            if outcome == Outcome::Stale {
                at.outdated();
            }
            Ok((outcome, is_whole))
        };
        self.link.at(&scope.keys.slot, asked).await
    }
}

/// The outcome of an operation, and whether the server's data was whole when it was done.
async fn run(at: &Reached, keys: &TurnKeys, operation: &Operation) -> Result<(Outcome, bool), Error> {
    match at.greeting().can_eval {
        true => script::run(at, keys, operation).await,
        false => watch::run(at, keys, operation).await,
    }
}

/// One request.
struct Attempt<'a> {
    turns: &'a Turns,
    ask: LeaseAsk,
    /// Whether the servers had lost nothing until the last answer.
    is_whole: bool,
    /// Whether a server's clock was set back since the connection was greeted.
    is_stale: bool,
    /// The most that any of the scopes has.
    strikes: u8,
    /// What was granted: the wait, and from where to where the start was moved.
    taken: Vec<(&'a Scope, u64, (u64, u64))>,
}

impl<'a> Attempt<'a> {
    /// In a cluster the scopes lie on several servers, so they are asked one by one: first whether they would, then to do it. If one
    /// has changed its mind by then, what was taken has to be given back. Returns the refusal, if there is one.
    async fn all(&mut self, scopes: &'a [Scope]) -> Result<Option<Reply>, Error> {
        let mut delay = 0;
        let asks = (scopes.len() > 1).then_some(true).into_iter().chain([false]);
        for is_question in asks {
            for (place, scope) in scopes.iter().enumerate() {
                let asked = self.turns.ask(scope, self.ask, delay, is_question).await;
                if asked.as_ref().is_err_and(Error::is_moving) {
                    // This host waits until its slot is there. The store is not away for the others.
                    let (wait, reason) = (Duration::ZERO, Busy::InFlight);
                    return Ok(Some(Reply::Refused { scope: place, wait, reason }));
                }
                let (outcome, is_whole) = asked?;
                self.is_whole &= is_whole;
                if outcome == Outcome::Stale {
                    self.is_stale = true;
                    return Ok(None);
                }
                let Outcome::Granted { wait, moved, strikes } = outcome else {
                    return Ok(Some(self.refused(place, outcome)?));
                };
                (delay, self.strikes) = (delay.max(wait), self.strikes.max(strikes));
                if !is_question {
                    self.taken.push((scope, delay, moved));
                }
            }
        }
        Ok(None)
    }

    fn refused(&self, scope: usize, outcome: Outcome) -> Result<Reply, Error> {
        let (wait, reason) = match outcome {
            Outcome::InFlight { wait } => (wait, Busy::InFlight),
            Outcome::Gap { wait } => (wait, Busy::Gap),
            Outcome::Hold { wait, strikes, cause } => {
                (wait, Busy::Hold { cause: cause::read(&cause), strikes })
            }
            _ => return Err(Error::unexpected(&self.turns.link.server)),
        };
        Ok(Reply::Refused { scope, wait: Duration::from_micros(wait), reason })
    }
}

fn reserve(scope: &Scope, ask: LeaseAsk, greeting: &Greeting, delay: u64, is_question: bool) -> Reserve {
    Reserve {
        lease: ask.lease,
        gap: scope.gap,
        limit: scope.limit,
        max_wait: micros(ask.max_wait),
        ttl: micros(ask.ttl),
        delay,
        born: greeting.epoch.born,
        is_evicting: greeting.is_evicting,
        is_question,
    }
}
