//! What has happened since the start, as counts.
//!
//! A report of a crawl needs sums, so these are numbers that only grow and sums over the hosts, never a list
//! of requests.

/// Counts since the start, and the state of all hosts at this moment.
///
/// ```
/// use abide_gate::Gate;
///
/// fn print(gate: &Gate) {
///     let stats = gate.stats();
///     println!("{} hosts, {} backed off, {} waiting", stats.hosts, stats.backed_off, stats.waiting);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Fetches of robots.txt begun, also those that the store answered.
    pub robots_fetches: u64,
    /// Requests handed to [`Fetch`](crate::robots_cache::Fetch): every hop, also those that were deferred,
    /// or not sent because another process had sent them.
    pub robots_requests: u64,
    /// Attempts that brought a robots.txt.
    pub robots_read: u64,
    /// Attempts that confirmed the copy (304).
    pub robots_revalidated: u64,
    /// Attempts that ended as unavailable.
    pub robots_unavailable: u64,
    /// Attempts that ended as unreachable.
    pub robots_unreachable: u64,
    /// Of those, the ones that a last good copy stood in for.
    pub robots_last_good: u64,
    /// Fetches that the pacing put off.
    pub robots_deferred: u64,
    /// Fetches that were lost: a panic, or the runtime went down.
    pub robots_lost: u64,
    /// Operations of the store of robots.txt that failed.
    pub robots_store_faults: u64,
    /// Bytes of robots.txt that were kept, decoded.
    pub robots_bytes: u64,
    /// Fetches of robots.txt in flight now.
    pub robots_in_flight: usize,
    /// How often robots.txt was overridden.
    pub overrides: u64,
    /// Hosts, and groups of hosts, that are known now.
    pub hosts: usize,
    /// Permits that are in use now, counted in each group.
    pub in_flight: usize,
    /// Requests that wait for a permit now, counted in each group.
    pub waiting: usize,
    /// Hosts, and groups of hosts, that are backed off now.
    pub backed_off: usize,
    /// Hosts, and groups of hosts, that are held now because they refuse us.
    pub refusing: usize,
}
