//! What happens in a run, all of it following from one number or from the bytes of a fuzzer.

use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Two more than the 30 of RFC 9309 §2.3.1.4.
pub(crate) const DAYS: u32 = 32;

/// The sites: name and scheme, with the host whose permits they take. Two of them share a host with another
/// one.
pub(crate) const ORIGINS: [(&str, usize); 8] = [
    ("https://h0.example", 0),
    ("http://h0.example", 0),
    ("https://h1.example", 1),
    ("http://h1.example:8080", 1),
    ("https://h2.example", 2),
    ("https://h3.example", 3),
    ("https://h4.example", 4),
    ("https://h5.example", 5),
];

/// Where some of the robots.txt live: one host for all.
pub(crate) const CDN: usize = 6;
pub(crate) const HOSTS: usize = 7;

/// The sites of a run that follows from bytes: the first three, which are two hosts and what their robots.txt
/// live on.
const FEW_SITES: usize = 3;

/// The events of a run that follows from bytes, at most.
const FEW_EVENTS: usize = 16;

/// Random numbers that follow from their seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn of(parts: &[u64]) -> Self {
        let mut rng = Self(0);
        for part in parts {
            rng.0 ^= part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            rng.next();
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of_these<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(crate) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_millis(self.below((to - from).as_millis() as u64 + 1))
    }
}

/// An enum, and the list of its variants.
macro_rules! listed {
    ($(#[$doc:meta])* pub(crate) enum $name:ident in $list:ident { $($variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant,)* }

        const $list: &[$name] = &[$($name::$variant,)*];
    };
}

listed! {
    /// What a server does with requests for robots.txt.
    pub(crate) enum Robots in ROBOTS {
        Good,
        GoodAfterRedirects,
        Html,
        Gone,
        NotNow,
        TooManyRequests,
        Busy,
        TooManyRedirects,
        BadRedirect,
        ServerError,
        Refused,
        Reset,
        Stalls,
        Slow,
        ShortBody,
        Coded,
        Endless,
        Unasked304,
        Panics,
    }
}

listed! {
    /// What a server does with requests for pages.
    pub(crate) enum Pages in PAGES {
        Fine,
        Busy,
        Broken,
        Redirects,
        Slow,
        // A firewall stands before it.
        Refuses,
    }
}

/// A part of a server's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) end: Duration,
    pub(crate) robots: Robots,
    pub(crate) pages: Pages,
    pub(crate) crawl_delay: Duration,
}

/// Faults of hours, good times of days; one server in four is down from some day on.
fn life(seed: u64, origin: usize) -> Vec<Phase> {
    let mut rng = Rng::of(&[seed, origin as u64, 1]);
    let (mut end, mut phases) = (Duration::ZERO, Vec::new());
    while end < DAY * (DAYS + 1) {
        let longest = if rng.one_in(4) { 4 * DAY } else { 10 * HOUR };
        end += rng.between(20 * MINUTE, longest);
        let robots = if rng.one_in(3) { Robots::Good } else { rng.of_these(ROBOTS) };
        let pages = if rng.one_in(2) { Pages::Fine } else { rng.of_these(PAGES) };
        let crawl_delay = rng.of_these(&[Duration::ZERO, Duration::ZERO, Duration::from_millis(2_500)]);
        phases.push(Phase { end, robots, pages, crawl_delay });
    }
    if rng.one_in(4) {
        let keep = rng.below(6) as usize;
        phases.truncate(keep);
        let (robots, pages) = (Robots::ServerError, Pages::Fine);
        phases.push(Phase { end: DAY * 1000, robots, pages, crawl_delay: Duration::ZERO });
    }
    phases
}

/// What a page is called, and so what is said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Allowed by all rules.
    Open,
    /// Disallowed by all rules.
    Closed,
    /// Disallowed by the rules of one phase only.
    Version(u64),
    RobotsTxt,
}

impl Path {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Open => "/open".into(),
            Self::Closed => "/closed/a".into(),
            Self::Version(n) => format!("/v{n}/a"),
            Self::RobotsTxt => "/robots.txt".into(),
        }
    }

    pub(crate) fn of(text: &str) -> Self {
        match text {
            "/open" => Self::Open,
            "/closed/a" => Self::Closed,
            "/robots.txt" => Self::RobotsTxt,
            _ => Self::Version(text[2..].trim_end_matches("/a").parse().unwrap()),
        }
    }
}

/// Which page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Is(Path),
    /// What the rules of this phase disallow, or those of an earlier one.
    OfPhase {
        ago: u64,
    },
}

/// What a caller does with the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    ToItsEnd,
    DropsAfter(u8),
    HoldsFor(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageFetch {
    pub(crate) process: usize,
    pub(crate) origin: usize,
    pub(crate) wish: Wish,
    /// So many at once.
    pub(crate) callers: u8,
    pub(crate) budget: Duration,
    pub(crate) reading: Reading,
    /// Is cancelled so long after its arrival.
    pub(crate) cancels: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Fetch(PageFetch),
    /// The wall clock lies by so many milliseconds, for so long.
    Jump {
        by: i64,
        lasts: Duration,
    },
    /// A process is killed, and another takes its place.
    Restart {
        process: usize,
    },
    Forget {
        process: usize,
        origin: usize,
    },
    Backoff {
        process: usize,
        host: usize,
        lasts: Duration,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Its name in a replay.
    pub(crate) id: u64,
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// What may go wrong in a run, besides servers and callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) processes: usize,
    pub(crate) jumps: bool,
    pub(crate) restarts: bool,
    pub(crate) access_faults: bool,
    pub(crate) host_store: bool,
    pub(crate) pace_faults: bool,
    pub(crate) panics: bool,
}

impl Setting {
    fn of_seed(seed: u64) -> Self {
        let one = Self { processes: 1, ..Self::default() };
        let two = Self { processes: 2, host_store: true, ..one };
        match seed % 6 {
            0 => Self { restarts: true, ..one },
            1 => Self { restarts: true, access_faults: true, panics: true, ..one },
            2 => Self { jumps: true, ..one },
            3 => Self { restarts: true, ..two },
            4 => Self { access_faults: true, pace_faults: true, ..two },
            _ => Self {
                jumps: true,
                restarts: true,
                access_faults: true,
                pace_faults: true,
                panics: true,
                ..two
            },
        }
    }
}

/// A run before it happens.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    /// So many of [`ORIGINS`] are there.
    pub(crate) sites: usize,
    /// Whether the calm after the storm is a part of it.
    pub(crate) has_end: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) lives: Vec<Vec<Phase>>,
}

impl Plan {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let setting = Setting::of_seed(seed);
        let mut rng = Rng::of(&[seed, 2]);
        let (mut at, mut events) = (Duration::ZERO, Vec::new());
        while at < DAY * DAYS {
            let longest = if rng.one_in(3) { 3 * HOUR } else { 30 * MINUTE };
            at += rng.between(SECOND, longest);
            let id = events.len() as u64;
            let mut rng = Rng::of(&[seed, id, 3]);
            let lot = rng.below(200);
            events.push(Event { id, at, what: what(lot, &setting, ORIGINS.len(), &mut rng) });
        }
        let lives = (0..ORIGINS.len()).map(|origin| life(seed, origin)).collect();
        Self { seed, setting, sites: ORIGINS.len(), has_end: true, events, lives }
    }

    /// Three bytes are the setting and the servers' lives, each four that follow an event and the pause
    /// before it.
    #[allow(dead_code, reason = "for the fuzz target")]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let (head, rest) = bytes.split_at(bytes.len().min(3));
        let seed = head.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let setting = Setting::of_seed(head.first().copied().unwrap_or_default().into());
        let (mut at, mut events) = (Duration::ZERO, Vec::new());
        for (id, piece) in rest.chunks_exact(4).take(FEW_EVENTS).enumerate() {
            at += pause(piece[0]);
            let mut rng = Rng::of(&[piece[2].into(), piece[3].into()]);
            let what = what(u64::from(piece[1]) % 40, &setting, FEW_SITES, &mut rng);
            events.push(Event { id: id as u64, at, what });
        }
        let lives = (0..FEW_SITES).map(|origin| life(seed, origin)).collect();
        // The calm costs more than such a storm.
        let has_end = seed.is_multiple_of(8);
        Self { seed, setting, sites: FEW_SITES, has_end, events, lives }
    }

    pub(crate) fn of_replay(text: &str) -> Self {
        let (seed, events) = text.split_once(':').unwrap_or((text, "all"));
        let plan = Self::of_seed(seed.parse().unwrap());
        if events == "all" {
            return plan;
        }
        plan.with_only(&events.split_terminator(',').map(|id| id.parse().unwrap()).collect())
    }

    pub(crate) fn with_only(&self, ids: &BTreeSet<u64>) -> Self {
        let mut plan = self.clone();
        plan.events.retain(|event| ids.contains(&event.id));
        plan
    }

    pub(crate) fn phase(&self, origin: usize, at: Duration) -> (u64, Phase) {
        let phases = &self.lives[origin];
        let n = phases.iter().position(|phase| at < phase.end).unwrap_or(phases.len() - 1);
        (n as u64, phases[n])
    }

    /// How to run it again: the seed, and the events that are left.
    pub(crate) fn replay(&self) -> String {
        let events: Vec<String> = self.events.iter().map(|event| event.id.to_string()).collect();
        format!("{}:{}", self.seed, events.join(","))
    }
}

/// From no time to sixty hours, in four units.
fn pause(byte: u8) -> Duration {
    let unit = [Duration::from_millis(50), SECOND, MINUTE, HOUR][usize::from(byte >> 6)];
    unit * u32::from(byte & 63)
}

/// The first ten lots are what happens now and then, all others are fetches.
fn what(lot: u64, setting: &Setting, sites: usize, rng: &mut Rng) -> What {
    let process = rng.below(setting.processes as u64) as usize;
    let origin = rng.below(sites as u64) as usize;
    match lot {
        0 if setting.jumps => {
            let by = rng.between(HOUR, 400 * DAY).as_millis() as i64;
            let by = if rng.one_in(2) { by } else { -by };
            What::Jump { by, lasts: rng.between(MINUTE, 6 * HOUR) }
        }
        1 | 2 if setting.restarts => What::Restart { process },
        3..7 => What::Forget { process, origin },
        7..10 => {
            let host = if rng.one_in(7) { CDN } else { ORIGINS[origin].1 };
            What::Backoff { process, host, lasts: rng.between(SECOND, 20 * MINUTE) }
        }
        _ => What::Fetch(page_fetch(process, origin, rng)),
    }
}

fn page_fetch(process: usize, origin: usize, rng: &mut Rng) -> PageFetch {
    let wish = match rng.below(10) {
        0 | 1 => Wish::Is(Path::Closed),
        2..5 => Wish::OfPhase { ago: rng.below(3) },
        5 if rng.one_in(4) => Wish::Is(Path::RobotsTxt),
        _ => Wish::Is(Path::Open),
    };
    let reading = match rng.below(8) {
        0 => Reading::DropsAfter(rng.below(4) as u8),
        1 => Reading::HoldsFor(rng.between(SECOND, 40 * SECOND)),
        _ => Reading::ToItsEnd,
    };
    let budget = rng.of_these(&[0, 1_500, 10_000, 30_000, 30_000, 90_000]);
    PageFetch {
        process,
        origin,
        wish,
        callers: if rng.one_in(12) { 2 + rng.below(7) as u8 } else { 1 },
        budget: Duration::from_millis(budget),
        reading,
        cancels: rng.one_in(5).then(|| rng.between(Duration::ZERO, 8 * SECOND)),
    }
}
