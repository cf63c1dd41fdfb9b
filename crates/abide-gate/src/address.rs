//! Which addresses may be contacted: public ones, and those that were named.
//!
//! A site can redirect or resolve to an address in the crawler's own network. Each URL is checked, because
//! the resolver never sees a literal address, and each address that the resolver returns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::Failure;

/// The address guard: a crawler follows links that strangers wrote, and must not be led into its own network.
///
/// It is asked on every hop of page and robots.txt, before anything is sent: for a literal address in the URL
/// ([`check_url`](Self::check_url)), which never meets a resolver, and for every address that the resolver
/// returns ([`check`](Self::check)).
///
/// ```
/// # use abide_gate::AddressGuard;
/// let guard = AddressGuard::default().with_allowed_net("127.0.0.1/32".parse()?);
/// assert!(guard.check_url(&"http://127.0.0.1:8080/".parse()?).is_ok());
/// assert!(guard.check_url(&"http://0x7f.2/".parse()?).is_err());
/// assert!(guard.check("10.0.0.1".parse()?).is_err());
/// assert!(guard.check("93.184.216.34".parse()?).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct AddressGuard {
    allowed: Vec<IpNet>,
    pub(crate) open: bool,
}

impl AddressGuard {
    /// Opens exactly this network besides: 127.0.0.1/32 does not open 127.0.0.2.
    pub fn with_allowed_net(mut self, net: IpNet) -> Self {
        self.allowed.push(net);
        self
    }

    /// Opens every address, the crawler's own network included.
    pub fn danger_allow_all(self) -> Self {
        Self { open: true, ..self }
    }

    /// Checks an address that a resolver returned, or that a proxy has.
    ///
    /// # Errors
    /// [`Failure::AddressRefused`] if it is not public and not in a network that was opened.
    pub fn check(&self, address: IpAddr) -> Result<(), Failure> {
        let checked = embedded(address);
        let named = |net: &IpNet| net.contains(&address) || net.contains(&checked);
        // What was named first: that is less to compare.
        if self.open || self.allowed.iter().any(named) || is_public(checked) {
            return Ok(());
        }
        Err(Failure::AddressRefused(address))
    }

    /// Checks the host of a URL if it is an address; names are for the resolver.
    ///
    /// # Errors
    /// [`Failure::AddressRefused`] if it is not public and not in a network that was opened.
    pub fn check_url(&self, url: &Url) -> Result<(), Failure> {
        // The parsed host and not its text, which has brackets for IPv6.
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }
}

/// What the IANA IPv4 Special-Purpose Address Registry keeps from the public, with multicast and class E.
const REFUSED_4: [Ipv4Net; 14] = [
    Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Global unicast: nothing else of IPv6 is contacted.
const PUBLIC_6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Of that, what is not public after all: IETF protocol assignments with Teredo, documentation, 6to4.
const REFUSED_6: [Ipv6Net; 4] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// NAT64 (RFC 6052), by which IPv6-only networks reach the IPv4 web.
const NAT64: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// IPv4-mapped addresses, and those of NAT64, are checked and paced by the IPv4 address in their last 32
/// bits.
pub(crate) fn embedded(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if NAT64.contains(&v6) => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other => other.to_canonical(),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !REFUSED_4.iter().any(|range| range.contains(&v4)),
        IpAddr::V6(v6) => PUBLIC_6.contains(&v6) && !REFUSED_6.iter().any(|range| range.contains(&v6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(address: &str) -> bool {
        AddressGuard::default().check(address.parse().unwrap()).is_ok()
    }

    /// First and last address of each range, and the neighbours that are public (`-`: there is none, or
    /// another row refuses it).
    #[test]
    fn each_range_is_refused_from_its_first_to_its_last_address() {
        for (before, first, last, after) in [
            ("-", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
            ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
            ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
            ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
            ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
            ("223.255.255.255", "224.0.0.0", "239.255.255.255", "-"),
            ("-", "240.0.0.0", "255.255.255.255", "-"),
            ("-", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
            ("3ffe:ffff::", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
            ("3fff:ffff::", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
            ("2000:ffff::", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
            ("2001:db7:ffff::", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
            ("2001:ffff::", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ] {
            for outside in [before, after].into_iter().filter(|&outside| outside != "-") {
                assert!(is_open(outside), "{outside} should be open");
            }
            for inside in [first, last] {
                assert!(!is_open(inside), "{inside} should be refused");
            }
        }
    }

    #[test]
    fn an_address_within_another_counts() {
        for (address, is_refused) in [
            ("::ffff:10.0.0.1", true),
            ("64:ff9b::10.0.0.1", true),
            ("::127.0.0.1", true),
            ("64:ff9b::1:0:0:0", true),
            ("::ffff:93.184.216.34", false),
            ("64:ff9b::93.184.216.34", false),
        ] {
            assert_eq!(is_open(address), !is_refused, "{address}");
        }
    }

    #[test]
    fn allow_net_opens_exactly_that_network() {
        let guard = AddressGuard::default().with_allowed_net("127.0.0.1/32".parse().unwrap());
        assert!(guard.check("::ffff:127.0.0.1".parse().unwrap()).is_ok());
        assert!(guard.check("::1".parse().unwrap()).is_err());
        let guard = AddressGuard::default().with_allowed_net("fd00::/8".parse().unwrap());
        assert!(guard.check("fd00::1".parse().unwrap()).is_ok());
        assert!(guard.check("fc00::1".parse().unwrap()).is_err());
    }

    #[test]
    fn a_refusal_names_the_address() {
        let refused = AddressGuard::default().check("::ffff:10.0.0.1".parse().unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "its address ::ffff:10.0.0.1 must not be contacted");
    }
}
