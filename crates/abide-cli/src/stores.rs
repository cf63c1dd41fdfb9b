//! `--store`: where robots.txt, turns, holds and permissions are kept.

use std::sync::Arc;

use abide::access::AccessStore;
use abide::pacing::PaceStore;
use abide::{Builder, PermissionStore};

use crate::Usage;
use crate::args::StoreArg;

/// One store in its three roles.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    access: Arc<dyn AccessStore>,
    pace: Arc<dyn PaceStore>,
    permissions: Arc<dyn PermissionStore>,
}

impl Stores {
    /// Opens what `--store` names; `None` is memory. One that cannot be had is wrong usage: nothing has been asked then.
    pub(crate) async fn open(arg: &StoreArg) -> Result<Option<Self>, Usage> {
        match arg {
            StoreArg::Memory => Ok(None),
            StoreArg::Redb(_) | StoreArg::Redis(_) => {
                Err(Usage("--store: only memory is built into this version".to_owned()))
            }
        }
    }

    pub(crate) fn on(&self, builder: Builder) -> Builder {
        builder
            .access_store(Arc::clone(&self.access))
            .pace_store(Arc::clone(&self.pace))
            .permission_store(Arc::clone(&self.permissions))
    }
}
