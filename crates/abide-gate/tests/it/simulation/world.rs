//! The crawlers: real gates, and callers that come, wait, read, drop, give up and are killed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::{
    DeferReason, HostState, HostStore, LeaseAsk, LeaseStatus, PacePolicy, Permit, Want,
};
use abide_gate::robots_cache::RobotsPolicy;
use abide_gate::testing::MemoryStore;
use abide_gate::testing::hosts;
use abide_gate::{
    Clock, Denied, DeniedKind, Event, Failure, Gate, GateBuilder, HolderId, Host, ManualClock, Origin,
    WallMillis,
};

use http::{HeaderMap, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use url::Url;

use super::checker::{Checker, Occurrences, Throttle, Violation, Who};
use super::faulty_stores::{Hosts, Reader, SharedStore, number};
use super::plan::{DAY, HOUR, MINUTE, ORIGINS, PageFetch, Path, Plan, Reading, Rng, SECOND, What, Wish};
use super::web::Web;

const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);

/// A promise that is broken on purpose, to see the checker catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rude {
    /// robots.txt is not asked, now and then.
    PastRobots,
    /// No permit is waited for, now and then.
    PastTurn,
    /// The permit is given back before the body has ended.
    EarlyRelease,
    /// The server's 429 and 503 are not reported.
    DeafToThrottles,
    /// What refuses is not reported as that.
    DeafToRefusals,
    /// What cannot be reached is allowed.
    OpenWhenUnreachable,
    /// Half a second between requests.
    ShortDelay,
    /// Keeps the permit of a dropped response for ever, now and then.
    Leak,
    /// Copies of the gate that know nothing of each other.
    TwoGates,
    /// Refuses what is allowed, now and then, in one of three ways.
    OverBlocks(Excuse),
    /// Waits longer than it may.
    Patient,
    /// A task that never ends.
    LeavesTask,
}

/// What a gate can say that need not be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    Interrupted,
    Deferred,
    Unreachable,
}

#[derive(Clone, Debug)]
struct Process {
    who: Who,
    gate: Gate,
    kill: watch::Sender<bool>,
}

/// Everything of one run.
struct World {
    web: Arc<Web>,
    checker: Arc<Checker>,
    clock: Arc<ManualClock>,
    shared_store: Arc<SharedStore>,
    hosts: Option<Arc<MemoryStore>>,
    processes: Mutex<Vec<Process>>,
    gates: Mutex<Vec<Gate>>,
    rude: Option<Rude>,
}

/// Runs a plan to its end. The violation that was seen first, if any was.
pub(crate) fn run(plan: &Plan, rude: Option<Rude>) -> Result<Occurrences, Violation> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let world = runtime.block_on(async {
        let world = Arc::new(World::new(plan, rude));
        world.live().await;
        if plan.has_end {
            world.after_the_storm().await;
        }
        world.nothing_is_left().await;
        world
    });
    match world.checker.first_violation() {
        None => Ok(world.checker.counts()),
        Some(violation) => Err(violation),
    }
}

impl World {
    fn new(plan: &Plan, rude: Option<Rude>) -> Self {
        let setting = plan.setting;
        let checker = Arc::new(Checker::new(setting));
        let web = Arc::new(Web { plan: plan.clone(), checker: Arc::clone(&checker) });
        let clock = Arc::new(ManualClock::starting_at(START));
        let hosts = setting.host_store.then(|| Arc::new(MemoryStore::new().with_clock(clock.clone())));
        let world = Self {
            web,
            checker,
            clock,
            shared_store: Arc::default(),
            hosts,
            processes: Mutex::default(),
            gates: Mutex::default(),
            rude,
        };
        let processes = (0..setting.processes).map(|n| world.start(n as Who + 1)).collect();
        *world.processes.lock().unwrap() = processes;
        world
    }

    fn start(&self, who: Who) -> Process {
        let (seed, setting) = (self.web.plan.seed, self.web.plan.setting);
        let checker = Arc::clone(&self.checker);
        let listens = move |event: &Event<'_>| {
            if let Event::RobotsAnswered { entry: answer } = event {
                checker.fetched(who, number(answer.origin()), answer.record().asked_at());
            }
            assert!(!setting.panics, "the script says: panic");
        };
        let reader = Reader {
            who,
            shared_store: Arc::clone(&self.shared_store),
            checker: Arc::clone(&self.checker),
            faults: setting.access_faults.then_some(seed * 10 + 6),
        };
        let mut builder = GateBuilder::new()
            .robots(match self.rude {
                Some(Rude::OpenWhenUnreachable) => RobotsPolicy::default().danger_allow_when_unreachable(),
                _ => RobotsPolicy::default(),
            })
            .pace(match self.rude {
                Some(Rude::ShortDelay) => PacePolicy::default().danger_min_delay(SECOND / 2),
                // The checker counts by one second, whatever the default is.
                _ => PacePolicy::default().danger_min_delay(SECOND),
            })
            .clock(self.clock.clone())
            .robots_store(Arc::new(reader))
            .observer(Arc::new(listens))
            .seed(seed ^ u64::from(who));
        if let Some(hosts) = &self.hosts {
            let (inner, checker) = (Arc::clone(hosts), Arc::clone(&self.checker));
            let faults = setting.pace_faults.then_some(seed * 10 + 7);
            builder = builder.host_store(Arc::new(Hosts { who, inner, checker, faults }));
        }
        let gate = builder.build(vec!["ExampleBot".parse().unwrap()], Arc::new(self.web.fetch(who)));
        self.gates.lock().unwrap().push(gate.clone());
        Process { who, gate, kill: watch::Sender::new(false) }
    }

    fn sites(&self) -> &'static [(&'static str, usize)] {
        &ORIGINS[..self.web.plan.sites]
    }

    /// After the storm all behave.
    fn rude_now(&self) -> Option<Rude> {
        self.rude.filter(|_| !self.checker.faults_ended())
    }

    fn process(&self, n: usize) -> Process {
        self.processes.lock().unwrap()[n].clone()
    }

    /// What the plan says, and then until the last one has gone home.
    async fn live(self: &Arc<Self>) {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for event in self.web.plan.events.clone() {
            sleep_until(began + event.at).await;
            while tasks.try_join_next().is_some() {}
            let world = Arc::clone(self);
            match event.what {
                What::Fetch(fetch) => {
                    for n in 0..fetch.callers {
                        let world = Arc::clone(self);
                        let rng = Rng::of(&[self.web.plan.seed, event.id, n.into(), 8]);
                        tasks.spawn(async move { world.fetch(fetch, rng).await });
                    }
                }
                What::Jump { by, lasts } => drop(tasks.spawn(async move { world.jump(by, lasts).await })),
                What::Restart { process } => self.restart(process),
                What::Forget { process, origin } => {
                    drop(tasks.spawn(async move { world.forget(process, origin).await }))
                }
                What::Backoff { process, host, lasts } => self.backoff(process, host, lasts),
            }
        }
        while let Some(task) = tasks.join_next().await {
            if let Err(failed) = task {
                self.checker.violated("G5", format!("a caller panicked: {failed}"));
            }
        }
    }

    /// One caller, who may be called off, and whose process may be killed.
    async fn fetch(&self, fetch: PageFetch, rng: Rng) {
        let process = self.process(fetch.process);
        let mut killed = process.kill.subscribe();
        let life = async {
            let call = self.call(&process, &fetch, rng);
            match fetch.cancels {
                Some(after) => drop(timeout(after, call).await),
                None => call.await,
            }
        };
        tokio::select! {
            biased;
            _ = killed.wait_for(|is_killed| *is_killed) => {}
            () = life => {}
        }
    }

    /// One page, through its redirects.
    async fn call(&self, process: &Process, fetch: &PageFetch, mut rng: Rng) {
        let came = Instant::now();
        let mut url = self.url(fetch);
        let (mut left, mut permits) = (fetch.budget, Duration::ZERO);
        let mut on_the_wire = Duration::ZERO;
        for _ in 0..10 {
            let Some((permit, waited)) = self.admitted(process, &url, left, &mut rng).await else { break };
            permits += waited;
            left = left.saturating_sub(waited);
            let sent = Instant::now();
            let next = self.send(process, &url, permit, fetch.reading, &mut rng).await;
            on_the_wire += sent.elapsed();
            let Some(next) = next else { break };
            url = next;
        }
        // Each hop may have had to fetch the rules of another site.
        let took = (came.elapsed() - on_the_wire) / 10;
        self.checker.took(took, permits, fetch.budget);
    }

    fn url(&self, fetch: &PageFetch) -> Url {
        let path = match fetch.wish {
            Wish::Is(path) => path,
            Wish::OfPhase { ago } => Path::Version(self.web.phase(fetch.origin).0.saturating_sub(ago)),
        };
        format!("{}{}", ORIGINS[fetch.origin].0, path.text()).parse().unwrap()
    }

    /// The permit for a URL that is allowed, and how long it was waited for.
    async fn admitted(
        &self,
        process: &Process,
        url: &Url,
        budget: Duration,
        rng: &mut Rng,
    ) -> Option<(Option<Permit>, Duration)> {
        let gate = match self.rude_now() {
            Some(Rude::TwoGates) if rng.one_in(2) => self.start(process.who).gate,
            _ => process.gate.clone(),
        };
        let rude = self.rude_now().filter(|_| rng.one_in(3));
        let budget = if rude == Some(Rude::Patient) { budget + MINUTE } else { budget };
        if rude == Some(Rude::PastRobots) {
            let permit = hosts::acquire(&gate, url, Duration::ZERO, budget).await.ok()?;
            return Some((Some(permit), Duration::ZERO));
        }
        let mut left = budget;
        let host = ORIGINS[number(&Origin::of(url).unwrap())].1;
        self.checker.calls(process.who, host, true);
        let _leaves = AtEnd(|| self.checker.calls(process.who, host, false));
        let admitted = async {
            let mut verdict = gate.check(url, &mut left).await?;
            if let Some(denied) = gate.denial(&verdict, url) {
                return Err(denied);
            }
            if rude == Some(Rude::PastTurn) {
                return Ok((None, Duration::ZERO));
            }
            let permit = gate.acquire(url, &mut verdict, &mut left).await?;
            Ok::<_, Denied>((Some(permit), budget - left))
        };
        let admitted = admitted.await;
        match (admitted, rude) {
            (Ok(_), Some(Rude::OverBlocks(excuse))) => {
                self.refused(process, url, &self.lie(&gate, url, excuse), left);
                None
            }
            (Ok(admitted), _) => Some(admitted),
            (Err(denied), _) => {
                self.refused(process, url, &denied, left);
                None
            }
        }
    }

    /// A refusal that nothing has led to.
    fn lie(&self, gate: &Gate, url: &Url, excuse: Excuse) -> Denied {
        let now = self.clock.wall();
        let (kind, retry_at) = match excuse {
            Excuse::Interrupted => (DeniedKind::Interrupted, None),
            Excuse::Deferred => {
                (DeniedKind::Deferred { reason: DeferReason::Robots }, Some(now.plus(MINUTE)))
            }
            Excuse::Unreachable => {
                let (since, cause) = (now.to_system_time(), Failure::Connect);
                (DeniedKind::Unreachable { since, cause }, Some(now.plus(MINUTE)))
            }
        };
        gate.deny(kind, url).with_retry_at(retry_at)
    }

    fn refused(&self, process: &Process, url: &Url, denied: &Denied, left: Duration) {
        let origin = number(&Origin::of(url).unwrap());
        self.checker.refused(process.who, origin, Path::of(url.path()), denied, left, self.clock.wall());
    }

    /// One request and its body. Where it redirects to, if it does.
    async fn send(
        &self,
        process: &Process,
        url: &Url,
        mut permit: Option<Permit>,
        reading: Reading,
        rng: &mut Rng,
    ) -> Option<Url> {
        let rude = self.rude_now().filter(|_| rng.one_in(2));
        let early = (rude == Some(Rude::EarlyRelease)).then(|| permit.take());
        let reply = self.web.page(process.who, url, rng, || drop(early)).await;
        let Some(permit) = permit else {
            let mut body = reply.body?;
            while body.piece().await {}
            return None;
        };
        if let Some(fault) = reply.fault {
            permit.failed(fault);
            return None;
        }
        let is_deaf = self.rude_now() == Some(Rude::DeafToRefusals);
        if is_deaf && (reply.status == StatusCode::FORBIDDEN || reply.headers.contains_key("cf-mitigated")) {
            permit.observe(StatusCode::OK, &HeaderMap::new());
        } else if rude != Some(Rude::DeafToThrottles) {
            permit.observe(reply.status, &reply.headers);
        }
        if rude == Some(Rude::Leak) {
            std::mem::forget(permit);
            return None;
        }
        let body = reply.body?;
        if rude == Some(Rude::LeavesTask) {
            tokio::spawn(std::future::pending::<()>());
        }
        let next = reply.headers.get("location").map(|to| to.to_str().unwrap().parse().unwrap());
        match next {
            // What a redirect carries is not read.
            Some(next) => Some(next),
            None => {
                read(body, permit, reading).await;
                None
            }
        }
    }

    /// The wall clock lies for a while.
    async fn jump(&self, by: i64, lasts: Duration) {
        let set = |by: i64| {
            self.clock
                .jump_to(WallMillis::from_millis(self.clock.wall().as_millis().saturating_add_signed(by)))
        };
        self.checker.clock_lies(by, true);
        set(by);
        sleep(lasts).await;
        // By as much as it was set: it may have been set again meanwhile, and not put right yet.
        set(-by);
        self.checker.clock_lies(by, false);
    }

    fn restart(&self, n: usize) {
        let mut processes = self.processes.lock().unwrap();
        let who = self.gates.lock().unwrap().len() as Who + 1;
        let old = std::mem::replace(&mut processes[n], self.start(who));
        old.kill.send_replace(true);
    }

    async fn forget(&self, n: usize, origin: usize) {
        let process = self.process(n);
        self.checker.forgets(process.who, origin);
        process.gate.invalidate(&ORIGINS[origin].0.parse().unwrap()).await;
    }

    fn backoff(&self, n: usize, host: usize, lasts: Duration) {
        let process = self.process(n);
        process.gate.back_off(host_of(host), self.clock.wall().plus(lasts));
        self.checker.throttles(process.who, host, Throttle::Operator(lasts), None);
    }

    /// G10: all is well again, and so everything that is allowed is fetched, by every process, and nothing
    /// else.
    async fn after_the_storm(self: &Arc<Self>) {
        self.checker.end_faults();
        // The longest backoff is 24 hours and a tenth.
        sleep(DAY + 4 * HOUR).await;
        let processes = self.processes.lock().unwrap().clone();
        for process in &processes {
            for (origin, (site, _)) in self.sites().iter().enumerate() {
                if self.web.plan.setting.jumps {
                    // What was fetched while the clock was ahead looks as if it were of today.
                    self.checker.forgets(process.who, origin);
                    process.gate.invalidate(&site.parse().unwrap()).await;
                }
                // What was known may be used at once, and is refreshed meanwhile.
                let _ = process.gate.check(&page(site, Path::Open), &mut { MINUTE }).await;
                sleep(MINUTE).await;
                self.expect(process, origin, Path::Open, true).await;
                self.expect(process, origin, Path::Closed, false).await;
            }
        }
        if self.checker.is_misled() {
            return;
        }
        if processes.len() == 1 {
            self.is_not_lazy(&processes[0]).await;
        }
        self.reloads_alike(&processes[0]).await;
    }

    async fn expect(&self, process: &Process, origin: usize, path: Path, is_allowed: bool) {
        let url = page(ORIGINS[origin].0, path);
        let before = self.checker.count("pages");
        let mut rng = Rng::of(&[self.web.plan.seed, origin as u64, 9]);
        if let Some((permit, _)) = self.admitted(process, &url, MINUTE, &mut rng).await {
            self.send(process, &url, permit, Reading::ToItsEnd, &mut rng).await;
        }
        // A backoff that was written down by a clock ahead is believed when its time has come near.
        let is_late = is_allowed && self.checker.is_misled();
        if (self.checker.count("pages") > before) != is_allowed && !is_late {
            let what = if is_allowed { "was not fetched" } else { "was fetched" };
            self.checker.violated("G10", format!("after the storm {url} {what}"));
        }
    }

    /// G4: those who wait go as soon as they may.
    async fn is_not_lazy(self: &Arc<Self>, process: &Process) {
        if self.rude.is_some() {
            return;
        }
        let came = Instant::now();
        let mut callers = JoinSet::new();
        for n in 0..6 {
            let (world, process) = (Arc::clone(self), process.clone());
            callers.spawn(async move {
                let (origin, wish) = (world.web.plan.sites - 1, Wish::Is(Path::Open));
                let (reading, budget) = (Reading::ToItsEnd, MINUTE);
                let fetch =
                    PageFetch { process: 0, origin, wish, callers: 1, budget, reading, cancels: None };
                world.call(&process, &fetch, Rng::of(&[n, 10])).await;
            });
        }
        while callers.join_next().await.is_some() {}
        // Six of a tenth of a second, five delays of one second, and one before for what went out last; a
        // timer takes 1 ms.
        let least = 6 * SECOND / 10 + 6 * SECOND + Duration::from_millis(20);
        if came.elapsed() > least {
            self.checker
                .violated("G4", format!("six requests took {:?}, and {least:?} is enough", came.elapsed()));
        }
    }

    /// Another process with the same store checks alike, and need not fetch.
    async fn reloads_alike(&self, process: &Process) {
        let next = self.start(1_000_000);
        let asked = self.checker.count("robots requests");
        for (site, _) in self.sites() {
            for path in [Path::Open, Path::Closed, Path::Version(1_000_000), Path::Version(3)] {
                let url = page(site, path);
                let is_allowed = |verdict: abide_gate::Verdict| verdict.is_allowed();
                let old = process.gate.check_cached(&url).map(is_allowed);
                let new = next.gate.check(&url, &mut { MINUTE }).await.ok().map(is_allowed);
                if old.is_none() || old != new {
                    self.checker.violated("reload", format!("{url}: {old:?} before and {new:?} after"));
                }
            }
        }
        if self.checker.count("robots requests") != asked {
            self.checker.violated("reload", "robots.txt was asked for again".to_owned());
        }
    }

    /// Nothing in flight, no waiter, no lease, no task.
    async fn nothing_is_left(&self) {
        self.processes.lock().unwrap().clear();
        sleep(10 * MINUTE).await;
        for gate in std::mem::take(&mut *self.gates.lock().unwrap()) {
            let stats = gate.stats();
            if (stats.in_flight, stats.waiting, stats.robots_in_flight) != (0, 0, 0) {
                self.checker.violated("end", format!("{stats:?}: something is left"));
            }
        }
        for (host, hosts) in (0..super::plan::HOSTS).zip(self.hosts.iter().cycle()) {
            let want = Want::Lease { ttl: SECOND, again_in: SECOND, is_held: false };
            let ask = LeaseAsk { holder: HolderId::random(), number: 0, want, state: HostState::default() };
            let (lease, _) = hosts.exchange(host_of(host).as_str(), ask).await.unwrap();
            if lease != (LeaseStatus::Leased { is_wanted: false }) {
                self.checker.violated("end", format!("host {host} is still leased: {lease:?}"));
            }
        }
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        if tasks > 0 {
            self.checker.violated("end", format!("{tasks} tasks are left"));
        }
    }
}

/// What is done when a future ends or is cancelled.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn page(site: &str, path: Path) -> Url {
    format!("{site}{}", path.text()).parse().unwrap()
}

fn host_of(n: usize) -> Host {
    let name = if n == super::plan::CDN { "cdn".to_owned() } else { format!("h{n}") };
    Host::of(&format!("http://{name}.example").parse().unwrap()).unwrap()
}

/// Reads a page as its plan says. The permit ends with the body.
async fn read(mut body: super::web::PageBody, permit: Permit, reading: Reading) {
    let mut permit = Some(permit);
    let frames = match reading {
        Reading::ToItsEnd => u32::MAX,
        Reading::DropsAfter(n) => n.into(),
        Reading::HoldsFor(_) => 1,
    };
    for _ in 0..frames {
        if !body.piece().await {
            drop(permit.take());
            break;
        }
    }
    if let Reading::HoldsFor(time) = reading {
        sleep(time).await;
    }
    drop(body);
}
