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
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Error::url("another scheme"));
        }
        // The client library knows neither word, and verifies the certificate whenever there is one.
        let url = url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config =
            url.parse().map_err(|_| Error::url("one with a part that is unknown or invalid"))?;
        if config.get_hosts().is_empty() {
            return Err(Error::url("none of a host"));
        }
        if !url.contains("sslmode=") {
            config.ssl_mode(default_ssl_mode(&config));
        }
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

/// What does not leave the machine needs none. Without TLS in this build, none can be had.
fn default_ssl_mode(config: &Config) -> SslMode {
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    match config.get_hosts().iter().all(is_here) {
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
