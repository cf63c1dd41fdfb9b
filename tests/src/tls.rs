//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Signs certificates that only clients trust which name it.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority.
    ///
    /// # Panics
    /// When no key can be made: there is nothing to test then.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("its own key signs it") }
    }

    /// Its certificate, for those who shall trust it.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Serves with a certificate for `name`, over HTTP/1.1.
    pub fn acceptor(&self, name: &str) -> TlsAcceptor {
        TlsAcceptor::from(Arc::new(self.config(name, 4096)))
    }

    /// The same over HTTP/2, or HTTP/1.1 with clients that speak nothing else.
    pub fn http2_acceptor(&self, name: &str) -> TlsAcceptor {
        let mut config = self.config(name, 4096);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    /// The same with a certificate that expired long ago.
    pub fn expired(&self, name: &str) -> TlsAcceptor {
        TlsAcceptor::from(Arc::new(self.config(name, 2001)))
    }

    /// Serves with a certificate for `name` that only itself has signed.
    ///
    /// # Panics
    /// When no key can be made: there is nothing to test then.
    pub fn self_signed(name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a DNS name");
        let certificate = params.self_signed(&key).expect("its own key signs it");
        TlsAcceptor::from(Arc::new(serving(&certificate, &key)))
    }

    fn config(&self, name: &str, year: i32) -> ServerConfig {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a DNS name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs it");
        serving(&certificate, &key)
    }
}

fn serving(certificate: &Certificate, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    // Named, because a test may have another one among its dependencies.
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("it has those of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("key and certificate belong together")
}
