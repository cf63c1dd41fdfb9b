//! A signer that is out of order, or panics.

use abide_identity::Signer;

#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) panics: bool,
}

impl Signer for Broken {
    fn public_key(&self) -> [u8; 32] {
        [7; 32]
    }

    fn sign(&self, _: &[u8]) -> Result<[u8; 64], Box<dyn std::error::Error + Send + Sync>> {
        assert!(!self.panics, "the signer's own mistake");
        Err("the HSM is gone".into())
    }
}
