//! What may I do with this response?
