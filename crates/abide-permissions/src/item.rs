//! Members of structured fields that are read only where they are items (RFC 9651 §3.3).

use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};

/// A member whose item is visited, and whose inner list is passed over.
pub(crate) struct ItemOnly<V>(pub(crate) V);

impl<'a, V: ItemVisitor<'a>> EntryVisitor<'a> for ItemOnly<V> {
    type Error = V::Error;

    fn item(self) -> Result<impl ItemVisitor<'a>, V::Error> {
        Ok(self.0)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'a>, V::Error> {
        Ok(Ignored)
    }
}
