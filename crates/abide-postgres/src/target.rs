//! Where a URL leads, and what may be shown of it.
//!
//! A URL holds a password, and errors and logs are read by many: only hosts and ports are shown, also
//! of a URL that cannot be read.

use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::Error;

pub(crate) struct Target {
    pub(crate) config: Config,
    /// The servers as they may be shown: hosts and ports.
    pub(crate) shown: String,
    #[cfg(feature = "tls")]
    pub(crate) tls: tokio_postgres_rustls::MakeRustlsConnect,
}

impl Target {
    pub(crate) fn of(url: &str, limit: Duration) -> Result<Self, Error> {
        let mut config = parse(url)?;
        #[cfg(not(feature = "tls"))]
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Error::no_tls());
        }
        if config.get_application_name().is_none() {
            config.application_name("abide");
        }
        // A machine that has gone without a word is noticed, at the latest, by what it does not acknowledge.
        config.connect_timeout(limit).tcp_user_timeout(limit.saturating_mul(2));
        Ok(Self {
            shown: shown(&config),
            #[cfg(feature = "tls")]
            tls: tls(config.get_ssl_mode())?,
            config,
        })
    }
}

/// The settings in the URL. If it names no `sslmode`, its servers decide.
fn parse(url: &str) -> Result<Config, Error> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::url("another scheme"));
    }
    let (url, names_ssl_mode) = with_known_ssl_mode(url);
    let mut config: Config =
        url.parse().map_err(|_| Error::url("one with a part that is unknown or invalid"))?;
    if config.get_hosts().is_empty() {
        return Err(Error::url("none of a host"));
    }
    if !names_ssl_mode {
        config.ssl_mode(default_ssl_mode(&config));
    }
    Ok(config)
}

/// The URL with an `sslmode` that the client library knows, and whether it names one.
///
/// The library takes all before the first `@` for user and password, which may contain the same letters.
fn with_known_ssl_mode(url: &str) -> (String, bool) {
    let behind_user = url.split_once('@').map_or(url, |(_, rest)| rest);
    let query = behind_user.split_once('?').map_or("", |(_, query)| query);
    let known = query.split('&').map(|parameter| match parameter {
        // The library knows neither word, and verifies the certificate whenever there is one.
        "sslmode=verify-full" | "sslmode=verify-ca" => "sslmode=require",
        other => other,
    });
    let before = url.strip_suffix(query).unwrap_or(url);
    let names_one = query.split('&').any(|parameter| parameter.starts_with("sslmode="));
    (before.to_owned() + &known.collect::<Vec<_>>().join("&"), names_one)
}

/// What does not leave the machine needs none. Without TLS in this build, none can be had.
fn default_ssl_mode(config: &Config) -> SslMode {
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    // An address is connected to in place of its host's name.
    let are_here = config.get_hostaddrs().iter().all(IpAddr::is_loopback);
    match are_here && config.get_hosts().iter().all(is_here) {
        false if cfg!(feature = "tls") => SslMode::Require,
        _ => SslMode::Disable,
    }
}

fn shown(config: &Config) -> String {
    let port = |n: usize| config.get_ports().get(n).or(config.get_ports().first()).copied().unwrap_or(5_432);
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port(n)),
        Host::Tcp(name) => format!("{name}:{}", port(n)),
        #[cfg(unix)]
        Host::Unix(path) => format!("{}:{}", path.display(), port(n)),
    });
    hosts.collect::<Vec<_>>().join(",")
}

/// With the certificates that the machine trusts, or those that `SSL_CERT_FILE` names.
#[cfg(feature = "tls")]
fn tls(mode: SslMode) -> Result<tokio_postgres_rustls::MakeRustlsConnect, Error> {
    use std::sync::Arc;

    let mut roots = rustls::RootCertStore::empty();
    if mode != SslMode::Disable {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            let why = found.errors.first().map_or_else(|| "none is there".to_owned(), ToString::to_string);
            return Err(Error::certificates(&why));
        }
    }
    // Named, because rustls chooses none in a program that has two.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error::certificates(&error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: SslMode = if cfg!(feature = "tls") { SslMode::Require } else { SslMode::Disable };

    #[test]
    fn tls_is_the_default_unless_nothing_leaves_the_machine() {
        for (url, expected) in [
            ("postgres://u:p@localhost/d", SslMode::Disable),
            ("postgres://u:p@127.0.0.1,[::1]/d", SslMode::Disable),
            ("postgres:///d?host=/run/postgresql", SslMode::Disable),
            ("postgres://u:p@localhost/d?hostaddr=127.0.0.1", SslMode::Disable),
            ("postgres://u:p@db.example/d", ELSEWHERE),
            ("postgres://u:p@localhost,db.example/d", ELSEWHERE),
            ("postgres://u:p@localhost/d?hostaddr=203.0.113.5", ELSEWHERE),
            ("postgres://u:p@localhost,localhost/d?hostaddr=127.0.0.1,203.0.113.5", ELSEWHERE),
            ("postgres:///d?host=/run/postgresql&hostaddr=203.0.113.5", ELSEWHERE),
        ] {
            assert_eq!(parse(url).unwrap().get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn sslmode_is_a_parameter_of_the_query_and_nothing_else() {
        for (url, expected) in [
            ("postgres://db.example/d?sslmode=disable", SslMode::Disable),
            ("postgres://db.example/d?sslmode=prefer", SslMode::Prefer),
            ("postgres://localhost/d?application_name=a&sslmode=verify-ca", SslMode::Require),
            ("postgres://localhost?sslmode=verify-full&application_name=a", SslMode::Require),
            ("postgres://u:sslmode=disable@db.example/d", ELSEWHERE),
            ("postgres://u:p?sslmode=disable@db.example/d", ELSEWHERE),
            ("postgres://db.example/sslmode=disable", ELSEWHERE),
            ("postgres://db.example/d?application_name=sslmode=disable", ELSEWHERE),
        ] {
            assert_eq!(parse(url).unwrap().get_ssl_mode(), expected, "{url}");
        }
        let config = parse("postgres://u:sslmode=verify-full@localhost/d?sslmode=verify-full").unwrap();
        assert_eq!(config.get_password(), Some(&b"sslmode=verify-full"[..]));
    }
}
