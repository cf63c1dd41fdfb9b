//! Months of faults in seconds: seeded servers, callers, clocks and stores, judged by a simple model on every answer.
//!
//! Everything follows from one number per run, which is printed when a run fails. `ABIDE_SEEDS=200` runs more of them, and
//! `ABIDE_SEED=17` only that one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pacing::Refusal;
use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use crate::robots_cache::RobotsCache;
use abide_gate::HolderId;
use abide_gate::robots_cache::{RobotsEntry, RobotsRecord, RobotsRequest, RobotsStore, Source};
use abide_gate::{BoxFuture, Clock, Event, Failure, ManualClock, Origin, StoreError, WallMillis};
use tokio::time::{Instant, sleep, timeout};

const ORIGINS: u64 = 12;
const DAYS: u32 = 30;

/// Chance that follows from its seed (splitmix64).
#[derive(Debug, Clone)]
struct Chance(u64);

impl Chance {
    fn of(parts: &[u64]) -> Self {
        let mut chance = Self(0);
        for part in parts {
            chance.0 ^= part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_millis(self.below((to - from).as_millis() as u64 + 1))
    }
}

/// What a server does in one phase of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Good,
    GoodAfterRedirects,
    Gone,
    NotNow,
    TooManyRequests,
    Html,
    TooManyRedirects,
    BadRedirect,
    ServerError,
    Reset,
    Stalls,
    Slow,
    ShortBody,
    Coded,
    Endless,
    Unasked304,
    Deferred,
    Panics,
}

const BEHAVIOURS: [Behaviour; 18] = [
    Behaviour::Good,
    Behaviour::GoodAfterRedirects,
    Behaviour::Gone,
    Behaviour::NotNow,
    Behaviour::TooManyRequests,
    Behaviour::Html,
    Behaviour::TooManyRedirects,
    Behaviour::BadRedirect,
    Behaviour::ServerError,
    Behaviour::Reset,
    Behaviour::Stalls,
    Behaviour::Slow,
    Behaviour::ShortBody,
    Behaviour::Coded,
    Behaviour::Endless,
    Behaviour::Unasked304,
    Behaviour::Deferred,
    Behaviour::Panics,
];

/// What an attempt came to, by what the server did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Rules of this version; `None`: a text without any.
    Rules(Option<u64>),
    /// The copy is good.
    NotModified,
    Gone,
    /// The copy if there is one, else allow for now; until then, if a hold says so.
    NotNow,
    /// Allow for now.
    Momentary,
    Unreachable,
}

/// What the server of one origin has said, and what follows from that by the letter of the requirements.
#[derive(Debug, Default)]
struct Model {
    /// What was said to the flight in the air.
    pending: Option<Said>,
    last: Option<(Said, Instant)>,
    copy: Option<Option<u64>>,
    failing: Option<Instant>,
    /// When something came between that is no attempt: a deferral, a panic.
    void: Option<Instant>,
    held: Option<Instant>,
    attempts: u64,
}

impl Model {
    /// The attempt in the air has ended.
    fn learn(&mut self) {
        let said = self.pending.take().expect("an attempt that ended was answered");
        let now = Instant::now();
        self.last = Some((said, now));
        self.attempts += 1;
        match said {
            Said::Rules(version) => (self.copy, self.failing) = (Some(version), None),
            Said::NotModified => self.failing = None,
            Said::Gone => (self.copy, self.failing) = (None, None),
            Said::NotNow | Said::Momentary => {}
            Said::Unreachable => self.failing = self.failing.or(Some(now)),
        }
    }

    /// Whether the answer is what follows; the reason why not.
    fn judge(&self, answer: &Arc<RobotsEntry>, jumps: bool) -> Result<(), String> {
        let (said, at) = self.last.ok_or("an answer before anything was said")?;
        let version = |version: Option<u64>| match version {
            Some(n) => !allows(answer, &format!("/v{n}")) && is_good(answer),
            None => allows_all(answer) && answer.copy().is_some(),
        };
        let by_copy = || self.copy.is_some_and(version);
        let right = match said {
            Said::Rules(_) | Said::NotModified => by_copy(),
            Said::Gone => allows_all(answer) && answer.copy().is_none(),
            Said::NotNow if self.copy.is_some() => by_copy(),
            Said::NotNow => allows_all(answer) && answer.copy().is_none(),
            Said::Momentary if self.failing.is_some() && answer.source() == Source::LastGood => by_copy(),
            Said::Momentary => allows_all(answer) && answer.copy().is_none(),
            Said::Unreachable if self.copy.is_some() => by_copy(),
            Said::Unreachable if answer.source() == Source::LongOutage => {
                // 20 counted attempts at 20 hours; a clock that jumps can add one each time it does.
                let since = self.failing.map(|since| since.elapsed()).unwrap_or_default();
                since >= if jumps { 10 * DAY } else { 30 * DAY }
            }
            Said::Unreachable => disallows_all(answer),
        };
        if !right {
            return Err(format!("found {answer:?} {:?}", answer.source()));
        }
        // A last good copy counts for longer only while somebody looks whether it still must.
        let longest = if answer.source() == Source::LastGood { 27 * HOUR } else { DAY };
        match !jumps && at.elapsed() > longest && !matches!(answer.source(), Source::Unreachable(_)) {
            true => Err(format!("used for {:?}", at.elapsed())),
            false => Ok(()),
        }
    }

    /// By when there must have been another attempt, if the origin is used.
    fn next_attempt(&self) -> Option<Instant> {
        let (said, at) = self.last?;
        let wait = match said {
            Said::Rules(_) | Said::NotModified | Said::Gone => DAY,
            Said::NotNow | Said::Momentary | Said::Unreachable => 66 * MINUTE,
        };
        Some((at + wait).max(self.held.unwrap_or(at)))
    }
}

/// Keeps records as bytes, as durable stores do; may fail, and may rot.
#[derive(Default)]
struct ByteStore {
    records: Mutex<HashMap<Origin, Vec<u8>>>,
    faults: Option<Mutex<Chance>>,
}

impl fmt::Debug for ByteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStore")
    }
}

impl ByteStore {
    /// Now and then an error, a long wait, or both.
    async fn step(&self) -> Result<(), StoreError> {
        let Some(chance) = &self.faults else { return Ok(()) };
        let drawn = chance.lock().unwrap().below(20);
        match drawn {
            0 => Err(StoreError::new("the simulation says so")),
            1 => {
                sleep(Duration::from_secs(5)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl RobotsStore for ByteStore {
    fn load<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Result<Option<RobotsRecord>, StoreError>> {
        Box::pin(async move {
            self.step().await?;
            let mut bytes = self.records.lock().unwrap().get(origin).cloned();
            if let (Some(bytes), Some(chance)) = (&mut bytes, &self.faults) {
                let mut chance = chance.lock().unwrap();
                if chance.below(10) == 0 {
                    let at = chance.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1;
                }
            }
            Ok(bytes.and_then(|bytes| RobotsRecord::decode(&bytes)))
        })
    }

    fn save<'a>(
        &'a self,
        origin: &'a Origin,
        record: &'a RobotsRecord,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.step().await?;
            self.records.lock().unwrap().insert(origin.clone(), record.encode());
            Ok(())
        })
    }

    fn lease<'a>(
        &'a self,
        _: &'a Origin,
        _: HolderId,
        _: WallMillis,
        _: Duration,
    ) -> BoxFuture<'a, Result<Option<WallMillis>, StoreError>> {
        Box::pin(async move { self.step().await.map(|()| None) })
    }

    fn release<'a>(&'a self, _: &'a Origin, _: HolderId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.step())
    }

    fn sweep(&self, _: WallMillis) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async { Ok(0) })
    }
}

/// One run.
struct Run {
    seed: u64,
    started: Instant,
    clock: ManualClock,
    models: HashMap<Origin, Mutex<Model>>,
    /// For each origin when its phases end, and what it does in each.
    phases: HashMap<Origin, Vec<(Duration, Behaviour)>>,
    jumps: bool,
}

fn origin_of(n: u64) -> Origin {
    format!("https://h{n}.example").parse().unwrap()
}

impl Run {
    fn new(seed: u64) -> Self {
        let origins = || (0..ORIGINS).map(|n| (n, origin_of(n)));
        Self {
            seed,
            started: Instant::now(),
            clock: ManualClock::starting_at(START),
            models: origins().map(|(_, origin)| (origin, Mutex::default())).collect(),
            phases: origins().map(|(n, origin)| (origin, life(&mut Chance::of(&[seed, n, 1])))).collect(),
            jumps: seed % 3 == 2,
        }
    }

    fn model(&self, origin: &Origin) -> std::sync::MutexGuard<'_, Model> {
        self.models[origin].lock().unwrap()
    }

    fn phase(&self, origin: &Origin) -> (u64, Behaviour) {
        let now = self.started.elapsed();
        let phases = &self.phases[origin];
        let n = phases.iter().position(|(end, _)| now < *end).unwrap_or(phases.len() - 1);
        (n as u64, phases[n].1)
    }

    /// The server's answer, and what the model makes of it.
    fn play(&self, request: &RobotsRequest) -> Scripted {
        // Redirects stay on hosts that belong to the origin: `h1.example` and `cdn.h1.example`.
        let host = request.url().host_str().unwrap().trim_start_matches("cdn.");
        let origin: Origin = format!("https://{host}").parse().unwrap();
        let (phase, behaviour) = self.phase(&origin);
        let mut chance = Chance::of(&[self.seed, phase, self.model(&origin).attempts, request.hop() as u64]);
        let (said, answer) = self.answer(request, phase, behaviour, &mut chance);
        let mut model = self.model(&origin);
        model.pending = Some(said);
        if matches!(behaviour, Behaviour::Deferred | Behaviour::Panics) {
            model.void = Some(Instant::now());
        }
        model.held = (behaviour == Behaviour::TooManyRequests).then(|| Instant::now() + 3 * HOUR);
        let slot = chance.between(Duration::ZERO, Duration::from_secs(2));
        answer.slot_after(slot).head_after(chance.between(Duration::ZERO, Duration::from_secs(2)))
    }

    fn answer(
        &self,
        request: &RobotsRequest,
        phase: u64,
        behaviour: Behaviour,
        chance: &mut Chance,
    ) -> (Said, Scripted) {
        let rules = format!("{GOOD}Disallow: /v{phase}\n");
        let etag = format!("\"{phase}\"");
        let hop = request.hop() as u64;
        let to = |path: &str| {
            Scripted::redirect(&format!(
                "https://cdn.{}/{path}",
                request.url().host_str().unwrap().trim_start_matches("cdn.")
            ))
        };
        let trap = "User-agent: *\nAllow: /\n";
        match behaviour {
            Behaviour::Good | Behaviour::GoodAfterRedirects => {
                let hops = if behaviour == Behaviour::Good { 0 } else { 1 + phase % 5 };
                if hop < hops {
                    return (Said::Unreachable, to(&format!("r{hop}")));
                }
                match request.headers().get("if-none-match") {
                    Some(known) if known == etag.as_bytes() => (Said::NotModified, Scripted::status(304)),
                    _ => (Said::Rules(Some(phase)), Scripted::text(rules).header("etag", etag.as_bytes())),
                }
            }
            Behaviour::Gone => {
                let status = [400, 401, 403, 404, 410, 451][chance.below(6) as usize];
                (Said::Gone, Scripted::status(status).body(trap))
            }
            Behaviour::NotNow => (Said::NotNow, Scripted::status(408)),
            Behaviour::TooManyRequests => {
                let hold = self.clock.wall().plus(3 * HOUR);
                (Said::NotNow, Scripted::status(429).backed_off_until(hold))
            }
            Behaviour::Html => (Said::Rules(None), Scripted::text("<html><p>Challenge</p></html>")),
            Behaviour::TooManyRedirects => (Said::Momentary, to(&format!("r{hop}"))),
            Behaviour::BadRedirect => (Said::Unreachable, Scripted::redirect("ftp://elsewhere.example/")),
            Behaviour::ServerError => {
                let status = [500, 502, 503, 504, 600, 206][chance.below(6) as usize];
                (Said::Unreachable, Scripted::status(status).body(trap))
            }
            Behaviour::Reset => (Said::Unreachable, Scripted::error(Failure::Reset)),
            Behaviour::Stalls => (Said::Unreachable, Scripted::text(trap).stalls()),
            Behaviour::Slow => {
                (Said::Unreachable, Scripted::text(trap).endless().chunk_after(Duration::from_secs(1)))
            }
            Behaviour::ShortBody => (Said::Unreachable, Scripted::text(trap).breaks()),
            Behaviour::Coded => (Said::Unreachable, Scripted::text(trap).header("content-encoding", b"gzip")),
            Behaviour::Endless => {
                let long = format!("{rules}{}", "# more\n".repeat(5000));
                (Said::Rules(Some(phase)), Scripted::text(long).body(vec![b'#'; 70_000]).endless())
            }
            Behaviour::Unasked304 if request.is_conditional() => (Said::NotModified, Scripted::status(304)),
            Behaviour::Unasked304 => (Said::Unreachable, Scripted::status(304)),
            Behaviour::Deferred => (Said::Unreachable, deferred(self.clock.wall().plus(MINUTE))),
            Behaviour::Panics => (Said::Unreachable, Scripted::panic()),
        }
    }

    /// Judges one answer, as a caller got it.
    fn check(&self, origin: &Origin, result: Result<Arc<RobotsEntry>, Refusal>, took: Duration) {
        let model = self.model(origin);
        let at = self.started.elapsed();
        // The deadline, the slots of seven requests, and a store that answers late three times.
        assert!(
            took <= Duration::from_secs(31 + 7 * 2 + 3 * 2),
            "G5, seed {}: {took:?} at {at:?}",
            self.seed
        );
        match result {
            Ok(answer) => {
                if let Some(copy) = answer.copy() {
                    assert!(copy.body().len() <= 512_000, "G6, seed {}", self.seed);
                }
                if let Err(why) = model.judge(&answer, self.jumps) {
                    panic!("G1, seed {}, {origin} at {at:?}: {why}; {model:?}", self.seed);
                }
            }
            Err(_) => assert!(model.void.is_some(), "seed {}: refused without reason", self.seed),
        }
    }

    /// After what is in the air has come in: whether the origin was asked when its time had come.
    fn check_recovery(&self, origin: &Origin, asked: Instant) {
        let model = self.model(origin);
        let void = model.void.is_some_and(|void| void + 5 * MINUTE >= asked);
        let due = model.next_attempt().is_none_or(|due| asked > due + MINUTE);
        assert!(self.jumps || void || !due, "G10, seed {}, {origin}: not asked again; {model:?}", self.seed);
    }
}

/// The phases of one server: where they end, and what it does in each. Faults of hours, good times of days.
fn life(chance: &mut Chance) -> Vec<(Duration, Behaviour)> {
    let mut end = Duration::ZERO;
    let mut phases = Vec::new();
    while end < DAY * (DAYS + 1) {
        let behaviour = match chance.below(3) {
            0 => Behaviour::Good,
            _ => BEHAVIOURS[chance.below(BEHAVIOURS.len() as u64) as usize],
        };
        let longest = if chance.below(4) == 0 { 4 * DAY } else { 10 * HOUR };
        end += chance.between(20 * MINUTE, longest);
        phases.push((end, behaviour));
    }
    // One in four is down from some day on.
    if chance.below(4) == 0 {
        let keep = chance.below(6) as usize;
        phases.truncate(keep);
        phases.push((DAY * 1000, Behaviour::ServerError));
    }
    phases
}

async fn timed(cache: &RobotsCache, origin: &Origin) -> (Result<Arc<RobotsEntry>, Refusal>, Duration) {
    let started = Instant::now();
    let result = cache.get(origin).await;
    (result, started.elapsed())
}

/// Somebody who uses an origin for a month, and sometimes gives up, or comes with others.
async fn live(run: Arc<Run>, cache: Arc<Mutex<RobotsCache>>, n: u64) {
    let origin = origin_of(n);
    let mut chance = Chance::of(&[run.seed, n, 2]);
    while run.started.elapsed() < DAY * DAYS {
        let longest = if chance.below(10) == 0 { 2 * DAY } else { 2 * HOUR };
        sleep(chance.between(Duration::from_secs(1), longest)).await;
        let at_hand = cache.lock().unwrap().clone();
        match chance.below(10) {
            0 => {
                let patience = chance.between(Duration::ZERO, Duration::from_secs(4));
                let _ = timeout(patience, at_hand.get(&origin)).await;
            }
            1 => {
                let callers: Vec<_> = (0..8)
                    .map(|_| {
                        let (cache, origin) = (at_hand.clone(), origin.clone());
                        tokio::spawn(async move { timed(&cache, &origin).await })
                    })
                    .collect();
                for caller in callers {
                    let (result, took) = caller.await.unwrap();
                    // Others may have learnt something newer since this one returned.
                    assert!(took <= Duration::from_secs(60), "G5, seed {}", run.seed);
                    drop(result);
                }
            }
            2 => at_hand.invalidate(&origin).await,
            _ => {
                let asked = Instant::now();
                let (result, took) = timed(&at_hand, &origin).await;
                run.check(&origin, result, took);
                while at_hand.stats().robots_in_flight > 0 {
                    sleep(Duration::from_secs(1)).await;
                }
                run.check_recovery(&origin, asked);
            }
        }
    }
}

async fn run_seed(seed: u64) -> ScriptedFetch {
    let run = Arc::new(Run::new(seed));
    let fetch = ScriptedFetch::new({
        let run = Arc::clone(&run);
        move |request, _| run.play(request)
    });
    let faults = (seed % 3 == 1).then(|| Mutex::new(Chance::of(&[seed, 3])));
    let store: Arc<dyn RobotsStore> = Arc::new(ByteStore { records: Mutex::default(), faults });
    let open = || {
        let clock = SharedClock(Arc::clone(&run));
        let observed = Arc::clone(&run);
        let observer = move |event: &Event<'_>| {
            if let Event::RobotsAnswered { entry: answer } = event {
                observed.model(answer.origin()).learn();
            }
        };
        RobotsCache::builder(tokens(), Arc::new(fetch.clone()))
            .clock(Arc::new(clock))
            .store(Arc::clone(&store))
            .observer(Arc::new(observer))
            .seed(seed)
            .build()
    };
    let cache = Arc::new(Mutex::new(open()));
    let users: Vec<_> =
        (0..ORIGINS).map(|n| tokio::spawn(live(Arc::clone(&run), Arc::clone(&cache), n))).collect();
    let mut chance = Chance::of(&[seed, 4]);
    while run.started.elapsed() < DAY * DAYS {
        sleep(chance.between(DAY, 5 * DAY)).await;
        match seed % 3 {
            0 => restart(&cache, open()).await,
            2 => jump(&run, &mut chance).await,
            _ => {}
        }
    }
    for user in users {
        if let Err(failed) = user.await {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
    let last = cache.lock().unwrap().clone();
    sleep(5 * MINUTE).await;
    assert_eq!(last.stats().robots_in_flight, 0, "seed {seed}: nothing is left in the air");
    fetch
}

/// Another process takes over, with the records of the first.
async fn restart(cache: &Mutex<RobotsCache>, next: RobotsCache) {
    let old = std::mem::replace(&mut *cache.lock().unwrap(), next);
    while old.stats().robots_in_flight > 0 {
        sleep(Duration::from_millis(100)).await;
    }
}

/// The wall clock lies for a while.
async fn jump(run: &Run, chance: &mut Chance) {
    let true_time = run.clock.wall();
    let by = chance.between(HOUR, 400 * DAY);
    let forward = chance.below(2) == 0;
    run.clock.jump_to(if forward { true_time.plus(by) } else { true_time.minus(by) });
    let lies_for = chance.between(MINUTE, 6 * HOUR);
    sleep(lies_for).await;
    run.clock.jump_to(true_time.plus(lies_for));
}

#[derive(Debug)]
struct SharedClock(Arc<Run>);

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({})", self.seed)
    }
}

impl Clock for SharedClock {
    fn now(&self) -> std::time::Instant {
        self.0.clock.now()
    }

    fn wall(&self) -> WallMillis {
        self.0.clock.wall()
    }
}

#[test]
fn thirty_days_of_faults_keep_every_promise() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ABIDE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ABIDE_SEEDS").unwrap_or(15),
    };
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The script's own panics are part of the story.
        if !panic.to_string().contains("the script says: panic") {
            quiet(panic);
        }
    }));
    for seed in seeds {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let fetch = runtime.block_on(run_seed(seed));
        assert!(fetch.in_flight_max() <= 1, "G3, seed {seed}: {} at a time", fetch.in_flight_max());
        assert!(fetch.count() as u64 > ORIGINS * 20, "seed {seed}: {} requests", fetch.count());
        let most = 512_001 + 70_000 + 100_000;
        assert!(fetch.pulled() <= fetch.count() as u64 * most, "G6, seed {seed}");
    }
}
